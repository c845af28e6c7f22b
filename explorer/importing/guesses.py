"""Guesses: which model of the zoo and which bundled cluster a config means, from its sizes and its ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.graph import LayerGraph
from explorer.importing._titan_models import block_numbers
from explorer.importing.baseline import Facts
from explorer.models import load_model

FAMILIES = ("gpt2-small", "gpt2-medium", "gpt2-xl", "gpt3-175b", "llama3-8b", "llama3-70b", "llama3-405b",
            "mixtral-8x7b")  # fmt: skip
"""Models of the zoo that trainers of decoders have by their sizes."""
_CLUSTERS = ("hgx-h100", "hgx-h100-16", "hgx-h100-2048", "dgx-a100", "dgx-a100-4", "dgx-a100-128", "h200",
             "b200", "gb200-nvl72", "dgx-1-v100", "mi300x", "cpu-2")  # fmt: skip
"""Bundled clusters that a number of ranks may mean, the usual ones first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGuess:
    """A model that a config means."""

    reference: str
    """Argument of `load_model`."""
    settings: tuple[tuple[str, str], ...] = ()
    """Sizes, for a family of the zoo."""
    why: str = ""
    """Reason in words."""


def facts_of(graph: LayerGraph) -> Facts:
    """Return the sizes of a decoder; 0 for what it has not.

    >>> facts_of(load_model("llama3-8b")).kv_heads
    8
    """
    sizes: dict[str, int] = {}
    for layer in graph.layers:
        for dim in layer.dims:
            sizes[dim.name] = max(sizes.get(dim.name, 0), int(dim.size))
    names = {layer.name.rpartition(".")[2] for layer in graph.layers}
    experts = [layer for layer in graph.layers if layer.kind == "experts"]
    owners = [layer.kind for layer in graph.layers for use in layer.parameters if use.name == "embed.weight"]
    return Facts(
        name=graph.name,
        layers=len(block_numbers(graph)),
        hidden=sizes.get("embed", 0),
        heads=sizes.get("heads", 0),
        kv_heads=sizes.get("kv_heads", 0) or sizes.get("heads", 0),
        head=sizes.get("head", 0),
        ffn=sizes.get("ffn", 0),
        vocab=sizes.get("vocab", 0),
        experts=sizes.get("experts", 0) if experts else 0,
        positions=next((int(p.shape[0]) for p in graph.parameters if p.name == "positions.weight"), 0),
        gated="gate" in names or bool(experts),
        tied=len(owners) > 1,
    )


def guess_model(facts: Facts) -> ModelGuess | None:
    """Return the model of the zoo that has a config's sizes, or a family with these; None if unclear."""
    if named := _by_name(facts.name):
        return ModelGuess(reference=named, why=f"{facts.name} is {named}")
    if not (facts.layers and facts.hidden):
        return None
    for name in FAMILIES:
        if _agrees(facts, facts_of(load_model(name))):
            return ModelGuess(reference=name, why=f"{name} has these sizes")
    return None if facts.experts else _family(facts)


def _by_name(name: str) -> str:
    """Return the model of the zoo whose words are all in a name; empty if there is none."""
    words = set(
        re.split(r"[^a-z0-9]+", name.lower().replace("llama-3", "llama3").replace("llama_3", "llama3"))
    )
    words |= {"llama3"} if {"meta", "llama3"} <= words or "llama3" in words else set()
    return next((item for item in FAMILIES if set(item.split("-")) <= words), "")


def _agrees(said: Facts, known: Facts) -> bool:
    """Tell whether a model has every size that is said; a padded vocabulary is the same."""
    for key in ("layers", "hidden", "heads", "kv_heads", "ffn", "experts"):
        value = getattr(said, key)
        if value and value != getattr(known, key):
            return False
    if not said.experts and known.experts:
        return False
    if known.positions and said.positions > known.positions:
        return False
    if said.gated is not None and said.gated != known.gated:
        return False
    return not said.vocab or known.vocab <= said.vocab < known.vocab + 2048


def _family(facts: Facts) -> ModelGuess | None:
    """Return a model of any size: `llama` where parts are gated or keys are shared, else `gpt`."""
    heads = facts.heads
    if not heads:
        return None
    gated = facts.gated if facts.gated is not None else bool(facts.kv_heads not in (0, heads))
    sizes = {"layers": facts.layers, "embed": facts.hidden, "heads": heads}
    if gated:
        sizes["kv_heads"] = facts.kv_heads or heads
        sizes["head"] = facts.head or facts.hidden // heads
        # Megatron-LM's width of a gated part where none is said: two thirds of four, in steps of 64
        sizes["ffn"] = facts.ffn or int(4 * facts.hidden * 2 / 3 / 64) * 64
    elif facts.ffn not in (0, 4 * facts.hidden):
        return None  # the family has the usual width only
    elif facts.positions:
        sizes["positions"] = facts.positions
    if facts.vocab:
        sizes["vocab"] = facts.vocab
    settings = tuple((key, str(value)) for key, value in sizes.items())
    if facts.tied is not None:
        settings = (*settings, ("tied", str(facts.tied).lower()))
    family = "llama" if gated else "gpt"
    return ModelGuess(reference=family, settings=settings, why=f"the family {family} in these sizes")


def guess_cluster(world: int, per_node: int, hint: str) -> str:
    """Return the bundled cluster that a job of so many ranks means.

    Args:
        world: ranks; 0 if unknown.
        per_node: ranks on a node; 0 if unknown.
        hint: part of the name of a device kind; empty if nothing hints at one.

    Raises:
        InputError: the ranks are unknown, or no bundled cluster is that large.
    """
    if not world:
        raise InputError(
            "the config does not say on how many devices it runs",
            key="--cluster",
            allowed="a name from `explorer list clusters`, or a file",
        )
    fitting = [(name, cluster) for name, cluster in _clusters() if cluster.device_count >= world]
    if hint:
        fitting = [(name, cluster) for name, cluster in fitting if hint in _kinds(cluster)] or fitting
    same_nodes = [
        (name, cluster)
        for name, cluster in fitting
        if not per_node or cluster.device_count == world or _node_size(cluster) == per_node
    ]
    if not fitting:
        raise InputError(
            f"no bundled cluster has {world} devices",
            key="--cluster",
            found=world,
            allowed="a profile of yours",
        )
    return min(same_nodes or fitting, key=lambda item: item[1].device_count)[0]


def _clusters() -> Iterator[tuple[str, Cluster]]:
    known = set(cluster_names())
    return ((name, load_cluster(name)) for name in _CLUSTERS if name in known)


def _kinds(cluster: Cluster) -> str:
    return " ".join(kind.name.lower() for kind in cluster.device_kinds)


def _node_size(cluster: Cluster) -> int:
    """Return the devices of the first node."""
    first = cluster.node_of(0)
    return sum(cluster.node_of(device) == first for device in range(min(cluster.device_count, 128)))
