"""Random plans of small models: everything is drawn from one number, so that a plan can be made again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from two_questions import Model

from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.simulation.check import check_job
from explorer.strategies.uniform import uniform
from explorer.strategy import JobStrategy, Keeping, Mesh, Slice, Stage, Strategy, Sync, UpdateChoice
from explorer.workload import Job

TRIES = 30
"""Draws of a strategy until one is a plan."""
GROUP = 6
"""Plans in a row with one model."""

_TEXT = {"vocab_size": 500}
CONFIGS: dict[str, dict[str, Any]] = {
    "t5": {"model_type": "t5", "d_model": 128, "d_ff": 256, "num_layers": 2, "num_heads": 4,
           "d_kv": 32, **_TEXT},
    "mixtral": {"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 192,
                "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, **_TEXT},
    "bert": {"model_type": "bert", "num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 256,
             "num_attention_heads": 4, "max_position_embeddings": 32, **_TEXT},
    "vit": {"model_type": "vit", "num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 256,
            "num_attention_heads": 4, "image_size": 32, "patch_size": 8},
    "gpt2": {"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 4, "n_positions": 32, **_TEXT},
    "opt": {"model_type": "opt", "num_hidden_layers": 2, "hidden_size": 128, "ffn_dim": 256,
            "num_attention_heads": 4, "max_position_embeddings": 32, "word_embed_proj_dim": 128, **_TEXT},
    "qwen2": {"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 192,
              "num_attention_heads": 4, "num_key_value_heads": 2, **_TEXT},
    "gemma": {"model_type": "gemma", "num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 192,
              "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, **_TEXT},
    "gpt_neox": {"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 128,
                 "num_attention_heads": 4, "intermediate_size": 256, **_TEXT},
    "bart": {"model_type": "bart", "encoder_layers": 1, "decoder_layers": 1, "d_model": 128,
             "encoder_ffn_dim": 192, "decoder_ffn_dim": 192, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "max_position_embeddings": 32, **_TEXT},
    "distilbert": {"model_type": "distilbert", "n_layers": 2, "dim": 128, "hidden_dim": 256, "n_heads": 4,
                   "max_position_embeddings": 32, **_TEXT},
    "resnet18": {"model_type": "resnet", "embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1],
                 "layer_type": "basic"},
}  # fmt: skip
"""Hugging Face configurations, small."""


def _set(**values: object) -> tuple[tuple[str, str], ...]:
    return tuple((key, str(value)) for key, value in values.items())


_GPT = {"layers": 3, "embed": 128, "heads": 4, "vocab": 500, "positions": 32}
_LLAMA = {"layers": 3, "embed": 128, "heads": 4, "kv_heads": 2, "ffn": 192, "vocab": 500}
PICTURES = ("vit", "resnet18")
"""Configurations of models that read images."""
MODULES, OWN = "benchmarks.random_modules", ("tied", "ports", "resnet18", "vgg", "nested", "learned")
"""Modules that a user might bring."""
MODELS: dict[str, Model] = {
    "gpt": Model("gpt", _set(**_GPT), 16),
    "gpt untied": Model("gpt", _set(**_GPT, tied=False), 16),
    "llama": Model("llama", _set(**_LLAMA), 16),
    "llama tied": Model("llama", _set(**_LLAMA, tied=True, kernels="eager"), 16),
    "resnet50": Model("resnet50", _set(image=32, width=4, classes=10)),
    **{f"hf {name}": Model(f"hf:{name}.json", tokens=16 * (name not in PICTURES)) for name in CONFIGS},
    **{name: Model(f"{MODULES}:{name}") for name in OWN},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plan, and what was drawn."""

    number: int
    model: str
    words: dict[str, Any]
    job: Job
    strategy: Strategy

    @property
    def text(self) -> str:
        """Say what was drawn in one line."""
        return ", ".join(f"{key} {value}" for key, value in self.words.items())


def model_of(number: int) -> str:
    """Return the model of a plan: plans in a row share it."""
    return random.Random(f"model {(number - 1) // GROUP}").choice(list(MODELS))


def draw(number: int, name: str, graph: LayerGraph, cluster: Cluster) -> Drawn:
    """Draw a plan that the simulator takes.

    Raises:
        InputError: none of many draws is a plan.
    """
    luck = random.Random(f"plan {number}")
    said = ""
    for _ in range(TRIES):
        words, job = _shape(luck)
        try:
            strategy = uniform(graph, cluster, job, **words)
            words, made = _changed(luck, dict(words), graph, strategy.job)
            if problems := check_job(graph, cluster, job, made):
                said = problems[0]
                continue
        except InputError as error:
            said = str(error)
            continue
        words |= {"batch": job.global_batch, "optimizer": job.optimizer, "precision": job.precision}
        return Drawn(number, name, words, job, Strategy(jobs=(replace(made, job=job.name),)))
    raise InputError(f"no plan in {TRIES} draws: {said}")


