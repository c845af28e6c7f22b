"""Queues of hosts and wires, each of which does one thing at a time.

A channel is a host, which computes, or a pair of hosts, between which one tensor travels at a time. What
waits starts when the channel is free: backwards before forwards, each kind in the order in which it came.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.passes.rates import Demands, Rates

Channel = tuple[int, ...]
"""(host,) or (sending host, receiving host)."""


@dataclass(slots=True)
class Item:
    """Something that waits on a channel, or runs there."""

    call: int
    """Number of the call that it belongs to."""
    edge: int
    """Edge whose tensor travels; -1 for computing."""
    channel: Channel
    last: bool = False
    """Whether it lets the others on its channel go first (forwards)."""
    start_s: float = 0.0


class HostQueues:
    """All channels, with what waits and what runs on each.

    Args:
        capacity: amount that each shared resource gives (see `Rates`).
        cost: function from an item to its (seconds, demands on shared resources).
        begins: called with each item that starts.
    """

    def __init__(
        self,
        capacity: Sequence[float],
        cost: Callable[[Item], tuple[float, Demands]],
        begins: Callable[[Item], None],
    ) -> None:
        self.rates = Rates(capacity)
        self.cost, self.begins = cost, begins
        self.waiting: dict[Channel, tuple[deque[Item], deque[Item]]] = defaultdict(lambda: (deque(), deque()))
        self.busy: dict[Channel, int] = {}
        self.running: dict[int, Item] = {}
        self.number = 0

    def add(self, item: Item, now: float) -> None:
        """Let an item wait on its channel; it starts at once if that is free."""
        self.waiting[item.channel][item.last].append(item)
        self.serve(item.channel, now)

    def next_time(self) -> float:
        """Return the time of the earliest end; infinite if nothing runs."""
        return self.rates.next_time()

    def next_end(self) -> tuple[float, Item] | None:
        """Take away the item that ends next, with that time; None if nothing runs."""
        found = self.rates.next_end()
        if found is None:
            return None
        item = self.running.pop(found[1])
        del self.busy[item.channel]
        return found[0], item

    def abandon(self, host: int, now: float) -> list[Item]:
        """Return what ran and waited on a host that is gone, and what was on its way there.

        Tensors under way go on, in vain; those that wait for their wire are not sent any more.
        """
        channel = (host,)
        found = [item for queue in self.waiting.pop(channel, ()) for item in queue]
        if (number := self.busy.pop(channel, None)) is not None:
            self.rates.cancel(number, now)
            found.insert(0, self.running.pop(number))
        found += [item for item in self.running.values() if len(item.channel) > 1 and item.channel[1] == host]
        for wire, (queue, _) in self.waiting.items():
            if len(wire) > 1 and wire[1] == host:
                found += queue
                queue.clear()
        return found

    def serve(self, channel: Channel, now: float) -> None:
        """Start what waits on a channel, if it is free."""
        if channel in self.busy:
            return
        item = next((queue.popleft() for queue in self.waiting[channel] if queue), None)
        if item is None:
            return
        item.start_s = now
        number = self.number = self.number + 1
        self.running[number], self.busy[channel] = item, number
        self.begins(item)
        self.rates.begin(number, *self.cost(item), now)
