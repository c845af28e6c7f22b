"""Input pipelines, which make the samples of a step on the hosts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.workload import Job

Array = npt.NDArray[np.float64]


def with_inputs_s(job: Job, steps_s: Array, inputs_s: Array | float) -> Array:
    """Return the seconds of steps with those in which their samples are made.

    Workers are steps ahead of the devices, so that a step takes the longer of the two. Without any the
    training process makes the samples before it begins the step: it takes both.

    Args:
        job: the job, which says how many workers a pipeline has.
        steps_s: seconds of steps whose samples are there.
        inputs_s: seconds of one worker for the samples of a step on one replica.

    >>> with_inputs_s(Job(input_seconds_per_sample=1e-3, input_workers=2), np.array([1.0, 3.0]), 4.0)
    array([2., 3.])
    """
    if not job.input_workers:
        return steps_s + inputs_s
    return np.maximum(steps_s, inputs_s / job.input_workers)
