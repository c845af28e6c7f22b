from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cli import main
from explorer.cluster import Cluster, Software, Source
from explorer.cluster_profiles import cluster_names, load_cluster, save_cluster
from explorer.score.heldout import held_out
from explorer.score.kernels import KERNEL_SETS
from explorer.score.knob_fit import WIDTHS, fit, prior_sd, rounded
from explorer.score.knobs import Knob, knobs_of, turned
from explorer.score.machines import knobs_at, machine, nodes_of
from explorer.score.rows import SETS
from explorer.score.running import predicted, score
from explorer.score.sets.vtrain import COLUMNS
from explorer.score.trials import TrialPart, Trials

HEAD = ",".join(COLUMNS)
LINES = ("2,16,8,1024,16,12,1024,1,1,2,200.5", "2,16,8,1024,16,12,1024,2,1,1,210.5")


def knob(name: str, prior: float, value: float = 1.0) -> Knob:
    return Knob(key=f"kind.{name}", value=value, prior=prior, fitted_on="somebody")


KERNELS = ("aiconfigurator-kernels",)
"""What numbers of A100 follow that no training run was used for."""


def rows_file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([HEAD, *LINES]))
    return path


# ---- Knobs --------------------------------------------------------------------------------------


def test_every_fitted_number_says_what_was_before_and_on_what() -> None:
    sources = {entry.source for entry in (*SETS, *KERNEL_SETS)}
    for name in cluster_names():
        cluster = load_cluster(name)
        stated = [source for kind in cluster.device_kinds for source in kind.sources]
        stated += [source for kind in cluster.device_kinds for source in kind.software.sources]
        stated += [source for level in cluster.levels for source in level.sources]
        fitted = [source for source in stated if source.how == "fitted"]
        assert all(source.prior is not None for source in fitted), name
        assert {name for source in fitted for name in source.fitted_on.split()} <= sources, name
        assert len(knobs_of(cluster)) == len(fitted), name


@pytest.mark.parametrize("name", ["a100-800g-64", "b200", "sailor-gh200", "sailor-rtx"])
@given(factor=st.floats(0.5, 0.99))
def test_a_knob_is_what_it_was_turned_to(name: str, factor: float) -> None:
    cluster = machine(name)
    values = {item.key: item.value * factor for item in knobs_of(cluster)}
    after = {item.key: item.value for item in knobs_of(turned(cluster, values))}
    assert after == pytest.approx(values)


def test_turning_back_gives_the_same_cluster() -> None:
    cluster = load_cluster("a100-800g-64")
    assert turned(cluster, {item.key: item.value for item in knobs_of(cluster)}) == cluster
    assert turned(cluster, {"other.tiles": 0.5}) is cluster


def test_only_what_was_fitted_is_turned() -> None:
    """InfiniBand of DGX A100 was measured, that of vTrain's cluster fitted."""
    key = "a100-sxm-80gb/infiniband.collective_efficiency"
    values = {key: 0.5}
    assert turned(load_cluster("dgx-a100"), values) == load_cluster("dgx-a100")
    assert turned(load_cluster("a100-800g-64"), values).levels[1].collective_efficiency == 0.5


def with_source(source: Source, name: str = "dgx-a100-4") -> Cluster:
    cluster = load_cluster(name)
    kind = replace(cluster.device_kinds[0], sources=(source,), software=Software())
    return replace(
        cluster, device_kinds=(kind,), levels=tuple(replace(x, sources=()) for x in cluster.levels)
    )


def test_many_numbers_keep_their_ratios_and_no_fraction_passes_one() -> None:
    source = Source(key="tiles", how="fitted", reference="rows", prior=0.5, fitted_on="somebody")
    cluster = with_source(source, "dgx-1-v100")
    before = cluster.device_kinds[0].tiles
    (found,) = knobs_of(cluster)
    half, most = (turned(cluster, {found.key: x}).device_kinds[0].tiles for x in (found.value / 2, 99.0))
    large = [min(tile.rows, tile.columns) >= 128 for tile in before]
    for old, new, top, scaled in zip(before, half, most, large, strict=True):
        assert new.fraction == pytest.approx(old.fraction / (2 if scaled else 1))
        assert top.fraction == (1.0 if scaled else old.fraction)


def test_kernels_of_all_precisions_are_one_number() -> None:
    source = Source(key="product_kernels", how="fitted", reference="rows", prior=0.5, fitted_on="somebody")
    cluster = with_source(source, "hgx-h100")
    (found,) = knobs_of(cluster)
    before, half, most = (
        [
            tile.fraction
            for _, kernels in turned(cluster, {found.key: value}).device_kinds[0].product_kernels
            for tile in kernels.tiles
        ]
        for value in (found.value, found.value / 2, 99.0)
    )
    assert found.value == max(before)
    assert half == pytest.approx([fraction / 2 for fraction in before])
    assert max(most) == 1.0


