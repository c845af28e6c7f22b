"""Kept activations: what a microbatch keeps until its backward, and its way to the host and back.

Everything autograd saves of a forward goes through torch's saved-tensor hooks, so that it can leave long
after the forward, when the order says so (OFFLOAD), and come back before the backward (RELOAD). Memory moves
in whole storages: tensors that share one share it again afterwards. What others use as well (weights, data)
stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch

from explorer.base.errors import RunError


class Saved:
    """One tensor that autograd saved, here or away."""

    def __init__(self, tensor: torch.Tensor) -> None:
        # detached: a node that held its own output would never be freed
        self.tensor: torch.Tensor | None = tensor.detach()

    def get(self) -> torch.Tensor:
        """Return the tensor.

        Raises:
            RunError: it is on the host, or was given back.
        """
        if self.tensor is None:
            raise RunError("a saved activation is read that is not on the device")
        return self.tensor


class _Place(NamedTuple):
    """Where a tensor lies in its storage."""

    storage: int
    dtype: torch.dtype
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]


class HostLine:
    """The way between a device and its host: at once on a processor, on a stream of each way beside a GPU's
    work.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.streams: tuple[Any, Any] | None = None
        if device.type == "cuda":
            out, back = (torch.cuda.Stream(device) for _ in range(2))  # type: ignore[no-untyped-call]
            self.streams = out, back

    def room(self, size: int) -> torch.Tensor:
        """Make room for bytes on the host: on a processor outside of torch's allocator, where activations are
        counted.
        """
        if self.streams is None:
            return torch.from_numpy(np.empty(size, dtype=np.uint8))
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def copy(self, pairs: list[tuple[torch.Tensor, torch.Tensor]], *, back: bool) -> None:
        """Begin to copy (target, source) pairs, behind the device's work so far and earlier ones."""
        if self.streams is None:
            for target, source in pairs:
                target.copy_(source)
            return
        stream = self.streams[back]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for target, source in pairs:
                target.copy_(source, non_blocking=True)

    def wait(self, *, back: bool) -> None:
        """Wait until all copies of one way have ended."""
        if self.streams is not None:
            self.streams[back].synchronize()


class Kept:
    """Everything that one microbatch of a piece keeps.

    Args:
        staying: tensors that others use as well, which never move.
        line: way to the host.
    """

    def __init__(self, staying: Iterable[torch.Tensor], line: HostLine) -> None:
        self.line = line
        self._staying = {_storage(tensor) for tensor in staying}
        self._saved: list[Saved] = []
        self._own: list[torch.Tensor] = []
        self._on_host: dict[int, torch.Tensor] = {}
        self._sent = False
        self._left: list[tuple[Saved | torch.Tensor, _Place]] | None = None

    def saving(self) -> AbstractContextManager[Any]:
        """Return the context in which to run the forward."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, Saved.get)

    def _pack(self, tensor: torch.Tensor) -> Saved:
        saved = Saved(tensor)
        if _storage(tensor) not in self._staying:
            self._saved.append(saved)
        return saved

    def add(self, tensors: Iterable[torch.Tensor]) -> None:
        """Keep tensors that the rank itself holds until the backward: what it was sent and what it made."""
        moving = (tensor for tensor in tensors if _storage(tensor) not in self._staying)
        self._own = list({id(tensor): tensor for tensor in (*self._own, *moving)}.values())

    @property
    def bytes_here(self) -> int:
        """Bytes on the device, memory that several tensors share once."""
        sizes = {_storage(t): t.untyped_storage().nbytes() for t in self._tensors()}
        return sum(sizes.values()) if self.is_here else 0

    @property
    def is_here(self) -> bool:
        """Whether all of it is on the device."""
        return self._left is None

    def _tensors(self) -> list[torch.Tensor]:
        return [*(item.tensor for item in self._saved if item.tensor is not None), *self._own]

    def send(self) -> None:
        """Begin to copy everything to the host."""
        self._sent, pairs = True, []
        for tensor in self._tensors():
            key = _storage(tensor)
            if key not in self._on_host:
                source = _all_bytes(tensor)
                self._on_host[key] = self.line.room(source.numel())
                pairs.append((self._on_host[key], source))
        self.line.copy(pairs, back=False)

    def leave(self) -> None:
        """Wait until the copies have ended, and give the memory of the device back."""
        if not self._sent or self._left is not None:
            return
        self.line.wait(back=False)
        self._left = []
        for item in self._saved:
            if item.tensor is not None:
                self._left.append((item, _place(item.tensor)))
                item.tensor = None
        for tensor in self._own:
            self._left.append((tensor, _place(tensor)))
            # the graph asks its ends for their shapes, not for values
            tensor.data = tensor.data.new_empty(()).expand(tensor.shape)

    def fetch(self) -> None:
        """Begin to bring everything back.

        Raises:
            RunError: nothing of it was sent.
        """
        self.leave()
        if self._left is None:
            raise RunError("activations are fetched that never left")
        fresh = {
            key: torch.empty(held.numel(), dtype=torch.uint8, device=self.line.device)
            for key, held in self._on_host.items()
        }
        self.line.copy([(fresh[key], held) for key, held in self._on_host.items()], back=True)
        for item, place in self._left:
            empty = torch.empty(0, dtype=place.dtype, device=self.line.device)
            storage = fresh[place.storage].untyped_storage()
            tensor = empty.set_(storage, place.offset, place.shape, place.stride)
            if isinstance(item, Saved):
                item.tensor = tensor
            else:
                item.data = tensor
        self._sent, self._left, self._on_host = False, None, {}

    def arrive(self) -> None:
        """Wait until everything has come back."""
        self.line.wait(back=True)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _all_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the whole storage of a tensor."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _place(tensor: torch.Tensor) -> _Place:
    return _Place(
        _storage(tensor), tensor.dtype, int(tensor.storage_offset()), tensor.shape, tuple(tensor.stride())
    )
