"""Fitted numbers as blocks of text: in bundled profiles, whose other lines stay, and in documents.

A part of the fit (`fit_products`, `fit_attention`, `fit_collectives`) makes `Fitted`: a table of errors, for
the log and between two marks of docs/kernels.md, and the blocks of profiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
CLUSTERS = ROOT / "sample_profiles" / "clusters"
MARK, END = "<!-- fitted: {name} -->", "<!-- end -->"


class Block(NamedTuple):
    """Lines of a profile that a fit writes."""

    profile: str
    """Name of the bundled profile."""
    owner: str
    """Name of the device kind or level that states them."""
    text: str
    """The lines; the first one says which they replace."""
    until: str = ""
    """First line behind them, without spaces; empty where they end with their indentation."""

    def said(self) -> str:
        """Return the block as a log has it."""
        return f"`{self.profile}`, `{self.owner}`:\n\n```yaml\n{self.text}```"


class Fitted(NamedTuple):
    """What a part of the fit made."""

    name: str
    """Mark of its table in docs/kernels.md."""
    table: str
    """Errors, in Markdown."""
    blocks: tuple[Block, ...]
    """Numbers."""


def replaced(text: str, block: Block) -> str:
    """Return a profile with a block in place of what its owner says there."""
    lines = text.splitlines(keepends=True)
    first = block.text.splitlines()[0]
    indent = len(first) - len(first.lstrip())
    whole = block.until or first.lstrip().startswith("- ")
    start = first if whole else first.split(":")[0] + ":"
    owned = next(i for i, line in enumerate(lines) if line.strip() == f"- name: {block.owner}")
    at = next(i for i in range(owned, len(lines)) if lines[i].startswith(start))

    def ends(line: str) -> bool:
        return line.strip() == block.until if block.until else len(line) - len(line.lstrip()) <= indent

    end = next(i for i in range(at + 1, len(lines)) if ends(lines[i]))
    return "".join([*lines[:at], block.text, *lines[end:]])


def write_profiles(blocks: Iterable[Block]) -> None:
    """Write blocks into the bundled profiles."""
    for block in blocks:
        path = CLUSTERS / f"{block.profile}.yaml"
        path.write_text(replaced(path.read_text(encoding="utf-8"), block), encoding="utf-8")


def with_table(text: str, fitted: Fitted) -> str:
    """Return a document with a table between its marks."""
    mark = MARK.format(name=fitted.name)
    before, rest = text.split(f"{mark}\n", 1)
    return f"{before}{mark}\n\n{fitted.table.strip()}\n\n{END}{rest.split(END, 1)[1]}"


def flow(value: Any) -> str:
    """Return a value on one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).strip()
    return text.removesuffix("...").strip()


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]], words: int = 1) -> str:
    """Return a table; the first columns are words, the others figures."""
    heads = list(head)
    lines = [heads, ["---"] * words + ["---:"] * (len(heads) - words), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def percent(value: float, *, signed: bool = False) -> str:
    """Return a figure in per cent with one digit."""
    return f"{value:+.1f} %" if signed else f"{value:.1f} %"
