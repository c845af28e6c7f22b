"""A slice run: a rank's own layers alone, on modules whose answer is known."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from explorer.base.errors import InputError
from explorer.cli.main import main
from explorer.cli.slicing import slice_text
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.models.captured_program import Capturing, capture_program
from explorer.models.module_source import open_module
from explorer.plan import Reference, Resolved, make_plan
from explorer.run.judging.compare import OFF
from explorer.run.one_rank.faked_peers import FakedPeers
from explorer.run.one_rank.findings import layer_errors
from explorer.run.one_rank.rank_layers import RankLayers, one_thread
from explorer.run.one_rank.slice_run import run_slice
from explorer.strategies.memory_choices import with_layer_choice
from explorer.strategies.uniform import uniform
from explorer.strategy import REPLICA, Mesh, Stage, Strategy
from explorer.workload import default_workload
from tests.run.test_cost_check import machine

WIDTH = 64


class Block(nn.Module):
    """Two products around a gelu, beside what goes in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.act = nn.LayerNorm(WIDTH), nn.GELU()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.act(self.up(self.norm(x))))


class Stack(nn.Module):
    """A table, blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 50, bias=False)
        self.layers = nn.ModuleList(Block() for _ in range(4))

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.fixture(scope="module")
def source() -> Capturing:
    return Capturing(
        module=Stack(), kwargs={"tokens": torch.zeros(1, 32, dtype=torch.long)}, name="stack", loss=True
    )


def plan(source: Capturing, *, optimizer: str = "adam", **shape: Any) -> Resolved:
    graph, cluster = capture_program(source).graph, load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=32, optimizer=optimizer, precision="fp32")
    strategy = uniform(graph, cluster, workload.job, **shape)
    made = make_plan("stack", graph, "dgx-a100", cluster, workload, strategy)
    return Resolved(plan=made, graphs={"model": graph}, cluster=cluster)


@pytest.mark.parametrize(("schedule", "rank"), [("1f1b", 1), ("gpipe", 2), ("interleaved_1f1b", 0)])
def test_a_rank_alone_holds_what_the_plan_says(source: Capturing, schedule: str, rank: int) -> None:
    """Activations, weights, gradients and states of every microbatch in flight, to some per cent."""
    chunks = {"chunks": 2} if schedule == "interleaved_1f1b" else {}
    stages = 2 if chunks else 4
    asked = plan(source, stages=stages, microbatches=8, schedule=schedule, **chunks)
    found = run_slice(asked, source, rank=rank, microbatches=4 if chunks else 6)
    assert (found.rank, len(found.stages)) == (rank, 2 if chunks else 1)
    assert found.memory.measured_bytes == pytest.approx(found.memory.predicted_bytes, rel=0.12)
    assert {item.action[0] for item in found.actions} == {"F", "B", "U"}
    assert (found.device, found.clock, found.verdict, found.predicted_s) == ("cpu", "processor", "", None)
    assert "explorer profile" in found.costs_missing
    assert ("microbatches of a step", "8", "4" if chunks else "6") in found.shortened


def last_blocks(asked: Resolved, count: int) -> Resolved:
    """The plan in which every stage makes its last blocks again."""
    graph, job = asked.graph, asked.plan.strategy.job
    for stage in job.stages:
        blocks = list(dict.fromkeys(filter(None, (graph.layer[name].block for name in stage.layers))))
        names = [name for name in stage.layers if graph.layer[name].block in blocks[-count:]]
        job = with_layer_choice(job, names, "full")
    return replace(asked, plan=replace(asked.plan, strategy=Strategy(jobs=(job,))))


def test_two_of_four_blocks_made_again_hold_bytes_between_none_and_all(source: Capturing) -> None:
    asked = plan(source, microbatches=4)
    none, two, every = (
        run_slice(made, source, rank=0, microbatches=2).memory
        for made in (asked, last_blocks(asked, 2), plan(source, microbatches=4, recompute="full"))
    )
    assert every.measured_bytes < two.measured_bytes < none.measured_bytes
    off = [abs(two.measured_bytes - item.predicted_bytes) for item in (two, none, every)]
    assert off[0] < min(off[1:]), "nearer to its own prediction than to the others"
    assert two.measured_bytes == pytest.approx(two.predicted_bytes, rel=0.12)


def test_gradients_are_summed_over_the_microbatches_of_a_step(source: Capturing) -> None:
    """As many backwards as forwards, and one update of each stage in each step."""
    found = run_slice(plan(source, stages=2, microbatches=4), source, rank=1, microbatches=4)
    count = {item.action: item.count for item in found.actions}
    assert count["F1"] == count["B1"] == 4 * count["U1"]
    assert {item.layer for item in found.layers} >= {"head", "layers.3.up"}
    assert all(item.samples == 8 for item in found.layers)


def test_what_every_layer_keeps_is_what_the_plan_says(source: Capturing) -> None:
    """Tensors saved once each; a norm's mean and deviation per token are the only ones left out."""
    found = run_slice(plan(source, stages=2, microbatches=4), source, rank=0, microbatches=4)
    errors = layer_errors(found.layers, found.saved)
    assert set(errors) == {item.layer for item in found.layers} >= {"embed", "layers.1.down"}
    for name, item in errors.items():
        more = 2 * 8 * 32 * 4 if name.endswith("norm") else 0
        assert item.measured_bytes == item.predicted_bytes + more, name
    assert errors["layers.0.act"].bytes_pct == 0
    assert errors["layers.0.residual"].bytes_pct is None, "it keeps nothing"
    assert errors["layers.0.up"].seconds_pct is None, "without a profile"
    assert errors["layers.0.up"].measured_s > 0


