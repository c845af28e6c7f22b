"""A small deep Q-network in torch: what each action is worth in a state, learned from transitions.

    loss = (Q(s, a) - (r + max over allowed a' of Q_target(s', a')))^2          (Mnih et al., 2015)

Nothing is discounted: an episode is short, and only its end is rewarded. torch is imported when one is made,
and no more of it than is needed: its optimizers bring 1.3 s of further imports, so Adam stands here.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from explorer.planners._pieces.torch_loading import load_torch_libraries

WIDTH, RATE, KEPT, BATCH, UPDATES, COPIED = 64, 2e-3, 2000, 32, 4, 10
"""Units of a layer, step of Adam, transitions kept, those of an update, updates an episode, episodes between
copies of the network to its target."""

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Of Adam."""


class Transition(NamedTuple):
    """One step of an episode."""

    state: tuple[float, ...]
    action: int
    reward: float
    after: tuple[float, ...]
    """The state after it."""
    allowed: tuple[bool, ...]
    """Actions allowed there; none at the end of an episode."""


class Adam:
    """Kingma and Ba's updates of some parameters (2015), operation by operation as torch's own.

    Args:
        parameters: tensors whose gradients they follow.
    """

    def __init__(self, parameters: Iterable[Any]) -> None:
        self._all = [(item, item.detach() * 0, item.detach() * 0) for item in parameters]
        self._steps = 0

    def step(self) -> None:
        """Follow the gradients once."""
        import torch

        self._steps += 1
        least, most = (1 - beta**self._steps for beta in BETAS)
        with torch.no_grad():
            for item, mean, square in self._all:
                if item.grad is not None:
                    mean.lerp_(item.grad, 1 - BETAS[0])
                    square.mul_(BETAS[1]).addcmul_(item.grad, item.grad, value=1 - BETAS[1])
                    item.addcdiv_(mean, (square.sqrt() / most**0.5).add_(EPSILON), value=-RATE / least)


class QNetwork:
    """Values of actions.

    Args:
        states: numbers of a state.
        actions: number of actions.
        seed: seed of the first weights and of what is replayed.
    """

    def __init__(self, states: int, actions: int, seed: int) -> None:
        load_torch_libraries()
        import torch
        from torch import nn

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._net = nn.Sequential(
                nn.Linear(states, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                nn.Linear(WIDTH, actions),
            )  # fmt: skip
            self._target = nn.Sequential(
                nn.Linear(states, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                nn.Linear(WIDTH, actions),
            )  # fmt: skip
        self._target.load_state_dict(self._net.state_dict())
        self._adam = Adam(self._net.parameters())
        self._seen: deque[Transition] = deque(maxlen=KEPT)
        self._luck = random.Random(seed)
        self._episodes = 0

    def best(self, state: Sequence[float], allowed: Sequence[bool]) -> int:
        """Return the allowed action that is worth most."""
        import torch

        with torch.no_grad():
            values = self._net(torch.tensor([state])).squeeze(0).tolist()
        return max((a for a, may in enumerate(allowed) if may), key=values.__getitem__)

    def learn(self, episode: Sequence[Transition]) -> None:
        """Remember an episode, and fit the network to some of what is remembered."""
        self._seen.extend(episode)
        self._episodes += 1
        for _ in range(UPDATES):
            self._update(self._luck.choices(self._seen, k=BATCH))
        if self._episodes % COPIED == 0:
            self._target.load_state_dict(self._net.state_dict())

    def _update(self, some: Sequence[Transition]) -> None:
        import torch

        allowed = torch.tensor([item.allowed for item in some])
        with torch.no_grad():
            after = self._target(torch.tensor([item.after for item in some]))
            best = after.masked_fill(~allowed, -torch.inf).max(dim=1).values
            goal = torch.tensor([item.reward for item in some]) + torch.where(allowed.any(dim=1), best, 0.0)
        values = self._net(torch.tensor([item.state for item in some]))
        own = values.gather(1, torch.tensor([[item.action] for item in some])).squeeze(1)
        loss = torch.nn.functional.mse_loss(own, goal)
        self._net.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._adam.step()
