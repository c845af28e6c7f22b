"""The command line as others rely on it: JSON keys, exit statuses, one-line errors, standard input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import RunError
from explorer.cli import main, searching
from explorer.simulation.report import NO_FLOPS

SMALL = ["--model", "gpt2-small", "--cluster", "dgx-a100", "--global-batch", "16"]
SHAPE = ["--stages", "4", "--microbatches", "8"]
SIMULATE_KEYS = {
    "step_time_s", "makespan_s", "device_span_s", "throughput_samples_per_s", "speedup", "baseline",
    "bubble_fraction", "mfu", "feasible", "peak_memory_bytes", "devices", "device_busy_s", "traffic_bytes",
}  # fmt: skip
SEARCH_KEYS = {
    "searcher", "objective", "objective_value", "objective_unit", "lower_bound", "bound", "optimal",
    "evaluations", "wall_s", "plan", "frontier",
}  # fmt: skip


class Output:
    """Exit status, standard output and standard error of one command."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        assert self.out.count("\n") == 1
        found: dict[str, Any] = json.loads(self.out)
        assert {"schema", "explorer_version"} <= set(found)
        return found


Run = Callable[..., Output]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Output:
        capsys.readouterr()
        status = main([str(item) for item in arguments])
        caught = capsys.readouterr()
        assert "Traceback" not in caught.out + caught.err
        return Output(status, caught.out, caught.err)

    return call


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "even.yaml"
    assert main(["search", *SMALL, "--searcher", "even", "--option", "stages=4", "-o", str(path)]) == 0
    return path


# ---- what each command prints -------------------------------------------------------------------


@pytest.mark.parametrize(
    "what", ["models", "clusters", "frameworks", "schedules", "searchers", "updates", "exporters"]
)
def test_list(what: str, run: Run) -> None:
    rows = run("list", what, "--json").json[what]
    assert rows
    assert all(row["name"] and row["title"] for row in rows)
    assert rows[0]["name"] in run("list", what).out


@pytest.mark.parametrize("name", ["plan", "cluster", "layer_graph"])
def test_schema(name: str, run: Run) -> None:
    assert run("schema", name, "--json").json["json_schema"]["properties"]


def test_simulate(run: Run) -> None:
    done = run("simulate", *SMALL, *SHAPE, "--json")
    found = done.json
    assert done.status == 0
    assert set(found) >= SIMULATE_KEYS
    count = len(found["devices"])
    assert count == 4
    assert all(len(found[key]) == count for key in ("peak_memory_bytes", "device_busy_s", "device_span_s"))
    assert all(len(row) == 3 for row in found["traffic_bytes"])
    assert found["baseline"] == "single"
    assert found["speedup"] > 1


def test_simulate_for_people(run: Run) -> None:
    assert "step time" in run("simulate", *SMALL, *SHAPE).out


@pytest.mark.parametrize("baseline", ["single", "dp", "even"])
def test_simulate_against_a_baseline(baseline: str, run: Run) -> None:
    assert run("simulate", *SMALL, *SHAPE, "--baseline", baseline, "--json").json["baseline"] == baseline


def test_simulate_of_a_plan_equals_the_search_that_made_it(plan: Path, run: Run) -> None:
    found = run("simulate", "--plan", plan, "--json").json
    again = run("search", *SMALL, "--searcher", "even", "--option", "stages=4", "--json").json
    assert found["step_time_s"] == pytest.approx(again["objective_value"], rel=1e-12)


@pytest.mark.parametrize("objective", ["time", "memory", "frontier"])
def test_search(objective: str, run: Run) -> None:
    limits = ["--objective", objective, "--max-evaluations", "5", "--searcher", "exhaustive"]
    done = run("search", *SMALL, *limits, "--json")
    found = done.json
    assert done.status == 0
    assert set(found) >= SEARCH_KEYS
    assert found["objective_unit"] == ("bytes" if objective == "memory" else "s")
    assert found["evaluations"] <= 5
    assert found["frontier"]
    assert found["lower_bound"] is None or found["lower_bound"] <= found["objective_value"]


