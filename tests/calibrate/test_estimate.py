"""Corrections: factors that were put in are found again, as far as bands and noise allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.calibrate.estimate import EstimatedCluster, Evidence, Observation, estimate
from explorer.calibrate.numbers import numbers_of, shifted
from explorer.calibrate.operators import Operator, product
from explorer.calibrate.posterior import Normal, band_of, posterior, sd_of
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.costs.collectives import collective_seconds, transfer_seconds
from explorer.graph import Work
from tests.calibrate.machines import GPU, machine

Predict = Callable[[Cluster], float]


def elementwise(elements: float) -> Operator:
    work = Work(flops=elements, moved_elements=2 * elements)
    return Operator(kind="elementwise", precision="bf16", works=(work,))


def of(operator: Operator) -> Predict:
    return lambda cluster: operator.device_seconds(cluster, GPU)


PRODUCTS = [of(product(n, n, n, precision="bf16")) for n in (64, 512, 2048, 8192)]
MOVES = [of(elementwise(10.0**n)) for n in (3, 5, 7, 8)]
ATTENTION: Predict = of(
    Operator(kind="attention", precision="bf16", works=(Work(flops=1e10, moved_elements=1e6),))
)
LINKS: list[Predict] = [
    *(lambda c, n=n: transfer_seconds(c.path(0, 1), n) for n in (4.0, 1e8)),  # type: ignore[misc]
    *(lambda c, n=n: collective_seconds(c, "all_reduce", (0, 1, 2, 3), n) for n in (4.0, 1e9)),  # type: ignore[misc]
]
EVERY = [*PRODUCTS, *MOVES, ATTENTION, *LINKS]


def seen(
    truth: Cluster, predicts: Sequence[Predict], *, sd: float = 1e-7, noise: Sequence[float] = ()
) -> Evidence:
    off = noise or [0.0] * len(predicts)
    return Evidence(
        name="a run",
        observations=tuple(
            Observation(name=f"thing {i}", predict=f, measured_s=f(truth) * math.exp(e), sd=sd)
            for i, (f, e) in enumerate(zip(predicts, off, strict=True))
        ),
    )


def changed(found: EstimatedCluster) -> Mapping[str, float]:
    return {item.number.key: item.after / item.number.value for item in found.changes}


@settings(max_examples=8, deadline=None)
@given(factors=st.lists(st.floats(0.75, 1.3), min_size=7, max_size=7))
def test_factors_that_were_put_in_are_found_again_to_a_billionth(factors: list[float]) -> None:
    keys = [
        f"{GPU}.matmul", f"{GPU}.attention", f"{GPU}.memory", f"{GPU}.launch_overhead_s",
        "link.bandwidth_bytes_per_s", "link.latency_s", "link.collective_efficiency",
    ]  # fmt: skip
    put_in = dict(zip(keys, factors, strict=True))
    found = estimate(machine(), [seen(shifted(machine(), put_in), EVERY)])
    assert changed(found) == pytest.approx(put_in, rel=1e-9)
    assert found.error_after_pct < 1e-6
    assert "reserved_bytes" in found.kept[-1], "no duration depends on it"


def test_one_number_and_one_observation_are_the_posterior_of_two_normals() -> None:
    """Where the duration is latency alone, the correction has a closed form."""
    truth = shifted(machine(), {"link.latency_s": 1.5})
    message: Predict = lambda cluster: transfer_seconds(cluster.path(0, 1), 0.0)  # noqa: E731
    found = estimate(machine(), [seen(truth, [message], sd=0.2)])
    expected = posterior(sd_of(0.3), [Normal(math.log(1.5), 0.2)])
    (change,) = found.changes
    assert change.number.key == "link.latency_s"
    assert change.after / change.number.value == pytest.approx(math.exp(expected.mean), rel=1e-9)
    assert change.band == pytest.approx(band_of(expected.sd), rel=1e-6)
    assert change.prior_share == pytest.approx((expected.sd / sd_of(0.3)) ** 2, rel=1e-6)


def test_where_profile_and_run_contradict_each_other_the_band_says_so() -> None:
    """A latency ten times that of the profile: z = ln 10 / sqrt(sd^2 + s^2), the band widened by z / 2."""
    message: Predict = lambda cluster: transfer_seconds(cluster.path(0, 1), 0.0)  # noqa: E731
    found = estimate(machine(), [seen(shifted(machine(), {"link.latency_s": 10.0}), [message], sd=0.2)])
    expected = posterior(sd_of(0.3), [Normal(math.log(10.0), 0.2)])
    z = math.log(10.0) / math.hypot(sd_of(0.3), 0.2)
    assert found.changes[0].band == pytest.approx(band_of(expected.sd * z / 2), rel=1e-6)


def test_more_runs_leave_less_of_the_profile() -> None:
    runs = [seen(machine(), EVERY, sd=0.1)] * 4
    few, many = estimate(machine(), runs[:1]), estimate(machine(), runs)
    left = {item.number.key: item.prior_share for item in many.changes}
    for item in few.changes:
        assert left[item.number.key] < item.prior_share < 1


def test_without_bands_nothing_holds_a_number_back() -> None:
    bare = replace(
        machine(),
        device_kinds=(replace(machine().device_kinds[0], sources=()),),
        levels=tuple(replace(level, sources=()) for level in machine().levels),
    )
    truth = shifted(bare, {f"{GPU}.matmul": 0.1, "link.latency_s": 8.0})
    found = changed(estimate(bare, [seen(truth, EVERY, sd=0.3)]))
    assert found[f"{GPU}.matmul"] == pytest.approx(0.1, rel=1e-6)
    assert found["link.latency_s"] == pytest.approx(8.0, rel=1e-6)


def test_a_number_hidden_behind_another_is_found() -> None:
    """On the profile memory binds every product; in truth the products are a hundred times slower."""
    bare = machine(efficiency=(), launch_overhead_s=0.0, sources=())
    operators = [of(product(8, 4096, 4096, precision="bf16")), of(elementwise(1e8))]
    truth = shifted(bare, {f"{GPU}.matmul": 0.01, f"{GPU}.memory": 0.5})
    found = changed(estimate(bare, [seen(truth, operators)]))
    assert found == pytest.approx({f"{GPU}.matmul": 0.01, f"{GPU}.memory": 0.5}, rel=1e-6)


def test_more_than_the_peak_is_taken_as_the_peak_and_said() -> None:
    fast = shifted(machine(), {f"{GPU}.launch_overhead_s": 0.9})
    peaks = replace(fast.device_kinds[0], peak_flops_per_s=(("bf16", 3000e12),))
    found = estimate(machine(), [seen(replace(fast, device_kinds=(peaks,)), PRODUCTS)])
    assert found.cluster.device_kinds[0].efficiency[1][1].points[-1][1] == 1.0
    assert any("matmul: measured at more than the profile's peak" in text for text in found.kept)


def test_scatter_beyond_what_was_said_widens_the_bands() -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(0.0, 0.4, 4 * len(EVERY)).tolist()
    calm = estimate(machine(), [seen(machine(), EVERY * 4, sd=0.01)])
    wild = estimate(machine(), [seen(machine(), EVERY * 4, sd=0.01, noise=noise)])
    narrow = {item.number.key: item.band for item in calm.changes}
    assert all(item.band > 3 * narrow[item.number.key] for item in wild.changes)


@pytest.mark.parametrize("seed", range(2))
def test_the_bands_of_corrected_numbers_cover_what_they_say(seed: int) -> None:
    """Truth drawn from the profile's bands, durations with the noise that is stated: 80 % bands cover it."""
    rng = np.random.default_rng(seed)
    inside = total = 0
    keys = [item.key for item in numbers_of(machine()) if item.band and item.name != "reserved_bytes"]
    for _ in range(12):
        put_in = dict(zip(keys, np.exp(rng.normal(0.0, sd_of(0.3), len(keys))).tolist(), strict=True))
        noise = rng.normal(0.0, 0.1, len(EVERY)).tolist()
        found = estimate(machine(), [seen(shifted(machine(), put_in), EVERY, sd=0.1, noise=noise)])
        for item in found.changes:
            off = abs(math.log(item.after / item.number.value / put_in[item.number.key]))
            inside += off <= math.log1p(item.band)
            total += 1
    assert total > 70
    assert 0.7 <= inside / total <= 0.92