@pytest.mark.parametrize(
    "source",
    [
        Source(key="tiles", how="fitted", reference="rows", fitted_on="somebody"),
        Source(key="busy_watts", how="fitted", reference="rows", prior=1.0, fitted_on="somebody"),
        Source(key="efficiency.nothing", how="fitted", reference="rows", prior=1.0, fitted_on="somebody"),
    ],
)
def test_a_fitted_number_without_a_prior_or_no_knob_is_refused(source: Source) -> None:
    with pytest.raises(InputError):
        knobs_of(with_source(source))


def test_priors_survive_a_file(tmp_path: Path) -> None:
    cluster = load_cluster("dgx-a100")
    save_cluster(cluster, tmp_path / "copy.yaml")
    assert load_cluster(tmp_path / "copy.yaml") == cluster


# ---- The fit ------------------------------------------------------------------------------------


def linear(slopes: npt.NDArray[np.float64], offsets: npt.NDArray[np.float64], keys: Sequence[str]):  # type: ignore[no-untyped-def]
    """Errors that are linear in logarithms of knobs."""

    def errors(trials: Sequence[Mapping[str, float]]) -> list[npt.NDArray[np.float64]]:
        return [slopes @ np.log([trial[key] for key in keys]) + offsets for trial in trials]

    return errors


@given(measured=st.floats(0.7, 1.4), scatter=st.floats(0.5, 2.0), rows=st.integers(1, 5))
def test_prior_and_rows_are_weighted_by_their_precision(measured: float, scatter: float, rows: int) -> None:
    """Where errors are small against their scatter the mean of a normal posterior."""
    item = knob("host_issue_s", prior=2.0)
    found = fit(
        [item],
        linear(np.ones((rows, 1)), np.full(rows, -math.log(2 * measured)), [item.key]),
        scatter=20 * scatter,
        rounds=30,
    )
    weights = rows / (20 * scatter) ** 2, 1 / prior_sd(item) ** 2
    expected = weights[0] * math.log(measured) / sum(weights)
    assert math.log(found.values[item.key] / 2) == pytest.approx(expected, rel=1e-2, abs=1e-5)


def test_many_good_rows_win_over_the_prior_and_an_outlier_does_not() -> None:
    items = [knob("host_issue_s", 1.0), knob("latency_s", 1.0)]
    slopes = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]] * 20)
    offsets = -slopes @ np.log([1.5, 0.8])
    offsets[0] += 3.0
    found = fit(items, linear(slopes, offsets, [item.key for item in items]), scatter=0.01, rounds=50)
    assert list(found.values.values()) == pytest.approx([1.5, 0.8], rel=0.01)
    assert np.median(abs(found.after)) < 0.01 < np.median(abs(found.before))


def test_what_no_row_sees_stays_as_it_was() -> None:
    items = [knob("host_issue_s", 3.0), knob("latency_s", 7.0)]
    found = fit(items, linear(np.array([[1.0, 0.0]]), np.array([-2.0]), [i.key for i in items]))
    assert found.values["kind.latency_s"] == pytest.approx(7.0)
    assert found.values["kind.host_issue_s"] > 3.5


def test_what_hides_behind_other_work_is_found() -> None:
    """The host takes half of what kernels do at its prior; rows say it takes 1.3 times as long as they."""
    item = knob("host_issue_s", 1.0)

    def errors(trials: Sequence[Mapping[str, float]]) -> list[npt.NDArray[np.float64]]:
        return [np.full(20, math.log(max(1.0, 0.5 * trial[item.key]) / 1.3)) for trial in trials]

    assert fit([item], errors, scatter=0.02).values[item.key] == pytest.approx(2.6, rel=0.02)


def test_a_fit_goes_on_from_where_numbers_are_to_the_same_end() -> None:
    slopes = np.array([[1.0, 0.5]] * 5 + [[0.2, 1.0]] * 5)
    offsets = -slopes @ np.log([1.5, 0.8])
    ends = []
    for value in (1.0, 1.4):
        items = [knob("host_issue_s", 1.0, value), knob("latency_s", 1.0, value)]
        lines = linear(slopes, offsets, [item.key for item in items])
        ends.append(list(fit(items, lines, rounds=30, onwards=value > 1).values.values()))
    assert ends[1] == pytest.approx(ends[0], rel=1e-3)


def test_fractions_stay_below_one() -> None:
    """A knob at its most does not keep the others from moving."""
    items = [knob("collective_efficiency", 1.0), knob("latency_s", 1.0)]
    slopes = np.array([[1.0, 0.0], [0.0, 1.0]] * 5)
    offsets = -slopes @ np.log([1.5, 1.5])
    found = fit(items, linear(slopes, offsets, [i.key for i in items]), scatter=0.01, rounds=50)
    assert found.values["kind.collective_efficiency"] == pytest.approx(1.0, rel=1e-2)
    assert max(found.values["kind.collective_efficiency"], 1.0) == 1.0
    assert found.values["kind.latency_s"] == pytest.approx(1.5, rel=0.01)


