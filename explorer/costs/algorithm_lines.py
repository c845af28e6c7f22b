"""Lines of collectives by algorithm and protocol: seconds as alpha + beta S + gamma sqrt(S).

A level with `protocols` (`explorer.cluster.Protocol`) has steps h that start in step_s instead of alpha, pays
its overhead by protocol, and for slices in the pipeline of its steps: with beta the seconds per byte above, a
ring or tree takes 2 sqrt(slice_s h beta S) more. A device copies its own S/n at `own_copy` of the seconds of
what it sends; a tree below such a level is a chain; all peers of an all-to-all are sent to at once; and a
switch that adds up takes 2 step_s + (1 + 1/n) S/B. The fastest protocol counts, so that the seconds rise with
S, ever less steeply. Hu et al., Demystifying NCCL, 2025, has these protocols and algorithms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from explorer.base.errors import InputError
from explorer.costs.explicit_links import Pace, Tier
from explorer.costs.group_tiers import Span

ALGORITHMS: dict[str, tuple[str, ...]] = {
    "all_reduce": ("ring", "tree", "hierarchical", "halving"),
    "reduce_scatter": ("ring", "hierarchical", "halving"),
    "all_gather": ("ring", "hierarchical", "halving"),
    "broadcast": ("ring", "tree"),
    "reduce": ("ring", "tree"),
    "all_to_all": ("direct",),
    "parameter_server": ("direct",),
}
"""Algorithms by operation; `auto` is the cheapest except `halving`, which NCCL and gloo lack."""

CollectiveLine: TypeAlias = tuple[float, float, float]
"""Seconds, seconds per byte and seconds per root of a byte: alpha + beta S + gamma sqrt(S), never falling and
never bent upwards in S."""
CollectiveLines: TypeAlias = tuple[CollectiveLine, ...]
"""Lines of the algorithms and protocols of a collective, of which the fastest is taken."""


def algorithm_lines(span: Span, op: str, algorithm: str, concurrent: int) -> CollectiveLines:
    """Return the lines of the algorithms asked for by every protocol, without the chain, which is no line."""
    if algorithm != "auto":
        names = [algorithm]
    elif span.even and len(span.tiers) > 1:
        names = [name for name in ALGORITHMS[op] if name != "halving"]
    else:
        names = [name for name in ALGORITHMS[op] if name not in ("halving", "hierarchical")]
    if op in ("broadcast", "reduce"):
        line = (span.overhead_s + span.tree_latency_s, 1 / span.rate(concurrent, op), 0.0)
        return (line,) if "tree" in names else ()
    passes = 2 if op == "all_reduce" else 1
    found = []
    for paces in span.paces:
        if not all(pace.share_of(op) for pace in paces):
            continue
        way = _Way(span, paces, op, concurrent)
        if not paces[0].in_switch:
            made = [_line(way, name) for name in names]
        else:  # an algorithm of its own
            made = [_in_switch(way)] if algorithm == "auto" else []
        overhead = max(pace.overhead_s for pace in paces)
        found += [(overhead + passes * alpha, passes * beta, passes * gamma) for alpha, beta, gamma in made]
    return _lowest_of(found)


def _lowest_of(lines: Sequence[CollectiveLine]) -> CollectiveLines:
    """Leave out lines that are nowhere below one before or behind them."""
    kept: list[CollectiveLine] = []
    for line in lines:
        if not any(all(a <= b for a, b in zip(other, line, strict=True)) for other in kept):
            kept = [other for other in kept if any(a < b for a, b in zip(other, line, strict=True))]
            kept.append(line)
    return tuple(kept)


class _Way(NamedTuple):
    """One way to run an operation: the group, and what a protocol makes of each of its tiers."""

    span: Span
    paces: tuple[Pace, ...]
    op: str
    concurrent: int

    def betas(self, shares: Iterable[float]) -> list[float]:
        """Return the seconds per byte of S on each tier, over which a unit sends these shares of S.

        A device copies its own part of the result beside what it sends over the innermost tier.
        """
        found = []
        for k, (tier, pace, share) in enumerate(zip(self.span.tiers, self.paces, shares, strict=True)):
            own = 0.0 if k else pace.copy_of(self.op) / self.span.size
            found.append((share + own) / (tier.rate(self.concurrent, self.op) * pace.share_of(self.op)))
        return found

    def slices(self, steps: Iterable[float], betas: Iterable[float]) -> list[float]:
        """Return slice_s h beta of each tier."""
        return [
            pace.slice_s * count * beta for pace, count, beta in zip(self.paces, steps, betas, strict=True)
        ]


def _line(way: _Way, algorithm: str) -> CollectiveLine:
    """Return the line of one pass, such as a reduce-scatter or half an all-reduce."""
    span = way.span
    if algorithm == "direct":
        return _all_to_all(way)
    if algorithm == "hierarchical":
        return _hierarchical(way)
    steps = [tier.hops for tier in span.tiers]
    share = 1.0 if algorithm == "tree" else (span.size - 1) / span.size
    betas = way.betas([share] * len(steps))
    if algorithm == "ring":
        spared = min(pace.step_s for pace in way.paces)
        latency = sum(n * pace.step_s for n, pace in zip(steps, way.paces, strict=True)) - spared
        least = min(way.slices([1] * len(steps), betas))
        return latency, max(betas), 2 * math.sqrt(sum(way.slices(steps, betas)) - least)
    steps = [_tree_steps(tier) for tier in span.tiers]
    latency = sum(n * pace.step_s for n, pace in zip(steps, way.paces, strict=True))
    return latency, max(betas), 2 * math.sqrt(sum(way.slices(steps, betas)))


def _in_switch(way: _Way) -> CollectiveLine:
    """Time one of the two passes through a switch that adds up: S there, and S / n of sums, in all."""
    (pace,) = way.paces
    (beta,) = way.betas([(1 + 1 / way.span.size) / 2])
    return pace.step_s, beta, 2 * math.sqrt(pace.slice_s * beta)


def _tree_steps(tier: Tier) -> int:
    """Return the steps of a tree over a tier: where protocols are known it is NCCL's chain."""
    return tier.units - 1 if tier.paces else math.ceil(math.log2(tier.units))


