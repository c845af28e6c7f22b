"""Flags that several commands share, and the inputs they name."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model_and_cluster
from explorer.plan import Reference, Resolved, fingerprint, load_plan, make_plan
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.workload import Workload, default_workload


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def add_model(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Model, cluster and workload flags."""
    parser.add_argument(
        "--model", required=required, help="zoo name, file, hf:PATH, module.path:factory or file.py:factory"
    )
    parser.add_argument("--cluster", help="bundled profile name or file")
    parser.add_argument("--global-batch", type=int, help="samples of one optimizer step")
    parser.add_argument("--microbatch-size", type=int, help="samples of one microbatch per replica")
    parser.add_argument("--seq-len", type=int, help="tokens of one sample")
    parser.add_argument("--precision", help="bf16, fp16, fp32, fp8, ...")
    parser.add_argument("--optimizer", help="adam, adamw, momentum, sgd or none")
    parser.add_argument(
        "--recompute", default=None, choices=("none", "selective", "full"), help="activation recomputation"
    )
    parser.add_argument("--zero", type=int, default=None, choices=(0, 1, 2, 3), help="ZeRO level")
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="setting of the model reader"
    )


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Flags of a uniform strategy."""
    parser.add_argument("--schedule", help="a name from `explorer list schedules`")
    parser.add_argument(
        "--stages", type=int, help="pipeline stages p (positions of the schedule's placement)"
    )
    parser.add_argument("--microbatches", type=int, help="microbatches per step m")
    parser.add_argument("--dp", type=int, help="data-parallel replicas d")
    parser.add_argument("--tp", type=int, help="tensor-parallel size t")
    parser.add_argument(
        "--chunks", type=int, help="stages per pipeline position; default: what the schedule's placement has"
    )


def pairs(texts: list[str], flag: str) -> dict[str, str]:
    """`K=V` texts as a mapping.

    Raises:
        InputError: a text without `=`.
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"{flag} {text!r} is no setting", key=flag, found=text, allowed="KEY=VALUE")
        found[key] = value
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a command works on."""

    model: Reference
    """Model reference with its settings."""
    graph: LayerGraph
    """The model."""
    cluster_name: str
    """Cluster reference."""
    cluster: Cluster | None
    """The cluster, where one was named."""
    workload: Workload
    """What is asked."""

    @property
    def devices(self) -> Cluster:
        """The cluster.

        Raises:
            InputError: none was named.
        """
        if self.cluster is None:
            raise InputError(
                "a cluster is needed",
                key="--cluster",
                allowed="a name from `explorer list clusters`, or a file",
            )
        return self.cluster


def read_inputs(options: argparse.Namespace) -> Inputs:
    """Load the model and the cluster that the flags name."""
    settings = pairs(options.set, "--set")
    graph, own = load_model_and_cluster(options.model, sequence_length=options.seq_len, settings=settings)
    cluster = load_cluster(options.cluster) if options.cluster else own
    changes = {
        "global_batch": options.global_batch,
        "precision": options.precision,
        "optimizer": options.optimizer,
        "sequence_length": options.seq_len,
    }
    given = {key: value for key, value in changes.items() if value is not None}
    model = Reference(
        reference=options.model,
        fingerprint=fingerprint(graph),
        sequence_length=options.seq_len or 0,
        settings=tuple(settings.items()),
    )
    return Inputs(
        model=model,
        graph=graph,
        cluster_name=options.cluster or options.model,
        cluster=cluster,
        workload=default_workload(graph).with_job(**given),
    )


def shaped_strategy(options: argparse.Namespace, inputs: Inputs) -> Strategy:
    """The uniform strategy of the flags; without `--dp` all devices that are left are replicas."""
    tensor = 1 if options.tp is None else options.tp
    stages = 1 if options.stages is None else options.stages
    replicas = options.dp
    if replicas is None:
        replicas = 1 if options.stages or options.tp else inputs.devices.device_count
    return uniform(
        inputs.graph,
        inputs.devices,
        inputs.workload.job,
        stages=stages,
        replicas=replicas,
        tensor=tensor,
        chunks=options.chunks,
        microbatches=options.microbatches,
        microbatch_size=options.microbatch_size,
        schedule=options.schedule or "",
        recompute=options.recompute or "none",
        zero=options.zero or 0,
    )


def resolved_of(options: argparse.Namespace) -> Resolved:
    """The plan that `--plan` names, or one made of the flags."""
    if getattr(options, "plan", None):
        return load_plan(options.plan)
    if not options.model:
        raise InputError(
            "a model is needed", key="--model", allowed="a zoo name, a file, hf:PATH, or --plan FILE"
        )
    inputs = read_inputs(options)
    strategy = shaped_strategy(options, inputs)
    plan = make_plan(
        inputs.model, inputs.graph, inputs.cluster_name, inputs.devices, inputs.workload, strategy
    )
    return Resolved(plan=plan, graphs={"model": inputs.graph}, cluster=inputs.devices)
