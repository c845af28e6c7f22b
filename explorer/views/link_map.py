"""Links over time: the share of every link's capacity that one step uses, in slices of time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from explorer.cluster import Cluster
from explorer.explain.names import link_words
from explorer.pricing.link_occupancy import LinkUse, link_use
from explorer.simulation.report import Report
from explorer.tasks.rounds import latest_update
from explorer.views.scene import MOST_ROWS, Scene

COLUMNS = 480
"""Number of slices of time."""
_PAIR, _BUS = 98, 99
"""Pseudo-levels behind all real ones: a pair's own links, and named resources."""


class _End(NamedTuple):
    """The place where a link is attached."""

    level: int
    """Level of the link, `_PAIR` or `_BUS`."""
    unit: int
    """Number of its device or node; for a pair the sender's."""
    way: int
    """Direction: 0 out, 1 in."""
    name: str
    """Readable name."""
    device: int | None
    """Device whose port it is."""
    node: int | None
    """Node it belongs to."""
    kind: str
    """Kind of link."""


def links_view(scene: Scene, *, columns: int = COLUMNS) -> tuple[dict[str, Any], bytes]:
    """Return the links that carry something, and the share of each that is used (rows x columns float32).

    Above 64 links they are folded by node, then by runs of nodes; a row then shows its busiest link.
    """
    return scene.memo(f"links in {columns} columns", lambda: _make(scene, columns))


def _make(scene: Scene, columns: int) -> tuple[dict[str, Any], bytes]:
    report = scene.report
    use, end_s = report_links(report), _end_s(report)
    shares = use.shares(columns, end_s)
    carried = use.carried_bytes()
    used = np.flatnonzero(carried > 0).tolist()
    ends = {i: _end_of(scene.cluster, use.names[i]) for i in used}
    used.sort(key=lambda i: ends[i][:4])
    groups = _grouped([(i, ends[i]) for i in used])
    lanes = scene.lane_of_device
    rows, cells = [], []
    for name, members in groups:
        busiest = max(members, key=lambda i: float(shares[i].mean()))
        device = ends[busiest].device
        rows.append(
            {
                "name": name,
                "kind": ends[busiest].kind,
                "lane": str(lanes[device]) if len(members) == 1 and device in lanes else None,
                "count": len(members),
                "bytes_per_s": float(use.capacity[busiest]),
                "step_bytes": float(carried[busiest]),
                "share": float(shares[busiest].mean()),
            }
        )
        cells.append(shares[members].max(axis=0))
    return {
        "rows": rows,
        "columns": columns,
        "start_s": 0.0,
        "end_s": end_s,
        "folded": "the busiest link of each" if any(len(members) > 1 for _, members in groups) else None,
        "text": _note(report),
    }, np.array(cells, dtype="<f4").reshape(len(rows), columns).tobytes()


def report_links(report: Report) -> LinkUse:
    """Return how the steps that the timeline shows use every link."""
    line = report.timeline
    return link_use(line.program, line.prices, line.timing, shown_steps(report))


def shown_steps(report: Report) -> int:
    """Return the number of steps drawn: one, or two if steps overlap."""
    program = report.timeline.program
    return 1 if program.order.flush and not latest_update(program.skeleton) else 2


def _end_s(report: Report) -> float:
    """Return the end of the last task drawn."""
    program, timing = report.timeline.program, report.timeline.timing
    shown = (program.step < shown_steps(report)) & (program.lane >= 0)
    return float(timing.end_s[shown].max(initial=0.0))


def _note(report: Report) -> str | None:
    folded = any(len(own) > len(all_) for own, all_ in zip(report.lane_devices, report.lanes, strict=True))
    return "equal replicas have equal links: those of the first are shown" if folded else None


def _end_of(cluster: Cluster, name: str) -> _End:
    """Read a link's place from its name (see `Cluster.path` and `explorer.pricing.link_occupancy`)."""
    level_name, _, rest = name.partition(":")
    way, _, unit = rest.partition(":")
    if level_name == "pair" and way.isdigit():
        kind = cluster.path(int(way), int(unit)).kind
        sender, name = int(way), f"gpu {way} → gpu {unit}"
        return _End(_PAIR, sender, int(unit), name, sender, cluster.node_of(sender), kind)
    for depth, level in enumerate(cluster.levels):
        if level.name != level_name or way not in ("out", "in"):
            continue
        number = int(unit.removeprefix("group"))
        if unit.startswith("group"):
            whole_node = cluster.levels[depth - 1].scope == "node"
            label, node = f"{'node' if whole_node else 'group'} {number}", number if whole_node else None
            device = None
        else:
            label, node, device = f"gpu {number}", cluster.node_of(number), number
        switch = link_words(level.name)
        shown = f"{label} → {switch}" if way == "out" else f"{switch} → {label}"
        return _End(depth, number, int(way == "in"), shown, device, node, level.kind)
    return _End(_BUS, 0, 0, name, None, None, "shared")


def _grouped(links: list[tuple[int, _End]]) -> list[tuple[str, list[int]]]:
    """Return (name, links) of every row: single links, or if they are too many, those of whole nodes."""
    if len(links) <= MOST_ROWS:
        return [(end.name, [i]) for i, end in links]
    nodes = sorted({end.node for _, end in links if end.node is not None})
    kinds = len({(end.level, end.way) for _, end in links})
    size = max(1, -(-len(nodes) * kinds // MOST_ROWS))
    run_of = {node: k // size for k, node in enumerate(nodes)}
    found: dict[tuple[int, int, int], list[tuple[int, _End]]] = {}
    for i, end in links:
        run = run_of[end.node] if end.node is not None else -1 - end.unit // size
        way = end.way if end.level < _PAIR else 0
        found.setdefault((end.level, run, way), []).append((i, end))
    return [(_run_name(members), [i for i, _ in members]) for members in found.values()]


def _run_name(members: list[tuple[int, _End]]) -> str:
    ends = [end for _, end in members]
    if len(ends) == 1:
        return ends[0].name
    nodes = sorted({end.node for end in ends if end.node is not None})
    if not nodes:
        return f"{ends[0].name} … {ends[-1].name}"
    own = f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {nodes[0]}–{nodes[-1]}"
    if ends[0].device is not None and ends[0].level < _PAIR:
        own += ", gpus"
    if ends[0].level >= _PAIR:
        return f"{own}, gpu to gpu"
    level = ends[0].name.split(" → ")[1 - ends[0].way]
    return f"{own} → {level}" if ends[0].way == 0 else f"{level} → {own}"
