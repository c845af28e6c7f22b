"""Bad input of every command is one line and status 2, on standard output as JSON if asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import SHAPE, SMALL, Run

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


def test_own_layers_of_a_graph_without_code_are_refused(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "alexnet.yaml"
    shape = ["--cluster", "dgx-a100", "--global-batch", "16", "--searcher", "even", "--option", "stages=2"]
    assert run("search", "--model", "alexnet", *shape, "-o", path).status == 0
    done = run("validate", path, "--engine", "layers")
    assert done.status == 2
    assert done.err.startswith("explorer: engine: 'alexnet' is a graph without code")
    assert "--engine likeness" in done.err
    assert done.err.count("\n") == 1
    found = run("validate", path, "--engine", "layers", "--json").json["error"]
    assert (found["key"], found["found"]) == ("engine", "layers")