def _shape(luck: random.Random) -> tuple[dict[str, Any], Job]:
    """Draw the grid of devices, the schedule and the job."""
    stages, replicas, tensor = luck.choice((
        (1, 1, 1), (2, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1), (1, 2, 1), (1, 2, 1), (1, 3, 1), (1, 4, 1),
        (2, 2, 1), (2, 2, 1), (1, 1, 2), (1, 1, 4), (2, 1, 2), (1, 2, 2), (1, 1, 3), (4, 2, 1), (2, 2, 2),
    ))  # fmt: skip
    words: dict[str, Any] = {"stages": stages, "replicas": replicas, "tensor": tensor}
    if tensor > 1 and luck.random() < 0.25:
        words["context"], words["tensor"] = tensor, 1
        words["context_exchange"] = luck.choice(("gather", "ring", "all_to_all"))
    elif tensor > 1:
        words["sequence_parallel"] = luck.random() < 0.5
    if luck.random() < 0.15 and max(tensor, replicas) > 1:
        words["expert"] = luck.choice((2, tensor * replicas))
    schedule = luck.choice(SCHEDULES.names()) if stages > 1 or luck.random() < 0.2 else "1f1b"
    if schedule == "custom":
        schedule = "1f1b"
    words["schedule"] = schedule
    if luck.random() < 0.3:
        options = {}
        for option in SCHEDULES.get(schedule).options:
            if luck.random() < 0.5 and (values := _values(option)):
                options[option.name] = luck.choice(values)
        words["options"] = options
    if luck.random() < 0.3 and ("interleaved" in schedule or luck.random() < 0.3):
        words["chunks"] = luck.choice((2, 3))
    microbatches = luck.choice((1, 2, 2, 3, 4, 4, 4, 6, 8))
    words["microbatches"] = microbatches
    each = luck.choice((1, 1, 2, 3))
    if replicas > 1:
        words["zero"] = luck.choice((0, 0, 0, 1, 2, 3))
        words["bucket_bytes"] = luck.choice((0.0, 0.0, 1000.0, 30000.0))
    words["recompute"] = luck.choice(("none", "none", "none", "selective", "full"))
    batch = microbatches * each * replicas
    if replicas > 1 and luck.random() < 0.15:
        batch = microbatches * (each * replicas + 1)  # parts of unequal size
    job = Job(
        global_batch=batch, sequence_length=0, precision=luck.choice(("fp32", "fp32", "fp32", "bf16")),
        optimizer=luck.choice(("sgd", "momentum", "adam", "adamw", "adam")),
        gradient_precision=luck.choice(("", "", "", "", "fp32")),
    )  # fmt: skip
    return words, job


def _values(option: Option) -> list[Any]:
    """List values that an option may be given."""
    if option.choices:
        return list(option.choices)
    if isinstance(option.default, bool):
        return [True, False]
    if isinstance(option.default, int):
        return [value for value in (0, 1, 2, 3) if option.minimum is None or value >= option.minimum]
    return []


def _changed(
    luck: random.Random, words: dict[str, Any], graph: LayerGraph, made: JobStrategy
) -> tuple[dict[str, Any], JobStrategy]:
    """Change an even strategy: what is drawn besides its degrees."""
    for name, change in CHANGES.items():
        if luck.random() < (0.3 if name == "cuts" else 0.08):
            after, said = change(luck, graph, made)
            if after is not made:
                made, words[name] = after, said
    return words, made


Changed = tuple[JobStrategy, object]


def _stages(made: JobStrategy, change: Callable[[Stage], Stage]) -> JobStrategy:
    return replace(made, stages=tuple(change(stage) for stage in made.stages))


def _cuts(luck: random.Random, graph: LayerGraph, made: JobStrategy) -> Changed:
    names, count = [layer.name for layer in graph.layers], len(made.stages)
    if count == 1 or len(names) < count:
        return made, ""
    cuts = [0, *sorted(luck.sample(range(1, len(names)), count - 1)), len(names)]
    stages = [replace(s, layers=tuple(names[cuts[i] : cuts[i + 1]])) for i, s in enumerate(made.stages)]
    return replace(made, stages=tuple(stages)), cuts[1:-1]


