"""The set of measured collectives: names of operations, wrong lines, and how far bundled profiles are off."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.calibrate.collective_fit import idle
from explorer.cluster_profiles import load_cluster
from explorer.costs.collectives import collective_seconds
from explorer.score.kernels import KERNEL_SETS, errors_of, score_kernels
from explorer.score.reading import reference_folder

HEAD = "device,operation,num_gpus,elements,microseconds\n"


def scored(tmp_path: Path, *lines: str) -> tuple[list[float], list[str]]:
    path = tmp_path / "rows.csv"
    path.write_text(HEAD + "".join(f"{line}\n" for line in lines))
    (found,) = score_kernels({"collectives": path})
    return [row.predicted_s for row in found.rows], [problem.message for problem in found.problems]


def test_rows_are_predicted_on_an_idle_node(tmp_path: Path) -> None:
    found, problems = scored(tmp_path, "A100-SXM4-80GB,alltoall,4,1000,20", "B200,all_reduce,8,268435456,900")
    assert not problems
    clusters = [idle(load_cluster(name)) for name in ("dgx-a100", "b200")]
    assert found == [
        collective_seconds(clusters[0], "all_to_all", (0, 1, 2, 3), 2000.0),
        collective_seconds(clusters[1], "all_reduce", tuple(range(8)), 2.0**29),
    ]
    busy = collective_seconds(load_cluster("b200"), "all_reduce", tuple(range(8)), 2.0**29)
    assert busy == pytest.approx(found[1] + load_cluster("b200").levels[0].collective_overhead_s)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("H9,all_reduce,8,256,9", "unknown device 'H9'; the nearest known is"),
        ("B200,all_reduced,8,256,9", "unknown operation 'all_reduced'"),
        ("B200,all_reduce,9,256,9", "9 devices of 'b200'"),
        ("B200,all_reduce,1,256,9", "1 devices of 'b200'"),
        ("B200,all_reduce,8,0,9", "elements"),
    ],
)
def test_a_wrong_line_is_one_line(tmp_path: Path, line: str, says: str) -> None:
    found, problems = scored(tmp_path, line)
    assert not found
    assert len(problems) == 1
    assert says in problems[0]


def test_bundled_profiles_on_measured_collectives() -> None:
    try:
        path = reference_folder() / KERNEL_SETS.get("collectives").path
    except InputError as error:
        pytest.skip(str(error))
    (found,) = score_kernels({"collectives": path})
    errors = errors_of([row for row in found.rows if row.counted])
    assert errors.median_pct <= 5
    assert errors.mean_pct <= 8


def test_cards_of_two_sockets_share_what_joins_them() -> None:
    """SimuMax's system description of 8 A100 PCIe: GB/s that rings pass on, by cards and groups."""
    cluster, size = load_cluster("a100-pcie"), 1e10

    def bus(op: str, devices: tuple[int, ...], concurrent: int = 1) -> float:
        passes = 2 if op == "all_reduce" else 1
        seconds = collective_seconds(cluster, op, devices, size, concurrent=concurrent)
        return passes * (len(devices) - 1) / len(devices) * size / seconds / 1e9

    measured = {
        ("all_reduce", (0, 1), 1): 0.6965 * 30, ("all_reduce", (0, 1, 2, 3), 1): 0.6924 * 30,
        ("all_reduce", tuple(range(8)), 1): 0.4176 * 30, ("all_gather", (0, 1, 2, 3), 1): 0.6915 * 30,
        ("all_gather", tuple(range(8)), 1): 0.4497 * 30, ("all_to_all", tuple(range(8)), 1): 0.2754 * 30,
        ("all_gather", (0, 2, 4, 6), 2): 7.65, ("all_gather", (0, 4), 4): 4.0,
        ("reduce_scatter", (0, 2, 4, 6), 2): 7.0, ("reduce_scatter", tuple(range(8)), 1): 0.3688 * 30,
    }  # fmt: skip
    for (op, devices, beside), rate in measured.items():
        assert bus(op, devices, beside) == pytest.approx(rate, rel=0.18), (op, devices)
