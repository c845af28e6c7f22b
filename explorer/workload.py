"""Workload: what the cluster is to do, usually one training job, in general several."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from explorer.base.errors import InputError
from explorer.base.units import DTYPE_BYTES
from explorer.graph import Defaults, LayerGraph

MODES = ("train", "infer", "prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerKind:
    """What an optimizer keeps and moves per trainable scalar."""

    states: int
    """fp32 state tensors besides the weight."""
    moved_bytes: float
    """Bytes read and written by one update of one scalar under mixed precision, by one kernel."""
    separate_bytes: float = 0.0
    """The same by a kernel for every operation of the update, in fp32."""


OPTIMIZERS: dict[str, OptimizerKind] = {
    "none": OptimizerKind(states=0, moved_bytes=0),
    "sgd": OptimizerKind(states=0, moved_bytes=12, separate_bytes=12),
    "momentum": OptimizerKind(states=1, moved_bytes=20, separate_bytes=32),
    "adam": OptimizerKind(states=2, moved_bytes=28, separate_bytes=80),
    "adamw": OptimizerKind(states=2, moved_bytes=28, separate_bytes=88),
}
"""Known optimizers; the master copy of mixed precision is counted separately.

Adam operation by operation (torch's and Composer's): the first moment is scaled (8 bytes) and added to (12),
the second too (8 and 12), its root is taken (8), divided (8) and moved by epsilon (8), the weight is moved by
the quotient (16); AdamW scales the weight before (8). Momentum: scaled, added to, the weight moved (8, 12,
12).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One model to train or run.

    Raises:
        InputError: an unknown mode, precision or optimizer, or a count below 1.
    """

    name: str = "job"
    """Unique in the workload."""
    graph: str = ""
    """Key of its graph if the workload has several; empty for the only one."""
    mode: str = "train"
    """train, infer, prefill or decode."""
    global_batch: int = 1
    """Samples of one optimizer step over all replicas."""
    sequence_length: int = 0
    """Tokens of one sample; 0 if samples are not sequences."""
    precision: str = "bf16"
    """Compute precision; below fp32 an fp32 master copy is kept while training."""
    gradient_precision: str = ""
    """Precision in which gradients are kept and reduced; empty means that of `precision`."""
    optimizer: str = "adam"
    """A name in `OPTIMIZERS`."""
    framework: str = ""
    """Software that runs it: a name in `explorer list frameworks` or a file; empty for what is usual on each
    device kind (`explorer.framework`).
    """
    input_seconds_per_sample: float = 0.0
    """Seconds in which one worker of an input pipeline (one pipeline per replica of the first stage) makes a
    sample.
    """
    input_workers: int = 1
    """Workers of an input pipeline, which make samples of later steps while the devices compute: a step takes
    the longer of the two. 0: the training process makes them itself before it begins a step.
    """
    samples_per_epoch: int = 0
    """Samples of the training set; 0 if unknown."""
    epochs: tuple[tuple[int, float], ...] = ()
    """Epochs to converge by global batch: (batch, epochs), ascending, log-linear in between."""
    epochs_source: str = ""
    """Where the epochs were read, to what target; or why there are none. Empty if nobody says."""

    def __post_init__(self) -> None:
        for key, value, allowed in (
            ("mode", self.mode, MODES),
            ("precision", self.precision, tuple(DTYPE_BYTES)),
            ("optimizer", self.optimizer, tuple(OPTIMIZERS)),
        ):
            if value not in allowed:
                raise InputError(f"unknown {key} {value!r}", key=key, found=value, allowed=", ".join(allowed))
        if self.input_workers < 0 or (self.input_workers != 1 and not self.input_seconds_per_sample):
            raise InputError(
                f"{self.input_workers} workers that take {self.input_seconds_per_sample:g} s a sample",
                key="input_workers",
                found=self.input_workers,
                allowed="0 or more with input_seconds_per_sample, or 1",
            )
        if self.global_batch < 1:
            raise InputError(
                "the global batch must hold a sample",
                key="global_batch",
                found=self.global_batch,
                allowed=">= 1",
            )

    @property
    def training(self) -> bool:
        """Whether there is a backward and an update."""
        return self.mode == "train"

    @property
    def master_copy(self) -> bool:
        """Whether weights have an fp32 master copy."""
        return self.training and DTYPE_BYTES[self.precision] < 4 and self.optimizer != "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One job, or several that share the cluster."""

    jobs: tuple[Job, ...] = field(default_factory=lambda: (Job(),))
    """At least one; names unique."""

    def __post_init__(self) -> None:
        names = [job.name for job in self.jobs]
        if not names or len(set(names)) != len(names):
            raise InputError(
                "a workload needs jobs with different names",
                key="jobs",
                found=names,
                allowed="1 or more, each name once",
            )

    @property
    def job(self) -> Job:
        """The only job.

        Raises:
            InputError: there are several.
        """
        if len(self.jobs) != 1:
            raise InputError(f"the workload has {len(self.jobs)} jobs where one is needed", key="jobs")
        return self.jobs[0]

    def with_job(self, **changes: object) -> Workload:
        """Return the same workload with fields of its only job replaced."""
        return Workload(jobs=(replace(self.job, **changes),))  # type: ignore[arg-type]


def default_workload(graph: LayerGraph) -> Workload:
    """Return the workload that a model states for itself."""
    stated: Defaults = graph.defaults
    job = Job(
        global_batch=stated.global_batch,
        sequence_length=stated.sequence_length,
        precision=stated.precision,
        optimizer=stated.optimizer,
        samples_per_epoch=stated.samples_per_epoch,
        epochs=stated.epochs,
        epochs_source=stated.epochs_source,
    )
    return Workload(jobs=(job,))
