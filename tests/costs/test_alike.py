"""Equal layers are priced once: the same seconds as every layer by itself."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.costs.compute import layer_costs
from explorer.models import load_model
from explorer.sharding import Override, megatron_layout, shard


@pytest.mark.parametrize("name", ["gpt2-small", "inception-v3", "mixtral-8x7b", "gnmt-16", "dlrm", "vgg16"])
@pytest.mark.parametrize("cluster", ["dgx-a100", "dgx-1-v100"])
def test_sharded_layers(name: str, cluster: str) -> None:
    graph, kind = load_model(name), load_cluster(cluster).kind_of(0)
    names = tuple(layer.name for layer in graph.layers)
    for layout in (
        (),
        megatron_layout(sequence_parallel=True),
        (("channels_out", "tensor"), ("embed", "tensor")),
    ):
        exception = Override(layers=names[3:5], layout=layout[:1])
        found = shard(graph, names, layout=layout, sizes={"tensor": 4}, overrides=(exception,))
        given = {
            "samples": 3.0,
            "precision": "fp16",
            "work": found.work,
            "split": found.split,
            "tensor_degree": 4,
        }
        assert found.alike is not None
        assert len(np.unique(found.alike)) < len(names)
        once, each = layer_costs(graph, kind, **given, alike=found.alike), layer_costs(graph, kind, **given)
        np.testing.assert_allclose(once.seconds, each.seconds, rtol=1e-14)
        np.testing.assert_allclose(once.slack, each.slack, rtol=1e-14, atol=1e-18)
    assert shard(graph, names[:5]).alike is None, "layers elsewhere have shares of 1"
