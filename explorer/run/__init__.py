"""Real runs: launch, watch and stop ranks; run a plan's layers, or a likeness of them; report how accurate
the prediction was.

>>> from explorer.run import validate                                    # doctest: +SKIP
>>> comparison = validate(load_plan("plan.yaml"), steps=7)               # doctest: +SKIP
>>> comparison.verdict                                                   # doctest: +SKIP
'confirmed'

A notebook drives the experiment step by step: ``experiment = make_experiment(resolved)``, ``handle =
start(experiment.spec)``, now and then ``handle.poll()``, and at the end
``experiment.finish(handle.result())``; ``handle.stop()`` ends every rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.plan import Resolved
from explorer.run.instruments import Experiment, make_experiment
from explorer.run.judging.compare import Comparison
from explorer.run.launching.launch import RunHandle, RunResult, run, start
from explorer.run.spec import Fault, RunSpec

__all__ = [
    "Comparison",
    "Experiment",
    "Fault",
    "RunHandle",
    "RunResult",
    "RunSpec",
    "make_experiment",
    "run",
    "start",
    "validate",
]


def validate(
    resolved_plan: Resolved,
    *,
    steps: int | None = None,
    engine: str | None = None,
    baseline: str | Resolved | None = None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
    **options: Any,
) -> Comparison:
    """Run a plan for real, briefly, and compare with what was predicted.

    Args:
        resolved_plan: the plan with its inputs.
        steps: measured rounds, None for as many as suit the engine; in each the calibration, the strategy and
            the baseline are run in turn.
        engine: layers, likeness, torch or dry; None for the model's own layers, or for stand-ins where they
            cannot run.
        baseline: data_parallel, single, even, a plan or its file; None suits the plan.
        on_event: function called with every event of the ranks, and first with an event `engine`, which has
            `engine`, `stand_ins`, the reason why stand-ins run, and `rounds`, those that warm up among them.
        options: further arguments of `make_experiment`.

    Raises:
        InputError: a plan that cannot be run here.
        RunError: the run failed; nothing of it is left.
    """
    experiment = make_experiment(resolved_plan, rounds=steps, engine=engine, baseline=baseline, **options)
    if on_event is not None:
        rounds = experiment.spec.warmup_rounds + experiment.spec.rounds
        told = {"engine": experiment.engine, "stand_ins": experiment.stand_ins, "rounds": rounds}
        on_event({"event": "engine", **told})
    with start(experiment.spec) as handle:
        for event in handle.events():
            if on_event is not None:
                on_event(event)
        return experiment.finish(handle.result())
