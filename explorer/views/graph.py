"""The layer graph: modules by path, repeats folded, open modules expanded; only what is shown is listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.explain.names import counted
from explorer.graph import LayerGraph
from explorer.passes.timing import FloatArray
from explorer.strategies.exceptions import named_layout
from explorer.strategies.keeping import Kept, exceptions_of, kept_words
from explorer.views.blocks import STATES, block_ranges, layer_costs
from explorer.views.graph_open import ALL, Shown, canonical, default_opened, shown_parts
from explorer.views.graph_tree import layer_pairs, module_tree
from explorer.views.scene import Scene

IntArray = NDArray[np.intp]
Opened = Iterable[str] | str | None

SUMS = ("forward_s", "backward_s", "memory_bytes", "saved_bytes", "parameters", "flops")
"""Sums that a node shows of its layers."""
NO_RUN = "no run yet"
"""Reason why no error can be shown, unless the caller knows better."""


def graph_view(
    scene: Scene,
    *,
    opened: Opened = None,
    errors: Mapping[str, float] | None = None,
    no_errors: str = NO_RUN,
    other: Scene | None = None,
    other_name: str | None = None,
) -> dict[str, Any]:
    """Return `GraphView.view`.

    Args:
        scene: the plan to show.
        opened: ids of open modules, unfolded repeats, or layers to open the way to (one, several, none);
            unknown ids are ignored. The parts that are actually open are returned as `opened`.
        errors: relative error of the prediction, by layer, from a run: predicted over measured, minus 1.
        no_errors: reason why there are none.
        other: the plan to compare with, of the same model.
        other_name: name of that plan.
    """
    tree = module_tree(scene.graph)
    wanted = canonical(tree, [opened] if isinstance(opened, str) else opened or ())
    shown, refused = shown_parts(tree, wanted)
    owner = np.full(len(scene.graph.layers), -1, dtype=np.intp)
    for i, item in enumerate(shown):
        if not item.open:
            owner[list(item.part.layers)] = i
    where = _Where(scene, other if other is not None and other.graph is scene.graph else None)
    sums, sent = _sums(scene), _sent(scene, shown, owner)
    told = _errors(scene, errors)
    return {
        "nodes": [_node(scene, item, sums, sent[i], where, told) for i, item in enumerate(shown)],
        "edges": _edges(scene, shown, owner),
        "opened": wanted,
        "no_errors": None if errors else no_errors,
        "other_name": other_name if where.other else None,
        "omitted": f"{refused} open parts stay closed: more would not be drawn" if refused else None,
    }


def first_opened(graph: LayerGraph) -> list[str]:
    """Return the parts open before anybody chooses: as many as can be taken in at once."""
    return default_opened(graph)


def still_open(graph: LayerGraph, opened: Iterable[str]) -> list[str]:
    """Keep the ids that are parts of this model, so they stay open when the model changes."""
    return canonical(module_tree(graph), opened)


def one_step(view: Mapping[str, Any]) -> list[list[str]]:
    """List every set of open parts one gesture in the page leads to: open, close, unfold or fold a node.

    A page that nobody answers, as in a report, can only ask for these views next.
    """
    opened: list[str] = list(view["opened"])
    parent = {node["id"]: node["parent"] for node in view["nodes"]}
    found: dict[tuple[str, ...], None] = {}
    for node in view["nodes"]:
        if node["open"]:
            inside = {key for key in opened if node["id"] in _up(parent, key)}
            found.setdefault(tuple(key for key in opened if key not in inside))
        elif node["opens"]:
            found.setdefault((*opened, node["opens"][0]))
            found.setdefault((*opened, node["opens"][0] + ALL))
        if node["repeat"] and node["unfolded"]:
            found.setdefault(tuple(key for key in opened if key != node["repeat"]))
        elif node["repeat"]:
            found.setdefault((*opened, node["repeat"]))
    return [list(key) for key in found]


def _up(parent: Mapping[str, str | None], key: str) -> Iterable[str]:
    up: str | None = key
    while up is not None:
        yield up
        up = parent.get(up)


def graph_index(graph: LayerGraph) -> dict[str, Any]:
    """Return `GraphView.index`: names to search, and the positions that a block's id stands for."""
    return graph.memo(
        "views.graph_index",
        lambda: {
            "layers": [layer.name for layer in graph.layers],
            "blocks": [[key, first, end - first] for key, first, end in block_ranges(graph)],
        },
    )


# ---- sums ----------------------------------------------------------------------------------------


