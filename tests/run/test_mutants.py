"""Runs that are wrong on purpose: whatever a rank does otherwise than planned, the numerics must say so.

Every mutant changes one thing in what ranks are told or do; the referee (`run.referee.replay`) is not told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from explorer.base.caching import Hashed
from explorer.run.cases.build import Prepared
from explorer.run.judging.compare import GRADIENT_TOLERANCE, gradients_equal, numerics_of
from explorer.run.model import transformer
from explorer.run.own.own_source import OwnSource
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.sweeps import first_guess
from explorer.run.referee.replay import Replay
from explorer.strategy import UpdateChoice
from tests.run.own import own_cases
from tests.run.own.own_cases import GPT, cut
from tests.run.own.own_cases import case as own
from tests.run.programs import IN_HALVES, MODEL, moved_away, placed, real
from tests.run.threads import Later, Threads, on_threads, worst

Change = Callable[[Compute], None]
Patch = pytest.MonkeyPatch

pytestmark = pytest.mark.usefixtures("one_thread")


TIED = transformer(6, d_model=8, heads=2, ffn=16, seq=4, vocab=16, tied=True, dtype="fp64")


@cache
def gpt() -> OwnSource:
    """A small GPT-2 with tied embeddings, as a module."""
    return own_cases.source(*GPT)


CASES: dict[str, Callable[[], Prepared]] = {
    "pipeline": lambda: real("1f1b", 2, 1),
    "replicas": lambda: real("gpipe", 1, 2),
    "both": lambda: real("1f1b", 2, 2, steps=2),
    "turns": lambda: real("gpipe", 1, 2, turns=True),
    "four": lambda: real("gpipe", 1, 4, microbatches=2),
    "versions": lambda: real("pipedream", 2, 1),
    "buffers": lambda: real("pipedream_2bw", 2, 1),
    "copies": lambda: placed("chimera", 2),
    "blocking": lambda: real("1f1b", 4, 1, microbatches=8, options=(("blocking", True),)),
    "exchanges in pairs": lambda: placed("interleaved_1f1b", 2, options=(("blocking", True),)),
    "halves": lambda: placed("zb_h1", 2),
    "sweeps": lambda: placed("layer_parallel", 2),
    "local": lambda: real("gpipe", 1, 2, updates=(UpdateChoice(rule="local_sgd", options=(("period", 2),)),)),
    "gossip": lambda: real("gpipe", 1, 4, microbatches=2, updates=(UpdateChoice(rule="gossip"),)),
    "predicted": lambda: real("spectrain", 2, 1, optimizer="momentum"),
    "tied on one rank": lambda: placed("zb_v", 2, model=TIED, optimizer="momentum"),
    "moved": lambda: moved_away(2, steps=2),
    "moved halves": lambda: real("custom", 2, 1, name="moved-halves", options=(("lanes", IN_HALVES),)),
    "own layers": lambda: own(gpt(), cut(gpt(), 2), "1f1b"),
    "own layers on replicas": lambda: own(gpt(), cut(gpt(), 1, 2, size=2), "gpipe"),
    "fp32": lambda: real("1f1b", 2, 1, model=replace(MODEL, dtype="fp32")),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_changed_passes(name: str) -> None:
    records = on_threads(CASES[name]())
    assert worst(records) < (1e-10 if name != "fp32" else GRADIENT_TOLERANCE)
    assert all(record["left"] == 0 and record["numerics"]["compared"] for record in records)


def nudged(run: Compute) -> None:
    """Every rank begins a rounding away from the weights of one process."""

    class Nudged:
        units = run.units

        def __getattr__(self, name: str) -> Any:
            return getattr(self.units, name)

        def weights(self, units: Any, device: Any) -> Any:
            found = self.units.weights(units, device)
            eps = torch.finfo(self.units.dtype).eps
            return {n: (w.detach() * (1 + eps)).requires_grad_() for n, w in found.items()}

    run.units = Nudged()  # type: ignore[assignment]


def fp32_module(name: str) -> Prepared:
    """A user's module in fp32, in two stages."""
    source = own_cases.source(f"{own_cases.FACTORIES}:{name}", dtype="fp32")
    return own(source, cut(source, 2), "1f1b")


