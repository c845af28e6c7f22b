"""Modules: the models of the zoo as torch modules, so that a real run takes the layers that a plan names.

A zoo model is a graph; `MODULES` has, for a family of them, a function that makes a module of a graph's own
sizes. Every layer of the graph is one module without submodules, called as the layer is, so that the capture
of the module has the layers of the graph and a plan cuts both alike. Samples are those of training: a module
takes inputs and targets and returns its loss, the mean over samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explorer.base.registry import Registry, Spec
from explorer.graph import LayerGraph

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["MODULES", "Family", "module_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Spec):
    """Zoo models that one module serves; its function takes a graph and returns a module and its inputs."""

    list_name: str = ""
    """Component of the module's paths that the graph's names leave out; empty if they are the same."""

    def layer(self, path: str) -> str:
        """Return the layer of the graph that is the module at a path."""
        return path.replace(f".{self.list_name}.", ".") if self.list_name else path


MODULES: Registry[Family] = Registry("family of modules", "explorer.models.modules", Family)
"""Families of zoo models that have a module, by the name that `ZooModel.family` has."""


def module_of(family: str, graph: LayerGraph) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """Make the module of a zoo model.

    Args:
        family: family of the zoo model.
        graph: its graph; sizes are those of its layers.

    Returns:
        The module, and example inputs of one sample by name.

    Raises:
        InputError: a family without a module, or a graph with options that its module lacks.
    """
    found: tuple[nn.Module, Mapping[str, Tensor]] = MODULES.get(family).function(graph)
    return found