def _sums(scene: Scene) -> FloatArray:
    """Sum `SUMS` per layer, microbatch and device, shape (`SUMS`, layers); FLOPs are the whole layer's."""
    costs = layer_costs(scene)
    stage = scene.strategy.stages[0]
    replicas = 1 if stage.replicas == "round_robin" else stage.meshes[0].replicas
    flops = scene.graph.memo(
        "views.flops", lambda: np.array([layer.forward.flops * layer.trips for layer in scene.graph.layers])
    )
    memory = sum((costs.memory[key] for key in STATES), start=np.zeros(len(flops)))
    return np.stack(
        [
            costs.forward_s,
            costs.backward_s,
            memory,
            costs.memory["saved_bytes"],
            costs.parameters,
            flops * (stage.microbatch_samples / replicas),
        ]
    )


def _sent(scene: Scene, shown: Sequence[Shown], owner: IntArray) -> list[float]:
    """Sum the bytes that layers of each node write for layers outside it, one microbatch."""
    output = layer_costs(scene).output_bytes
    source, target = _ends(scene.graph)
    result = []
    for i, item in enumerate(shown):
        if item.open:
            inside = np.zeros(len(owner), dtype=bool)
            inside[list(item.part.layers)] = True
        else:
            inside = owner == i
        leaving = np.unique(source[inside[source] & ~inside[target]])
        result.append(float(output[leaving].sum()))
    return result


def _errors(scene: Scene, errors: Mapping[str, float] | None) -> FloatArray | None:
    if not errors:
        return None
    return np.array([errors.get(layer.name, np.nan) for layer in scene.graph.layers])


def _mean_error(told: FloatArray | None, sums: FloatArray, own: list[int]) -> float | None:
    """Average the errors of a node's layers, weighted with their time; None if nothing is known."""
    if told is None:
        return None
    known = [i for i in own if np.isfinite(told[i])]
    if not known:
        return None
    weight = sums[0, known] + sums[1, known]
    total = weight.sum()
    return float((told[known] * weight).sum() / total) if total > 0 else float(told[known].mean())


# ---- where ---------------------------------------------------------------------------------------


class _Where:
    """Lanes and stages of every layer, in this plan and the one compared with."""

    def __init__(self, scene: Scene, other: Scene | None) -> None:
        self.lane, self.stage = scene.lane_of_layer, _stages(scene)
        self.other = other is not None
        self.other_lane: dict[str, str] = {}
        self.other_stage: dict[str, int] = {}
        if other is not None:
            same = _same_lanes(scene, other)
            self.other_lane = {name: same.get(lane, lane) for name, lane in other.lane_of_layer.items()}
            self.other_stage = _stages(other)

    def of(self, names: list[str]) -> dict[str, Any]:
        """Return the keys of a node."""
        found: dict[str, Any] = {
            "lanes": _counts(self.lane, names),
            "stages": sorted({self.stage[name] for name in names if name in self.stage}),
        }
        if self.other:
            found["other_lanes"] = _counts(self.other_lane, names)
            found["other_stages"] = sorted(
                {self.other_stage[name] for name in names if name in self.other_stage}
            )
            found["moved"] = sum(self.lane.get(name) != self.other_lane.get(name) for name in names)
        return found


def _counts(lane: Mapping[str, str], names: list[str]) -> list[list[Any]]:
    return [[key, count] for key, count in Counter(lane[n] for n in names if n in lane).items()]


def _stages(scene: Scene) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, stage in enumerate(scene.strategy.stages):
        for name in stage.all_layers:
            found.setdefault(name, number)
    return found


def _same_lanes(scene: Scene, other: Scene) -> dict[str, str]:
    """Map board lanes of the other plan to lanes of this one with the same devices."""
    here = {frozenset(devices): str(i) for i, devices in enumerate(scene.group_devices)}
    return {
        str(i): here[frozenset(devices)]
        for i, devices in enumerate(other.group_devices)
        if frozenset(devices) in here
    }


# ---- nodes and edges -----------------------------------------------------------------------------


