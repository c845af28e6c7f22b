"""Words of the Run tab: what a run would do, how it proceeds, the way out of a failure."""

from __future__ import annotations

from typing import NamedTuple

from explorer.base.units import format_seconds
from explorer.explain.names import counted
from explorer.views.run_view import share_words

from .doing import in_words
from .ended import Done, Ended, SliceDone
from .progress import Progress, round_words
from .slicing import SLICE, SliceProgress
from .task import Failed

_QUIET, _LOW = 0.8, 0.9


class Fix(NamedTuple):
    """A way out of a failure."""

    text: str
    action: str | None = None
    label: str | None = None


_AGAIN = ("run", "Run again")
_DRY = ("run_dry", "Do a dry run instead")
_MEMORY = Fix("Memory ran out. Close other notebooks, or do a dry run, which holds no model.", *_DRY)
_FIXES: tuple[tuple[tuple[str, ...], Fix], ...] = (
    (("No module named 'torch'", "No module named torch"),
     Fix("Runs need torch, which is not installed here: pip install torch, then run again.", *_AGAIN)),
    (("out of memory", "SIGKILL", "can't allocate memory", "Cannot allocate memory"),
     _MEMORY),
    (("stands still", "Timed out", "timed out"),
     Fix("A rank waited too long, most likely because something else was using the processors. Run"
         " again when the machine is less busy.", *_AGAIN)),
    (("did not start", "Address already in use", "EADDRINUSE"),
     Fix("The ranks could not be started. The log says why; often a second try works.", *_AGAIN)),
)  # fmt: skip
_OTHERWISE = Fix("The log says where it happened. A dry run tells whether the order itself runs.", *_DRY)


def fix_for(failed: Failed, engine: str) -> Fix:
    """Return the way out that suits an error; a dry run is never offered as the way out of a dry run."""
    text = f"{failed.text}\n{failed.log}"
    found = next((fix for marks, fix in _FIXES if any(mark in text for mark in marks)), _OTHERWISE)
    if found is _OTHERWISE and engine == SLICE:
        return Fix("One rank alone cannot run this plan here. A dry run takes every plan.", *_DRY)
    if found is _MEMORY and engine == "dry":
        return Fix("Memory ran out. Close other notebooks, then run again.", *_AGAIN)
    if found.action == "run_dry" and engine == "dry":
        return Fix("The log says where it happened.", *_AGAIN)
    return found


def intro(engine: str, expected_s: float, stand_ins: str = "") -> list[str]:
    """Say what a run would do and how long it takes; `stand_ins`: why own layers cannot, if nobody chose."""
    how_long = f"It takes about {format_seconds_roughly(expected_s)}; Stop ends it at any time."
    why = [f"Own layers cannot run here: {stand_ins}."] if stand_ins else []
    return [*_WHAT.get(engine, _OWN_LAYERS), *why, how_long]


def stand_ins_words(reason: str, *, running: bool) -> str | None:
    """Say that stand-ins run or ran where nobody chose them; None without a reason."""
    verb = "run" if running else "ran"
    return f"Small stand-ins {verb}, not the model's own layers: {reason}." if reason else None


