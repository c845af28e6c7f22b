"""Axes of tensors as products of *atoms* that operators make equal.

Which axis of which tensor means the same thing is not written in an exported program, but it follows from
its operators: a matrix product contracts two axes (they are equal), a view splits an axis into factors (the
axis is their product), an addition aligns axes. `Axes` keeps that knowledge as a union-find structure over
atoms in which an atom may later turn out to be a product. The query weight of an attention thus ends up as
(heads, head, embed), although the module only has a (4096, 4096) matrix.

>>> axes = Axes()
>>> wide = axes.new(12)
>>> heads, head = axes.reshape((wide,), (3, 4))
>>> axes.resolve(wide) == (*heads, *head)
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Axis = tuple[int, ...]
"""One axis: its atoms, outermost first; () if it has size 1."""
TensorAxes = tuple[Axis, ...]
"""The axes of one tensor."""


class Axes:
    """A union-find structure over atoms; an atom is a root, equal to another atom, or a product of two."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._parent: list[int] = []
        self._parts: dict[int, tuple[int, int]] = {}
        self._broadcast: set[int] = set()

    def new(self, size: int, *, broadcast: bool = False) -> Axis:
        """Make an axis of `size`, equal to no other; `broadcast` marks copies of one slice (expand)."""
        if size == 1:
            return ()
        self._sizes.append(size)
        self._parent.append(len(self._parent))
        if broadcast:
            self._broadcast.add(len(self._parent) - 1)
        return (len(self._parent) - 1,)

    def fresh(self, sizes: Sequence[int]) -> TensorAxes:
        """Make new axes for a whole tensor."""
        return tuple(self.new(size) for size in sizes)

    def _find(self, atom: int) -> int:
        while self._parent[atom] != atom:
            self._parent[atom] = self._parent[self._parent[atom]]
            atom = self._parent[atom]
        return atom

    def resolve(self, axis: Axis) -> Axis:
        """Return `axis` as it is known now: roots that are not products."""
        found: list[int] = []
        for atom in axis:
            root = self._find(atom)
            found.extend(self.resolve(self._parts[root]) if root in self._parts else (root,))
        return tuple(found)

    def size(self, axis: Axis) -> int:
        """Return the number of elements along `axis`."""
        return math.prod(self._sizes[self._find(atom)] for atom in axis)

    def unify(self, one: Axis, other: Axis) -> None:
        """Learn that two axes are the same; axes of different size are left alone."""
        if self.size(one) != self.size(other):
            return
        left, right = self.resolve(one), self.resolve(other)
        while left and right:
            x, y = left[0], right[0]
            if x != y and not self._equate(x, y):
                return
            # Equating may have split an atom that occurs again further right.
            left, right = self.resolve(left), self.resolve(right)
            while left and right and left[0] == right[0]:
                left, right = left[1:], right[1:]

    def _equate(self, x: int, y: int) -> bool:
        a, b = self._sizes[x], self._sizes[y]
        if a == b:
            self._parent[y] = x
            # A real axis somewhere is one everywhere.
            if y not in self._broadcast:
                self._broadcast.discard(x)
            return True
        big, small = (x, y) if a > b else (y, x)
        if self._sizes[big] % self._sizes[small]:
            return False
        self._parts[big] = (small, self.new(self._sizes[big] // self._sizes[small])[0])
        return True

    def split(self, atom: int, outer: int) -> tuple[int, int]:
        """Learn that root `atom` is `outer` times the rest."""
        first, rest = self.new(outer)[0], self.new(self._sizes[atom] // outer)[0]
        self._parts[atom] = (first, rest)
        return first, rest

    def reshape(self, axes: Sequence[Axis], sizes: Sequence[int]) -> TensorAxes:
        """Return the axes after a row-major view to `sizes`; those that do not divide evenly become new."""
        atoms = list(self.resolve(tuple(atom for axis in axes for atom in axis)))
        found: list[Axis] = []
        for size in sizes:
            taken = self._take(atoms, size)
            if taken is None:
                return (*found, *self.fresh(sizes[len(found) :]))
            copied = len(taken) > 1 and any(atom in self._broadcast for atom in taken)
            # Repeated slices merged with a real axis (repeated key heads) are an axis of their own.
            found.append(self.new(size) if copied else tuple(taken))
        return tuple(found)

    def _take(self, atoms: list[int], size: int) -> list[int] | None:
        taken: list[int] = []
        while size > 1:
            if not atoms:
                return None
            extent = self._sizes[atoms[0]]
            if size % extent == 0:
                taken.append(atoms.pop(0))
                size //= extent
            elif extent % size == 0:
                atoms[0:1] = self.split(atoms[0], size)
            else:
                return None
        return taken