def _hierarchical(way: _Way) -> CollectiveLine:
    """Time one pass of the hierarchy: tier after tier, a ring over k units with what the inner tiers left.

    All m devices of a unit pass on S/m each at once, so the unit sends (k-1)/k S altogether.

    Raises:
        InputError: the units are uneven.
    """
    tiers = way.span.tiers
    if not way.span.even:
        raise InputError(
            "hierarchical needs equally many devices in every node",
            key="algorithm",
            found="hierarchical",
            allowed="another algorithm, or auto",
        )
    betas = way.betas([(tier.units - 1) / tier.units for tier in tiers])
    steps = [tier.units - 1 for tier in tiers]
    alpha = beta = 0.0
    for count, pace, each in zip(steps, way.paces, betas, strict=True):
        alpha += count * pace.step_s
        beta += each
    return alpha, beta, 2 * sum(map(math.sqrt, way.slices(steps, betas)))


def _all_to_all(way: _Way) -> CollectiveLine:
    """Time an exchange of S/n for every pair of devices; tiers work at once, start-ups follow one another.

    With protocols all peers of a tier are sent to side by side: one step.
    """
    span, alpha = way.span, 0.0
    betas = []
    for k, (tier, pace) in enumerate(zip(span.tiers, way.paces, strict=True)):
        alpha += (1 if tier.paces else max(port.peers for port in tier.ports)) * pace.step_s
        own = 0.0 if k else pace.copy_of("all_to_all") / span.size
        slowest = 0.0
        for port in tier.ports:
            share = port.members * port.peers / span.size
            rate = port.rate(way.concurrent, exchange=True) * tier.speed_of("all_to_all")
            slowest = max(slowest, (share + own) / (rate * pace.share_of("all_to_all")))
        betas.append(slowest)
    slices = way.slices([1] * len(betas), betas)
    return alpha, max(betas), 2 * sum(map(math.sqrt, slices))
