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


class OtherLane(Strict):
    """Plan B's lane beside one of A."""

    forward_s: float
    backward_s: float
    peak_bytes: float
    runs: list[tuple[int, int]]


class Estimate(Strict):
    """What a preview of the tiles is added up from."""

    step_s: float
    samples: float
    tokens_per_sample: float
    microbatches: float
    mfu: float | None
    bubble: NotRequired[float]
    busy_s: dict[str, float]


class Lane(Strict):
    """One row of the board."""

    id: str
    name: str
    group: NotRequired[str | None]
    kind: NotRequired[str | None]
    sharing: NotRequired[Literal["even", "speed", "turns"] | None]
    replicas: list[list[int]]
    replica_count: NotRequired[int]
    span: NotRequired[list[int] | None]
    device_count: NotRequired[int]
    runs: list[Run]
    forward_s: float
    backward_s: float
    call_s: NotRequired[float]
    time_factor: NotRequired[float]
    state_factor: NotRequired[float]
    saved_factor: NotRequired[float]
    in_flight: int
    capacity_bytes: float
    fits_bytes: float
    most_bytes: float
    memory: Memory
    peak_bytes: float
    binds: NotRequired[bool]
    replica_link: NotRequired[ReplicaLink | None]
    locked: NotRequired[bool]
    other: NotRequired[OtherLane | None]


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


class IdleKind(Strict):
    """Those of one kind of device."""

    kind: str | None
    devices: list[int]


class Idle(Strict):
    """Devices that no lane has."""

    kinds: list[IdleKind]
    count: int


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
    pinned: NotRequired[list[str]]
    other_name: NotRequired[str | None]
    estimate: NotRequired[Estimate | None]
    idle: NotRequired[Idle]


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
    band_from: NotRequired[str | None]
    narrow: NotRequired[str | None]
    measured: NotRequired[float | None]
    old: NotRequired[bool]
    note: NotRequired[str | None]


class VerdictAction(Strict):
    """A button of the sentence."""

    action: str
    label: str
    suggested: NotRequired[bool]
    enabled: NotRequired[bool]
    title: NotRequired[str | None]


class Verdict(Strict):
    """The sentence."""

    level: Literal["ok", "warn", "bad", "busy", "none"]
    text: str
    note: NotRequired[str | None]
    progress: NotRequired[float | None]
    actions: NotRequired[list[VerdictAction]]


class Reason(Strict):
    """One sentence of "Why", with its button."""

    key: str
    topic: str
    text: str
    action: str | None
    label: str | None
    step_time_s: float | None
    saves_s: float | None
    worth: bool
    old: bool


class Own(Strict):
    """What a measured step changed, or what is wrong with it."""

    text: NotRequired[str]
    band: NotRequired[str]
    lines: NotRequired[list[str]]
    next: NotRequired[str]
    file: NotRequired[str]
    error: NotRequired[str]


class TourButton(Strict):
    """A button of the tour."""

    action: str
    label: str
    suggested: bool


class TourStep(Strict):
    """A step of the tour, or its offer (step 0)."""

    step: int
    of: int
    part: str
    mark: str
    title: str
    text: str
    actions: list[TourButton]


class TilesView(Strict):
    """`Tiles.view`."""

    tiles: list[Tile]
    verdict: NotRequired[Verdict | None]
    pending: NotRequired[bool]
    reasons: NotRequired[list[Reason]]
    reasoning: NotRequired[bool]
    own: NotRequired[Own | None]
    tour: NotRequired[TourStep | None]


class Slider(Strict):
    """One number to vary."""

    key: str
    label: str
    unit: str
    title: str
    now: float
    value: float
    stops: list[float]
    changed: bool
    error: str | None
    typed: str | None


class WhatIfRow(Strict):
    """One figure of the plan and of its variation."""

    key: str
    name: str
    quantity: Literal["seconds", "bytes", "fraction", "per_second", "ratio", "number"]
    unit: NotRequired[str]
    compare: Literal["percent", "points", "difference"]
    now: float
    then: float | None
    level: Literal["warn", "bad"] | None


class WhatIfView(Strict):
    """`WhatIf.view`."""

    sliders: list[Slider]
    rows: list[WhatIfRow]
    verdict: Verdict
    note: str
    actions: list[VerdictAction]


class Option(Strict):
    """One choice of a select."""

    value: str
    label: str
    group: NotRequired[str | None]
    disabled: NotRequired[bool]
    title: NotRequired[str | None]


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
    group: NotRequired[str | None]


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

    name: NotRequired[str]
    fields: list[Field]
    buttons: list[Button]