@pytest.mark.parametrize(
    ("name", "change", "equal"),
    [("stack", "nudged", True), ("touchy", "nudged", None), ("stack", "scaled", False)],
)
def test_a_rounding_is_no_wrong_number_where_it_decides_the_gradients(
    name: str, change: str, equal: bool | None
) -> None:
    """Nothing can be said then; a gradient that is 1 % off is found wherever rounding does less."""
    change_of: dict[str, Change] = {"nudged": nudged, "scaled": scaled}
    records = on_threads(fp32_module(name), change_of[change])
    found = numerics_of([[record] for record in records])
    assert gradients_equal(found) is equal
    assert ("rounding" in found) == (equal is not True)


def older(run: Compute) -> None:
    """Every weight version one too old."""
    reads = run.reads
    run.reads = replace(
        reads,
        version={p: {n: max(0, v - 1) for n, v in found.items()} for p, found in reads.version.items()},
        backward={p: {key: max(0, v - 1) for key, v in found.items()} for p, found in reads.backward.items()},
        several=True,
    )


def newer(run: Compute) -> None:
    """Every backward reads the newest version, whatever its forward read."""
    read = run._read

    def latest(piece: Any, number: int, op: str) -> Any:
        return read(piece, number, op) if op == "F" else run.versions[piece][run.made[piece]]

    run._read = latest  # type: ignore[method-assign]


def lost(run: Compute) -> None:
    """The gradient of one microbatch never reaches its update."""
    add = run._add

    def but_one(piece: Any, number: int, found: Any, beside: Any = ()) -> None:
        add(piece, number, {} if number == 1 else found, beside)

    run._add = but_one  # type: ignore[method-assign]


def twice(run: Compute) -> None:
    """The gradient of one microbatch counts twice."""
    add = run._add

    def again(piece: Any, number: int, found: Any, beside: Any = ()) -> None:
        add(piece, number, {n: g if g is None or number != 1 else 2 * g for n, g in found.items()}, beside)

    run._add = again  # type: ignore[method-assign]


def scaled(run: Compute) -> None:
    """Gradients one per cent too large, on one rank."""
    add = run._add

    def larger(piece: Any, number: int, found: Any, beside: Any = ()) -> None:
        add(piece, number, {n: g if g is None or run.lane else 1.01 * g for n, g in found.items()}, beside)

    run._add = larger  # type: ignore[method-assign]


def swapped(run: Compute) -> None:
    """Samples of every message in the wrong order."""
    deliver = run.deliver

    def reverse(item: Any, message: torch.Tensor) -> None:
        deliver(item, message.flip(-3) if item.flow >= 0 else message)

    run.deliver = reverse  # type: ignore[method-assign]


def same_slice(run: Compute) -> None:
    """Every replica works on the samples of the first."""
    interval = run._interval

    def first(piece: Any, number: int) -> Any:
        return interval(piece._replace(replica=0), number)

    run._interval = first  # type: ignore[method-assign]


def swapped_parameters(run: Compute) -> None:
    """Two parameters of one size change places in what is reduced."""
    reduced = run.reduced

    def exchanged(item: Any, total: torch.Tensor) -> None:
        names = run.group_names[item.group]
        sizes = [run.current[name].numel() for name in names]
        parts = list(total.split(sizes))
        a = next(i for i, size in enumerate(sizes) if sizes.count(size) > 1)
        b = sizes.index(sizes[a], a + 1)
        parts[a], parts[b] = parts[b], parts[a]
        reduced(item, torch.cat(parts))

    run.reduced = exchanged  # type: ignore[method-assign]


def never(run: Compute) -> None:
    """One update is left out."""
    step, calls = run._apply, []

    def but_one(span: Any, gradients: Any) -> None:
        calls.append(span)
        step(span, {} if len(calls) == 1 else gradients)

    run._apply = but_one  # type: ignore[method-assign]


def half_of_tied(run: Compute) -> None:
    """A weight that two stages of a rank share gets the gradient of one of them."""
    alone = run._alone

    def own_only(piece: Any, span: Any) -> Any:
        for other in run.pieces:
            if other != piece:
                run.sums.pop((other, span), None)
        return alone(piece, span)

    run._alone = own_only  # type: ignore[method-assign]


def no_lag(run: Compute) -> None:
    """Sweeps work on the first guess for ever."""
    boundary = run._boundary

    def guess(box: Any, key: Any, interval: Any) -> torch.Tensor:
        found = boundary(box, key, interval)
        return first_guess(found) if box is run.forwards else torch.zeros_like(found)

    run._boundary = guess  # type: ignore[method-assign]


