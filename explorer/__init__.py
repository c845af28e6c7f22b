"""Strategy explorer: decide how to split a neural network over accelerators, and check that it is true.

>>> import explorer
>>> graph = explorer.load_model("gpt2-small")
>>> cluster = explorer.load_cluster("dgx-a100")
>>> workload = explorer.default_workload(graph)
>>> strategy = explorer.uniform(graph, cluster, workload.job, stages=4, replicas=2)
>>> report = explorer.simulate(graph, cluster, workload, strategy)
>>> report.feasible
True

Headless: imports no Jupyter and no plotly, and no torch until a torch model is read or a run starts. The
names below are imported when they are first used, so that `import explorer` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.base.errors import (
        DeadlockError,
        ExplorerError,
        InfeasibleError,
        InputError,
        PlanError,
        RunError,
    )
    from explorer.cluster import Cluster
    from explorer.cluster_profiles import load_cluster
    from explorer.framework import Framework
    from explorer.framework_files import load_framework
    from explorer.graph import LayerGraph
    from explorer.models import load_model
    from explorer.plan import Plan, load_plan, make_plan, save_plan, share_text
    from explorer.search import Problem, search
    from explorer.simulation.report import Report
    from explorer.simulation.simulate import simulate
    from explorer.strategies.uniform import uniform
    from explorer.strategy import Strategy
    from explorer.workload import Job, Workload, default_workload

__version__ = "0.1.0"

_HOME = {
    "Cluster": "cluster",
    "DeadlockError": "base.errors",
    "ExplorerError": "base.errors",
    "Framework": "framework",
    "InfeasibleError": "base.errors",
    "InputError": "base.errors",
    "Job": "workload",
    "LayerGraph": "graph",
    "Plan": "plan",
    "PlanError": "base.errors",
    "Problem": "search",
    "Report": "simulation.report",
    "RunError": "base.errors",
    "Strategy": "strategy",
    "Workload": "workload",
    "default_workload": "workload",
    "load_cluster": "cluster_profiles",
    "load_framework": "framework_files",
    "load_model": "models",
    "load_plan": "plan",
    "make_plan": "plan",
    "save_plan": "plan",
    "search": "search",
    "share_text": "plan",
    "simulate": "simulation.simulate",
    "uniform": "strategies.uniform",
}

__all__ = [
    "Cluster",
    "DeadlockError",
    "ExplorerError",
    "Framework",
    "InfeasibleError",
    "InputError",
    "Job",
    "LayerGraph",
    "Plan",
    "PlanError",
    "Problem",
    "Report",
    "RunError",
    "Strategy",
    "Workload",
    "__version__",
    "default_workload",
    "load_cluster",
    "load_framework",
    "load_model",
    "load_plan",
    "make_plan",
    "save_plan",
    "search",
    "share_text",
    "simulate",
    "uniform",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'explorer' has no attribute {name!r}")
    # `search` is also the name of a package, which importing puts here; it can be called (see there).
    value = getattr(import_module(f"explorer.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