class TimelineLane(Strict):
    """One row of the timeline."""

    id: str
    name: str
    busy_fraction: NotRequired[float | None]


class PathPart(Strict):
    """Seconds of the critical path of one sort."""

    name: str
    seconds: float


class CriticalView(Strict):
    """The chain that decides the end: positions of its bars and what decided each start."""

    bars: list[int]
    reasons: list[Literal["start", "lane", "channel", "data"]]
    length_s: float
    parts: list[PathPart]


class TimelineView(Strict):
    """`Timeline.view` and `view_b`."""

    name: str
    text: NotRequired[str | None]
    end_s: float
    lanes: list[TimelineLane]
    omitted: NotRequired[str | None]
    critical: NotRequired[CriticalView | None]
    fixed: NotRequired[str | None]
    of_run: NotRequired[bool]


class PartBytes(Strict):
    """One part of a device's memory."""

    name: str
    bytes: float


class HeldRow(Strict):
    """Equal tensors that a device holds."""

    name: str
    part: str
    count: int
    bytes: float


class RestRow(Strict):
    """What is not told one by one."""

    count: int
    bytes: float


class MomentView(Strict):
    """Memory of one device of a lane at a time."""

    lane: int
    name: str
    time_s: float
    capacity_bytes: float
    parts: list[PartBytes]
    tensors: list[HeldRow]
    rest: RestRow | None


class AreaRow(Strict):
    """Sums of one lane, of one of its devices (bytes: of all), or of all devices together."""

    name: str
    count: int
    busy_s: list[float]
    computing_s: float
    inside_s: float
    bubble_s: float
    bytes: list[float]


class AreaPlan(Strict):
    """Sums of one plan between two times."""

    name: str
    length_s: float
    busy: list[str]
    moved: list[str]
    lanes: list[AreaRow]
    all: AreaRow


class Row(Strict):
    """A device, or several folded."""

    name: str
    lane: NotRequired[str | None]
    count: NotRequired[int]


class Peak(Strict):
    """Where memory is fullest."""

    row: int
    time_s: float
    bytes: float


class MemoryParts(Strict):
    """Bytes at the peak, by row and part."""

    names: list[str]
    bytes: list[list[float]]
    capacity_bytes: list[float]


class LinkRow(Strict):
    """A link, or several folded and told by the busiest."""

    name: str
    kind: str
    lane: NotRequired[str | None]
    count: NotRequired[int]
    bytes_per_s: float
    step_bytes: float
    share: float


class LinksView(Strict):
    """`Timeline.links`, and the second picture of traffic."""

    rows: list[LinkRow]
    columns: int
    start_s: float
    end_s: float
    folded: NotRequired[str | None]
    text: NotRequired[str | None]


class MemoryView(Strict):
    """`Heatmap.view` of memory."""

    kind: Literal["memory"]
    title: NotRequired[str]
    name: NotRequired[str]
    folded: NotRequired[str | None]
    rows: list[Row]
    columns: int
    start_s: float
    end_s: float
    capacity_bytes: float
    peak: NotRequired[Peak | None]
    parts: NotRequired[MemoryParts | None]


class TrafficView(Strict):
    """`Heatmap.view` of traffic."""

    kind: Literal["traffic"]
    title: NotRequired[str]
    name: NotRequired[str]
    folded: NotRequired[str | None]
    inside_bytes: NotRequired[float | None]
    links: NotRequired[LinksView | None]
    rows: list[Row]
    pairs: list[tuple[int, int, float]] | list[list[float]]


class Node(Strict):
    """A closed part of the model, or the frame of an open one."""

    id: str
    label: str
    name: str
    kind: str
    parent: str | None
    open: bool
    opens: list[str]
    repeat: str | None
    unfolded: bool
    count: int
    ranges: list[list[int]]
    text: str | None
    lanes: list[tuple[str, int]] | list[list[str | int]]
    stages: list[int]
    other_lanes: NotRequired[list[tuple[str, int]] | list[list[str | int]]]
    other_stages: NotRequired[list[int]]
    moved: NotRequired[int]
    own_layouts: NotRequired[int]
    own_keeping: NotRequired[str]
    forward_s: float
    backward_s: float
    memory_bytes: float
    saved_bytes: float
    traffic_bytes: float
    parameters: int
    flops: float
    error: float | None


