"""Surveyor: what one rank measures of its machine for a cluster profile, while all the others do the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import psutil
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from explorer.run.launching.status import WAITING
from explorer.run.ranks.transport import Transport
from explorer.run.spec import Survey
from explorer.run.survey.device_work import DeviceWork
from explorer.run.survey.host_work import HostWork
from explorer.run.survey.link_work import LinkWork


class Surveyor:
    """Measures everything once per call of `measure`."""

    def __init__(
        self, asked: Survey, transport: Transport, status: Callable[[int, str, float], None] | None = None
    ) -> None:
        self.device = transport.device
        self._status = status or (lambda _state, _text, _predicted_s: None)
        self._held_bytes = _held_bytes(self.device)
        self.work = DeviceWork(asked, self.device)
        self.host = HostWork(self.device, self.work.sync)
        self.links = LinkWork(asked, transport, self.work)

    def machine(self) -> dict[str, Any]:
        """Return what the system reports about this rank's device."""
        facts: dict[str, Any] = {"torch": torch.__version__, "reserved_bytes": self._held_bytes}
        if self.device.type != "cuda":
            return {**facts, "name": "cpu", "memory_bytes": psutil.virtual_memory().total}
        known = torch.cuda.get_device_properties(self.device)
        own = self.device.index
        peers = [i for i in range(torch.cuda.device_count()) if i != own]
        return {
            **facts,
            "name": known.name,
            "memory_bytes": known.total_memory,
            "compute_units": known.multi_processor_count,
            "peer_access": all(torch.cuda.can_device_access_peer(own, i) for i in peers),
        }

    def measure(self) -> list[dict[str, Any]]:
        """Return rows of `what`, `precision`, `size` and `seconds`."""
        rows = []
        for item, measured in itertools.chain(self.work.items(), self.host.items(), self.links.items()):
            self._status(WAITING, f"measuring {item.what} {item.precision}".strip(), 0.0)
            seconds = measured()
            if seconds is not None:
                rows.append({"what": item.what, "precision": item.precision, "size": list(item.size),
                             "seconds": seconds})  # fmt: skip
        return rows


def _load_libraries(device: torch.device) -> None:
    """Let the libraries of products and convolutions load, with the room that they work in: CUDA loads only
    what is used.
    """
    some = torch.ones(1, 8, 8, 8, device=device)
    for item in (some, some.half()):
        torch.mm(item[0, 0], item[0, 0])
        F.conv2d(item, item)
    torch.cuda.synchronize(device)


def _held_bytes(device: torch.device) -> int:
    """Return the memory that the process has lost to the framework before its first large tensor."""
    if device.type == "cuda":
        _load_libraries(device)
        free, total = torch.cuda.mem_get_info(device)
        return int(total - free)
    return int(psutil.Process().memory_info().rss)
