"""Arguments of Megatron-LM as a script, an argument list or a YAML file gives them, each with its line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.base.errors import InputError
from explorer.base.formats import parse_yaml, yaml_key_lines
from explorer.importing._shell import Word, read_script

MARKS = ("--tensor-model-parallel-size", "--micro-batch-size", "--num-layers",
         "--pipeline-model-parallel-size", "tensor_model_parallel_size:", "MODEL_ARGS")  # fmt: skip
_LAUNCHERS = frozenset({"torchrun", "torch.distributed.launch", "torch.distributed.run", "srun", "mpirun",
                        "mpiexec", "deepspeed"})  # fmt: skip
_RANKS = {"nproc-per-node": "per_node", "nnodes": "nodes", "num-gpus": "per_node", "num-nodes": "nodes",
          "ntasks-per-node": "per_node", "nodes": "nodes", "ntasks": "world", "np": "world", "n": "world",
          "N": "nodes"}  # fmt: skip
_SBATCH = re.compile(r"^#SBATCH\s+(?:--(nodes|ntasks-per-node|gpus-per-node)[= ]|-(N)\s*)(\d+)", re.MULTILINE)
_COUNTS = {"per_node": ("GPUS_PER_NODE", "NPROC_PER_NODE", "NPROC"), "nodes": ("NNODES", "NUM_NODES"),
           "world": ("WORLD_SIZE",)}  # fmt: skip
"""Variables by which scripts call their ranks, where no launcher is given them."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument with its values."""

    key: str
    """Name with its dashes, words joined by `-`."""
    values: tuple[str, ...]
    """Values as they are written; () for a flag."""
    line: int
    """Line where it is written; 0 if unknown."""

    @property
    def value(self) -> str:
        """All values, with blanks in between."""
        return " ".join(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Arguments of a training command and what starts it."""

    of: Mapping[str, Argument]
    """By key; of one that is given twice the last counts, as argparse has it."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """`per_node`, `nodes` and `world`, as far as they are numbers."""
    notes: tuple[str, ...] = ()
    """What was not followed."""


def read_arguments(text: str, *, is_yaml: bool) -> Arguments:
    """Return the arguments in a text.

    Raises:
        InputError: the text has none of Megatron-LM's.
    """
    found = _of_yaml(text) if is_yaml else _of_script(text)
    if not any(mark in found.of for mark in MARKS):
        raise InputError(
            "no arguments of Megatron-LM",
            found=", ".join(list(found.of)[:3]) or "none",
            allowed=f"a script, argument list or YAML with {', '.join(MARKS[:4])}",
        )
    return found


def _of_yaml(text: str) -> Arguments:
    """Read `MODEL_ARGS` (as Megatron-LM's own tests have it), its `--yaml-cfg` files, or flat names."""
    data = parse_yaml(text)
    if not isinstance(data, dict):
        raise InputError("no mapping of arguments", found=data, allowed="MODEL_ARGS: an argument a line")
    found: dict[str, Argument] = {}
    lines = yaml_key_lines(text)
    ranks: dict[str, int] = {}
    for path, value in _flat(data, ""):
        section, _, name = path.rpartition(".")
        if section == "ENV_VARS" or (section, name) == ("", "spec"):
            continue
        if section == "LAUNCH":
            ranks |= {name: value} if type(value) is int else {}
            continue
        key = "--" + name.lstrip("-").replace("_", "-")
        if value is False or value is None:
            continue
        values = () if value is True else tuple(map(str, value)) if isinstance(value, list) else (str(value),)
        found[key] = Argument(key, values, lines.get(path, 0))
    return Arguments(of=found, ranks=ranks)


def _flat(data: Mapping[Any, Any], above: str) -> Iterable[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _of_script(text: str) -> Arguments:
    script = read_script(text)
    commands = [words for words in script.commands if _trains(words)]
    if not commands:  # an argument list alone
        commands = [[word for words in script.commands for word in words]]
    words = max(commands, key=lambda items: sum(item.text.startswith("--") for item in items))
    start = next((i for i, word in enumerate(words) if word.text.endswith(".py")), -1)
    lines = text.splitlines()
    found = _parsed(words[start + 1 :], lines)
    notes = [
        f"line {word.line}: {word.text}: both ways are read, what is written later counts"
        for word in script.choices
    ]
    if len(commands) > 1:
        notes.append(f"{len(commands)} commands train: the one of line {words[0].line} is read")
    return Arguments(
        of=found, ranks=_ranks(words[: max(start, 0)], script.variables, text), notes=tuple(notes)
    )


def _trains(words: list[Word]) -> bool:
    texts = [word.text for word in words]
    if not texts or texts[0] in ("echo", "mkdir", "cat", "printf"):
        return False
    return any(text.startswith(MARKS[:4]) for text in texts) or (
        any(text.endswith(".py") for text in texts) and bool(_LAUNCHERS & set(texts))
    )


def _parsed(words: list[Word], lines: list[str]) -> dict[str, Argument]:
    """Group words into arguments: a name and the values up to the next name."""
    found: dict[str, Argument] = {}
    key, line = "", 0
    values: list[str] = []
    for word in [*words, Word("--", 0)]:
        if word.text.startswith("--"):
            if key:
                found[key] = Argument(key, tuple(values), line)
            name, equals, value = word.text.partition("=")
            key = "--" + name[2:].replace("_", "-") if len(name) > 2 else ""
            values, line = ([value] if equals else []), _line_of(name, lines) or word.line
        elif key:
            values.append(word.text)
    return found


def _line_of(name: str, lines: list[str]) -> int:
    """Return the last line on which an argument is written, outside of comments; 0 if there is none."""
    pattern = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    found = [i for i, line in enumerate(lines, 1) if pattern.search(line.partition(" #")[0])]
    return next((i for i in reversed(found) if not lines[i - 1].lstrip().startswith("#")), 0)


def _ranks(launcher: list[Word], variables: Mapping[str, str], text: str) -> dict[str, int]:
    """Return the ranks that a launcher is given, else Slurm's lines, else the usual variables."""
    if (ours := variables.get("RANKS", "")).isdigit():
        return {"world": int(ours)}
    found: dict[str, int] = {}
    for name, short, value in _SBATCH.findall(text):
        found["nodes" if (name or short) in ("nodes", "N") else "per_node"] = int(value)
    for key, names in _COUNTS.items():
        for name in names:
            if (value := variables.get(name, "")).isdigit():
                found.setdefault(key, int(value))
    for i, word in enumerate(launcher):
        name, _, value = word.text.lstrip("-").replace("_", "-").partition("=")
        if word.text.startswith("-") and name in _RANKS:
            value = value or (launcher[i + 1].text if i + 1 < len(launcher) else "")
            if value.isdigit():
                found[_RANKS[name]] = int(value)
                if _RANKS[name] != "world":
                    found.pop("world", None)
    return found


def flag_text(key: str, value: str | float | bool) -> str:  # noqa: FBT001
    """Return an argument as a shell reads it: a flag alone, or with its value.

    >>> flag_text("--pipeline-model-parallel-layout", "Et|tL")
    "--pipeline-model-parallel-layout 'Et|tL'"
    """
    return key if value is True else f"{key} {shlex.quote(str(value))}"
