"""Flags that several commands share, and the inputs that they name."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

from explorer.base.errors import InputError
from explorer.base.trust import Trust
from explorer.cli.output import say
from explorer.cluster import MARGINS, Cluster
from explorer.cluster.memory_room import with_margin
from explorer.cluster_profiles import load_cluster
from explorer.framework_files import framework_called, load_framework
from explorer.graph import LayerGraph
from explorer.models import load_model_and_cluster, unknown_choices
from explorer.plan import Reference, Resolved, fingerprint, load_plan, make_plan
from explorer.schedules import SCHEDULES
from explorer.search.microbatches import with_best_microbatch
from explorer.strategies.degrees import (
    EXCHANGES,
    GATHER,
    RECOMPUTE,
    ZERO_LEVELS,
    Degrees,
    chunks_or_default,
    default_schedule,
)
from explorer.strategy import Strategy, UpdateChoice
from explorer.updates import chosen
from explorer.workload import Workload, default_workload


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add `--trust`."""
    parser.add_argument(
        "--trust", action="store_true",
        help="run the code (module.path:factory, file.py:factory) that a file names as its model",
    )  # fmt: skip


def trust_of(options: argparse.Namespace) -> Trust:
    """Return the code that a file may name: all with `--trust`, else only what `--model` names too."""
    named = getattr(options, "model", None)
    return True if options.trust else (named,) if named else ()