def test_the_corrected_profile_says_where_its_numbers_come_from(tmp_path) -> None:  # type: ignore[no-untyped-def]
    found = estimate(machine(), [seen(shifted(machine(), {f"{GPU}.memory": 0.8}), EVERY, sd=0.05)])
    assert found.cluster.name == "small calibrated"
    save_cluster(found.cluster, tmp_path / "made.yaml")
    back = load_cluster(tmp_path / "made.yaml")
    assert back == found.cluster
    bands = {item.key: item for item in numbers_of(back)}
    for change in found.changes:
        item = bands[change.number.key]
        assert item.source is not None
        assert item.source.how == "fitted"
        assert item.band == pytest.approx(change.band)
        assert "a run" in item.source.reference
        assert "a guess" in item.source.reference
    again = estimate(back, [seen(back, EVERY, sd=0.05)])
    assert again.cluster.name == "small calibrated"


def test_a_number_of_nothing_is_set_to_what_was_measured_of_it() -> None:
    key = f"{GPU}.host_issue_s"
    item = Observation(
        name="issue",
        predict=lambda c: c.device_kinds[0].software.host_issue_s,
        measured_s=7e-6,
        sd=0.1,
        about=key,
    )
    found = estimate(machine(), [Evidence(name="a trace", observations=(item,))])
    assert found.cluster.device_kinds[0].software.host_issue_s == pytest.approx(7e-6)
    assert [(change.number.key, change.number.value) for change in found.changes] == [(key, 0.0)]


def test_no_evidence_is_an_error_with_its_reasons() -> None:
    with pytest.raises(InputError, match="the run stayed within one machine"):
        estimate(
            machine(), [Evidence(name="x", observations=(), remarks=("the run stayed within one machine",))]
        )
    broken = replace(seen(machine(), [MOVES[0]]).observations[0], measured_s=0.0)
    with pytest.raises(InputError, match=r"took 0\.0 s"):
        estimate(machine(), [Evidence(name="x", observations=(broken,))])
