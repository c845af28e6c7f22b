"""Megatron Bridge (NeMo): a recipe module as a plan; its assignments are parsed, nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from explorer.base.errors import InputError
from explorer.importing import IMPORTERS
from explorer.importing._bridge_fields import BESIDE, FIELDS, GROUPS, IN_FP32, OVERLAPPED, PRECISION, TIED
from explorer.importing._megatron_arguments import Argument, Arguments
from explorer.importing._megatron_keys import assumption
from explorer.importing._references import references_in
from explorer.importing._source import SourceText
from explorer.importing._titan_plan import located
from explorer.importing.baseline import Facts
from explorer.importing.guesses import facts_of, guess_model
from explorer.importing.megatron import baseline_from
from explorer.importing.plans import plan_of
from explorer.importing.spec import Imported, Importer, UnknownKey
from explorer.models import load_model

MAIN = "recipe.py"
_FLAG_OF = {field: flag for flag, field in FIELDS.items()}
_BY_LEAF = {field.rpartition(".")[2]: field for field in FIELDS.values()}
_MOST = 10**15
_SIZES = ("--num-layers", "--hidden-size", "--num-attention-heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One assignment to a field of a `ConfigContainer`."""

    value: Any
    """Its text, number, truth value or list of texts, None, or that which a call is given."""
    line: int
    """Line of the file, from 1."""
    literal: bool = True
    """Whether the text tells the value; else `value` says so in words."""


def sniff(source: SourceText) -> bool:
    """Tell whether a text is a module that imports Megatron Bridge."""
    return "megatron.bridge" in source.text and "import" in source.text


@IMPORTERS.add(
    Importer(
        name="megatron_bridge",
        title="Megatron Bridge (NeMo): a module that overrides a recipe",
        paper="Megatron-LM (Narayanan et al., 2021), arXiv:2104.04473",
        sniff=sniff,
        main=MAIN,
        documentation="https://docs.nvidia.com/nemo/megatron-bridge/latest/recipe-usage.html",
    )
)
def read(source: SourceText) -> Imported:
    """Read what a module assigns to the fields of its recipe as a plan.

    Raises:
        InputError: the text is no Python, assigns nothing, or the model or cluster is unclear.
        PlanError: fields that contradict each other; one line each.
    """
    tree = _tree(source.text)
    fields = fields_of(tree)
    if not fields:
        raise InputError(
            "no fields of a recipe of Megatron Bridge",
            found="no assignment",
            allowed="a module with lines such as config.model.tensor_model_parallel_size = 2",
        )
    flags, told = _flags(fields)
    recipe = _recipe(tree)
    sized = any(flag in flags for flag in _SIZES)
    if not sized and (layers := _layers(source, recipe)):
        flags["--num-layers"] = Argument("--num-layers", (str(layers),), 0)
    made = baseline_from(Arguments(of=flags, ranks=_ranks(tree)), source)
    unread = {item.key for item in made.unknown}
    unknown = [_unknown(name, found, told) for name, found in fields.items() if _FLAG_OF.get(name) in unread]
    unknown += [_unknown(name, fields[name], told) for name in told]
    return plan_of(
        replace(
            made,
            trainer="Megatron Bridge",
            model=made.model if sized else Facts(name=recipe),
            unknown=tuple(sorted(unknown, key=lambda item: item.line)),
        ),
        source,
    )