def test_replicas_have_their_part_of_the_samples(source: Capturing) -> None:
    found = run_slice(plan(source, stages=2, replicas=2, microbatches=4), source, rank=0, microbatches=4)
    assert {item.samples for item in found.layers} == {4}


@pytest.mark.parametrize(("zero", "optimizer"), [(1, "adam"), (2, "adam"), (2, "momentum"), (3, "adam")])
def test_a_rank_under_zero_holds_its_part_of_the_states(source: Capturing, zero: int, optimizer: str) -> None:
    """The other ranks are faked; its own share of states and gradients is as the plan says."""
    shape = {"stages": 2, "replicas": 4, "microbatches": 4, "optimizer": optimizer}
    plain = run_slice(plan(source, **shape), source, rank=0, microbatches=4)
    found = run_slice(plan(source, zero=zero, **shape), source, rank=0, microbatches=4)
    assert ("other ranks that share its states", "3", "faked") in found.shortened
    assert not any("share its states" in what for what, _, _ in plain.shortened)
    assert found.memory.measured_bytes == pytest.approx(found.memory.predicted_bytes, rel=0.06)
    assert found.memory.measured_bytes < 0.85 * plain.memory.measured_bytes


@pytest.mark.parametrize("sequence", [False, True])
def test_a_rank_of_a_lane_has_its_pieces(sequence: bool) -> None:
    """A GPT over 2 ranks: peak bytes as the plan says, and fewer than of whole layers."""
    reference, settings = "gpt", {"layers": "4", "embed": "64", "heads": "4", "vocab": "128"}
    peaks = {}
    for tensor in (1, 2):
        asked = gpt(reference, settings, tensor=tensor, sequence_parallel=sequence and tensor > 1)
        module = open_module(reference, settings=settings, sequence_length=64)
        found = run_slice(asked, module, rank=0, microbatches=3, profile=machine(2))
        assert found.memory.measured_bytes == pytest.approx(found.memory.predicted_bytes, rel=0.15)
        assert all(action.predicted_s for action in found.actions)
        assert all(item.predicted_s[0] > 0 for item in found.layers if item.layer.endswith("qkv"))
        assert ("other ranks of its lane", "1", "imagined, not timed") in found.shortened or tensor == 1
        peaks[tensor] = found
    assert peaks[2].memory.measured_bytes < 0.75 * peaks[1].memory.measured_bytes
    whole, part = ({a.action: a.predicted_s or 0.0 for a in peaks[t].actions} for t in (1, 2))
    assert 0.4 * whole["U0"] < part["U0"] < 0.65 * whole["U0"]
    assert part["F0"] < 0.8 * whole["F0"]


def gpt(reference: str, settings: dict[str, str], **shape: Any) -> Resolved:
    graph, cluster = load_model(reference, settings=settings, sequence_length=64), load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=16, optimizer="adam", precision="fp32")
    strategy = uniform(graph, cluster, workload.job, microbatches=4, **shape)
    named = Reference(reference=reference, settings=tuple(settings.items()), sequence_length=64)
    made = make_plan(named, graph, "dgx-a100", cluster, workload, strategy)
    return Resolved(plan=made, graphs={"model": graph}, cluster=cluster)


