"""Clocks of a rank, and waiting for its device.

On a processor a call ends when its work is done. On a GPU it has only been begun then, and so have messages
that were waited for: the rank has to wait for its stream before it reads a clock.
"""

from __future__ import annotations

import time

import torch


def settle(device: torch.device) -> None:
    """Wait until a device has done what this rank's stream was given; at once on a processor.

    Other streams are not waited for, as `torch.cuda.synchronize` would: on them lie receives that were posted
    ahead, of messages that other ranks send only after they have heard from this one.
    """
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def worked_s(device: torch.device) -> float:
    """Return the seconds that a device has worked for this thread: those of the core, or on a GPU the wall's.

    There a thread of autograd's works beside this one, which sleeps meanwhile: its own share of a core says
    nothing. What else the machine does does not run on the GPU in between.
    """
    return time.perf_counter() if device.type == "cuda" else time.thread_time()


def core_s(device: torch.device) -> float:
    """Return the seconds that a core has worked for all threads of this process, those of messages too; on a
    GPU the wall's.
    """
    return time.perf_counter() if device.type == "cuda" else time.process_time()


__all__ = ["core_s", "settle", "worked_s"]
