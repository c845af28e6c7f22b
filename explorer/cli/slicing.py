"""`explorer validate --engine slice`: one rank of a plan, alone on one device."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from explorer.base.errors import InputError
from explorer.base.units import format_bytes, format_seconds
from explorer.cli.output import emit_json, say, table
from explorer.plan import Resolved, located

if TYPE_CHECKING:
    from explorer.run.judging.cost_check import LayerSeconds
    from explorer.run.one_rank.findings import SliceCheck


def run_slice_here(resolved: Resolved, options: argparse.Namespace) -> int:
    """Run the rank, and print what was predicted and measured.

    Raises:
        InputError: an option of other engines is given, or the plan's model has no code.
    """
    from explorer.cluster_profiles import load_cluster
    from explorer.models.module_source import open_module
    from explorer.profiling import device_here, kept_profile
    from explorer.run.one_rank.slice_run import run_slice

    given = {
        "--baseline": options.baseline, "--history": options.history, "--steps": options.steps,
        "--from": options.results, "--precision": options.precision,
    }  # fmt: skip
    for flag, value in given.items():
        if value:
            raise InputError(f"a slice has no {flag}", key=flag, found=value, allowed="another engine")
    device = device_here()
    profile = load_cluster(options.profile) if options.profile else kept_profile(device)
    _, model = resolved.plan.models[0]
    source = open_module(
        located(model.reference, resolved.folder), settings=dict(model.settings),
        sequence_length=model.sequence_length or None,
    )  # fmt: skip
    found = run_slice(resolved, source, rank=options.rank, profile=profile, device=device, tell=_tell)
    if options.json:
        emit_json("validate", asdict(found) | {"engine": "slice"})
    else:
        print(slice_text(found))
    return 0


def _tell(text: str) -> None:
    say(f"explorer: {text}")


def slice_text(found: SliceCheck) -> str:
    """Write a slice run as `explorer validate --engine slice` shows it."""
    rows = [("", "predicted", "measured", "times")]
    rows += [
        (item.action, _seconds(item.predicted_s), _seconds(item.measured_s), str(item.count))
        for item in found.actions
    ]
    item = found.memory
    stages, error = ", ".join(map(str, found.stages)), 100 * (item.predicted_bytes / item.measured_bytes - 1)
    lines = [f"rank {found.rank} of the plan (stages {stages}), alone on {found.device}", "", table(rows), ""]
    lines.append(
        f"memory         {format_bytes(item.predicted_bytes)} of tensors predicted,"
        f" {format_bytes(item.measured_bytes)} counted ({error:+.1f} %)"
    )
    kept = [
        sum(item.predicted_bytes for item in found.saved),
        sum(item.measured_bytes for item in found.saved),
    ]
    lines.append(
        f"activations    {format_bytes(kept[0])} predicted, {format_bytes(kept[1])} kept, layer by layer"
    )
    if found.error_pct is None:
        lines.append(f"seconds        {_seconds(found.measured_s)} in all; {found.costs_missing}")
    else:
        lines.append(
            f"seconds        {found.verdict}: {_seconds(found.predicted_s)} predicted,"
            f" {_seconds(found.measured_s)} measured in all ({found.error_pct:+.1f} %), by {found.profile}"
        )
        lines += [
            f"layer          {layer.layer}: {_seconds(sum(layer.predicted_s))} predicted,"
            f" {_seconds(sum(layer.measured_s))} measured"
            for layer in _worst(found)
        ]
    lines += [f"changed        {what}: {old} in the plan, {new} here" for what, old, new in found.shortened]
    return "\n".join(lines)


def _worst(found: SliceCheck, most: int = 5) -> list[LayerSeconds]:
    """Return the layers whose predictions are off by most seconds."""
    off = {id(item): abs(sum(item.predicted_s) - sum(item.measured_s)) for item in found.layers}
    return sorted(found.layers, key=lambda item: off[id(item)], reverse=True)[:most]


def _seconds(value: float | None) -> str:
    return "" if value is None else format_seconds(value)