class GraphViewShape(Strict):
    """`GraphView.view`."""

    nodes: list[Node]
    edges: list[tuple[str, str, int]] | list[list[str | int]]
    opened: list[str]
    no_errors: str | None
    other_name: str | None
    omitted: str | None


class CardOutcome(Strict):
    """What a strategy comes to."""

    step_s: float
    peak_bytes: float
    over_bytes: float


class CardNow(Strict):
    """The strategy shown, for either part of a card."""

    layout: CardOutcome
    memory: CardOutcome


class LayoutRow(Strict):
    """One way to lay a layer out."""

    kind: Literal["layout"]
    key: str
    words: str
    present: bool
    usual: bool
    problem: str | None
    work_s: float | None
    collectives_s: float | None
    state_bytes: float | None
    saved_bytes: float | None
    outcome: CardOutcome | None


class MemoryRow(Strict):
    """One choice of what is kept of layers or stages."""

    kind: Literal["memory"]
    key: str
    words: str
    one_of: bool
    present: bool
    some: bool
    problem: str | None
    outcome: CardOutcome | None


class LayerCardView(Strict):
    """`GraphView.card`."""

    layer: str
    whole: bool
    title: str
    where: str
    stage: int
    alike: int
    all_alike: bool
    kept_for: Literal["layer", "alike", "block", "stage", "stages"]
    scopes: list[tuple[str, str]]
    now: CardNow
    layouts: list[LayoutRow]
    no_layouts: str | None
    memory: list[MemoryRow]
    waits: NotRequired[bool]


class GraphIndex(Strict):
    """`GraphView.index`."""

    layers: list[str]
    blocks: list[tuple[str, int, int]] | list[list[str | int]]


class ExportTarget(Strict):
    """One target: how much of the plan it changes or refuses."""

    name: str
    title: str
    notes: int
    refused: int


class ExportFile(Strict):
    """One file; the first `shown` characters of `text` are previewed."""

    name: str
    text: str
    shown: int
    omitted: str | None
    bytes: int


class Refusal(Strict):
    """What a target cannot express, and the way out."""

    what: str
    way_out: str | None


class Back(Strict):
    """Whether the files were read back as the same; None where they cannot be read."""

    ok: bool | None
    text: str


class Answer(Strict):
    """What a target makes of a feature."""

    answer: Literal["yes", "note", "no"]
    how: str


class CapabilityRow(Strict):
    """A feature that the plan uses, and what each target makes of it."""

    feature: str
    where: str
    answers: dict[str, Answer]


class AnswerRow(Strict):
    """What the target shown makes of a feature; `price` once it is simulated."""

    feature: str
    where: str
    answer: Literal["exact", "approximate", "refused"]
    how: str
    price: str | None


class NearestPlan(Strict):
    """The nearest plan that the target can run."""

    state: Literal["counting", "found", "none"]
    text: str
    changes: list[str]


class ChangeRow(Strict):
    """A setting or some lines that differ; None where there is none."""

    key: str
    before: str | None
    after: str | None


class ChangedFile(Strict):
    """The part of a file that changed: what to copy, and how many lines went."""

    name: str
    text: str
    lines: int
    gone: int


class Changes(Strict):
    """What differs from an earlier plan, or why it cannot be said."""

    against: str
    rows: list[ChangeRow]
    more: int
    files: list[ChangedFile]
    problem: str | None


class ExportViewShape(Strict):
    """`ExportView.view`."""

    state: Literal["ready", "refused"]
    pending: bool
    plan: str
    targets: list[ExportTarget]
    target: str
    files: list[ExportFile]
    notes: list[str]
    refusals: list[Refusal]
    back: Back | None
    can_check: bool
    capabilities: list[CapabilityRow]
    documentation: str
    answers: list[AnswerRow]
    nearest: NearestPlan | None
    changes: Changes | None


class RankRow(Strict):
    """What one rank does now."""

    rank: int
    state: Literal["starting", "computing", "waiting", "done", "failed"]
    doing: str
    round: str
    step_s: float | None
    memory_bytes: int | None
    at_s: float | None
    of_s: float | None


class Contention(Strict):
    """How much of a core the ranks get."""

    share: float
    level: Literal["ok", "warn"]
    text: str


class Progress(Strict):
    """A run under way."""

    share: float
    elapsed_s: float
    left_s: float
    phase: str
    said: str
    other: str | None
    ranks: list[RankRow]
    contention: Contention | None