def stale(run: Compute) -> None:
    """What comes back from the host is what the first microbatch had sent there."""
    copy, first = run.host_line.copy, {}

    def earlier(pairs: Any, *, back: bool) -> None:
        for at, (target, source) in enumerate(pairs):
            held = first.setdefault((at, source.numel()), source.clone())
            copy([(target, held if back else source)], back=back)

    run.host_line.copy = earlier  # type: ignore[method-assign]


def emptied(run: Compute) -> None:
    """Zeros come back from the host."""
    copy = run.host_line.copy

    def nothing(pairs: Any, *, back: bool) -> None:
        copy([(target, source * 0 if back else source) for target, source in pairs], back=back)

    run.host_line.copy = nothing  # type: ignore[method-assign]


MUTANTS: list[tuple[Change, tuple[str, ...]]] = [
    (older, ("pipeline", "both", "versions", "buffers", "copies", "halves", "sweeps", "predicted")),
    (newer, ("versions", "buffers")),
    (lost, tuple(CASES)),
    (twice, tuple(CASES)),
    (scaled, tuple(CASES)),
    (swapped, ("pipeline", "versions", "buffers", "copies", "halves", "sweeps", "predicted", "fp32")),
    (same_slice, ("replicas", "four", "own layers on replicas")),
    (
        swapped_parameters,
        ("replicas", "both", "turns", "four", "copies", "local", "gossip", "own layers on replicas"),
    ),
    (never, tuple(CASES)),
    (half_of_tied, ("tied on one rank",)),
    (no_lag, ("sweeps",)),
    (stale, ("moved", "moved halves")),
    (emptied, ("moved", "moved halves")),
]


@pytest.mark.parametrize(("change", "name"), [(change, name) for change, names in MUTANTS for name in names])
def test_a_wrong_rank_is_found(change: Change, name: str) -> None:
    assert worst(on_threads(CASES[name](), change)) > GRADIENT_TOLERANCE


def wrong_span(patch: Patch) -> None:
    """Updates name one microbatch less than they should."""
    span = RankLanes._span

    def shorter(self: RankLanes, task: int) -> Any:
        low, high = span(self, task)
        return low, max(low + 1, high - self.sections[self.slot(task).piece.section].microbatch_samples)

    patch.setattr(RankLanes, "_span", shorter)


def wrong_peers(patch: Patch) -> None:
    """Ranks reduce in pairs where all should."""
    reduce = Threads.reduce

    def pairs(self: Threads, members: tuple[int, ...], buffer: torch.Tensor, *, op: Any) -> Later | None:
        half = members[:2] if self.rank in members[:2] else members[2:]
        return reduce(self, half, buffer, op=op)

    patch.setattr(Threads, "reduce", pairs)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        *(
            (wrong_span, name)
            for name in ("pipeline", "both", "versions", "buffers", "copies", "sweeps", "own layers")
        ),
        (wrong_peers, "four"),
    ],
)
def test_wrong_orders_to_the_ranks_are_found(
    change: Callable[[Patch], None], name: str, monkeypatch: Patch
) -> None:
    change(monkeypatch)
    assert worst(on_threads(CASES[name]())) > GRADIENT_TOLERANCE


def test_a_group_without_one_of_its_holders_is_found() -> None:
    """Who holds a parameter is no matter of the groups that reduce it."""
    prepared = CASES["four"]()
    skeleton = prepared.case.skeleton
    (group,) = skeleton.holders
    halves = (group.pieces[:2], group.pieces[2:])
    wrong = replace(skeleton, holders=tuple(group._replace(pieces=Hashed(half)) for half in halves))
    records = on_threads(replace(prepared, case=replace(prepared.case, skeleton=wrong)))
    assert worst(records) > GRADIENT_TOLERANCE


def test_the_referee_knows_nothing_of_the_ranks_books() -> None:
    """Neither lanes' plans nor reads nor the tasks they were lowered to."""
    import explorer.run.referee.replay as module

    used = {name for name in vars(module) if not name.startswith("_")}
    assert not used & {"RankLanes", "LaneTask", "find_reads", "HeldWeights", "Compute", "Sweeps", "lower"}
    assert Replay(CASES["pipeline"]().case).workers
