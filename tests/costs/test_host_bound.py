"""Blocks take the longer of the device's kernels and the host's issuing of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.cluster import Software
from explorer.cluster_profiles import load_cluster
from explorer.costs.compute import layer_costs
from explorer.costs.graph_work import KERNELS
from explorer.models import load_model

GRAPH = load_model("gpt2-small", sequence_length=128)
KIND = replace(load_cluster("dgx-a100").device_kinds[0], software=Software())
BLOCK = [i for i, layer in enumerate(GRAPH.layers) if layer.block == "layers.3"]


def costs(host_issue_s: float, samples: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    kind = replace(KIND, software=Software(host_issue_s=host_issue_s))
    found = layer_costs(GRAPH, kind, samples=samples, precision="bf16")
    return found.seconds[:, BLOCK], found.slack[:, BLOCK]


def test_a_slow_host_sets_the_time_of_a_block() -> None:
    issue = 1e-3
    seconds, slack = costs(issue)
    kernels = np.array([KERNELS.get(GRAPH.layers[i].kind, (1, 1, 1)) for i in BLOCK]).T
    active = costs(0.0)[0] > 0
    assert seconds[0].sum() == pytest.approx(issue * (kernels * active)[0].sum(), rel=1e-12)
    backward = issue * Software().backward_issue
    assert seconds[1:].sum() == pytest.approx(backward * (kernels * active)[1:].sum(), rel=1e-12)
    device = costs(0.0)[0]
    assert np.allclose(seconds - slack, device, rtol=1e-12)


def test_the_backward_is_issued_faster_as_software_says() -> None:
    issued = [replace(KIND, software=Software(host_issue_s=1e-3, backward_issue=by)) for by in (0.5, 1.0)]
    half, whole = (
        layer_costs(GRAPH, kind, samples=1, precision="bf16").seconds[:, BLOCK].sum(axis=1) for kind in issued
    )
    assert half[0] == whole[0]
    assert half[1:].sum() == pytest.approx(0.5 * whole[1:].sum(), rel=1e-12)


def test_a_fast_host_changes_nothing() -> None:
    device, none = costs(0.0)
    seconds, slack = costs(1e-9)
    assert (seconds == device).all()
    assert not none.any()
    assert not slack.any()


def test_a_host_bound_block_takes_no_longer_for_more_samples_until_the_device_does() -> None:
    assert costs(1e-3, 1)[0].sum() == pytest.approx(costs(1e-3, 2)[0].sum(), rel=1e-12)
    assert costs(1e-3, 4096)[0].sum() == pytest.approx(costs(0.0, 4096)[0].sum(), rel=1e-12)


@pytest.mark.parametrize("issue", [0.0, 1e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-3])
@pytest.mark.parametrize("backward", [0.1, 0.3, 1.0])
def test_a_forward_made_again_and_its_backward_take_the_longer_of_both_sums(
    issue: float, backward: float
) -> None:
    """Launches run ahead of the device, so that of both together device or host sets the time."""
    kind = replace(KIND, software=Software(host_issue_s=issue, backward_issue=backward))
    found = layer_costs(GRAPH, kind, samples=8, precision="bf16")
    device = costs(0.0, 8)[0]
    kernels = np.array([KERNELS.get(GRAPH.layers[i].kind, (1, 1, 1)) for i in BLOCK]).T * (device > 0)
    host = issue * (kernels[0].sum() + backward * kernels[1:].sum())
    both = found.seconds[:, BLOCK].sum() - found.relief[BLOCK].sum()
    assert both == pytest.approx(max(device.sum(), host), rel=1e-12)
    assert (found.relief <= found.slack[0] * (1 + 1e-12)).all()


def test_a_backward_that_the_host_sets_gives_no_relief() -> None:
    kind = replace(KIND, software=Software(host_issue_s=1e-5, backward_issue=50.0))
    assert not layer_costs(GRAPH, kind, samples=4096, precision="bf16").relief[BLOCK].any()