def test_search_by_two_processes_finds_the_same(run: Run) -> None:
    one, two = (
        run("search", *SMALL, "--searcher", "local", "--max-evaluations", "12", "--jobs", jobs, "--json").json
        for jobs in ("1", "2")
    )
    one["wall_s"] = two["wall_s"]
    one["plan"]["provenance"].pop("created", None)
    two["plan"]["provenance"].pop("created", None)
    assert one == two


def test_search_default_is_the_portfolio(run: Run) -> None:
    assert run("search", *SMALL, "--max-evaluations", "2", "--json").json["searcher"] == "auto"


def test_search_with_a_published_cost_model_needs_no_cluster(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "two.graph.txt"
    file.write_text(
        "node1 -- Linear -- forward_compute_time=10.0, backward_compute_time=20.0, "
        "activation_size=1000.0, parameter_size=0.0\n"
        "node2 -- Linear -- forward_compute_time=10.0, backward_compute_time=20.0, "
        "activation_size=1000.0, parameter_size=0.0\n\tnode1 -- node2\n"
    )
    options = ["cost_model=original", "devices=2", "bandwidth_bytes_per_s=1e9", "transfers=counted"]
    flags = [part for option in options for part in ("--option", option)]
    found = run("search", "--model", file, "--searcher", "pipedream", *flags, "--json").json
    assert found["objective_value"] == pytest.approx(0.03, rel=1e-12)
    assert found["objective_unit"] == "s"
    assert found["lower_bound"] == found["objective_value"]
    assert found["optimal"] is True
    assert found["bound"] == "its own cost model"


def test_pin(run: Run) -> None:
    found = run("search", *SMALL, "--searcher", "even", "--pin", "embed=0", "--json").json
    assert "embed" in found["plan"]["strategy"]["jobs"][0]["stages"][0]["layers"][0]


def test_explain(plan: Path, run: Run) -> None:
    found = run("explain", plan, "--json").json
    assert found["step_time_s"] > 0
    assert found["sentences"][0]["text"]


def test_sweep(plan: Path, run: Run) -> None:
    rows = run("sweep", plan, "--over", "global_batch=16,32", "--json").json["rows"]
    assert [row["global_batch"] for row in rows] == [16, 32]
    assert rows[1]["step_time_s"] > rows[0]["step_time_s"]


def test_sweep_over_devices_scales_strongly_and_weakly(plan: Path, run: Run) -> None:
    strong = run("sweep", plan, "--over", "devices=4,8,5", "--json").json["rows"]
    assert [row["devices"] for row in strong] == [4, 8, None]
    assert strong[0]["global_batch"] == strong[1]["global_batch"]
    assert "a multiple of" in strong[2]["problem"]
    weak = run("sweep", plan, "--over", "devices=4,8", "--weak", "--json").json
    assert weak["weak"]
    batches = [row["global_batch"] for row in weak["rows"]]
    assert batches[1] == 2 * batches[0]
    assert "a multiple of" in run("sweep", plan, "--over", "devices=4,5").out


def test_check_and_diff(plan: Path, run: Run) -> None:
    assert run("check", plan, "--json").json["problems"] == []
    found = run("diff", plan, plan, "--json").json
    assert found["differences"] == []
    assert found["numbers"]["step_time_s"][0] == found["numbers"]["step_time_s"][1]


def test_export_and_import(plan: Path, tmp_path: Path, run: Run) -> None:
    files = run("export", plan, "--to", "plan", "-o", tmp_path / "out", "--json").json["files"]
    assert files
    assert all(Path(file).exists() for file in files)


def test_trace(plan: Path, tmp_path: Path, run: Run) -> None:
    pytest.importorskip("explorer.views.trace")
    assert run("trace", plan, "-o", tmp_path / "trace.json").status == 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


# ---- exit statuses ------------------------------------------------------------------------------

TOO_LARGE = ["--model", "gpt2-xl", "--cluster", "dgx-1-v100", "--global-batch", "8", "--precision", "fp16"]


def test_infeasible_simulation(run: Run) -> None:
    done = run("simulate", *TOO_LARGE, "--require-feasible")
    assert done.status == 3
    assert "Device 0 needs" in done.err
    found = run("simulate", *TOO_LARGE, "--require-feasible", "--json")
    assert found.status == 3
    assert found.json["feasible"] is False
    assert "Device 0 needs" in found.json["error"]["message"]
    assert run("simulate", *TOO_LARGE).status == 0


def test_infeasible_search(run: Run) -> None:
    flags = ["--searcher", "even", "--option", "stages=1", "--memory-limit", "4"]
    done = run("search", *TOO_LARGE, *flags)
    assert done.status == 3
    assert done.err.count("\n") == 1
    found = run("search", *TOO_LARGE, *flags, "--json")
    assert found.status == 3
    assert found.json["plan"] is None
    assert found.json["error"]["message"]


def test_a_search_says_how_many_cannot_be_simulated(run: Run) -> None:
    """A schedule that reads its order from the plan orders nothing that a searcher makes up."""
    arguments = ("--schedule", "custom", "--max-evaluations", "2")
    done = run("search", "--model", "vgg16", "--cluster", "dgx-1-v100", *arguments)
    assert done.status == 3
    assert "in 2 evaluations (2 candidates cannot be simulated)" in done.err


def test_an_interrupted_search_still_prints_its_best(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = searching.search

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        for item in whole(*args, **kwargs):
            yield item
            if item.best is not None:
                raise KeyboardInterrupt

    monkeypatch.setattr(searching, "search", interrupted)
    done = run("search", *SMALL, "--json")
    assert done.status == 130
    assert done.json["objective_value"] > 0
    assert done.json["plan"]


def test_an_interrupt_before_anything_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(searching, "search", interrupted)
    assert run("search", *SMALL).status == 130


def test_a_failed_run(plan: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RunError("rank 1 ended", rank=1)

    monkeypatch.setattr("explorer.run.validate", fail, raising=False)
    done = run("validate", plan)
    assert done.status == 4
    assert done.err.strip() == "explorer: rank 1 ended"


# ---- degrees, devices and objectives by flag ----------------------------------------------------


def test_microbatches_without_a_batch_make_one(run: Run) -> None:
    small = ["--model", "gpt2-small", "--cluster", "dgx-a100", "--stages", "2", "--dp", "2"]
    done = run("simulate", *small, "--microbatches", "7", "--json")
    assert done.json["throughput_samples_per_s"] * done.json["step_time_s"] == pytest.approx(14)
    done = run("simulate", *small, "--microbatches", "7", "--microbatch-size", "3", "--json")
    assert done.json["throughput_samples_per_s"] * done.json["step_time_s"] == pytest.approx(42)


def test_without_a_microbatch_size_the_fastest_is_taken(run: Run) -> None:
    steps = {
        size: run("simulate", *SMALL, "--stages", "4", *size, "--json").json["step_time_s"]
        for size in [(), *(("--microbatch-size", str(2**k)) for k in range(5))]
    }
    assert steps[()] == min(steps.values())
    assert len(set(steps.values())) == 5


def test_every_degree_has_a_flag(run: Run) -> None:
    mixtral = ["--model", "mixtral-8x7b", "--cluster", "dgx-a100", "--global-batch", "8", "--seq-len", "1024"]
    degrees = ["--tp", "2", "--cp", "2", "--dp", "2", "--ep", "4", "--sequence-parallel"]
    for exchange in ("gather", "ring", "all_to_all"):
        done = run("simulate", *mixtral, *degrees, "--cp-exchange", exchange, "--json")
        assert done.status == 0, done.err
        assert done.json["devices"] == list(range(8))


def test_devices_by_rank(run: Run) -> None:
    small = ["--model", "gpt2-small", "--cluster", "mixed-v100-a100", "--global-batch", "64"]
    slow = run("simulate", *small, "--devices", "0-7", "--json").json
    fast = run("simulate", *small, "--devices", "8-15", "--json").json
    assert slow["devices"] == list(range(8))
    assert fast["devices"] == list(range(8, 16))
    assert fast["step_time_s"] < slow["step_time_s"]
    found = run("search", *small, "--max-devices", "8", "--json", "--max-evaluations", "40").json
    assert found["objective_value"] < 0.051
    places = [mesh["devices"] for s in found["plan"]["strategy"]["jobs"][0]["stages"] for mesh in s["meshes"]]
    assert {device for place in places for device in place} == set(range(8, 16))


def test_a_search_may_be_limited_and_keeps_a_frontier_of_three(run: Run) -> None:
    flags = ["--objective", "frontier:time,memory,cost", "--devices", "4-7,0", "--memory-limit", "12GiB"]
    found = run("search", *SMALL, *flags, "--ban", "embed=0", "--max-evaluations", "30", "--json").json
    assert found["objective_unit"] == "s"
    assert len(found["frontier"]) > 1
    for item in found["frontier"]:
        assert item["peak_memory_bytes"] <= 12 * 2**30
        assert set(item["values"]) == {"time", "memory", "cost"}
        assert item["values"]["time"] == item["step_time_s"]


# ---- bad input ----------------------------------------------------------------------------------

PLAN = "<plan>"
BAD = {
    "no command": [],
    "unknown command": ["dance"],
    "unknown list": ["list", "planets"],
    "unknown schema": ["schema", "poem"],
    "unknown flag": ["simulate", *SMALL, "--fast"],
    "no model": ["simulate"],
    "unknown model": ["simulate", "--model", "gpt2-smal", "--cluster", "dgx-a100"],
    "unknown cluster": ["simulate", "--model", "gpt2-small", "--cluster", "dgx-a10"],
    "no cluster": ["simulate", "--model", "gpt2-small"],
    "missing cluster file": ["simulate", "--model", "gpt2-small", "--cluster", "nowhere.yaml"],
    "missing model file": ["simulate", "--model", "nowhere.json", "--cluster", "dgx-a100"],
    "unknown schedule": ["simulate", *SMALL, *SHAPE, "--schedule", "waltz"],
    "too many stages": ["simulate", *SMALL, "--stages", "99"],
    "no stages": ["simulate", *SMALL, "--stages", "0"],
    "no microbatches": ["simulate", *SMALL, "--microbatches", "0"],
    "no samples": ["simulate", *SMALL, "--microbatch-size", "0"],
    "no replicas": ["simulate", *SMALL, "--dp", "0"],
    "no tensor size": ["simulate", *SMALL, "--tp", "0"],
    "no chunks": ["simulate", *SMALL, "--chunks", "0"],
    "unknown option of a schedule": ["simulate", *SMALL, *SHAPE, "--schedule-option", "colour=red"],
    "context of no sequences": ["simulate", "--model", "vgg16", "--cluster", "dgx-a100", "--cp", "2"],
    "experts of none": ["simulate", *SMALL, "--dp", "2", "--ep", "2"],
    "devices of words": ["simulate", *SMALL, "--devices", "0-x"],
    "devices backwards": ["simulate", *SMALL, "--devices", "3-1"],
    "too few devices": ["simulate", *SMALL, "--stages", "4", "--devices", "0-2"],
    "no such device": ["simulate", *SMALL, "--devices", "7,8"],
    "batch against microbatches": ["simulate", *SMALL, "--microbatches", "4", "--microbatch-size", "3"],
    "no tokens": ["simulate", *SMALL, "--seq-len", "0"],
    "stages of words": ["simulate", *SMALL, "--stages", "many"],
    "odd microbatches": ["simulate", *SMALL, "--stages", "2", "--microbatches", "7"],
    "odd microbatch size": ["simulate", *SMALL, "--stages", "2", "--microbatch-size", "5"],
    "no batch": ["simulate", "--model", "gpt2-small", "--cluster", "dgx-a100", "--global-batch", "0"],
    "unknown precision": ["simulate", *SMALL, "--precision", "fp3"],
    "unknown optimizer": ["simulate", *SMALL, "--optimizer", "luck"],
    "unknown recompute": ["simulate", *SMALL, "--recompute", "half"],
    "unknown ZeRO level": ["simulate", *SMALL, "--zero", "4"],
    "sequence too long": ["simulate", *SMALL, "--seq-len", "4096"],
    "setting without value": ["simulate", *SMALL, "--set", "colour"],
    "unknown setting": ["simulate", *SMALL, "--set", "colour=red"],
    "unknown baseline": ["simulate", *SMALL, *SHAPE, "--baseline", "nowhere.yaml"],
    "missing plan": ["simulate", "--plan", "nowhere.yaml"],
    "missing plan to explain": ["explain", "nowhere.yaml"],
    "missing plan to check": ["check", "nowhere.yaml"],
    "unknown searcher": ["search", *SMALL, "--searcher", "oracle"],
    "unknown objective": ["search", *SMALL, "--objective", "joy"],
    "unknown option": ["search", *SMALL, "--searcher", "even", "--option", "colour=red"],
    "option of words": ["search", *SMALL, "--searcher", "even", "--option", "stages=many"],
    "option without value": ["search", *SMALL, "--option", "stages"],
    "frontier of one": ["search", *SMALL, "--objective", "frontier:time"],
    "frontier of joy": ["search", *SMALL, "--objective", "frontier:time,joy"],
    "ban of no layer": ["search", *SMALL, "--ban", "nothing=0"],
    "limit of words": ["search", *SMALL, "--memory-limit", "much"],
    "limit of nothing": ["search", *SMALL, "--memory-limit", "0"],
    "fewer devices than none": ["search", *SMALL, "--max-devices", "-1"],
    "search on no such device": ["search", *SMALL, "--devices", "0,99"],
    "pin to a word": ["search", *SMALL, "--pin", "embed=first"],
    "pin of no layer": ["search", *SMALL, "--pin", "nothing=0"],
    "pin to no device": ["search", *SMALL, "--pin", "embed=99"],
    "negative budget": ["search", *SMALL, "--budget", "-1"],
    "negative evaluations": ["search", *SMALL, "--max-evaluations", "-1"],
    "no processes": ["search", *SMALL, "--jobs", "0"],
    "search without cluster": ["search", "--model", "gpt2-small"],
    "sweep of nothing": ["sweep", PLAN, "--over", "global_batch"],
    "sweep of an unknown number": ["sweep", PLAN, "--over", "joy=1,2"],
    "unknown exporter": ["export", PLAN, "--to", "fax", "-o", "out"],
    "unknown importer": ["import", PLAN, "--from", "fax"],
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(case: str, plan: Path, run: Run) -> None:
    arguments = [str(plan) if item == PLAN else item for item in BAD[case]]
    done = run(*arguments)
    assert done.status == 2, done.err
    assert done.err.count("\n") == 1
    assert done.err.startswith("explorer: ")
    assert not done.out
    found = run(*arguments, "--json")
    assert found.status == 2
    assert set(found.json["error"]) >= {"message", "file", "key", "found", "allowed"}
    assert found.json["error"]["message"]


def test_a_broken_plan_lists_everything(plan: Path, tmp_path: Path, run: Run) -> None:
    text = plan.read_text().replace("devices: [2, 3]", "devices: [2, 33]")
    broken = tmp_path / "broken.yaml"
    broken.write_text(text.replace("layers: [head, loss]", "layers: [loss]"))
    done = run("check", broken, "--json")
    assert done.status == 2
    problems = done.json["error"]["problems"]
    assert any("33" in item for item in problems)
    assert any("head" in item for item in problems)


# ---- standard input, and as a program -----------------------------------------------------------


def test_a_plan_from_standard_input(plan: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run("simulate", "--plan", plan, "--json").json["step_time_s"]
    monkeypatch.setattr("sys.stdin", io.StringIO(plan.read_text()))
    assert run("simulate", "--plan", "-", "--json").json["step_time_s"] == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(plan.read_text()))
    assert run("explain", "-", "--json").json["step_time_s"] == expected


def test_rubbish_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("{not a plan"))
    done = run("simulate", "--plan", "-")
    assert done.status == 2
    assert done.err.count("\n") == 1


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "explorer", "list", "schedules", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schedules"]
    wrong = subprocess.run(
        [sys.executable, "-m", "explorer", "list", "planets"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["search", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        assert "explorer" in capsys.readouterr().out


def test_verbose_says_what_goes_on_and_keeps_the_output_clean() -> None:
    command = [sys.executable, "-m", "explorer", "-vv", "search", *SMALL, "--searcher", "even", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert "explorer.models: reading model" in done.stderr
    assert "explorer.search: even begins: time" in done.stderr


def test_simulate_writes_the_plan_that_it_made(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    made = run("simulate", *SMALL, *SHAPE, "-o", file, "--json").json
    again = run("simulate", "--plan", file, "--json").json
    assert again == made
    assert "searcher: hand" in file.read_text("utf-8")


def test_bands_stand_beside_figures(run: Run) -> None:
    found = run("simulate", *SMALL, *SHAPE, "--bands", "--json").json
    band = found["bands"]["step_time_s"]
    assert band["low"] < found["step_time_s"] < band["high"]
    assert band["causes"]
    text = run("simulate", *SMALL, *SHAPE, "--bands").out
    assert " to " in text.splitlines()[0]
    assert "bands" not in run("simulate", *SMALL, *SHAPE, "--json").json


def test_a_factory_may_be_named_by_its_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "my-models.py"
    file.write_text(
        "import torch\ndef make():\n    return torch.nn.Linear(8, 8), (torch.zeros(1, 8),)\n",
        encoding="utf-8",
    )
    report = ("--cluster", "dgx-a100", "--global-batch", "8", "--json")
    assert run("simulate", "--model", f"{file}:make", *report).json["feasible"]
    missing = run("simulate", "--model", f"{tmp_path}/none.py:make", *report)
    assert missing.status == 2
    assert "there is no file" in missing.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_code_for_a_shell(run: Run, shell: str) -> None:
    assert "explorer" in run("completion", shell).out


def test_a_shell_completes_names_of_schedules(tmp_path: Path) -> None:
    answer, line = tmp_path / "answer", "explorer simulate --schedule pipedream"
    asked = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "IFS": "\n",
        "COMP_LINE": line, "COMP_POINT": str(len(line)),
    }  # fmt: skip
    command = [sys.executable, "-m", "explorer"]
    subprocess.run(command, env=os.environ | asked, check=True, cwd=Path(__file__).parents[2])
    assert set(answer.read_text("utf-8").split()) >= {"pipedream", "pipedream_2bw"}


def test_options_of_a_schedule(run: Run) -> None:
    flags = [*SMALL, "--stages", "4", "--schedule", "layer_parallel"]
    default = run("simulate", *flags, "--json").json
    fewer = run("simulate", *flags, "--schedule-option", "sweeps=1", "--json").json
    assert fewer["step_time_s"] < default["step_time_s"]
    refused = run("simulate", *flags, "--schedule-option", "sweps=1")
    assert (refused.status, refused.err) == (
        2,
        "explorer: sweps: layer_parallel has no option 'sweps' (allowed: sweeps)\n",
    )


def test_a_schedule_places_its_copies_and_names_what_it_needs(run: Run) -> None:
    flags = [*SMALL, "--schedule", "chimera", "--microbatch-size", "1"]
    assert len(run("simulate", *flags, "--stages", "4", "--json").json["devices"]) == 4
    refused = run("simulate", *flags, "--stages", "3")
    assert refused.status == 2
    assert "a multiple of 2 (found 3; allowed: 2 or 4)" in refused.err


def test_reproduce_prints_claims_beside_our_figures(run: Run, tmp_path: Path) -> None:
    (system,) = run("reproduce", "chimera", "--json").json["systems"]
    assert {"name", "title", "paper", "uses", "claims"} <= set(system)
    keys = {"text", "published", "ours", "unit", "within", "holds", "why"}
    assert all(set(claim) == keys and claim["holds"] for claim in system["claims"])
    plan = tmp_path / "chimera.yaml"
    assert "8 of 8 claims of 1 system hold" in run("reproduce", "chimera", "-o", plan).out
    assert run("simulate", "--plan", plan, "--json").json["feasible"]


@pytest.mark.parametrize("arguments", [(), ("gpipe", "--all"), ("nosuch",), ("--all", "-o", "plan.yaml")])
def test_reproduce_says_what_it_takes(run: Run, arguments: tuple[str, ...]) -> None:
    found = run("reproduce", *arguments)
    assert found.status == 2
    assert found.err.count("\n") == 1


def test_list_shows_systems_with_their_papers(run: Run) -> None:
    rows = run("list", "systems", "--json").json["systems"]
    assert "GPipe" in next(row["paper"] for row in rows if row["name"] == "gpipe")


def test_the_mfu_of_measured_seconds_is_a_dash_with_its_reason(run: Run) -> None:
    plan = Path(__file__).parents[1] / "plans" / "04-pipedream.yaml"
    assert run("simulate", "--plan", plan, "--json").json["mfu"] is None
    printed = run("simulate", "--plan", plan).out
    assert f"- ({NO_FLOPS})" in printed