class Failure(Strict):
    """Why a run failed."""

    rank: int | None
    text: str
    log: str
    fix: str
    action: str | None
    label: str | None


class RunPart(Strict):
    """A part of a step, predicted and measured."""

    name: str
    predicted: float | None
    measured: float | None
    error: float | None
    quantity: Literal["seconds", "ratio", "bytes"]
    strong: bool
    level: Literal["warn"] | None


class StageError(Strict):
    """Compute of a stage."""

    name: str
    predicted_s: float
    measured_s: float
    error: float | None


class ActionRow(Strict):
    """An action of a stage; the profile says nothing where it is None."""

    stage: str
    name: str
    action: str
    count: int
    predicted_s: float
    measured_s: float
    error: float | None
    profile_s: float | None
    profile_error: float | None


class Check(Strict):
    """Something that was checked; None where it was not."""

    ok: bool | None
    text: str


class EngineRow(Strict):
    """The same steps on one engine."""

    name: str
    step_s: float
    gradient: float | None


class ShortenedRow(Strict):
    """What ran less of than the plan has."""

    what: str
    plan: str
    here: str


class RunVerdict(Strict):
    """What a run says of the prediction."""

    level: Literal["ok", "warn", "bad"]
    text: str


class RunResultView(Strict):
    """The last run that ended."""

    about: str
    old: str | None
    errors: bool
    verdict: RunVerdict
    part: str
    rows: list[RunPart]
    stages: list[StageError]
    actions: list[ActionRow]
    layers: list[StageError]
    engines: list[EngineRow]
    checks: list[Check]
    shortened: list[ShortenedRow]
    validated: list[str]
    not_validated: list[str]
    more: str


class CorrectionRow(Strict):
    """A number that calibrating would change."""

    what: str
    before: float
    after: float
    quantity: Literal["bytes_per_s", "seconds", "fraction"]
    band: NotRequired[float | None]


class CalibrationView(Strict):
    """What calibrating would do."""

    possible: bool
    text: str
    changes: list[CorrectionRow]
    kept: list[str]
    step_s: float | None
    now_s: float | None


class RunViewShape(Strict):
    """`RunView.view`."""

    state: Literal["none", "running", "done", "stopped", "failed"]
    intro: list[str]
    stand_ins: str | None
    note: str
    progress: Progress | None
    failure: Failure | None
    result: RunResultView | None
    calibration: CalibrationView | None


class LeaderRow(Strict):
    """A searcher of the leaderboard, or the strategy on the board."""

    id: str
    searcher: str
    space: str
    label: str
    detail: str
    value: float | None
    step_s: float | None
    peak_bytes: float | None
    change: float | None
    gap: float | None
    answer: str
    wall_s: float | None
    evaluations: int
    level: Literal["busy", "bad"] | None
    loadable: bool
    note: str
    on_board: bool


class FrontierPoint(Strict):
    """A strategy that no other found is as good as along all axes."""

    id: str
    searchers: list[str]
    label: str
    detail: str
    values: list[float]
    step_s: float
    peak_bytes: float
    may_fit: bool


class FrontierAxis(Strict):
    """An axis of the frontier, and how much one of its unit is."""

    name: str
    title: str
    unit: str
    one: float


class ObjectiveColumn(Strict):
    """The column of an objective that has none of its own."""

    name: str
    unit: str


class StepBound(Strict):
    """No strategy is faster."""

    value_s: float
    name: str


class LeaderboardView(Strict):
    """`Leaderboard.view`."""

    state: Literal["empty", "searching", "done"]
    text: str
    said: str | None
    objective: ObjectiveColumn | None
    bound: StepBound | None
    rows: list[LeaderRow]
    axes: list[FrontierAxis]
    points: list[FrontierPoint]
    points_omitted: int


class StateRow(TypedDict):
    """One state of the history; see PROTOCOL.md, States."""

    number: int
    note: str
    maker: str
    step_time_s: float
    change: float | None
    peak_fraction: float
    over_bytes: float
    time: str
    shown: bool
    is_b: bool


class StatesFile(TypedDict):
    """The field that opens a file."""

    value: str
    error: str | None


class SharedText(TypedDict):
    """The plan shown, as a text."""

    text: str
    note: str
    number: int


class StatesView(TypedDict):
    """`States.view`."""

    rows: list[StateRow]
    file: StatesFile
    shared: SharedText | None
    offer: str | None
    saved: str
    remarks: list[str]
    problem: str | None
    ready: bool
