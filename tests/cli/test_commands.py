"""The command line as others rely on it: JSON keys, exit statuses, standard input, and as a program."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import RunError
from explorer.cli import main
from explorer.simulation.report import NO_FLOPS
from tests.cli.commands import SHAPE, SMALL, TOO_LARGE, Run

SIMULATE_KEYS = {
    "step_time_s", "makespan_s", "device_span_s", "throughput_samples_per_s", "speedup", "baseline",
    "bubble_fraction", "mfu", "feasible", "peak_memory_bytes", "devices", "device_busy_s", "traffic_bytes",
}  # fmt: skip


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


def test_share(plan: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run("share", plan).out.strip()
    assert text.startswith("explorer-plan:1:")
    found = run("share", plan, "--json").json
    assert (found["text"], found["characters"], found["names"]) == (text, len(text), [])
    first, again = (run("simulate", "--plan", given, "--json").json for given in (plan, text))
    assert again == first
    assert run("share", text, "-o", tmp_path / "again.yaml").status == 0
    assert run("diff", plan, tmp_path / "again.yaml").out.startswith("the same choices")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{text}\n".encode())))
    assert run("check", "-").out.startswith("no problems")


@pytest.mark.parametrize(
    ("text", "said"),
    [("explorer-plan:2:00000000:eJw", "version 2"), ("explorer-plan:1:00000000:eJw", "damaged")],
)
def test_share_says_what_is_wrong_with_a_text(text: str, said: str, run: Run) -> None:
    done = run("share", text)
    assert done.status == 2
    assert said in done.err


# ---- exit statuses ------------------------------------------------------------------------------


def test_infeasible_simulation(run: Run) -> None:
    done = run("simulate", *TOO_LARGE, "--require-feasible")
    assert done.status == 3
    assert "Device 0 needs" in done.err
    found = run("simulate", *TOO_LARGE, "--require-feasible", "--json")
    assert found.status == 3
    assert found.json["feasible"] is False
    assert "Device 0 needs" in found.json["error"]["message"]
    assert run("simulate", *TOO_LARGE).status == 0


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
    # all that a search among the quick ones alone would find, and better than those taken as they come
    alone = run("search", *small, "--devices", "8-15", "--json", "--max-evaluations", "40").json
    assert found["objective_value"] == alone["objective_value"] < fast["step_time_s"]
    places = [mesh["devices"] for s in found["plan"]["strategy"]["jobs"][0]["stages"] for mesh in s["meshes"]]
    assert {device for place in places for device in place} == set(range(8, 16))


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
    assert "12 of 12 claims of 1 system hold" in run("reproduce", "chimera", "-o", plan).out
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