def _node(
    scene: Scene, item: Shown, sums: FloatArray, sent: float, where: _Where, told: FloatArray | None
) -> dict[str, Any]:
    part, graph = item.part, scene.graph
    own = list(part.layers)
    total = dict(zip(SUMS, sums[:, own].sum(axis=1).tolist(), strict=True))
    single = len(own) == 1
    return {
        "id": part.id,
        "label": part.label,
        "name": part.name,
        "kind": graph.layers[own[0]].kind if single else part.kind,
        "parent": item.parent,
        "open": item.open,
        "opens": [child.id for child in part.children if child.children]
        if part.kind == "repeat"
        else [part.id]
        if part.children
        else [],
        "repeat": item.repeat,
        "unfolded": item.unfolded,
        "count": len(part.children) if part.kind == "repeat" else 1,
        "ranges": _ranges(own),
        "text": _text(graph, own[0]) if single else None,
        **total,
        "parameters": round(total["parameters"]),
        "traffic_bytes": sent,
        "error": _mean_error(told, sums, own),
        **where.of([graph.layers[i].name for i in own]),
        **({"own_layouts": count} if (count := sum(i in _own_layouts(scene) for i in own)) else {}),
        **_own_keeping(scene, own),
    }


def _own_keeping(scene: Scene, own: Sequence[int]) -> dict[str, str]:
    """Say which of some layers are kept otherwise than their stage keeps the rest; {} if none is."""

    def make() -> dict[int, Kept]:
        stages = scene.strategy.stages
        return {scene.graph.index[n]: kept for stage in stages for n, kept in exceptions_of(stage).items()}

    found: dict[int, Kept] = scene.memo("graph.own keeping", make)
    counts = Counter(found[i] for i in own if i in found)
    if not counts:
        return {}
    alone = len(counts) == 1 and sum(counts.values()) == len(own)
    texts = [
        kept_words(kept) if alone else f"{counted(n, 'layer')} {kept_words(kept)}"
        for kept, n in counts.items()
    ]
    return {"own_keeping": "; ".join(texts)}


def _own_layouts(scene: Scene) -> frozenset[int]:
    """Return the positions of the layers that have a layout of their own, by name."""

    def make() -> frozenset[int]:
        stages = [stage for stage in scene.strategy.stages if stage.shardings]
        return frozenset(
            scene.graph.index[name]
            for stage in stages
            for name in stage.all_layers
            if named_layout(stage, name) is not None
        )

    found: frozenset[int] = scene.memo("graph.own layouts", make)
    return found


def _ranges(positions: Sequence[int]) -> list[list[int]]:
    """Return consecutive positions as [first, count]."""
    found: list[list[int]] = []
    for i in positions:
        if found and found[-1][0] + found[-1][1] == i:
            found[-1][1] += 1
        else:
            found.append([i, 1])
    return found


def _ends(graph: LayerGraph) -> tuple[IntArray, IntArray]:
    def make() -> tuple[IntArray, IntArray]:
        pairs = np.array(layer_pairs(graph), dtype=np.intp).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    return graph.memo("views.graph_ends", make)


def _edges(scene: Scene, shown: Sequence[Shown], owner: IntArray) -> list[list[Any]]:
    """Return edges as [from, to, how many], each within one level; a frame as an end means its border.

    An edge from deep inside one frame to deep inside another is drawn level by level: to the border, from
    frame to frame, in from the border. Edges between the same two nodes are thus one.
    """
    source, target = _ends(scene.graph)
    codes, counts = np.unique(owner[source] * len(shown) + owner[target], return_counts=True)
    frame = {item.part.id: item for item in shown if item.open}
    chains = [_chain(item, frame) for item in shown]
    found: Counter[tuple[str, str]] = Counter()
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        a, b = divmod(code, len(shown))
        if a != b:
            for step in _steps(chains[a], chains[b]):
                found[step] += count
    return [[a, b, count] for (a, b), count in found.items()]


def _chain(item: Shown, frame: Mapping[str, Shown]) -> list[str]:
    """Return the ids from the root's level down to the node."""
    found = [item.part.id]
    up = item.parent
    while up is not None:
        found.append(up)
        up = frame[up].parent
    return found[::-1]


def _steps(a: list[str], b: list[str]) -> list[tuple[str, str]]:
    """Split the edge between two nodes into steps, level by level."""
    level = next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    out = [(a[i], a[i - 1]) for i in range(len(a) - 1, level, -1)]
    into = [(b[i], b[i + 1]) for i in range(level, len(b) - 1)]
    return [*out, (a[level], b[level]), *into]


def _text(graph: LayerGraph, position: int) -> str | None:
    """Return the shape of the first parameter, else of the output without its sequence."""
    layer = graph.layers[position]
    if layer.parameters:
        parameter = graph.parameter[layer.parameters[0].name]
        shape, dtype = parameter.shape, parameter.dtype
    elif layer.writes:
        tensor = graph.tensor[layer.writes[0].name]
        shape, dtype = tensor.shape, tensor.dtype
    else:
        return None
    if dtype == "byte":  # sources that know only bytes
        return None
    return " × ".join(f"{size:.12g}" for size in shape) or None