def _shares(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    if made.stages[0].meshes[0].replicas < 2:
        return made, ""
    shares = tuple(float(luck.randint(1, 3)) for _ in range(made.stages[0].meshes[0].replicas))
    return _stages(made, lambda stage: replace(stage, shares=shares)), shares


def _turns(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    if made.stages[0].meshes[0].replicas < 2:
        return made, ""
    chosen = luck.randrange(len(made.stages) + 1)
    stages = tuple(
        replace(s, replicas="round_robin", shares=()) if chosen in (i, len(made.stages)) else s
        for i, s in enumerate(made.stages)
    )
    return replace(made, stages=stages), chosen


def _uneven(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    """Give one stage other replicas than the rest, on devices of its own."""
    if any(len(s.meshes) > 1 or len(s.meshes[0].rows[0]) > 1 for s in made.stages) or len(made.stages) < 2:
        return made, ""
    counts = [luck.randint(1, 2) for _ in made.stages]
    first, stages = 0, []
    for stage, count in zip(made.stages, counts, strict=True):
        mesh = Mesh(devices=tuple(range(first, first + count)))
        size = luck.choice((stage.microbatch_samples, 2 * stage.microbatch_samples, count))
        stages.append(replace(stage, meshes=(mesh,), microbatch_samples=size, shares=()))
        first += count
    return replace(made, stages=tuple(stages)), (counts, [s.microbatch_samples for s in stages])


def _zero_groups(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    if made.stages[0].meshes[0].replicas < 4:
        return made, ""
    return _stages(made, lambda s: replace(s, zero=luck.choice((1, 2, 3)), zero_replicas=2)), 2


def _mixed_zero(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    return _stages(made, lambda s: replace(s, zero=luck.choice((0, 1, 2, 3)))), "mixed"


def _reshard(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    how = luck.choice(("action", "run"))
    return _stages(made, lambda s: replace(s, reshard=how)), how


def _offload(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    what = luck.choice((("activations",), ("optimizer",), ("activations", "optimizer")))
    return _stages(made, lambda s: replace(s, offload=what)), what


def _keeping(luck: random.Random, graph: LayerGraph, made: JobStrategy) -> Changed:
    word, on = luck.choice((("full", ""), ("output", ""), ("none", ""), ("selective", ""), ("", "host")))
    blocks = sorted({layer.block for layer in graph.layers if layer.block})
    patterns = (f"{luck.choice(blocks)}.*",) if blocks and luck.random() < 0.7 else (
        luck.choice(graph.layers).name,
    )  # fmt: skip
    keeping = (Keeping(layers=patterns, recompute=word, on=on),)
    return _stages(made, lambda s: replace(s, keeping=keeping)), (patterns, word or on)


def _mixed_recompute(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    return _stages(made, lambda s: replace(s, recompute=luck.choice(("none", "selective", "full")))), "mixed"


def _updates(luck: random.Random, graph: LayerGraph, made: JobStrategy) -> Changed:
    rule = luck.choice(("gossip", "local_sgd", "periodic", "stale"))
    options = {
        "gossip": (("topology", luck.choice(("ring", "hypercube"))), ("period", luck.randint(1, 3))),
        "local_sgd": (("period", luck.randint(1, 3)),),
        "periodic": (("period", luck.randint(1, 3)),),
        "stale": (("delay", luck.randint(0, 2)), ("compensation", luck.choice((0.0, 0.1)))),
    }[rule]
    which = ("*",) if luck.random() < 0.7 else (luck.choice(graph.parameters).name,)
    return replace(made, updates=(UpdateChoice(rule=rule, options=options, parameters=which),)), rule


def _sync(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    method = luck.choice(("parameter_server", "all_reduce"))
    return replace(made, sync=(Sync(parameters=("*",), method=method),)), method


def _slices(luck: random.Random, graph: LayerGraph, made: JobStrategy) -> Changed:
    """Cut the last layer of a stage over it and the next."""
    if len(made.stages) < 2:
        return made, ""
    i = luck.randrange(len(made.stages) - 1)
    first, second = made.stages[i], made.stages[i + 1]
    layer = graph.layer[first.layers[-1]]
    dims = [dim.name for dim in layer.dims]
    if len(first.layers) < 2 or not dims:
        return made, ""
    dim, part = luck.choice(dims), luck.choice((0.25, 0.5))
    first = replace(
        first, layers=first.layers[:-1],
        slices=(Slice(layer=layer.name, dim=dim, start=0.0, stop=part),),
    )  # fmt: skip
    second = replace(second, slices=(Slice(layer=layer.name, dim=dim, start=part, stop=1.0),))
    return replace(made, stages=(*made.stages[:i], first, second, *made.stages[i + 2 :])), (
        layer.name,
        dim,
        part,
    )


def _tiles(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    axes = [name for name, _ in made.stages[0].meshes[0].axes if name != "replica"]
    if not axes:
        return made, ""
    how = luck.choice(("tiles", "weight_gradient"))
    return _stages(made, lambda s: replace(s, overlap=((axes[0], how),))), how


def _axis_shares(luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    axes = [(name, size) for name, size in made.stages[0].meshes[0].axes if name != "replica"]
    if not axes:
        return made, ""
    shares = tuple(float(luck.randint(1, 3)) for _ in range(axes[0][1]))
    return _stages(made, lambda s: replace(s, axis_shares=((axes[0][0], shares),))), shares


def _density(_luck: random.Random, _graph: LayerGraph, made: JobStrategy) -> Changed:
    return _stages(made, lambda s: replace(s, density=0.5)), 0.5


CHANGES: dict[str, Callable[[random.Random, LayerGraph, JobStrategy], Changed]] = {
    "cuts": _cuts, "shares": _shares, "turns": _turns, "uneven": _uneven, "zero groups": _zero_groups,
    "mixed zero": _mixed_zero, "reshard": _reshard, "offload": _offload, "keeping": _keeping,
    "mixed recompute": _mixed_recompute, "updates": _updates, "sync": _sync, "slices": _slices,
    "overlap": _tiles, "axis shares": _axis_shares, "density": _density,
}  # fmt: skip
