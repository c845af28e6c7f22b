"""Meshes: rows by their definition, and what they keep of themselves."""

from __future__ import annotations

import math
import pickle

from hypothesis import given
from hypothesis import strategies as st

from explorer.strategy import REPLICA, Mesh

AXES = st.permutations([REPLICA, "tensor", "context"]).flatmap(
    lambda names: st.integers(0, 3).flatmap(
        lambda count: st.tuples(*(st.tuples(st.just(name), st.integers(1, 4)) for name in names[:count]))
    )
)


def rows_by_definition(mesh: Mesh) -> tuple[tuple[int, ...], ...]:
    """The devices of each coordinate of the replica axis, in mesh order."""
    rows: list[list[int]] = [[] for _ in range(mesh.replicas)]
    for position, device in enumerate(mesh.devices):
        rows[mesh.coordinates(position).get(REPLICA, 0)].append(device)
    return tuple(map(tuple, rows))


@given(axes=AXES, data=st.data())
def test_a_row_holds_the_devices_of_one_replica(
    axes: tuple[tuple[str, int], ...], data: st.DataObject
) -> None:
    count = math.prod(size for _, size in axes)
    devices = tuple(data.draw(st.permutations(range(3, 3 + count))))
    mesh = Mesh(devices=devices, axes=axes)
    assert mesh.rows == rows_by_definition(mesh)
    assert mesh.rows is mesh.rows


def test_equal_meshes_are_equal_keys() -> None:
    one, other = (Mesh(devices=tuple(range(8)), axes=((REPLICA, 2), ("tensor", 4))) for _ in range(2))
    assert {one: 1}[other] == 1
    assert one != Mesh(devices=tuple(range(8)))


def test_a_pickle_holds_only_what_was_given() -> None:
    mesh = Mesh(devices=tuple(range(64)))
    fresh = len(pickle.dumps(mesh))
    assert len(mesh.rows) == 64
    assert hash(mesh)
    assert len(pickle.dumps(mesh)) == fresh
    assert pickle.loads(pickle.dumps(mesh)) == mesh
