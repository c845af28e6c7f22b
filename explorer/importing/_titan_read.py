"""torchtitan config modules, read without running them: literals, keyword arguments and assignments.

    def mine() -> Trainer.Config:
        config = llama3_8b()                                  # a function here, or one of torchtitan's own
        config.parallelism.tensor_parallel_degree = DEGREE    # a constant of the module
        config.activation_checkpoint = FullAC.Config()
        return config

Every call becomes a `_Made` (name and arguments). A value that only running would tell becomes `Unread`;
whoever needs it reports that. Statements that choose (`if`, `for`) are refused.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from explorer.base.errors import InputError
from explorer.importing._titan_settings import TitanSettings, Unread

ALLOWED = "a function that returns Trainer.Config(...) of constants"
_LIMIT = 32
"""Depth to which functions may call each other."""

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(slots=True)
class _Made:
    """Value of a call: the name of the function, and its arguments by name."""

    name: str
    """Dotted name, starting with the module from which it was imported."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments; positional ones as `0`, `1`, ..."""


def _base(flavor: str, recompute: str, training: dict[str, Any], parallelism: dict[str, Any]) -> _Made:
    return _Made(
        "torchtitan.trainer.Trainer.Config",
        {
            "model_spec": _Made("torchtitan.models.llama3.model_registry", {"0": flavor}),
            "training": _Made("TrainingConfig", training),
            "parallelism": _Made("ParallelismConfig", parallelism),
            "activation_checkpoint": _Made(f"{recompute}.Config"),
            "optimizer": _Made("default_adamw"),
        },
    )


KNOWN: dict[str, _Made] = {
    "llama3_debugmodel": _base(
        "debugmodel",
        "SelectiveAC",
        {"local_batch_size": 8, "seq_len": 2048},
        {"pipeline_parallel_schedule": "Interleaved1F1B"},
    ),
    "llama3_8b": _base("8B", "SelectiveAC", {"local_batch_size": 1, "seq_len": 8192}, {}),
    "llama3_70b": _base(
        "70B", "FullAC", {"local_batch_size": 8, "seq_len": 8192}, {"tensor_parallel_degree": 8}
    ),
    "llama3_405b": _base(
        "405B", "FullAC", {"local_batch_size": 2, "seq_len": 8192}, {"tensor_parallel_degree": 8}
    ),
}
"""Return what torchtitan's own config functions state of the things that a plan knows."""

_KNOWN_NOTES = {"llama3_405b": "float8 products and compiled blocks of torchtitan's own llama3_405b"}


