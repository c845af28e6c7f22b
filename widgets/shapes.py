"""The shapes of PROTOCOL.md as types: `pydantic.TypeAdapter(BoardView).validate_python(view)` checks one."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12


class Strict(TypedDict):
    """Refuses unknown keys."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic reads it off the class


class Layer(Strict):
    """One layer's additive costs per microbatch and device."""

    id: str
    label: str
    kind: NotRequired[str | None]
    part: NotRequired[str | None]
    forward_s: float
    backward_s: float
    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    saved_bytes: float
    output_bytes: NotRequired[float | None]
    parameters: NotRequired[int | None]


class Block(Strict):
    """A chip: a repeated group of layers, or one layer."""

    id: str
    label: str
    name: str
    kind: str
    layers: list[Layer]


class Run(Strict):
    """Consecutive layers of one stage on one lane."""

    stage: int
    copy: NotRequired[int]
    first: int
    count: int
    first_share: NotRequired[float | None]
    last_share: NotRequired[float | None]
    note: NotRequired[str | None]


class Memory(Strict):
    """Bytes by part at the peak."""

    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    activation_bytes: float
    buffer_bytes: float
    other_bytes: NotRequired[float]


LinkKind = Literal["nvlink", "nvswitch", "pcie", "infiniband", "ethernet", "internet", "shared", "host"]


class ReplicaLink(Strict):
    """Gradient reduction between replicas."""

    kind: LinkKind
    name: NotRequired[str | None]
    step_bytes: float | None


class Lane(Strict):
    """One row of the board."""

    id: str
    name: str
    group: NotRequired[str | None]
    replicas: list[list[int]]
    runs: list[Run]
    forward_s: float
    backward_s: float
    time_factor: NotRequired[float]
    state_factor: NotRequired[float]
    saved_factor: NotRequired[float]
    in_flight: int
    capacity_bytes: float
    memory: Memory
    peak_bytes: float
    binds: NotRequired[bool]
    replica_link: NotRequired[ReplicaLink | None]


class Boundary(Strict):
    """The cut between two stages."""

    id: str
    before: int
    after: int
    before_lane: str
    after_lane: str
    at: int
    minimum: int
    maximum: int


class Link(Strict):
    """Transfers between two lanes."""

    from_lane: str
    to_lane: str
    kind: LinkKind
    name: NotRequired[str | None]
    dashed: NotRequired[bool]
    forward_bytes: NotRequired[float | None]
    backward_bytes: NotRequired[float | None]
    transfer_s: NotRequired[float | None]
    step_bytes: float | None


class BoardView(Strict):
    """`Board.view`."""

    lanes: list[Lane]
    boundaries: list[Boundary]
    links: list[Link]
    ideal_s: float
    scale_key: NotRequired[str]
    can_undo: NotRequired[bool]
    can_redo: NotRequired[bool]
    editable: NotRequired[bool]
    baseline_name: NotRequired[str | None]


class Tile(Strict):
    """One figure."""

    key: str
    name: str
    quantity: Literal["seconds", "bytes", "fraction", "per_second", "ratio", "number"]
    value: float | None
    unit: NotRequired[str | None]
    context: NotRequired[str | None]
    level: NotRequired[Literal["warn", "bad"] | None]
    baseline: NotRequired[float | None]
    baseline_name: NotRequired[str | None]
    compare: NotRequired[Literal["percent", "points", "difference"]]
    low: NotRequired[float | None]
    high: NotRequired[float | None]
    measured: NotRequired[float | None]
    old: NotRequired[bool]


class VerdictAction(Strict):
    """A button of the sentence."""

    action: str
    label: str
    suggested: NotRequired[bool]
    title: NotRequired[str | None]


class Verdict(Strict):
    """The sentence."""

    level: Literal["ok", "warn", "bad", "busy", "none"]
    text: str
    note: NotRequired[str | None]
    progress: NotRequired[float | None]
    actions: NotRequired[list[VerdictAction]]


class TilesView(Strict):
    """`Tiles.view`."""

    tiles: list[Tile]
    verdict: NotRequired[Verdict | None]
    pending: NotRequired[bool]


class Option(Strict):
    """One choice of a select."""

    value: str
    label: str


class Field(Strict):
    """One field of the control bar."""

    key: str
    label: str
    kind: Literal["select", "number", "text"]
    value: str | float | None
    options: NotRequired[list[Option]]
    minimum: NotRequired[float | None]
    maximum: NotRequired[float | None]
    step: NotRequired[float | None]
    width_px: NotRequired[int | None]
    error: NotRequired[str | None]
    title: NotRequired[str | None]


class Button(Strict):
    """One button of the control bar."""

    action: str
    label: str
    primary: NotRequired[bool]
    suggested: NotRequired[bool]
    enabled: NotRequired[bool]
    pressed: NotRequired[bool | None]
    title: NotRequired[str | None]


class ControlsView(Strict):
    """`Controls.view`."""

    fields: list[Field]
    buttons: list[Button]


class TimelineLane(Strict):
    """One row of the timeline."""

    id: str
    name: str
    busy_fraction: NotRequired[float | None]
    devices: NotRequired[list[int]]


class TimelineView(Strict):
    """`Timeline.view` and `view_b`."""

    name: str
    text: NotRequired[str | None]
    end_s: float
    lanes: list[TimelineLane]
    omitted: NotRequired[str | None]


class Row(Strict):
    """A device, or several folded."""

    name: str
    lane: NotRequired[str | None]


class Peak(Strict):
    """Where memory is fullest."""

    row: int
    time_s: float
    bytes: float


class MemoryView(Strict):
    """`Heatmap.view` of memory."""

    kind: Literal["memory"]
    title: NotRequired[str]
    rows: list[Row]
    columns: int
    start_s: float
    end_s: float
    capacity_bytes: float
    peak: NotRequired[Peak | None]


class TrafficView(Strict):
    """`Heatmap.view` of traffic."""

    kind: Literal["traffic"]
    title: NotRequired[str]
    rows: list[Row]
    pairs: list[tuple[int, int, float]] | list[list[float]]


class Node(Strict):
    """A block of the graph, or equal neighbours folded."""

    id: str
    label: str
    name: str
    kind: NotRequired[str]
    blocks: list[str]
    lanes: list[tuple[str, int]] | list[list[str | int]]
    forward_s: float | None
    backward_s: float | None
    memory_bytes: float | None
    traffic_bytes: float | None
    parameters: NotRequired[int | None]


class OpenLayer(Strict):
    """A layer of the open block."""

    id: str
    label: str
    part: NotRequired[str | None]
    text: NotRequired[str | None]
    forward_s: float | None
    backward_s: float | None
    memory_bytes: float | None
    traffic_bytes: float | None
    parameters: NotRequired[int | None]
    lane: NotRequired[str | None]


class Open(Strict):
    """The open block."""

    block: str
    layers: list[OpenLayer]
    edges: list[list[str]]


class GraphViewShape(Strict):
    """`GraphView.view`."""

    nodes: list[Node]
    edges: list[list[str]]
    open: NotRequired[Open | None]
