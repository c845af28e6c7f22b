"""A recurrent cell split by units computes what the whole one does, with the collectives it lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.graph import Layer, LayerGraph
from explorer.models.builder import GraphBuilder
from explorer.sharding import context_layout, megatron_layout, shard
from explorer.sharding.stage import Request
from tests.sharding import layers
from tests.sharding.checking import check, grid_request, random_values, without_internals
from tests.sharding.dense import Execution, Local, Shards

SEQ, EMBED, HIDDEN = 3, 4, 8


def model(projection: int = 0) -> LayerGraph:
    """Two LSTMs one on the other, and a product that reads them."""
    b = GraphBuilder("recurrent")
    x = b.linear("first", b.input("x", {"seq": SEQ, "features": 5}), {"embed": EMBED}, over=("features",))
    x = b.lstm("one", x, HIDDEN, projection=projection)
    x = b.lstm("two", x, HIDDEN, projection=projection, biases=1)
    b.linear("last", x, {"ffn": 8})
    return without_internals(b.build())


@dataclass
class Step:
    """What one device keeps of one step."""

    gates: np.ndarray
    before: np.ndarray
    memory: np.ndarray
    state: np.ndarray
    output: np.ndarray


class Cell:
    """The cell on all devices; what a step sends over the mesh is sent here."""

    def __init__(self, run: Execution, layer: Layer, reads: Sequence[Shards]) -> None:
        self.run, self.layer, self.z = run, layer, reads[0]
        self.axes = sorted({exchange.axis for exchange in run.plan(layer.name).forward})
        self.weights = {
            use.name.rpartition(".")[2]: run.weights[layer.name, use.name] for use in layer.parameters
        }
        self.steps: list[dict[tuple[int, ...], Step]] = []
        zero = {w: np.zeros((len(z.indices[0]), self.of("weight", w).shape[2])) for w, z in self.z.items()}
        for t in range(SEQ):
            before = {w: self.steps[-1][w].memory if t else 0.0 for w in self.z}
            last = {w: self.steps[-1][w].output if t else zero[w] for w in self.z}
            self.steps.append({w: self.step(w, t, last[w], before[w]) for w in self.z})
            self.exchange(self.steps[-1])

    def of(self, name: str, where: tuple[int, ...]) -> np.ndarray:
        return self.weights[name][where].values[0]

    def step(self, where: tuple[int, ...], t: int, state: np.ndarray, before: np.ndarray | float) -> Step:
        a = self.z[where].values[:, t] + np.einsum("ghs,zs->zgh", self.of("weight", where), state)
        if "bias" in self.weights:
            a = a + self.of("bias", where)
        i, f, o = (1 / (1 + np.exp(-a[:, k])) for k in (0, 1, 3))
        g = np.tanh(a[:, 2])
        memory = f * before + i * g
        before = np.broadcast_to(before, memory.shape)
        return Step(np.stack([i, f, g, o], 1), before, memory, state, o * np.tanh(memory))

    def exchange(self, step: dict[tuple[int, ...], Step]) -> None:
        """Make the output of a step whole: the sum of what the devices project, or all of their units."""
        mesh = self.run.mesh
        found = {w: Local(s.output, [self.z[w].indices[0], self.z[w].indices[3]]) for w, s in step.items()}
        if "projection" in self.weights:
            found = {
                w: Local(
                    x.values @ self.of("projection", w).T,
                    [x.indices[0], self.weights["projection"][w].indices[1]],
                )
                for w, x in found.items()
            }
        for axis in self.axes:
            if "projection" in self.weights:
                found = {w: mesh.summed(found, w, axis) for w in found}
            else:
                found = {w: mesh.gathered(found, w, axis, 1) for w in found}
        for w, local in found.items():
            step[w].output = local.values

    def outputs(self) -> Shards:
        """All states: whole if projected, else the units of each device."""
        found = {}
        for w, z in self.z.items():
            values, units = np.stack([step[w].output for step in self.steps], 1), np.arange(HIDDEN)
            if "projection" in self.weights:
                units = self.weights["projection"][w].indices[1]
            else:
                units, values = z.indices[3], values[:, :, z.indices[3]]
            found[w] = Local(values, [*z.indices[:2], units])
        return found

    def backward(self, gradients: Shards) -> layers.Gradients:
        back = {w: np.zeros_like(z.values) for w, z in self.z.items()}
        sums = {
            name: {w: np.zeros_like(x.values[0]) for w, x in held.items()}
            for name, held in self.weights.items()
        }
        memory = dict.fromkeys(self.z, np.zeros(()))
        fed: dict[tuple[int, ...], np.ndarray] = {w: np.zeros(()) for w in self.z}
        for t in reversed(range(SEQ)):
            partial = {}
            for w, z in self.z.items():
                s, whole = self.steps[t][w], gradients[w].values[:, t] + fed[w]
                if "projection" in self.weights:
                    h = s.gates[:, 3] * np.tanh(s.memory)
                    sums["projection"][w] += np.einsum("zs,zh->sh", whole, h)
                    whole = whole @ self.of("projection", w)
                a, memory[w] = self.step_back(s, whole, memory[w])
                back[w][:, t] = a
                sums["weight"][w] += np.einsum("zgh,zs->ghs", a, s.state)
                if "bias" in self.weights:
                    sums["bias"][w] += a.sum(0)
                local = np.einsum("zgh,ghs->zs", a, self.of("weight", w))
                partial[w] = Local(local, [z.indices[0], np.arange(local.shape[1])])
            for axis in self.axes:
                partial = {w: self.run.mesh.summed(partial, w, axis) for w in partial}
            own = "projection" not in self.weights
            fed = {w: x.values[:, self.z[w].indices[3]] if own else x.values for w, x in partial.items()}
        for_weights = [
            {
                w: Local(values[None], self.run.weights[self.layer.name, use.name][w].indices)
                for w, values in sums[use.name.rpartition(".")[2]].items()
            }
            for use in self.layer.parameters
        ]
        return [{w: Local(values, self.z[w].indices) for w, values in back.items()}], for_weights

    @staticmethod
    def step_back(s: Step, d_output: np.ndarray, d_memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        i, f, g, o = (s.gates[:, k] for k in range(4))
        squashed = np.tanh(s.memory)
        d = d_memory + d_output * o * (1 - squashed**2)
        parts = (
            d * g * i * (1 - i), d * s.before * f * (1 - f), d * i * (1 - g**2),
            d_output * squashed * o * (1 - o),
        )  # fmt: skip
        return np.stack(parts, 1), d * f


def forward(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    return [Cell(run, layer, reads).outputs()]


def backward(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> layers.Gradients:
    return Cell(run, layer, reads).backward(gradients[0])


@pytest.fixture(autouse=True)
def cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(layers.FORWARD, "recurrent", forward)
    monkeypatch.setitem(layers.BACKWARD, "recurrent", backward)


LAYOUTS = {
    "units": ((("hidden", "a"),), {"a": 4}),
    "units twice": ((("hidden", "a"), ("hidden", "b")), {"a": 2, "b": 2}),
    "units and what is fed back": ((("hidden", "a"), ("embed", "b")), {"a": 2, "b": 2}),
    "all that megatron names": (megatron_layout("a"), {"a": 4}),
    "by step, which no cell is": (context_layout("a"), {"a": 3}),
}


@pytest.mark.parametrize("projection", [0, 4])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str, projection: int) -> None:
    layout, sizes = LAYOUTS[name]
    run = check(model(projection), grid_request(layout, sizes))
    split = any(dim == "hidden" for dim, _ in layout)
    assert run.plan("one.cell").work == (0.25 if name in ("units", "units twice") else 0.5 if split else 1)


@pytest.mark.parametrize("projection", [0, 4])
def test_a_collective_in_every_step(projection: int) -> None:
    """SEQ of them each way: all units gathered, or the projection reduced; never the sequence at once."""
    result = shard(model(projection), ("one.cell",), layout=(("hidden", "t"),), sizes={"t": 4})
    ways = {
        way: Counter(
            (item.op, item.elements_per_sample) for item in getattr(result, way) if item.layer == "one.cell"
        )
        for way in ("forward", "backward")
    }
    both = ("all_reduce", "all_reduce") if projection else ("all_gather", "reduce_scatter")
    assert ways == {
        way: {(op, projection or HIDDEN): SEQ} for way, op in zip(("forward", "backward"), both, strict=True)
    }
    assert not result.partial_gradients


@settings(max_examples=8)
@given(st.sampled_from([0, 4]), st.integers(0, 2**16))
def test_the_executor_is_an_lstm(projection: int, seed: int) -> None:
    """The reference itself: forward and gradients of the dense execution are those of torch."""
    torch = pytest.importorskip("torch")
    graph = model(projection)
    values, cotangents = random_values(graph, 2, seed)
    run = Execution(graph, Request((), (), ()), values)
    after = run.forward()
    arrived, weights = run.backward(cotangents)
    width = projection or HIDDEN
    lstm = torch.nn.LSTM(EMBED, HIDDEN, proj_size=projection, batch_first=True, dtype=torch.float64)
    names = {
        "weight_ih_l0": "one.input.weight", "bias_ih_l0": "one.input.bias", "weight_hh_l0": "one.cell.weight",
        "bias_hh_l0": "one.cell.bias", "weight_hr_l0": "one.cell.projection",
    }  # fmt: skip
    held = dict(lstm.named_parameters())
    with torch.no_grad():
        for name, parameter in held.items():
            parameter.copy_(torch.from_numpy(values[names[name]]).reshape(parameter.shape))
    y, _ = lstm(torch.from_numpy(after["first"][()].values))
    np.testing.assert_allclose(y.detach().numpy(), after["one.cell"][()].values, rtol=1e-10)
    y.backward(torch.from_numpy(arrived["one.cell"][()].values.reshape(2, SEQ, width)))
    for name, parameter in held.items():
        assert parameter.grad is not None
        mine = weights[names[name]].reshape(parameter.shape)
        np.testing.assert_allclose(parameter.grad.numpy(), mine, rtol=1e-9, atol=1e-12)
