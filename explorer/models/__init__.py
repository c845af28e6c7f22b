"""Models: every source of a LayerGraph, and the function that reads whatever a user calls a model.

`SOURCES` holds the zoo: functions that build a graph from an architecture's own shapes. Readers of files are
in the same folder, one file each. `load_model` tells them apart by the reference alone.

>>> from explorer.models import load_model
>>> load_model("gpt2-small").parameter_count
124439808
"""

from __future__ import annotations

import difflib
import importlib
import logging
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from explorer.base.errors import InputError
from explorer.base.files import STANDARD_INPUT, exists
from explorer.base.registry import Registry, Spec
from explorer.base.trust import Trust, require_trust, runs_code
from explorer.framework import USUAL, Framework
from explorer.graph import LayerGraph

if TYPE_CHECKING:
    from explorer.cluster import Cluster

Builder = Callable[..., LayerGraph]
"""A zoo builder: takes `sequence_length` (None for the default), then its own options, by keyword."""

_NOT_ZOO = frozenset(
    {
        "builder",
        "captured_program",
        "factory",
        "hf",
        "module_source",
        "modules",
        "partitioning",
        "pipedream",
        "saved",
        "synthetic",
        "torch_export",
    }
)
"""Files that read models or help to build them, so listing the zoo imports neither torch nor pydantic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooModel(Spec):
    """A model of the zoo; its function is a `Builder`."""

    parameters: int
    """Published number of parameters."""
    family: str
    """Group of models that are built alike."""

    def build(self, *, sequence_length: int | None, settings: Mapping[str, str]) -> LayerGraph:
        """Build the graph under some settings.

        Raises:
            InputError: a setting that the model lacks, or a sequence length although samples are no
                sequences.
        """
        made: LayerGraph = self.function(sequence_length=sequence_length, **self.read_options(settings))
        return made


class _Zoo(Registry[ZooModel]):
    """The registry of zoo files; new files in this folder are found automatically."""

    def _load(self) -> None:
        if self._loaded:
            return
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith("_") and module.name not in _NOT_ZOO:
                importlib.import_module(f"{self.package}.{module.name}")
        self._loaded = True


SOURCES: Registry[ZooModel] = _Zoo("model", "explorer.models", ZooModel)
"""The zoo by name."""

logger = logging.getLogger(__name__)
MOST_TOKENS = 10**9
"""Tokens of a sample."""
_FILE_SUFFIXES = (".txt", ".json", ".yaml", ".yml")
_ALLOWED = "a zoo name (`explorer list models`), a file, hf:PATH, module.path:factory or file.py:factory"


def load_model(
    reference: str,
    *,
    sequence_length: int | None = None,
    settings: Mapping[str, str] | None = None,
    framework: Framework = USUAL,
    trust: Trust = True,
) -> LayerGraph:
    """Load the graph that `reference` names.

    Args:
        reference: a zoo name; a file (PipeDream `*.graph.txt`, partitioning JSON, saved LayerGraph JSON; `-`
            reads one from standard input); `hf:PATH`; `module.path:factory` or `file.py:factory`, which
            run that code.
        sequence_length: tokens of one sample; None for the model's own.
        settings: what `--set` gave, e.g. ``{"samples_per_microbatch": "128"}`` for a PipeDream profile.
        framework: the software that decides how kernels are fused and gradients summed, unless the settings
            do.
        trust: whether code that `reference` names may be run: yes, because the caller names it. Callers that
            took the reference from a file pass False, or the references that a person named
            (`explorer.base.trust`).

    Raises:
        InputError: an unknown reference, a wrong file, a setting that this source lacks, or code
            that no person named.
    """
    return load_model_and_cluster(
        reference, sequence_length=sequence_length, settings=settings, framework=framework, trust=trust
    )[0]


def load_model_and_cluster(
    reference: str,
    *,
    sequence_length: int | None = None,
    settings: Mapping[str, str] | None = None,
    framework: Framework = USUAL,
    trust: Trust = True,
) -> tuple[LayerGraph, Cluster | None]:
    """Load a model like `load_model`, with its cluster; None if the source has none (all but partitioning).

    Raises:
        InputError: as `load_model`.
    """
    _check_sequence_length(sequence_length)
    given = dict(settings or {})
    logger.info("reading model %s %s", reference, given or "")
    own: frozenset[str] = frozenset()
    if reference in SOURCES.names():
        own = frozenset(option.name for option in SOURCES.get(reference).options)
        decided = framework.model_settings
        given = {**{name: value for name, value in decided.items() if name in own}, **given}
    graph, cluster = _read(reference, sequence_length, given, trust)
    return _under(graph, framework, own), cluster


def _read(
    reference: str, sequence_length: int | None, given: dict[str, str], trust: Trust
) -> tuple[LayerGraph, Cluster | None]:
    if reference.startswith("hf:"):
        hf = importlib.import_module("explorer.models.hf")
        return hf.load(reference[3:], sequence_length=sequence_length, settings=given), None
    if reference in SOURCES.names():
        return _from_zoo(reference, sequence_length, tuple(sorted(given.items()))), None
    if reference == STANDARD_INPUT and trust is not True:
        raise InputError(
            "a file names standard input as its model",
            key="model",
            found=reference,
            allowed="a zoo name, a data file or hf:PATH",
        )
    if reference == STANDARD_INPUT or reference.endswith(_FILE_SUFFIXES) or exists(reference):
        return _from_file(reference, sequence_length, given)
    if runs_code(reference):
        require_trust(reference, given, trust)
        factory = importlib.import_module("explorer.models.factory")
        return factory.load(reference, sequence_length=sequence_length, settings=given), None
    raise _unknown(reference)


def unknown_choices(reference: str, framework: Framework) -> tuple[str, ...]:
    """Return the framework's choices that a model does not know, such as `eager kernels`.

    A model with fused attention alone has no softmax to fuse; `selective` and `accumulation` act on any.
    """
    known = SOURCES.get(reference).options if reference in SOURCES.names() else ()
    names = {option.name for option in known}
    found = []
    if framework.kernels == "eager" and "kernels" not in names:
        found.append("eager kernels")
    if framework.attention == "plain" and "attention" not in names:
        found.append("plain attention")
    return tuple(found)


def _under(graph: LayerGraph, framework: Framework, own: frozenset[str]) -> LayerGraph:
    """Return a graph as a framework runs it: choices for any model that are no settings of its `own`."""
    policy = "" if "selective" in own else framework.selective
    summed = "" if "accumulation" in own else framework.accumulation
    stops = framework.checkpoints == "needed"
    sent = "" if "dispatch" in own else framework.dispatch
    kernels = "" if "expert_kernels" in own else framework.expert_kernels
    routed = bool(sent or kernels) and any(layer.routing is not None for layer in graph.layers)
    if not policy and not stops and not routed and summed in ("", "fused"):
        return graph

    def make() -> LayerGraph:
        from explorer.models._accumulate import with_accumulation
        from explorer.models._routing import with_routing
        from explorer.models._selective import with_early_stop, with_policy

        made = with_routing(graph, dispatch=sent, kernels=kernels) if routed else graph
        made = with_policy(made, policy) if policy else made
        made = with_early_stop(made) if stops else made
        return made if summed in ("", "fused") else with_accumulation(made, summed)

    # the same graph and framework give the same object: caches know graphs by their identity
    return graph.memo(f"models.under {policy} {summed} {stops} {sent} {kernels}", make)


def _check_sequence_length(sequence_length: int | None) -> None:
    if sequence_length is not None and not 1 <= sequence_length <= MOST_TOKENS:
        raise InputError(
            f"a sequence of {sequence_length} tokens",
            key="sequence_length",
            found=sequence_length,
            allowed=f"1 to {MOST_TOKENS:,}",
        )


@lru_cache(maxsize=64)
def _from_zoo(name: str, sequence_length: int | None, settings: tuple[tuple[str, str], ...]) -> LayerGraph:
    # Graphs are immutable, so one build serves everyone and keeps what was derived from it.
    return SOURCES.get(name).build(sequence_length=sequence_length, settings=dict(settings))


def _from_file(
    reference: str, sequence_length: int | None, settings: Mapping[str, str]
) -> tuple[LayerGraph, Cluster | None]:
    from explorer.models._files import load

    return load(reference, sequence_length, settings)


def _unknown(reference: str) -> InputError:
    close = difflib.get_close_matches(reference, SOURCES.names(), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return InputError(f"unknown model {reference!r}{hint}", key="model", found=reference, allowed=_ALLOWED)
