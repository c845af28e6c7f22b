"""Device kinds of bundled profiles by the names that measurements give to devices.

    H100-SXM5-80GB, NVIDIA H100 80GB HBM3, h100_sxm -> h100-sxm-80gb

A name is its model (`h100`), and optionally how it is built in (`sxm`, `pcie`) and its memory (`80gb`).
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

from explorer.base.errors import InputError
from explorer.cluster import Cluster, DeviceKind
from explorer.cluster_profiles import cluster_names, load_cluster

FORMS = ("sxm", "pcie", "nvl", "oam")
"""Ways in which a device is built in."""
_MEMORY_APART = 0.1  # marketed sizes of one device differ by less (B200: 180 and 192 GB)
_MAKERS = ("nvidia", "amd", "geforce", "tesla", "instinct")


@lru_cache(maxsize=1)
def known_kinds() -> dict[str, Cluster]:
    """Return for each device kind of bundled profiles the profile that fits it best: the one of fewest
    devices, of equal ones the one with the shortest name.
    """
    found: dict[str, Cluster] = {}
    clusters = [load_cluster(name) for name in cluster_names()]
    for cluster in sorted(clusters, key=lambda item: (item.device_count, len(item.name), item.name)):
        for kind in cluster.device_kinds:
            found.setdefault(kind.name, cluster)
    return found


def kind_called(name: str) -> DeviceKind:
    """Return the kind of a device that a measurement calls `name`.

    >>> kind_called("H100-SXM5-80GB").name, kind_called("B200").name
    ('h100-sxm-80gb', 'b200-sxm-180gb')

    Raises:
        InputError: no bundled profile has it; the nearest that one has is named.
    """
    cluster = cluster_called(name)
    return next(kind for kind in cluster.device_kinds if kind.name == _matching(name))


def cluster_called(name: str) -> Cluster:
    """Return the bundled profile whose devices a measurement calls `name`.

    Raises:
        InputError: no bundled profile has it; the nearest that one has is named.
    """
    kinds = known_kinds()
    found = _matching(name)
    if not found:
        near = max(kinds, key=lambda kind: (_likeness(name, kind), -len(kind)))
        raise InputError(
            f"unknown device {name!r}; the nearest known is {near}", key="device", found=name,
            allowed=", ".join(sorted(kinds)),
        )  # fmt: skip
    return kinds[found]


def means(name: str, kind: str) -> bool:
    """Tell whether a measurement that names a device so may be of a kind: of its model, form and memory.

    >>> means("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"), means("A100-SXM4-40GB", "a100-sxm-80gb")
    (True, False)
    """
    return _means(_parts(name), _parts(kind))


@lru_cache(maxsize=256)
def _matching(name: str) -> str:
    """Return the kind that a name means; empty if none."""
    kinds = known_kinds()
    if name in kinds:
        return name
    fits = [kind for kind in kinds if _means(_parts(name), _parts(kind))]
    return min(fits, key=lambda kind: (len(kind.split("-")), kind), default="")


def _means(given: tuple[str, str, float], kind: tuple[str, str, float]) -> bool:
    (model, form, memory), (other, built, held) = given, kind
    if model != other or (form and built and form != built):
        return False
    return not memory or not held or abs(memory / held - 1) <= _MEMORY_APART


@lru_cache(maxsize=256)
def _parts(name: str) -> tuple[str, str, float]:
    """Return model, form ("" if it does not say) and memory in GB (0 if it does not say)."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word not in ("", *_MAKERS)]
    model, form, memory = "", "", 0.0
    for word in words:
        bare = word.rstrip("0123456789")
        if bare in FORMS:
            form = bare
        elif re.fullmatch(r"\d+g(i?b)?", word):
            memory = float(re.match(r"\d+", word).group())  # type: ignore[union-attr]
        elif not re.match(r"hbm|gddr", word):
            model += word
    return model, form, memory


def _likeness(name: str, kind: str) -> float:
    (model, form, _), (other, built, _) = _parts(name), _parts(kind)
    series = re.match("[a-z]*", model).group() == re.match("[a-z]*", other).group()  # type: ignore[union-attr]
    return SequenceMatcher(None, model, other).ratio() + 0.5 * series + 0.1 * (form == built)