def test_a_rank_that_recomputes_keeps_the_inputs_of_its_blocks(source: Capturing) -> None:
    shape = {"stages": 2, "microbatches": 4}
    plain = run_slice(plan(source, **shape), source, rank=0, microbatches=4)
    found = run_slice(plan(source, recompute="full", **shape), source, rank=0, microbatches=4)
    assert found.memory.measured_bytes == pytest.approx(found.memory.predicted_bytes, rel=0.12)
    assert found.memory.measured_bytes < 0.8 * plain.memory.measured_bytes


def test_a_backward_that_recomputes_is_predicted_longer_by_its_blocks_forward(source: Capturing) -> None:
    profile = machine(2)
    shape = {"stages": 2, "microbatches": 4}
    plain, again = (
        {
            item.action: item.predicted_s
            for item in run_slice(plan(source, **shape, **more), source, rank=0, profile=profile).actions
        }
        for more in ({}, {"recompute": "full"})
    )
    assert again["F0"] == plain["F0"]
    assert plain["B0"] < again["B0"] < plain["B0"] + plain["F0"], "the table is outside of blocks"


def test_recomputing_changes_no_gradient(source: Capturing) -> None:
    program = capture_program(source, samples=2)
    names = tuple(layer.name for layer in program.graph.layers)
    found = []
    for recompute in ("none", "full"):
        torch.manual_seed(3)
        stage = Stage(layers=names, meshes=(Mesh(devices=(0,)),), recompute=recompute)
        runner = RankLayers(program, source, {0: stage}, "sgd", "cpu")
        module = runner.modules[0]
        made = module(runner._given(module, gradients=True), runner.weights, runner.peers)
        torch.autograd.backward(*runner._roots(made))
        found.append({name: weight.grad for name, weight in runner.weights.items()})
    plain, again = found
    assert all(torch.equal(plain[name], again[name]) for name in plain)  # type: ignore[arg-type]


def test_faked_peers_leave_a_rank_the_first_of_equal_shares() -> None:
    weights = {name: torch.arange(6.0).view(2, 3).requires_grad_() for name in ("whole", "states", "both")}
    peers = FakedPeers(weights, {"whole": (0, 4), "states": (1, 4), "both": (2, 4)})
    for _ in range(2):
        sum((weight * weight).sum() for weight in weights.values()).backward()
    assert [tuple(item.shape) for item in peers.own(weights).values()] == [(2, 3), (2,), (2,)]
    assert weights["both"].grad is None, "it went to its owners"
    found = peers.gradients(weights)
    assert [item.flatten().tolist() for item in found.values()] == [
        [4.0 * i for i in range(6)],
        [0, 4],
        [0, 4],
    ]
    assert "both" not in peers.gradients(weights), "sums begin anew"
    peers.own(["states"])["states"].fill_(9.0)
    assert weights["states"].flatten().tolist() == [9, 9, 2, 3, 4, 5]


def test_a_rank_that_gathers_has_the_weights_of_two_blocks_and_the_gradients_of_the_whole(
    source: Capturing,
) -> None:
    """Divided weights are whole while a block works and no longer; gradients are those of whole weights."""
    program = capture_program(source, samples=2)
    names = tuple(layer.name for layer in program.graph.layers)
    found = []
    for zero, recompute in ((0, "none"), (3, "none"), (3, "full")):
        torch.manual_seed(3)
        mesh = Mesh(devices=(0, 1), axes=((REPLICA, 2),))
        stage = Stage(layers=names, meshes=(mesh,), recompute=recompute, zero=zero)
        runner = RankLayers(program, source, {0: stage}, "sgd", "cpu")
        module = runner.modules[0]
        if not zero:  # the others have of every weight what this rank has
            for name, part in known_parts(runner).items():
                repeat(part, runner.weights[name])
        made = module(runner._given(module, gradients=True), runner.weights, runner.peers)
        assert whole_ones(runner) == (set() if zero else set(runner.weights))
        torch.autograd.backward(*runner._roots(made))
        assert whole_ones(runner) == (set() if zero else set(runner.weights))
        found.append(runner.peers.gradients(runner.weights))
    plain, divided, again = found
    for name, part in divided.items():
        assert torch.equal(part, again[name])
        assert torch.allclose(part, plain[name].reshape(-1)[: part.numel()], rtol=1e-4, atol=1e-6), name


def whole_ones(runner: RankLayers) -> set[str]:
    """The weights of which a rank has all now."""
    return {name for name, item in runner.weights.items() if item.untyped_storage().size()}