def add_model(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the flags of model, cluster and workload."""
    parser.add_argument(
        "--model", required=required, help="zoo name, file, hf:PATH, module.path:factory or file.py:factory"
    )
    parser.add_argument("--cluster", help="bundled profile name or file")
    parser.add_argument("--global-batch", type=int, help="samples of one optimizer step")
    parser.add_argument("--seq-len", type=int, help="tokens of one sample")
    parser.add_argument("--precision", help="bf16, fp16, fp32, fp8, ...")
    parser.add_argument("--optimizer", help="adam, adamw, momentum, sgd or none")
    parser.add_argument(
        "--framework", type=framework_called,
        help="software that runs it: a name from `explorer list frameworks`, without its year the newest",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="setting of the model reader"
    )


def add_margin(parser: argparse.ArgumentParser) -> None:
    """Add `--memory-margin`."""
    parser.add_argument(
        "--memory-margin", choices=MARGINS,
        help="likely: a plan that may fit, by the band of its predicted memory, is feasible; surely: only one"
        " that fits at the upper end of the band; default: as the profile says, likely unless it says so",
    )  # fmt: skip


def under_margin(cluster: Cluster, options: argparse.Namespace) -> Cluster:
    """Return the cluster under `--memory-margin`, or as it is without the flag."""
    return with_margin(cluster, options.memory_margin) if options.memory_margin else cluster


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a uniform strategy."""
    parser.add_argument("--schedule", help="a name from `explorer list schedules`")
    parser.add_argument(
        "--schedule-option", action="append", default=[], metavar="K=V", help="option of the schedule"
    )
    parser.add_argument(
        "--stages", type=int, help="pipeline stages p (positions of the schedule's placement)"
    )
    parser.add_argument("--microbatches", type=int, help="microbatches per step m")
    parser.add_argument(
        "--microbatch-size", type=int,
        help="samples of one microbatch per replica; without it the fastest of 1, 2, 4, ... that fit",
    )  # fmt: skip
    parser.add_argument("--dp", type=int, help="data-parallel replicas d")
    parser.add_argument("--tp", type=int, help="tensor-parallel size t")
    parser.add_argument(
        "--chunks", type=int, help="stages per pipeline position; default: what the schedule's placement has"
    )
    parser.add_argument("--cp", type=int, help="context-parallel size c: devices that share a sequence")
    parser.add_argument(
        "--cp-exchange", choices=tuple(EXCHANGES), default=GATHER,
        help="how attention sees the whole sequence under --cp",
    )  # fmt: skip
    parser.add_argument("--ep", type=int, help="expert-parallel size: devices that share the experts")
    parser.add_argument(
        "--sequence-parallel", action="store_true", help="with --tp: norms are split along the sequence too"
    )
    parser.add_argument("--recompute", default="none", choices=RECOMPUTE, help="activation recomputation")
    parser.add_argument("--zero", type=int, default=0, choices=ZERO_LEVELS, help="ZeRO level")
    parser.add_argument("--devices", metavar="LIST", help="device of every rank, in order: 8-15,0,2")
    parser.add_argument("--update", metavar="RULE", help="a name from `explorer list updates`")
    parser.add_argument(
        "--update-option", action="append", default=[], metavar="K=V", help="option of the update rule"
    )


def pairs(texts: list[str], flag: str) -> dict[str, str]:
    """Return `K=V` texts as a mapping.

    Raises:
        InputError: a text has no `=`.
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
    """Inputs that a command works on."""

    model: Reference
    """Model reference with its settings."""
    graph: LayerGraph
    """The model."""
    cluster_name: str
    """Cluster reference."""
    cluster: Cluster | None
    """The cluster; None if none was named."""
    workload: Workload
    """The workload of the flags."""

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
    framework = load_framework(options.framework or "")
    graph, own = load_model_and_cluster(
        options.model, sequence_length=options.seq_len, settings=settings, framework=framework
    )
    for choice in unknown_choices(options.model, framework):
        say(f"explorer: {options.model} knows no {choice}, as {framework.name} has them: they count as fused")
    cluster = load_cluster(options.cluster) if options.cluster else own
    changes = {
        "global_batch": options.global_batch,
        "precision": options.precision,
        "optimizer": options.optimizer,
        "framework": options.framework,
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


def device_list(text: str) -> tuple[int, ...]:
    """Return devices from numbers and spans such as `8-15,0,2`; () for no text.

    Raises:
        InputError: a part is neither a number nor a span.
    """
    found: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        numbers = [first, last] if dash else [first]
        spelt = all(number.isascii() and number.isdigit() and len(number) < 8 for number in numbers)
        if not spelt or int(numbers[-1]) < int(first):
            raise InputError(
                f"--devices {text}: {part!r} names no devices", key="--devices", found=part,
                allowed="numbers and spans, as 8-15,0,2",
            )  # fmt: skip
        found += range(int(first), int(numbers[-1]) + 1)
    return tuple(found)


def degrees_of(options: argparse.Namespace, inputs: Inputs) -> Degrees:
    """Return the degrees of the flags, except for the microbatch size.

    Without `--dp` all devices are replicas if no other degree is named, else there is one replica.
    """
    sizes = {"stages": options.stages, "tensor": options.tp, "context": options.cp}
    replicas = options.dp
    if replicas is None:
        chosen = device_list(options.devices or "")
        replicas = 1 if any(sizes.values()) else len(chosen or inputs.devices.present)
    sizes |= {"expert": options.ep}
    given: dict[str, Any] = {key: 1 if size is None else size for key, size in sizes.items()}
    name = options.schedule or default_schedule(options.chunks or 1)
    chosen_options = pairs(options.schedule_option, "--schedule-option")
    read = SCHEDULES.get(name).read_options(chosen_options)
    return Degrees(
        **given, options=tuple((key, read[key]) for key in chosen_options),
        replicas=replicas, chunks=chunks_or_default(options.chunks),
        schedule=options.schedule or "", recompute=options.recompute, zero=options.zero,
        sequence_parallel=options.sequence_parallel, context_exchange=options.cp_exchange,
    )  # fmt: skip


def shaped(options: argparse.Namespace, inputs: Inputs) -> tuple[Inputs, Strategy]:
    """Return the uniform strategy of the flags, and the inputs with the batch that follows from them.

    Raises:
        InputError: flags contradict each other, or devices, model or batch do not allow them.
    """
    degrees, devices = degrees_of(options, inputs), device_list(options.devices or "")
    inputs = _with_batch(options, inputs, degrees.replicas)
    job, count = inputs.workload.job, options.microbatches
    samples = None
    if options.microbatch_size is not None:
        degrees = degrees.changed(microbatch_size=options.microbatch_size)
    elif count is not None:
        samples = job.global_batch // count
        degrees = degrees.changed(microbatch_size=max(1, samples // degrees.replicas))
    else:
        degrees = with_best_microbatch(
            inputs.graph, inputs.devices, inputs.workload, degrees, devices=devices
        )
    strategy = degrees.build(inputs.graph, inputs.devices, job, devices=devices, microbatch_samples=samples)
    return inputs, strategy


def _with_batch(options: argparse.Namespace, inputs: Inputs, replicas: int) -> Inputs:
    """Return the inputs with a global batch that `--microbatches` divide, if nobody gave one."""
    count, size, batch = options.microbatches, options.microbatch_size, inputs.workload.job.global_batch
    if count is None:
        return inputs
    if count < 1:
        raise InputError(f"--microbatches {count}", key="--microbatches", found=count, allowed="1 or more")
    fits = batch == count * replicas * size if size is not None else batch % count == 0
    if fits:
        return inputs
    needed = count * replicas * (size or 1)
    if options.global_batch is not None:
        raise InputError(
            f"{count} microbatches{f' of {size} x {replicas} samples' if size else ''} do not make a global"
            f" batch of {batch}",
            key="--microbatches", found=count,
            allowed=f"{'' if size else f'a divisor of {batch}, or '}--global-batch {needed}",
        )  # fmt: skip
    return replace(inputs, workload=inputs.workload.with_job(global_batch=needed))


def with_update(options: argparse.Namespace, strategy: Strategy) -> Strategy:
    """Return the strategy with the update rule of the flags for all parameters, if they name one.

    Raises:
        InputError: the rule or an option is unknown, or there are options without a rule.
    """
    given = pairs(options.update_option, "--update-option")
    if options.update is None:
        if given:
            raise InputError("--update-option without --update", key="--update", allowed="a rule")
        return strategy
    choice = UpdateChoice(rule=options.update, options=chosen(options.update, tuple(given.items())).options)
    return strategy.with_job(replace(strategy.job, updates=(choice,)))


def resolved_of(options: argparse.Namespace) -> Resolved:
    """Return the plan that `--plan` names, or one made from the flags."""
    if getattr(options, "plan", None):
        found = load_plan(options.plan, trust=trust_of(options))
        if getattr(options, "update", None) is None and not getattr(options, "update_option", None):
            return found
        return replace(found, plan=replace(found.plan, strategy=with_update(options, found.plan.strategy)))
    if not options.model:
        raise InputError(
            "a model is needed", key="--model", allowed="a zoo name, a file, hf:PATH, or --plan FILE"
        )
    inputs = read_inputs(options)
    inputs, strategy = shaped(options, inputs)
    strategy = with_update(options, strategy)
    plan = make_plan(
        inputs.model, inputs.graph, inputs.cluster_name, inputs.devices, inputs.workload, strategy
    )
    return Resolved(plan=plan, graphs={"model": inputs.graph}, cluster=inputs.devices)
