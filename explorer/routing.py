"""Routing: how tokens reach the experts of a layer, and how many of them come to the busiest one.

A layer of experts moves rows before and after its products: every token once for each of its experts. How the
rows travel and how the products run is the software's choice (`dispatch`, `kernels`); how many there are
depends on the router (`imbalance`) and on the room that an expert has (`capacity`, `padded`).
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.base.errors import InputError

ALL_TO_ALL, ALL_GATHER = "all_to_all", "all_gather"
DISPATCHES = (ALL_TO_ALL, ALL_GATHER)
"""Ways of tokens to the devices of their experts: each to those that need it, or all to all devices."""

GROUPED, STREAMS, EACH = "grouped", "streams", "each"
EXPERT_KERNELS = (GROUPED, STREAMS, EACH)
"""How the products of several experts run: as one kernel, as one an expert side by side on several streams,
or expert by expert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How tokens reach their experts.

    Raises:
        InputError: an unknown word, a capacity or an imbalance below 1, or padding without a capacity.
    """

    dispatch: str = ALL_TO_ALL
    """A name in `DISPATCHES`."""
    kernels: str = GROUPED
    """A name in `EXPERT_KERNELS`."""
    capacity: float = 0.0
    """Rows for which an expert has room, over the mean (GShard's capacity factor); what comes beyond is
    dropped. 0: room for all that come.
    """
    padded: bool = False
    """Whether every expert computes as many rows as it has room for."""
    imbalance: float = 1.0
    """Rows that come to the busiest expert over the mean; 1: all have as many."""

    def __post_init__(self) -> None:
        for key, value, allowed in (
            ("dispatch", self.dispatch, DISPATCHES),
            ("expert_kernels", self.kernels, EXPERT_KERNELS),
        ):
            if value not in allowed:
                raise InputError(f"unknown {key} {value!r}", key=key, found=value, allowed=", ".join(allowed))
        if self.capacity and not self.capacity >= 1:
            raise InputError(
                f"room for {self.capacity:g} times the mean rows of an expert", key="capacity",
                found=self.capacity, allowed="1 or more, or 0 for all that come",
            )  # fmt: skip
        if not self.imbalance >= 1:
            raise InputError(
                f"a busiest expert with {self.imbalance:g} times the mean rows", key="imbalance",
                found=self.imbalance, allowed="1 or more",
            )  # fmt: skip
        if self.padded and not self.capacity:
            raise InputError(
                "rows padded to a capacity, without one",
                key="padded",
                found=True,
                allowed="capacity=1 or more",
            )
