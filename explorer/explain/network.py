"""Communication and shape: which link is waited for, what would hide it, and shapes close to the plan's."""

from __future__ import annotations

from explorer.base.units import format_seconds
from explorer.explain.changes import doubles, everywhere, zero_levels
from explorer.explain.names import link_words
from explorer.explain.neighbours import larger, neighbours
from explorer.explain.questions import (
    WORTH,
    Asked,
    Sentence,
    Steps,
    Tried,
    capital,
    conclude,
    fastest,
    proposal,
    tries,
)
from explorer.sharding.layouts import megatron_layout
from explorer.strategies.degrees_reading import regular_degrees

_NAMES = {
    "inside": "inside stages",
    "transfer": "between stages",
    "reduce": "reducing gradients",
    "gather": "gathering weights",
}


def communication(asked: Asked) -> Steps[Sentence]:
    """Say what the busiest device waits for, over which link, and what would hide it."""
    report = asked.report
    parts = sorted(
        ((seconds, kind) for kind, seconds in report.exposed_communication_s.items() if seconds > 0),
        reverse=True,
    )
    total = sum(seconds for seconds, _ in parts)
    share = asked.share(total)
    detail = ", ".join(f"{format_seconds(s)} {_NAMES[kind]}{_over(asked, kind)}" for s, kind in parts)
    lead = f"The busiest device waits for communication {share:.{1 if share < 0.01 else 0}%} of the step"
    if share <= WORTH:
        said = f"{lead} ({format_seconds(total)}): no change could gain more."
        return Sentence(topic="communication", text=said)
    lead = f"{lead}: {detail}."
    tried = yield from tries(asked, zero_levels(asked))
    tried += yield from tries(asked, doubles(asked))
    degrees = regular_degrees(asked.job)
    if degrees is not None:
        if degrees.tensor > 1:
            layout = megatron_layout(sequence_parallel=True)
            tried += yield from tries(
                asked, [("use sequence parallelism", lambda: everywhere(asked, layout=layout))]
            )
        tried += yield from tries(asked, neighbours(asked, degrees, ("replicas", "tensor")))
    kind = "ZeRO level, microbatch size or split of replicas and tensor"
    return conclude(asked, "communication", lead, tried, kind=f"other {kind}")


def _over(asked: Asked, kind: str) -> str:
    """Name the link that a kind of communication mostly uses: " over NVSwitch"; empty if it uses none."""
    stages = asked.job.stages
    rows = stages[0].meshes[0].rows
    if kind == "inside" and len(rows[0]) > 1:
        ends = rows[0][0], rows[0][1]
    elif kind in ("reduce", "gather") and len(rows) > 1:
        ends = rows[0][0], rows[-1][0]
    elif kind == "transfer" and len(stages) > 1:
        ends = rows[0][0], stages[1].meshes[0].devices[0]
    else:
        return ""
    return f" over {link_words(asked.cluster.path(*ends).kind)}" if ends[0] != ends[1] else ""


def shape(asked: Asked) -> Steps[Sentence | None]:
    """Say which neighbouring shape is fastest; None if stages are not alike."""
    own = regular_degrees(asked.job)
    if own is None or own.devices == 1:
        return None
    lead = f"The plan is {own.words}."
    tried = yield from tries(asked, neighbours(asked, own, ("stages", "replicas", "tensor")))
    return _fit_or_faster(asked, "shape", lead, tried, kind="neighbouring shape")


def devices(asked: Asked) -> Steps[Sentence | None]:
    """Say what twice the devices would bring; None if no device is idle or stages are not alike."""
    own, there = regular_degrees(asked.job), asked.cluster.device_count
    if own is None or 2 * own.devices > there:
        return None
    lead = f"The plan uses {own.devices} of {there} devices."
    tried = yield from tries(asked, larger(asked, own))
    return _fit_or_faster(asked, "devices", lead, tried, kind="shape on twice the devices")


def _fit_or_faster(asked: Asked, topic: str, lead: str, tried: list[Tried], *, kind: str) -> Sentence:
    best = fastest(tried)
    if best is None or asked.report.feasible:
        return conclude(asked, topic, lead, tried, kind=kind)
    said = f"{lead} **{capital(best.label)}** to fit, {format_seconds(best.step_s)} a step."
    return proposal(asked, topic, said, best)
