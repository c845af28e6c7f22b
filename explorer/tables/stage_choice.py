"""Stage choice: everything chosen for a stage besides its layers, as the key of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.base.errors import InputError
from explorer.strategies.degrees import EXCHANGES, GATHER, RECOMPUTE, ZERO_LEVELS, Degrees
from explorer.strategy import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class StageChoice:
    """Everything chosen for one stage besides its layers; the devices are consecutive ranks, as in `Degrees`.

    Raises:
        InputError: a number below its least, or an unknown word.
    """

    tensor: int = 1
    """Devices that share each layer."""
    context: int = 1
    """Devices that share the sequence of every sample."""
    expert: int = 1
    """Devices that share the experts of every mixture."""
    replicas: int = 1
    """Data-parallel replicas."""
    sequence_parallel: bool = False
    """Whether tensor parallelism also splits norms and additions, along the sequence."""
    context_exchange: str = GATHER
    """How attention sees the whole sequence (`explorer.strategies.degrees.EXCHANGES`)."""
    microbatch_size: int = 1
    """Samples of one microbatch on one replica."""
    recompute: str = "none"
    """none, selective or full."""
    zero: int = 0
    """ZeRO level."""
    zero_replicas: int = 0
    """Replicas that ZeRO shards over; 0 is all."""
    overlap: tuple[tuple[str, str], ...] = ()
    """(mesh axis, how) of collectives that run behind work (`Stage.overlap`)."""
    bucket_bytes: float = 0.0
    """Bytes of gradients that are reduced at once; 0 for all of them."""
    first: int = 0
    """Rank of its first device."""

    def __post_init__(self) -> None:
        least = min(self.tensor, self.context, self.expert, self.replicas, self.microbatch_size)
        if least < 1 or self.recompute not in RECOMPUTE or self.zero not in ZERO_LEVELS:
            self.degrees  # noqa: B018 - raises, and says what is impossible
        if self.context_exchange not in EXCHANGES:
            self.degrees  # noqa: B018
        if min(self.zero_replicas, self.bucket_bytes, self.first) < 0:
            for key in ("zero_replicas", "bucket_bytes", "first"):
                if (value := getattr(self, key)) < 0:
                    raise InputError(f"{key} is {value}", key=key, found=value, allowed=">= 0")
        if self.zero_replicas and self.replicas % self.zero_replicas:
            raise InputError(
                f"ZeRO over {self.zero_replicas} of {self.replicas} replicas", key="zero_replicas",
                found=self.zero_replicas, allowed=f"a divisor of {self.replicas}, or 0 for all",
            )  # fmt: skip

    @staticmethod
    def of(degrees: Degrees, position: int = 0) -> StageChoice:
        """Return the choice of the stages that a uniform strategy puts at a pipeline position."""
        return StageChoice(
            tensor=degrees.tensor, context=degrees.context, expert=degrees.expert, replicas=degrees.replicas,
            sequence_parallel=degrees.sequence_parallel, context_exchange=degrees.context_exchange,
            microbatch_size=degrees.microbatch_size, recompute=degrees.recompute, zero=degrees.zero,
            first=position * degrees.position_devices,
        )  # fmt: skip

    def at(self, first: int) -> StageChoice:
        """Return the same choice on the devices from another rank on."""
        return self if first == self.first else replace(self, first=first)

    @property
    def degrees(self) -> Degrees:
        """The same as the degrees of a model on one stage."""
        return Degrees(
            tensor=self.tensor, context=self.context, expert=self.expert, replicas=self.replicas,
            sequence_parallel=self.sequence_parallel, context_exchange=self.context_exchange,
            microbatch_size=self.microbatch_size, recompute=self.recompute, zero=self.zero,
        )  # fmt: skip

    @property
    def row_devices(self) -> int:
        """Devices of one replica."""
        return self.tensor * self.context

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return self.replicas * self.row_devices

    def check_ranks(self, count: int) -> None:
        """Raise if the choice reaches beyond the last rank.

        Raises:
            InputError: it does.
        """
        if self.first + self.devices > count:
            raise InputError(
                f"{self.devices} devices from rank {self.first} on of {count}", key="first",
                found=self.first,
                allowed=f"<= {count - self.devices}" if self.devices <= count else f"{count} devices at most",
            )  # fmt: skip

    def stage(self, layers: tuple[str, ...], order: Sequence[int], experts: tuple[str, ...]) -> Stage:
        """Return the stage that runs some layers under this choice.

        Args:
            layers: their names.
            order: device of every rank.
            experts: patterns of the layers of experts.
        """
        devices = order[self.first : self.first + self.devices]
        made = self.degrees.stages_of([layers], devices, experts)[0]
        return replace(made, overlap=self.overlap, zero_replicas=self.zero_replicas)