def read(text: str, function: str = "") -> TitanSettings:
    """Return the settings that a function of a config module makes.

    Args:
        text: text of the module.
        function: name of the function; may be empty if there is only one.

    Raises:
        InputError: the text is not Python, lacks the function, or the function has to be run.
    """
    try:
        module = _Module(ast.parse(text))
        made = module.call(function or module.only_function(), 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        problem = str(error) or "nested too deeply"
        raise InputError(f"not Python: {problem}", allowed=f"a torchtitan config module: {ALLOWED}") from None
    if not isinstance(made, _Made) or not made.name.endswith("Trainer.Config"):
        raise InputError("no config", found=getattr(made, "name", made), allowed=ALLOWED)
    values = _flat(made)
    references = module.constants.get("EXPLORER")
    if isinstance(references, dict):
        values["explorer"] = references
    return TitanSettings(values=values, notes=(*module.notes, *_notes(made)))


class _Module:
    """A parsed module: its constants, imports and functions."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.imports = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        self.constants: dict[str, Any] = {}
        self.notes: list[str] = []
        for node in tree.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                self._assign(node, self.constants, 0)

    def only_function(self) -> str:
        """Return the function that is meant if none is named: the only one that nobody here calls."""
        called = {
            node.func.id
            for function in self.functions.values()
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        found = [name for name in self.functions if name not in called and not name.startswith("_")]
        if len(found) != 1:
            raise InputError(
                f"{len(found)} config functions where one is needed",
                found=", ".join(found) or "none",
                allowed=f"FILE.py:FUNCTION ({ALLOWED})",
            )
        return found[0]

    def call(self, name: str, depth: int) -> Any:
        """Return the result of a function of this module or of one of torchtitan's known ones."""
        if name not in self.functions:
            full = self.imports.get(name, name)
            base = full.rpartition(".")[2]
            if base in KNOWN:
                self.notes += [_KNOWN_NOTES[base]] if base in _KNOWN_NOTES else []
                return copy.deepcopy(KNOWN[base])
            raise InputError(
                f"no function {name!r}", found=name, allowed=", ".join(self.functions) or ALLOWED
            )
        if depth > _LIMIT:
            raise InputError(f"function {name!r} calls itself", found=name, allowed=ALLOWED)
        local: dict[str, Any] = {}
        for node in self.functions[name].body:
            if isinstance(node, ast.Return):
                return self.value(node.value, local, depth) if node.value else None
            self._statement(node, local, depth)
        raise InputError(f"function {name!r} returns nothing", found=name, allowed=ALLOWED)

    def _statement(self, node: ast.stmt, local: dict[str, Any], depth: int) -> None:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            self._assign(node, local, depth)
        elif not isinstance(node, (ast.Expr, ast.Assert, ast.Import, ast.ImportFrom, ast.Pass)):
            raise InputError(
                f"line {node.lineno}: {type(node).__name__.lower()} has to be run, and nothing is",
                found=ast.unparse(node).splitlines()[0],
                allowed=ALLOWED,
            )
        elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
            self.notes.append(f"line {node.lineno}: {ast.unparse(node)} (not run)")

    def _assign(self, node: ast.Assign | ast.AnnAssign, local: dict[str, Any], depth: int) -> None:
        if node.value is None:
            return
        value = self.value(node.value, local, depth)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                local[target.id] = value
            elif isinstance(target, ast.Attribute):
                owner = self.value(target.value, local, depth)
                if isinstance(owner, _Made):
                    owner.fields[target.attr] = value
            else:
                self.notes.append(f"line {node.lineno}: {ast.unparse(node)} (not read)")

    def value(self, node: ast.expr, local: dict[str, Any], depth: int) -> Any:
        """Return a constant, a list, tuple or dictionary of values, a call, or `Unread`."""
        match node:
            case ast.Constant(value=found):
                return found
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.value(item, local, depth) for item in items]
            case ast.Name(id=name):
                return local.get(name, self.constants.get(name, Unread(name)))
            case ast.Attribute():
                return self._attribute(node, local, depth)
            case ast.Call():
                return self._made(node, local, depth)
            case _:
                return self._computed(node, local, depth)

    def _attribute(self, node: ast.Attribute, local: dict[str, Any], depth: int) -> Any:
        owner = self.value(node.value, local, depth)
        if isinstance(owner, _Made):
            # made here if nobody gave it, so that `config.training.steps = 1` finds its place
            return owner.fields.setdefault(node.attr, _Made(node.attr))
        return Unread(ast.unparse(node))

    def _computed(self, node: ast.expr, local: dict[str, Any], depth: int) -> Any:
        """Return dictionaries with constant keys, arithmetic on whole numbers, and signed numbers."""
        if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
            pairs = zip(node.keys, node.values, strict=True)
            return {k.value: self.value(v, local, depth) for k, v in pairs if isinstance(k, ast.Constant)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            found = self.value(node.operand, local, depth)
            return -found if isinstance(found, (int, float)) else Unread(ast.unparse(node))
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self.value(node.left, local, depth), self.value(node.right, local, depth)
            small = isinstance(left, int) and isinstance(right, int) and max(abs(left), abs(right)) < 2**40
            if small and (right or not isinstance(node.op, ast.FloorDiv)):
                return _OPERATORS[type(node.op)](left, right)
        return Unread(ast.unparse(node))

    def _made(self, node: ast.Call, local: dict[str, Any], depth: int) -> Any:
        name = ast.unparse(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "with_name" and len(node.args) == 1:
            return self.value(node.args[0], local, depth)  # str(Path(__file__).with_name("schedule.csv"))
        if name in ("str", "Path") and len(node.args) == 1:
            return self.value(node.args[0], local, depth)
        first = name.partition(".")[0]
        full = self.imports.get(first, first) + name[len(first) :]
        if name in self.functions or full.rpartition(".")[2] in KNOWN:
            return self.call(name, depth + 1)
        arguments = {str(i): self.value(item, local, depth) for i, item in enumerate(node.args)}
        named = {item.arg: self.value(item.value, local, depth) for item in node.keywords if item.arg}
        return _Made(full, {**arguments, **named})


def _flat(made: _Made) -> dict[str, Any]:
    """Return the parts of a `Trainer.Config` that a plan knows, by dotted name."""
    values: dict[str, Any] = {}
    for part in ("training", "parallelism"):
        found = made.fields.get(part)
        if isinstance(found, _Made):
            values |= {f"{part}.{key}": item for key, item in found.fields.items()}
        elif found is not None:
            values[f"{part}.*"] = found
    spec = made.fields.get("model_spec")
    if isinstance(spec, _Made):
        owner, _, last = spec.name.rpartition(".")
        flavor = spec.fields.get("0", spec.fields.get("flavor"))
        if last == "model_registry" and isinstance(flavor, str):
            values |= {"model.name": owner.rpartition(".")[2], "model.flavor": flavor}
    values["activation_checkpoint.mode"] = _mode(made.fields)
    optimizer = made.fields.get("optimizer")
    if isinstance(optimizer, _Made):
        values["optimizer.name"] = _optimizer(optimizer)
    return values


def _mode(fields: dict[str, Any]) -> Any:
    if "activation_checkpoint" not in fields:
        return "selective"  # the default of 0.3.0
    policy = fields["activation_checkpoint"]
    if policy is None:
        return "none"
    if not isinstance(policy, _Made):
        return policy
    kinds = {"SelectiveAC": "selective", "FullAC": "full", "MemoryBudgetAC": "memory-budget"}
    named = [kind for name, kind in kinds.items() if f".{name}." in f".{policy.name}."]
    return named[0] if named else Unread(policy.name)


def _optimizer(made: _Made) -> Any:
    if made.name.endswith("default_adamw"):
        return "AdamW"
    groups = made.fields.get("param_groups")
    names = {
        item.fields.get("optimizer_name")
        for item in (groups if isinstance(groups, list) else [])
        if isinstance(item, _Made)
    }
    return names.pop() if len(names) == 1 else Unread("several optimizers")


def _notes(made: _Made) -> list[str]:
    """Return the parts that change the run, but for which a plan has no word."""
    found = []
    compiled = made.fields.get("compile")
    if isinstance(compiled, _Made) and compiled.fields.get("enable"):
        found.append("compile.enable")
    spec = made.fields.get("model_spec")
    if isinstance(spec, _Made) and spec.fields.get("converters"):
        found.append("model converters (quantisation, LoRA)")
    return found
