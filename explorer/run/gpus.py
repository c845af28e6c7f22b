"""GPUs of this machine, asked for without torch's import of a second where no driver shows itself."""

from __future__ import annotations

import os
from pathlib import Path

SIGNS = tuple(
    Path(path)
    for path in ("/proc/driver/nvidia/gpus", "/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/dxg", "/dev/kfd")
)
"""Files of drivers: NVIDIA's (in some containers one of the first two is missing) and of its boards, of
Windows below Linux, and AMD's.
"""


def count_gpus() -> int:
    """Count the GPUs that torch can use here."""
    if not any(path.exists() for path in SIGNS):
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def on_gpus(device: str) -> bool:
    """Tell whether the ranks of this launch compute on GPUs: asked for, or there is one for each of them."""
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")))
    return device == "cuda" or (device == "auto" and count_gpus() >= ranks)


def gpu_bytes(ranks: int) -> float:
    """Return the memory of the smallest GPU on which so many ranks run, one on each; 0 if they do not."""
    if not 0 < ranks <= count_gpus():
        return 0.0
    import torch

    return float(min(torch.cuda.get_device_properties(i).total_memory for i in range(ranks)))


__all__ = ["count_gpus", "gpu_bytes", "on_gpus"]
