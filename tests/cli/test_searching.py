"""`explorer search`: what it prints, how it ends, and how it says that nothing was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explorer.cli import searching
from tests.cli.commands import SMALL, TOO_LARGE, Run

SEARCH_KEYS = {
    "searcher", "objective", "objective_value", "objective_unit", "lower_bound", "bound", "optimal",
    "evaluations", "wall_s", "plan", "frontier", "memory",
}  # fmt: skip


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
    assert "in 2 evaluations (2 candidates cannot be simulated; the first: " in done.err
    assert "the order has 0 lanes (allowed: 8)" in done.err


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


def test_a_search_may_be_limited_and_keeps_a_frontier_of_three(run: Run) -> None:
    flags = ["--objective", "frontier:time,memory,cost", "--devices", "4-7,0", "--memory-limit", "12GiB"]
    found = run("search", *SMALL, *flags, "--ban", "embed=0", "--max-evaluations", "30", "--json").json
    assert found["objective_unit"] == "s"
    assert len(found["frontier"]) > 1
    for item in found["frontier"]:
        assert item["peak_memory_bytes"] <= 12 * 2**30
        assert set(item["values"]) == {"time", "memory", "cost"}
        assert item["values"]["time"] == item["step_time_s"]


def test_a_floor_of_throughput_is_reached_or_said_to_be_out_of_reach(run: Run) -> None:
    given = ("search", *SMALL, "--objective", "devices", "--max-evaluations", "20", "--json")
    free = run(*given).json
    slow = free["plan"]["workload"]["jobs"][0]["global_batch"] / free["plan"]["provenance"]["step_time_s"]
    quick = run(*given, "--min-throughput", str(1.2 * slow))
    assert quick.status == 0
    assert quick.json["objective_value"] >= free["objective_value"]
    plan = quick.json["plan"]
    assert plan["workload"]["jobs"][0]["global_batch"] / plan["provenance"]["step_time_s"] >= 1.2 * slow
    for floor, status, words in (("1e12", 2, "at their peak"), ("-1", 2, "samples a second, above 0")):
        done = run(*given[:-1], "--min-throughput", floor)
        assert (done.status, len(done.err.strip().splitlines())) == (status, 1)
        assert words in done.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--budget", "0"), "in 0 evaluations; give it more time (--budget)"),
        (("--max-devices", "1", "--pin", "embed=0", "--ban", "embed=0"), "break pins or bans); free a layer"),
        (("--memory-limit", "1MiB", "--max-evaluations", "40"), "where --memory-limit is 1.0 MiB"),
        (("--memory-limit", "1MiB", "--max-evaluations", "4"), "use larger devices"),
    ],
)
def test_what_stands_in_the_way_is_said_in_one_line(flags: tuple[str, ...], words: str, run: Run) -> None:
    done = run("search", "--model", "gpt2-small", "--cluster", "dgx-1-v100", "--global-batch", "8", *flags)
    assert done.status == 3
    assert words in done.err
    assert [line for line in done.err.splitlines() if "nothing that fits" in line] == [
        done.err.splitlines()[-1]
    ]