def test_a_fit_of_nothing_is_refused() -> None:
    with pytest.raises(InputError):
        fit([], lambda trials: [np.zeros(1) for _ in trials])
    with pytest.raises(InputError):
        fit([knob("host_issue_s", 0.0)], lambda trials: [np.zeros(1) for _ in trials])
    with pytest.raises(InputError):
        prior_sd(knob("busy_watts", 1.0))
    assert all(width > 0 for width in WIDTHS.values())


@given(st.floats(1e-9, 1e9))
def test_rounding_is_what_a_profile_states(value: float) -> None:
    found = rounded({"k.latency_s": value, "k.tiles": value})
    assert found["k.latency_s"] == pytest.approx(value, rel=5e-3)
    assert found["k.tiles"] <= 1.0


# ---- Rows at other values -----------------------------------------------------------------------


def test_machines_are_as_the_knobs_say_and_only_inside() -> None:
    values = {"a100-sxm-80gb.launch_overhead_s": 7.0}
    with knobs_at(values):
        assert machine("dgx-a100").device_kinds[0].launch_overhead_s == 7.0
        assert nodes_of("dgx-a100-128", 16).device_kinds[0].launch_overhead_s == 7.0
    assert machine("dgx-a100") == load_cluster("dgx-a100")
    assert nodes_of("dgx-a100-128", 16).device_kinds == load_cluster("dgx-a100-128").device_kinds


def test_trials_are_predictions_of_the_simulator(tmp_path: Path) -> None:
    """Cluster put into the case, rows read again, and a scored set: one answer."""
    path = rows_file(tmp_path)
    values = {"a100-sxm-80gb/megatron-2021.host_issue_s": 300e-6}
    with Trials([TrialPart("vtrain_single", str(path), (0, 1))], processes=1) as trials:
        plain, slower = trials.errors([{}, values])
    with knobs_at(values):
        rows = SETS.get("vtrain_single").function(path).rows
        again = [math.log(predicted(row).predicted / row.measured) for row in rows]
    assert slower == pytest.approx(again)
    assert (slower > plain).all()
    (scored,) = score({"vtrain_single": path}, processes=1, values={"vtrain_single": values})
    assert [math.log(o.predicted / o.measured) for o in scored.outcomes] == pytest.approx(again)


# ---- Leave one source out -----------------------------------------------------------------------


def test_without_other_rows_the_priors_stand(tmp_path: Path) -> None:
    found = held_out({"vtrain_single": rows_file(tmp_path)}, None)["vtrain_single"]
    own = [item for item in knobs_of(load_cluster("dgx-a100")) if "vtrain" in item.fitted_on.split()]
    assert found.values == {item.key: item.prior for item in own}
    assert found.fitted_on == KERNELS


def test_what_follows_other_sources_is_said(reference_dir: Path) -> None:
    """Numbers that were fitted on Korthikanti's rows, among others, go back; those of kernels stay."""
    path = reference_dir / SETS.get("korthikanti").path
    found = held_out({"korthikanti": path}, None)["korthikanti"]
    own = [item for item in knobs_of(load_cluster("dgx-a100")) if "korthikanti" in item.fitted_on.split()]
    assert set(found.values) == {item.key for item in own}
    assert set(found.fitted_on) == set(KERNELS)
    assert "korthikanti" not in found.fitted_on


def test_measured_seconds_do_not_move_the_numbers_that_predict_them(tmp_path: Path) -> None:
    """Whatever the rows of a source say, its own prediction stays."""
    path = rows_file(tmp_path)
    first = held_out({"vtrain_single": path}, None)
    path.write_text(path.read_text().replace("200.5", "2000.5"))
    assert held_out({"vtrain_single": path}, None) == first


def test_command_says_on_what_numbers_were_fitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "reference"
    empty.mkdir()
    (empty / "published.md").write_text("nothing\n")
    table = tmp_path / "table.md"
    arguments = ["score", "--rows", f"vtrain_single={rows_file(tmp_path)}", "--leave-one-source-out"]
    arguments += ["--processes", "1", "--reference", str(empty)]
    assert main([*arguments, "--json", "--markdown", str(table)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["leave_one_source_out"] is True
    assert data["sets"]["vtrain_single"]["fitted_on"] == list(KERNELS)
    assert table.read_text().count("| vtrain_single |") == 2
    assert main(arguments) == 0
    out = capsys.readouterr()
    assert out.out.count("vtrain_single") == 2
    assert f"vtrain_single: numbers fitted on {KERNELS[0]}" in out.err