def _tree(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError("no Python module", found=type(error).__name__, allowed="a recipe module") from None


def fields_of(tree: ast.Module) -> dict[str, Field]:
    """Return every field of a `ConfigContainer` that a module assigns to, by dotted name; the last counts.

    Keywords that a recipe is called with are the fields of the same name.
    """
    recipe = _recipe(tree)
    nodes = list(ast.walk(tree))
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    made = [node for node in assigned if isinstance(node.value, ast.Call) and _calls(node.value, recipe)]
    owners = {target.id for node in made for target in node.targets if isinstance(target, ast.Name)}
    said: list[tuple[str, Field]] = []
    for node in nodes:
        if isinstance(node, ast.Assign):
            names = [_dotted(target, owners) for target in node.targets]
            said += [(name, _field(node.value)) for name in names if name]
        elif isinstance(node, ast.Call) and _calls(node, recipe):
            said += [(_BY_LEAF.get(key.arg, key.arg), _field(key.value)) for key in node.keywords if key.arg]
    return dict(sorted(said, key=lambda item: item[1].line))


def _calls(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name


def _dotted(target: ast.expr, owners: set[str]) -> str:
    """Return the dotted field of `config.GROUP.FIELD`, or of `config.GROUP`; empty for anything else.

    Args:
        target: what is assigned to.
        owners: names that a recipe was assigned to; what any other name has counts by its group alone.
    """
    parts: list[str] = []
    while isinstance(target, ast.Attribute):
        parts.append(target.attr)
        target = target.value
    known = parts and isinstance(target, ast.Name) and (target.id in owners or parts[-1] in GROUPS)
    return ".".join(reversed(parts)) if known else ""


def _field(node: ast.expr) -> Field:
    """Return a literal, or that which a call such as `get_mixed_precision_config("bf16_mixed")` is given."""
    inner = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node
    try:
        value = ast.literal_eval(inner)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return Field(value="an expression", line=node.lineno, literal=False)
    words = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    number = isinstance(value, (int, float)) and abs(value) < _MOST  # others have no text of usual length
    if words or number or value is None or isinstance(value, str):
        return Field(value=value, line=node.lineno)
    return Field(value="an expression", line=node.lineno, literal=False)


def _flags(fields: Mapping[str, Field]) -> tuple[dict[str, Argument], dict[str, str]]:
    """Return the arguments of Megatron-LM that fields mean, and of the others what is assumed."""
    found: dict[str, Argument] = {}
    told: dict[str, str] = {}
    laid_out = bool((layout := fields.get("model.pipeline_model_parallel_layout")) and layout.value)
    for name, field in fields.items():
        flag = _FLAG_OF.get(name, "")
        if not field.literal:
            told[name] = "no value that the text tells: the default of Megatron-LM"
        elif flag == "--num-virtual-stages-per-pipeline-rank" and laid_out:
            told[name] = "as model.pipeline_model_parallel_layout says"
        elif flag:
            found |= _argument(flag, field)
        elif name not in (TIED, OVERLAPPED, PRECISION, IN_FP32):
            told[name] = BESIDE.get(name) or assumption("--" + name.rpartition(".")[2].replace("_", "-"))
    for flag, line in _implied(fields):
        found[flag] = Argument(flag, ("hybrid",) if flag == "--fp8-format" else (), line)
    return found, told


def _argument(flag: str, field: Field) -> dict[str, Argument]:
    """Return an argument with its values; {} for a field that is reset."""
    value = field.value
    if value is None or value is False:
        return {}
    values = value if isinstance(value, (list, tuple)) else () if value is True else (value,)
    return {flag: Argument(flag, tuple(map(str, values)), field.line)}


def _implied(fields: Mapping[str, Field]) -> Iterator[tuple[str, int]]:
    """Yield the flags that fields mean by another value than True."""
    groups = fields.get("model.num_query_groups")
    if groups is not None and groups.value and groups.literal:
        yield "--group-query-attention", groups.line
        yield "--swiglu", groups.line  # recipes with grouped queries are Llamas
    tied = fields.get(TIED)
    if tied is not None and tied.value is False:
        yield "--untie-embeddings-and-output-weights", tied.line
    overlapped, virtual = fields.get(OVERLAPPED), fields.get("model.virtual_pipeline_model_parallel_size")
    if overlapped is not None and overlapped.value is False and virtual is not None and virtual.value:
        yield "--no-overlap-p2p-communication", overlapped.line
    yield from _of_precision(fields)


def _of_precision(fields: Mapping[str, Field]) -> Iterator[tuple[str, int]]:
    """Yield the flags of a named precision; recipes are `bf16_mixed` where nobody says otherwise."""
    said = fields.get(PRECISION)
    name, line = (str(said.value).replace("-", "_"), said.line) if said else ("bf16_mixed", 0)
    half = name.startswith("fp16")
    yield ("--fp16" if half else "--bf16"), line
    if "fp8" in name:
        yield "--fp8-format", line
    summed = fields.get(IN_FP32)
    if summed.value if summed else not half:
        yield "--accumulate-allreduce-grads-in-fp32", summed.line if summed else line
    elif not half:
        yield "--grad-reduce-in-bf16", summed.line if summed else line


def _unknown(name: str, field: Field, told: Mapping[str, str]) -> UnknownKey:
    assumed = told.get(name) or assumption(_FLAG_OF[name])
    return UnknownKey(key=name, line=field.line, value=str(field.value)[:200], assumed=assumed)


def _ranks(tree: ast.Module) -> dict[str, int]:
    """Return the `RANKS` that a module of ours says; {} of others."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "RANKS":
            value = _field(node.value).value
            return {"world": value} if type(value) is int and 0 < value < 10**9 else {}
    return {}


def _layers(source: SourceText, recipe: str) -> int:
    """Return the blocks of the model that the user names, or that a recipe is of; 0 if that is unclear."""
    guess = guess_model(Facts(name=recipe))
    reference = source.model or references_in(source.text).get("model") or (guess.reference if guess else "")
    if not reference:
        return 0
    return facts_of(load_model(located(reference, source.folder), trust=source.trust)).layers


def _recipe(tree: ast.Module) -> str:
    """Return the name of the recipe that a module imports; empty if there is none."""
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("megatron.bridge.recipes")
        for alias in node.names
    ]
    return next((name for name in names if name.endswith("_config")), "")