def known_parts(runner: RankLayers) -> dict[str, torch.Tensor]:
    """The first halves of all weights."""
    return {n: w.detach().reshape(-1)[: -(-w.numel() // 2)].clone() for n, w in runner.weights.items()}


def repeat(part: torch.Tensor, weight: torch.Tensor) -> None:
    """Fill a weight with a part of it, again and again."""
    for piece in weight.detach().view(-1).split(part.numel()):
        piece.copy_(part[: piece.numel()])


def test_a_profile_that_is_wrong_is_found_out(source: Capturing) -> None:
    fast = machine(1, peak_flops_per_s=(("fp32", 1e15),), memory_bandwidth_bytes_per_s=1e15)
    found = run_slice(plan(source, stages=2, microbatches=4), source, rank=0, microbatches=4, profile=fast)
    assert found.error_pct is not None
    assert found.error_pct < -30
    assert found.verdict == OFF
    said = slice_text(found)
    assert "seconds        off: " in said
    assert "by mine: " in said
    assert sum(line.startswith("layer ") for line in said.splitlines()) == 5
    assert asdict(found)["actions"][0]["predicted_s"] > 0
    worst = layer_errors(found.layers)["layers.0.up"].seconds_pct
    assert worst is not None
    assert worst < -30


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"stages": 2, "microbatches": 4, "recompute": "selective"}, "selective recomputation"),
        ({"tensor": 2, "replicas": 2, "microbatches": 4, "zero": 3}, "ZeRO 3 gathers their pieces"),
        ({"tensor": 2, "microbatches": 4, "recompute": "full"}, "cut, and computed again"),
        ({"stages": 2, "microbatches": 4, "schedule": "zb_h1"}, "without split backwards"),
        (
            {
                "stages": 2,
                "chunks": 2,
                "replicas": 2,
                "microbatches": 4,
                "zero": 3,
                "schedule": "breadth_first",
            },
            "gathers weights for every action",
        ),
    ],
)
def test_what_no_rank_can_do_alone_is_refused(source: Capturing, shape: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        run_slice(plan(source, **shape), source)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"offload": ("optimizer",)}, "optimizer in the host's memory"),
        ({"offload": ("activations", "optimizer")}, "activations and optimizer in the host's memory"),
        ({"density": 0.5}, "pruned weights only"),
    ],
)
def test_what_a_slice_would_hold_otherwise_is_refused(
    source: Capturing, choice: dict[str, Any], said: str
) -> None:
    """Its peak would stand beside one that counts it."""
    asked = plan(source, stages=2, microbatches=4)
    job = asked.plan.strategy.job
    job = job.with_stages([replace(stage, **choice) for stage in job.stages])
    changed = replace(asked.plan, strategy=Strategy(jobs=(job,)))
    with pytest.raises(InputError, match=f"stage 0 cannot run alone: .*{said}"):
        run_slice(replace(asked, plan=changed), source)


def test_ranks_and_models_that_are_not_there(source: Capturing) -> None:
    asked = plan(source, stages=2, microbatches=4)
    with pytest.raises(InputError, match="the plan has no rank 7"):
        run_slice(asked, source, rank=7)
    plain = nn.Sequential(nn.Linear(4, 4))
    other = replace(source, module=plain, kwargs={}, args=(torch.zeros(1, 4),), loss=False)
    with pytest.raises(InputError, match="the module has no layer"):
        run_slice(asked, other)


def test_more_than_there_is_is_refused_before_anything_starts(
    source: Capturing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.run.one_rank.fitting.free_bytes", lambda _device: 1024.0)
    told: list[str] = []
    with pytest.raises(InputError, match=r"the rank needs .* of tensors, and 1.0 KiB are free here"):
        run_slice(plan(source, stages=2, microbatches=4), source, tell=told.append)
    assert not told


def test_the_command_line_runs_a_zoo_models_own_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path))  # where no profile is kept
    shape = ["--stages", "2", "--microbatches", "4", "--global-batch", "4", "--seq-len", "16"]
    sizes = [part for pair in ("layers=2", "embed=32", "heads=2", "vocab=64") for part in ("--set", pair)]
    file = str(tmp_path / "plan.yaml")
    assert main(["simulate", "--model", "gpt", "--cluster", "dgx-a100", *sizes, *shape, "-o", file]) == 0
    capsys.readouterr()
    assert main(["validate", file, "--engine", "slice", "--rank", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    found = found.get("validate", found.get("data", found))
    assert (found["engine"], found["rank"], found["profile"]) == ("slice", 1, "")
    assert {"norm", "head", "loss"} <= {item["layer"] for item in found["layers"]}
    for flags in (["--engine", "slice", "--steps", "3"], ["--rank", "0"]):
        assert main(["validate", file, *flags]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_threads_are_as_before() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
