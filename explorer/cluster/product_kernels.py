"""Product kernels: what a library's matrix products of one precision reach on a device kind.

All numbers are relative to the data sheet (peak, compute units, bandwidth of the memory), so that a kind of
the same generation that extends another takes them over with its own data sheet.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from explorer.base.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One tiling of a matrix product: each compute unit makes tiles of rows x columns of the result."""

    rows: int
    """Rows of the result that a unit makes at once."""
    columns: int
    """Columns of the result that a unit makes at once."""
    fraction: float
    """Share of its peak that a unit reaches on a deep product, 0 < fraction <= 1."""

    def __post_init__(self) -> None:
        if self.rows < 1 or self.columns < 1 or not 0 < self.fraction <= 1:
            raise InputError(
                f"a tile of {self.rows} x {self.columns} at {self.fraction} of peak",
                key="tiles",
                found=(self.rows, self.columns, self.fraction),
                allowed="sizes of 1 or more, a fraction in (0, 1]",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantising:
    """A pass that finds a scale for each row of the left factor, m x k, and writes the row in 8 bits.

    Seconds = k depth + m max(row, k bytes / bandwidth): a group of threads goes through each row, and the
    first row's way through it is exposed. Its launch is part of `ProductKernels.start_s`.
    """

    depth_s: float = 0.0
    """Seconds to go through one element of a row."""
    row_s: float = 0.0
    """Seconds that a row takes at least where many are under way."""
    element_bytes: float = 0.0
    """Bytes that it moves for each element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductKernels:
    """Kernels of matrix products of one precision."""

    tiles: tuple[Tile, ...]
    """Tilings that the library chooses from."""
    splits: tuple[int, ...] = (1, 2, 4, 8)
    """Numbers of parts into which it may cut the depth."""
    tile_depth: float = 0.0
    """Cost of a tile's start and end, in steps along the contracted dimension."""
    partial_wave: float = 1.0
    """Share of a last wave's empty places that is paid: 1 where kernels deal tiles in whole waves, 0 where
    units stay busy until all is done (persistent kernels, stream-K)."""
    memory_fraction: float = 1.0
    """Share of the memory's bandwidth that products reach."""
    exposed_memory: float = 0.0
    """Share of the shorter of compute and memory that a product takes besides the longer."""
    sustained: tuple[tuple[float, float], ...] = ()
    """(seconds at peak, share of the speed left): clocks fall as products go on; () if they do not."""
    uneven_rows_fraction: float = 1.0
    """Share of the speed left if the rows are no multiple of 16."""
    start_s: float = 0.0
    """Seconds of a product besides its work if it is repeated alone, its launch included. In a training step
    `DeviceKind.launch_overhead_s` stands for it; there it counts only in how far the law is off from
    `DeviceKind.measured_products`, which were measured alone."""
    quantising: Quantising = Quantising()
    """What quantises the left factor where a product is made of wider factors. Not part of a product in
    training, where casts are operators of their own."""

    def __post_init__(self) -> None:
        seconds, shares = [point[0] for point in self.sustained], [point[1] for point in self.sustained]
        rises = any(low >= high for low, high in pairwise(seconds))
        if rises or any(before < after for before, after in pairwise(shares)):
            raise InputError(
                "sustained speeds need ascending seconds, and shares that do not rise", key="sustained",
                found=self.sustained,
            )  # fmt: skip
        for name, share, least in (
            ("memory_fraction", self.memory_fraction, 0.0),
            ("uneven_rows_fraction", self.uneven_rows_fraction, 0.0),
            *(("sustained", share, 0.0) for share in shares),
        ):
            if not least < share <= 1:
                raise InputError(f"{share!r}", key=name, found=share, allowed="a fraction in (0, 1]")
        if not self.tiles or not self.splits or min(self.splits) != 1:
            raise InputError(
                "product kernels need a tile or more, and splits from 1", key="tiles",
                found=(self.tiles, self.splits),
                allowed="tiles: [{rows, columns, fraction}], splits: [1, ...]",
            )  # fmt: skip
        shapes = [(tile.rows, tile.columns) for tile in self.tiles]
        if len(set(shapes)) < len(shapes) or len(set(self.splits)) < len(self.splits):
            raise InputError("a tile or split stands twice", key="tiles", found=shapes, allowed="each once")
        if not 0 <= self.partial_wave <= 1 or not 0 <= self.exposed_memory <= 1:
            raise InputError(
                f"{self.partial_wave} of a partial wave, {self.exposed_memory} of memory exposed",
                key="partial_wave", found=(self.partial_wave, self.exposed_memory), allowed="0 to 1",
            )  # fmt: skip
