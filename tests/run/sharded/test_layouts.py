"""Sharded equals dense for every legal layout of runnable blocks, over 2 and 4 real ranks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.run.sharded.ranks import on_ranks

TOLERANCES = {"torch.float64": 1e-10, "torch.float32": 1e-5}
Results = list[list[dict[str, Any]]]


@pytest.fixture(scope="module", params=[2, 4])
def results(request: pytest.FixtureRequest) -> Results:
    return on_ranks(request.param, "tests.run.sharded.check_layouts:check")


def _name(case: dict[str, Any]) -> str:
    return f"{case['block']} {case['layout']} {case['sizes']} {case['dtype']}"


def test_outputs_and_gradients_equal_one_process(results: Results) -> None:
    assert len(results[0]) > 200
    for rank in results:
        for case in rank:
            if "refused" not in case:
                assert case["error"] < TOLERANCES[case["dtype"]], _name(case)
                assert case["gradients"] < TOLERANCES[case["dtype"]], (_name(case), case["worst"])


def test_only_what_has_no_run_is_refused(results: Results) -> None:
    refused = [case for case in results[0] if "refused" in case]
    for case in refused:
        if case["shares"]:
            assert "without their key-value heads" in case["refused"]
            assert case["block"] == "llama"
        elif case["block"] in ("llama", "fused"):
            assert "fewer units" in case["refused"]
        else:
            assert "a halo goes along one" in case["refused"]
            assert case["layout"][0][0] == case["layout"][1][0]


def test_what_is_sent_is_what_was_predicted(results: Results) -> None:
    """Over all ranks, exactly; corners of halos and statistics by channel have their names."""
    n = len(results)
    compared = 0
    for number, case in enumerate(results[0]):
        if "refused" in case or case["shares"] or any("does not divide" in note for note in case["uneven"]):
            continue
        sent: Counter[str] = Counter()
        # what layers on another mesh than the stage's add up over its axes is data parallelism's
        left: tuple[str, ...] = ("corners", "routing", "routed")
        if case["block"] == "experts" and any("routing" in key for key in case["sent"]):
            left += ("all_to_all",)  # as many rows as the routing was, where balanced routing is predicted
        left += ("update",) if case["overrides"] and case["sizes"] else ()
        for rank in results:
            sent.update({k: v for k, v in rank[number]["sent"].items() if not any(x in k for x in left)})
        expected = Counter({k: n * v for k, v in case["predicted"].items() if not any(x in k for x in left)})
        for key, value, _ in case["otherwise"]:
            expected[key] += round(n * value)
        assert sent == {key: round(value) for key, value in expected.items() if value}, _name(case)
        compared += bool(sent)
    assert compared > 100


def test_meshes_carved_out_of_replicas_and_unequal_shares_are_among_them(results: Results) -> None:
    assert sum(case["overrides"] for case in results[0]) >= 1
    assert sum(case["shares"] for case in results[0]) > 20


def test_layouts_send_something_of_every_kind(results: Results) -> None:
    """The comparison is no comparison of nothing."""
    found = {key.split()[1] for case in results[0] for key in case.get("sent", ())}
    assert {
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "halo",
        "ring",
        "ring_gradient",
    } <= found
