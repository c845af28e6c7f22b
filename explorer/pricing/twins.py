"""Twins: sections whose own slots have equal prices, so that one of them is priced for all.

A model of equal blocks cut into many stages, several on each pipeline position, has few different sections:
those on the same devices whose layers are alike one by one. Sections that share parameters or actions with
others, have parts of layers or exceptions for single layers have no twins, nor do those of a strategy that
chooses exchanges for single parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields
from operator import attrgetter

import numpy as np

from explorer.costs.layer_codes import layer_codes
from explorer.pricing.price_tables import PriceTables
from explorer.pricing.pricer import Pricer
from explorer.reads import reading_of
from explorer.strategy import Stage
from explorer.tasks.holders import ExchangeChoice
from explorer.tasks.program import Program, Slot

FEWEST = 8
"""Sections from which on twins are looked for."""
_BY_KEY = {"layers", "name", "meshes", "slices", "shardings", "keeping"}
_choices_of = attrgetter(*(item.name for item in fields(Stage) if item.name not in _BY_KEY))
"""All that a stage chooses, but for its layers, devices, and what exceptions say of single layers."""


def twins_of(program: Program, pricer: Pricer, tables: PriceTables) -> Callable[[int], Hashable]:
    """Return what tells sections apart: those with equal values of it are twins.

    Args:
        program: the tasks.
        pricer: pricer of the strategy.
        tables: tables of the program.
    """
    strategy, sections = pricer.strategy, program.skeleton.sections
    single = ExchangeChoice(strategy.sync, strategy.updates).tells_apart
    if len(sections) < FEWEST or single or reading_of(program.order.read_rule).make is not None:
        return lambda section: section
    codes = np.array(layer_codes(pricer.graph))
    fractions, layers = pricer.placement.fractions, pricer.placement.layers

    def twin(section: int) -> Hashable:
        stage = pricer.stages[section]
        alone = len(tables.near[section]) == 1
        if not alone or stage.slices or stage.shardings or fractions[section] is not None:
            return section
        devices = sections[section].rows, tuple([mesh.axes for mesh in stage.meshes])
        slots = tuple(_alike(program.slots[number]) for number in tables.own[section].tolist())
        over_runs = program.whole_over_runs[section]
        kept = pricer.recompute(section), pricer.on_host(section)
        return codes[layers[section]].tobytes(), devices, _choices_of(stage), kept, over_runs, slots

    return twin


def _alike(slot: Slot) -> Hashable:
    """Return what of a slot is not the number of its section, or of the group that exchanges for it."""
    piece, peer = slot.piece, slot.peer
    ends = piece.copy, piece.replica, peer.copy, peer.replica
    return slot.kind, slot.samples, slot.backward, slot.part, ends
