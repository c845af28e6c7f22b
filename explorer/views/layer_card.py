"""The card of a layer: how it may be laid out on its stage, and what is kept of it for the backward.

What is kept is chosen for the layer, for those like it in other blocks, for its block, or for whole stages.

Every row is a choice with what it costs. The layer's own seconds and bytes are priced at once; the step and
the peak are those of the whole strategy, simulated one after the other and handed in as they come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from explorer.base.errors import InputError
from explorer.explain.names import block_words, counted
from explorer.simulation.check import check_job
from explorer.simulation.report import Report
from explorer.strategies.memory_choices import with_layer_choice, with_memory_choice
from explorer.strategy import REPLICA, JobStrategy, Stage
from explorer.tables.layer_figures import layer_figures
from explorer.tables.layer_layouts import LayerLayout, alike_layers, layer_layouts, with_layout
from explorer.views.kept_choices import (
    STAGE,
    STAGES,
    KeptRow,
    kept_layers,
    kept_scopes,
    layer_rows,
    scope_words,
    stage_rows,
)
from explorer.views.scene import Scene

LAYOUT, MEMORY = "layout", "memory"
"""Kinds of choices."""


class Choice(NamedTuple):
    """One row of a card: what is asked of `changed`."""

    kind: str
    """`layout` or `memory`."""
    key: str
    """Words of a layout, or key of a memory choice."""


class Outcome(NamedTuple):
    """What a strategy comes to."""

    step_s: float
    """Seconds of a step."""
    peak_bytes: float
    """Bytes of the fullest device of the stages that a card is about."""
    over_bytes: float
    """Most bytes that any device lacks; 0 if everything fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a card is about."""

    layer: str
    """Name of a layer."""
    whole: bool = False
    """Whether it is about a part of the model that begins with the layer: only what its stage keeps."""
    alike: bool = False
    """Whether choices are for the same layer of all blocks."""
    kept_for: str = STAGE
    """What choices of memory are for: one of `SCOPES`."""

    def stages(self, scene: Scene) -> tuple[int, ...]:
        """Return the numbers of the stages that its memory choices are about."""
        if self.kept_for == STAGES:
            return tuple(range(len(scene.strategy.stages)))
        if self.kept_for == STAGE:
            return (home_of(scene, self.layer),)
        held = set(self.kept_layers(scene))
        stages = enumerate(scene.strategy.stages)
        return tuple(number for number, stage in stages if held.intersection(stage.all_layers))

    def kept_layers(self, scene: Scene) -> tuple[str, ...]:
        """Return the layers that its memory choices are about; () where they are of whole stages."""
        return kept_layers(scene, self.layer, self.kept_for)

    def layers(self, scene: Scene) -> tuple[str, ...]:
        """Return the layers whose layout it changes."""
        return alike_layers(scene.graph, scene.strategy, self.layer) if self.alike else (self.layer,)


def home_of(scene: Scene, layer: str) -> int:
    """Return the number of the first stage that holds a layer, or a part of it."""
    return next(i for i, stage in enumerate(scene.strategy.stages) if layer in stage.all_layers)


def layouts_of(scene: Scene, layer: str) -> tuple[LayerLayout, ...]:
    """Return the layouts of a layer where it is; () if it has none to choose from."""
    stage = scene.strategy.stages[home_of(scene, layer)]
    return layer_layouts(scene.graph, stage, layer) if layer in stage.layers else ()


def changed(scene: Scene, card: Card, choice: Choice) -> JobStrategy:
    """Return the strategy that a row of a card leads to.

    Raises:
        InputError: there is no such row, or it is not legal.
    """
    job = scene.strategy
    if choice.kind == MEMORY:
        if layers := card.kept_layers(scene):
            return with_layer_choice(job, layers, choice.key)
        return with_memory_choice(job, card.stages(scene), choice.key)
    offered = layouts_of(scene, card.layer)
    found = next((item for item in offered if item.words == choice.key), None)
    if found is None:
        raise InputError(
            f"{card.layer} has no layout {choice.key!r}", key="layout", found=choice.key,
            allowed=", ".join(item.words for item in offered if not item.problem) or "none: tensor is 1",
        )  # fmt: skip
    return with_layout(scene.graph, job, card.layers(scene), found)


def choices(scene: Scene, card: Card) -> tuple[Choice, ...]:
    """Return the rows of a card whose outcome is to be simulated: legal ones that change anything."""
    rows = [*_layout_rows(scene, card), *_memory_rows(scene, card)]
    return tuple(
        Choice(row["kind"], row["key"]) for row in rows if not (row["problem"] or _is_shown(row, card))
    )


def _is_shown(row: Mapping[str, Any], card: Card) -> bool:
    """Tell whether a row is the strategy shown; of layers that are alike others may be laid out otherwise."""
    return bool(row["present"]) and (row["one_of"] if row["kind"] == MEMORY else not card.alike)


def outcome_of(report: Report, devices: frozenset[int]) -> Outcome:
    """Return what a report says of a step, and of the fullest of some devices."""
    pairs = zip(report.lanes, report.peak_memory_bytes, strict=True)
    peaks = [used for lane, used in pairs if devices.intersection(lane)]
    return Outcome(
        step_s=report.step_time_s,
        peak_bytes=max(peaks, default=0.0),
        over_bytes=max((item.over_bytes for item in report.overflows), default=0.0),
    )


def devices_of(scene: Scene, card: Card, kind: str) -> frozenset[int]:
    """Return the devices whose peak a kind of rows shows: those of the stages that they change."""
    homes = {home_of(scene, name) for name in card.layers(scene)}
    numbers = homes if kind == LAYOUT else card.stages(scene)
    return frozenset(
        device for n in numbers for mesh in scene.strategy.stages[n].meshes for device in mesh.devices
    )


def layer_card_view(
    scene: Scene, card: Card, known: Mapping[Choice, Outcome | str] | None = None
) -> dict[str, Any]:
    """Return `GraphView.card`.

    Args:
        scene: the strategy shown.
        card: what the card is about.
        known: what rows come to, as far as they were simulated; a text is why one cannot be had.
    """
    known = known or {}
    number = home_of(scene, card.layer)
    stage = scene.strategy.stages[number]
    now = {kind: outcome_of(scene.report, devices_of(scene, card, kind)) for kind in (LAYOUT, MEMORY)}
    layouts = [] if card.whole else _layout_rows(scene, card)
    return {
        "layer": card.layer,
        "whole": card.whole,
        "title": f"Stage {number}" if card.whole else _title(scene, card.layer),
        "where": _mesh_words(stage) if card.whole else f"stage {number}: {_mesh_words(stage)}",
        "stage": number,
        "alike": len(alike_layers(scene.graph, scene.strategy, card.layer)),
        "all_alike": card.alike,
        "kept_for": card.kept_for,
        "scopes": scopes_of(scene, card),
        "now": {kind: found._asdict() for kind, found in now.items()},
        "layouts": [_with_outcome(row, card, known, now) for row in layouts],
        "no_layouts": None if card.whole or layouts else _why_none(stage, card.layer),
        "memory": [_with_outcome(row, card, known, now) for row in _memory_rows(scene, card)],
    }


def scopes_of(scene: Scene, card: Card) -> list[tuple[str, str]]:
    """Return what memory choices of a card may be for, each with its words; () where there is one only."""
    found = kept_scopes(scene, card.layer, home_of(scene, card.layer), whole=card.whole)
    return found if len(found) > 1 else []


def kept_words(scene: Scene, card: Card, choice: Choice) -> str:
    """Say what a memory choice does and for what: `recompute the block: block 3`."""
    words = next(row["words"] for row in _memory_rows(scene, card) if row["key"] == choice.key)
    what = scope_words(scene, card.layer, home_of(scene, card.layer), card.kept_for)
    return f"{words[0].lower()}{words[1:]}: {what}"


def _title(scene: Scene, layer: str) -> str:
    """Name a layer within its block: `mlp.up of block 3`."""
    own = scene.graph.layer[layer]
    if not own.block:
        return layer
    return f"{layer.removeprefix(f'{own.block}.')} of {block_words(scene.graph, own.block)}"


def _mesh_words(stage: Stage) -> str:
    """Say what devices a stage has: `2 replicas, each tensor 2`."""
    mesh = stage.meshes[0]
    axes = [f"{name} {size}" for name, size in mesh.axes if name != REPLICA and size > 1]
    replicas = counted(mesh.replicas, "replica")
    return replicas + (f", each {' × '.join(axes)}" if axes else " of 1 device each")


def _why_none(stage: Stage, layer: str) -> str:
    if layer not in stage.layers:
        return "Several stages share this layer, so all of them keep the layout of their stage."
    return "Each replica is one device, so nothing is split; Tensor in the bar takes more devices for one."


def _layout_rows(scene: Scene, card: Card) -> list[dict[str, Any]]:
    """Return the rows of layouts, without what they come to."""
    if card.whole:
        return []
    return scene.memo(f"card.layouts {card.layer}", lambda: _make_layout_rows(scene, card.layer))


def _make_layout_rows(scene: Scene, layer: str) -> list[dict[str, Any]]:
    rows, number = [], home_of(scene, layer)
    for item in layouts_of(scene, layer):
        figures: dict[str, Any] = dict.fromkeys(("work_s", "collectives_s", "state_bytes", "saved_bytes"))
        problem = item.problem
        if not problem:
            made = with_layout(scene.graph, scene.strategy, (layer,), item)
            problem = "; ".join(check_job(scene.graph, scene.cluster, scene.job, made))
            if not problem:
                own = layer_figures(scene.graph, scene.cluster, scene.job, made.stages[number], layer)
                figures = {name: getattr(own, name) for name in figures}
        rows.append({
            "kind": LAYOUT, "key": item.words, "words": item.words, "present": item.present,
            "usual": item.usual, "problem": problem or None, **figures,
        })  # fmt: skip
    return rows


def _memory_rows(scene: Scene, card: Card) -> list[dict[str, Any]]:
    """Return the rows of what stages keep, without what they come to."""
    if not scene.job.training:
        return []
    layers = card.kept_layers(scene)
    return scene.memo(
        f"card.kept {card.kept_for} {card.layer}",
        lambda: [
            _memory_row(scene, card, row)
            for row in (
                layer_rows(scene, layers, card.kept_for) if layers else stage_rows(scene, card.stages(scene))
            )
        ],
    )


def _memory_row(scene: Scene, card: Card, row: KeptRow) -> dict[str, Any]:
    job, made = scene.strategy, changed(scene, card, Choice(MEMORY, row.key))
    problem = (
        ""
        if made == job
        else "; ".join(dict.fromkeys(check_job(scene.graph, scene.cluster, scene.job, made)))
    )
    return {
        "kind": MEMORY, "key": row.key, "words": row.words, "one_of": row.one_of,
        "present": all(row.held), "some": any(row.held) and not all(row.held), "problem": problem or None,
    }  # fmt: skip


def _with_outcome(
    row: Mapping[str, Any], card: Card, known: Mapping[Choice, Outcome | str], now: Mapping[str, Outcome]
) -> dict[str, Any]:
    """Return a row with what it comes to: None while that is not known, a problem where it cannot be."""
    found = now[row["kind"]] if _is_shown(row, card) else known.get(Choice(row["kind"], row["key"]))
    if isinstance(found, str):
        return {**row, "problem": found, "outcome": None}
    return {**row, "outcome": None if found is None else found._asdict()}
