"""Words beside the names in the pickers: how large a model is, which devices a cluster has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from explorer.base.errors import ExplorerError
from explorer.cluster import Cluster
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.models import SOURCES, load_model

ANY_SIZE = "of any size"
"""Words in the title of a model whose size is an option."""


class PickerWords:
    """What is known of the bundled models and clusters, learnt in quiet moments: all of it takes a second."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def of(self, key: str) -> Mapping[str, str]:
        """Return the words of a picker (`model` or `cluster`) by name, as far as they are known."""
        return {name: words for (picker, name), words in self._known.items() if picker == key}

    def work(self) -> Iterator[None]:
        """Learn what is not known yet, one name at a time."""
        for name in SOURCES.names():
            if ("model", name) not in self._known:
                self._known["model", name] = model_words(name)
                yield
        for name in cluster_names():
            if ("cluster", name) not in self._known:
                self._known["cluster", name] = cluster_words(load_cluster(name))
                yield


def model_words(name: str) -> str:
    """Return how large a bundled model is; empty if it needs settings to be loaded.

    >>> model_words("gpt2-small"), model_words("gpt")
    ('124 M parameters', 'of any size')
    """
    if SOURCES.get(name).title.endswith(ANY_SIZE):
        return ANY_SIZE
    try:
        return f"{_counted(load_model(name).parameter_count)} parameters"
    except ExplorerError:
        return ""


def cluster_words(cluster: Cluster) -> str:
    """Return the number of each kind of device.

    >>> cluster_words(load_cluster("mixed-v100-a100"))
    '8 × v100-sxm2-16gb, 8 × a100-sxm-80gb'
    """
    counts = Counter[str]()
    for group in cluster.nodes:
        counts[group.device_kind] += (group.max_count or group.count) * group.devices_per_node
    return ", ".join(f"{number} × {kind}" for kind, number in counts.items())


def _counted(number: float) -> str:
    """Write a number of parameters in millions or billions.

    >>> _counted(8_030_261_248), _counted(671e9)
    ('8.03 B', '671 B')
    """
    size, unit = (1e9, "B") if number >= 1e9 else (1e6, "M")
    return f"{number / size:.3g} {unit}"
