"""Bounds of whole numbers among a model's inputs, read off what the model does with them."""

from __future__ import annotations

from typing import Any

from explorer.models.captured_program import CapturedProgram
from explorer.run.own.layer_modules import LABELS


def int_bounds(program: CapturedProgram) -> dict[str, int]:
    """Return, per input of whole numbers, how many values it may have: rows of the tables that it looks up,
    classes of a cross entropy that it is the target of. Inputs used otherwise are left out.
    """
    found: dict[str, int] = {}

    def bound(node: Any, size: int) -> None:
        name = _input_of(node)
        if name in program.inputs:
            found[name] = min(found.get(name, size), size)

    for node in program.module.graph.nodes:
        operator = str(getattr(node.target, "_opname", ""))
        if operator.startswith("embedding"):
            bound(node.args[1], int(node.args[0].meta["val"].shape[0]))
        elif operator in ("cross_entropy_loss", "nll_loss", "nll_loss_nd"):
            scores = node.args[0].meta["val"].shape
            bound(node.args[1], int(scores[1] if len(scores) > 1 else scores[0]))
    if program.loss:
        tensor = program.graph.layer["loss"].reads[0].name
        output = next(name for name in program.outputs if program.tensor_at.get(name) == tensor)
        values = {node.name: node.meta["val"] for node in program.module.graph.nodes if "val" in node.meta}
        found[LABELS] = int(values[output].shape[-1])
    return found


def _input_of(node: Any) -> str:
    """Return the input that a node is a view of; '' if it is computed from several things."""
    while node.op == "call_function" and len(node.all_input_nodes) == 1:
        node = node.all_input_nodes[0]
    return str(node.name) if node.op == "placeholder" else ""
