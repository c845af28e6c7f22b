"""Words and tables of a report: HTML from a state, readable without any script. Everything is escaped."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from explorer import __version__
from explorer.base.units import format_bytes, format_seconds
from explorer.cluster import Source
from explorer.cluster.memory_room import FITS, MAY_FIT
from explorer.explain.names import counted
from explorer.schedules.check import numbers_text
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import NO_FLOPS
from explorer.views import board_view
from explorer.views.tiles import figures
from widgets.compare.panel import compare_html
from widgets.edits import degrees_of
from widgets.panels import percent, table
from widgets.session import Point

MOST_PAIRS = 200
"""Most rows of the traffic table."""


def heading(point: Point) -> str:
    """Return the title: model and cluster."""
    own = point.inputs
    return f"{own.model.reference} on {own.cluster_name}"


def top_html(point: Point, *, made_s: float) -> str:
    """Write the title, what was asked and chosen, and when."""
    own, job = point.inputs, point.inputs.job
    degrees = degrees_of(point)
    asked = [
        f"global batch {job.global_batch}",
        *([f"{job.sequence_length} tokens a sample"] if job.sequence_length else []),
        job.precision,
        job.optimizer if job.training else "inference",
    ]
    chosen = [
        f"{counted(degrees.stages, 'stage')} × {counted(degrees.replicas, 'replica')}",
        *([f"{degrees.tensor} devices share a layer"] if degrees.tensor > 1 else []),
        *([f"{degrees.chunks} chunks"] if degrees.chunks > 1 else []),
        degrees.schedule,
        f"microbatch {degrees.microbatch_size}",
        f"recompute {degrees.recompute}",
        f"ZeRO {degrees.zero}",
    ]
    day = datetime.fromtimestamp(made_s, tz=UTC)
    return (
        f'<header class="r-top"><h1>{escape(heading(point))}</h1>'
        f'<p class="sx-sub">{escape(", ".join(asked))} · {escape(", ".join(chosen))}</p>'
        f'<p class="sx-sub">{len(own.graph.layers)} layers, {len(point.report.devices)} of '
        f"{own.cluster.device_count} devices · predicted with strategy-explorer {escape(__version__)} on "
        f'<time datetime="{day:%Y-%m-%dT%H:%MZ}">{day.day} {day:%B %Y, %H:%M} UTC</time></p></header>'
    )


def words_html(verdict: Mapping[str, Any], reasons: Sequence[Mapping[str, Any]]) -> str:
    """Write the verdict and the reasons as sentences."""
    items = "".join(
        f"<li><b>{escape(str(row['topic']))}.</b> {_bold(str(row['text']))}</li>" for row in reasons
    )
    level = {"bad": "bad", "warn": "warn"}.get(str(verdict.get("level")), "")
    said = f'<p class="r-verdict {level}">{_bold(str(verdict.get("text", "")))}</p>'
    listed = f"<ul>{items}</ul>" if items else ""
    return f'<section class="xp r-words" aria-label="Verdict">{said}{listed}</section>'


def _bold(text: str) -> str:
    """Turn `**bold**`, the only markup, into HTML."""
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlan:
    """A plan as a report carries it."""

    file: str
    """Its plan file in YAML."""
    text: str
    """The plan as one short text (`explorer.plan_text`)."""


def more_html(point: Point, kept: Mapping[str, KeptPlan]) -> str:
    """Write what stands below the drawings: plan B, tables, the plan itself, sources of numbers."""
    parts = []
    if point.other is not None:
        parts.append("<h2>Against plan B</h2>" + compare_html(point, point.other, heading="h3"))
    parts += [
        "<h2>Tables</h2>",
        _folded("Figures", _figures(point), shown=True),
        _folded("Stages: who holds what", _stages(point)),
        _folded("Memory by part", _memory(point)),
        _folded("Links between stages", _links(point)),
        _folded("Bytes sent in one step, device by device", _traffic(point)),
        "<h2>Plan</h2>" if len(kept) == 1 else "<h2>Plans</h2>",
        *(_plan(name, plan, alone=len(kept) == 1) for name, plan in kept.items()),
        "<h2>Where the numbers come from</h2>",
        _sources(point),
    ]
    return f'<section class="xp r-more">{"".join(parts)}</section>'


def _folded(title: str, body: str, *, shown: bool = False) -> str:
    return f"<details{' open' if shown else ''}><summary>{escape(title)}</summary>{body}</details>"


def _figures(point: Point) -> str:
    own, length = figures(point.report, point.inputs.job.sequence_length), point.inputs.job.sequence_length
    report = point.report
    rows = [
        ("Step time", format_seconds(own["step_time"])),
        ("Throughput", f"{own['throughput']:,.0f} {'tokens' if length else 'samples'}/s".replace(",", " ")),
        (
            "Worst memory",
            f"{percent(own['memory'], sign=False)} of {format_bytes(min(report.capacity_bytes))}",
        ),
        ("Fits", {FITS: "yes", MAY_FIT: "maybe"}.get(report.memory_verdict, "no")),
        ("Bubble", percent(own["bubble"], sign=False)),
        ("MFU", percent(own["mfu"], sign=False) if "mfu" in own else f"– ({NO_FLOPS})"),
        ("One step from idle", format_seconds(report.makespan_s)),
    ]
    return table(("figure", "predicted"), [(escape(name), escape(value)) for name, value in rows])


def _stages(point: Point) -> str:
    layers = [layer.name for layer in point.inputs.graph.layers]
    rows = []
    for lane, used in zip(board_view(point.scene)["lanes"], point.scene.group_devices, strict=True):
        runs = [(run["first"], run["first"] + run["count"] - 1) for run in lane["runs"]]
        held = "; ".join(layers[a] if a == b else f"{layers[a]} … {layers[b]}" for a, b in runs) or "nothing"
        devices = numbers_text(used).replace("-", "–")
        over = lane["peak_bytes"] - min(lane["most_bytes"], lane["capacity_bytes"])
        fits = "fits" if lane["peak_bytes"] <= lane["fits_bytes"] else "may fit"
        rows.append(
            (
                escape(lane["name"]),
                escape(devices),
                escape(held),
                format_seconds(lane["forward_s"]),
                format_seconds(lane["backward_s"]),
                format_bytes(lane["peak_bytes"]),
                f'<b class="bad">{format_bytes(over)} over</b>'
                if lane["peak_bytes"] > lane["most_bytes"]
                else fits,
            )
        )
    head = ("stage", "devices", "layers", "forward", "backward", "memory", "")
    return f'<div class="r-stack">{_wide(table(head, rows, text=3), column=3)}</div>'


def _wide(html: str, column: int) -> str:
    """Let a column of long text wrap."""
    return re.sub(
        rf"(<tr[^>]*>(?:<td[^>]*>(?:(?!</td>).)*</td>){{{column - 1}}})<td>", r'\1<td class="w">', html
    )


def _memory(point: Point) -> str:
    report = point.report
    rows = [
        (
            escape(", ".join(map(str, devices))),
            *(format_bytes(size) if size else "–" for size in parts),
            format_bytes(sum(parts)),
            format_bytes(room),
        )
        for devices, parts, room in zip(
            report.lane_devices, report.memory_parts_bytes, report.capacity_bytes, strict=True
        )
    ]
    return table(("devices", *MEMORY_PARTS, "at the peak", "there is"), rows)


def _links(point: Point) -> str:
    view = board_view(point.scene)
    names = {lane["id"]: lane["name"] for lane in view["lanes"]}
    rows = [
        (
            escape(f"{names[link['from_lane']]} → {names[link['to_lane']]}"),
            escape(link["name"]),
            format_bytes(link["forward_bytes"]),
            format_bytes(link["backward_bytes"]),
            format_seconds(link["transfer_s"]),
            format_bytes(link["step_bytes"]),
        )
        for link in view["links"]
    ]
    head = ("from, to", "link", "forward, a microbatch", "backward", "one transfer", "in a step")
    return table(head, rows, text=2) if rows else "<p>Nothing crosses from stage to stage.</p>"


def _traffic(point: Point) -> str:
    pairs = sorted(point.report.traffic_bytes.items(), key=lambda item: -item[1])
    rows = [(f"gpu {a} → gpu {b}", format_bytes(size)) for (a, b), size in pairs[:MOST_PAIRS]]
    if not rows:
        return "<p>Nothing is sent.</p>"
    more = f"<p>The {MOST_PAIRS} largest of {len(pairs)}.</p>" if len(pairs) > MOST_PAIRS else ""
    return more + table(("from, to", "sent in a step"), rows)


def _plan(name: str, plan: KeptPlan, *, alone: bool) -> str:
    """Write a plan: its file to download, and the text that the workbench opens too."""
    link = f"data:application/yaml;base64,{b64encode(plan.file.encode()).decode()}"
    file, which = ("plan.yaml", "") if alone else (f"plan-{name.lower()}.yaml", f"<b>{escape(name)}.</b> ")
    return (
        f"<p>{which}The workbench opens this file; <code>explorer simulate</code> and <code>explorer export"
        f'</code> take it. <a download="{file}" href="{link}">Download {file}</a></p>'
        + _folded("Show the plan", f'<pre tabindex="0">{escape(plan.file)}</pre>')
        + _folded(
            "The plan as a text, to paste", f'<pre class="r-text" tabindex="0">{escape(plan.text)}</pre>'
        )
    )


def _sources(point: Point) -> str:
    cluster = point.scene.cluster
    groups: list[tuple[str, Iterable[Source]]] = [(cluster.name, cluster.sources)]
    groups += [(kind.name, kind.sources) for kind in cluster.device_kinds]
    groups += [
        (f"{kind.software.framework} on {kind.name}", kind.software.sources)
        for kind in cluster.device_kinds
        if kind.software.sources
    ]
    groups += [(level.name, level.sources) for level in cluster.levels]
    rows = [
        (
            escape(name),
            escape("all else" if source.key == "*" else source.key),
            escape(source.how),
            f"± {source.band:.0%}" if source.band else "",
            escape(source.reference),
        )
        for name, sources in groups
        for source in sources
    ]
    plan = point.plan()
    made = (
        f"<p>Model <code>{escape(plan.models[0][1].reference)}</code>, fingerprint "
        f"<code>{escape(plan.models[0][1].fingerprint)}</code>; cluster profile "
        f"<code>{escape(plan.cluster.reference)}</code>, fingerprint <code>{escape(plan.cluster.fingerprint)}"
        f"</code>; plan made by {escape(plan.provenance.searcher or 'hand')}. All figures are predictions "
        f"from these numbers; the report's pass was <code>{escape(point.report.pass_name)}</code>.</p>"
    )
    if not rows:
        return made + "<p>The profile states no sources.</p>"
    head = ("of", "number", "known how", "band", "from")
    return f'{made}<div class="r-stack">{_wide(table(head, rows, text=5), column=5)}</div>'