_DRY_RUN = (
    (
        "A dry run starts one process for each lane of this plan, sends real messages in the plan's own order"
        " and sleeps in place of computing."
    ),
    (
        "It tells whether the order runs without a deadlock and takes as long as predicted. It tells nothing"
        " about the seconds of compute."
    ),
)
_LIKENESS = (
    (
        "A run trains a small likeness of this plan on the processors of this machine, in turn with a simple"
        " baseline, and times both."
    ),
    (
        "It tells whether the order runs, whether gradients equal those of one process, and how far the"
        " predicted step time and speedup were off, by part. What of the plan it cannot tell is named."
    ),
)
_TORCH = (
    *_LIKENESS,
    (
        "After that the same steps run from the same weights on torch's own pipelining, in the same order:"
        " its seconds and its gradients stand beside ours."
    ),
)
_OWN_LAYERS = (
    (
        "A run trains the model's own layers on the processors of this machine, in the plan's own order and"
        " in turn with a simple baseline. Samples, tokens and blocks are fewer where a step would take too"
        " long; where even the fewest do not fit this machine, small stand-ins run, and it says why."
    ),
    (
        "It tells what a likeness does, of the model itself; what was shortened is a table. With a profile of"
        " this machine (`explorer profile`) the layer graph shows the error of every layer that ran."
    ),
)
_SLICE = (
    (
        "A slice runs the busiest rank of this plan alone on this machine: its own layers at their full size,"
        " in its own order, with made-up messages from its neighbours."
    ),
    (
        "It tells the seconds of each action and layer and the peak of the rank's tensors. Seconds are"
        " compared with a profile of this machine (`explorer profile`), bytes need none."
    ),
)
_WHAT = {"dry": _DRY_RUN, "likeness": _LIKENESS, "torch": _TORCH, SLICE: _SLICE}
"""By kind of run; any other one runs the model's own layers."""
LABELS = {
    "likeness": "likeness: real compute and messages",
    "torch": "likeness, then on torch's own pipelining",
    "layers": "own layers: the model itself, shortened",
    "dry": "dry run: real messages, sleeps in place of compute",
    SLICE: "slice: one rank at its full size, alone",
}
"""Labels of the kinds of run; the name itself labels any other one."""
_KINDS = {"dry": "dry run", "likeness": "likeness", "torch": "likeness"}


def format_seconds_roughly(seconds: float) -> str:
    """Write a duration as in speech.

    >>> [format_seconds_roughly(s) for s in (3.0, 24.1, 58.0, 200.0)]
    ['5 s', '25 s', '1 min', '3 min']
    """
    if seconds > 55:
        return f"{max(1, round(seconds / 60))} min"
    return f"{max(5, round(seconds / 5) * 5)} s"


def title_words(done: Done | SliceDone) -> str:
    """Say which run a result belongs to."""
    what = "processors" if done.device == "cpu" else done.device
    when = f"{format_seconds(done.wall_s)}, at {done.at}"
    if isinstance(done, SliceDone):
        return f"slice: rank {done.check.rank} alone ({what}), {when}"
    found = done.comparison
    rounds = f", {found.rounds} rounds" if found.rounds > 1 else ""
    kind = _KINDS.get(found.engine, "own layers")
    return f"{kind} on {counted(done.ranks, 'rank')} ({what}){rounds}, {when}"


def old_words(done: Ended) -> str:
    """Say that a result belongs to something other than the state shown."""
    own = done.inputs
    return (
        f"Of another strategy: {own.model.reference} on {own.cluster_name} as it was at {done.at}."
        " Run again to see how true the present prediction is."
    )


def progress_view(progress: Progress | SliceProgress, *, other: bool) -> dict[str, object]:
    """Return the view of a run under way; `other`: the state shown is no longer what runs."""
    changed = "The board has changed since: this run is of the plan as it was." if other else None
    if isinstance(progress, SliceProgress):
        return progress.view(other=changed)
    left = progress.left_s
    return {
        "share": progress.share,
        "elapsed_s": progress.elapsed_s,
        "left_s": left,
        "phase": progress.phase,
        "said": progress.said(),
        "other": changed,
        "ranks": [
            {
                "rank": i, "state": row.state, "doing": in_words(row.doing),
                "round": round_words(row.round, progress.spec.rounds), "step_s": row.step_s,
                "memory_bytes": row.memory_bytes, "at_s": row.at_s, "of_s": row.of_s,
            }
            for i, row in enumerate(progress.rows)
        ],
        "contention": _contention(progress.contention),
    }  # fmt: skip


def _contention(share: float | None) -> dict[str, object] | None:
    if share is None:
        return None
    got = f"ranks get {share_words(share)} of the processor time they need"
    if share >= _LOW:
        return {"share": share, "level": "ok", "text": f"Contention low: {got}"}
    if share >= _QUIET:
        return {"share": share, "level": "ok", "text": f"Some contention: {got}"}
    return {"share": share, "level": "warn", "text": f"Contention high: {got}; there may be no verdict"}
