"""Megatron Bridge: a recipe with every field that a plan decides, read back without running it."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings

from explorer.base.errors import InputError, PlanError
from explorer.export import EXPORTERS, preview, refusals
from explorer.export._megatron_settings import settings as megatron_settings
from explorer.export.megatron_bridge import OF_THE_RECIPE, OTHERWISE, RESETS
from explorer.export.megatron_bridge import settings as fields_of_plan
from explorer.export.roundtrip import SAME, load_back
from explorer.importing import import_file, recognised, source_text
from explorer.importing._bridge_fields import FIELDS, GROUPS, RECIPES
from explorer.importing.megatron_bridge import fields_of
from explorer.plan import Resolved
from explorer.strategies.degrees_reading import nearest_degrees
from tests.export.samples import UNIFORM, resolved, uniform
from tests.export.test_megatron import plans

EXPRESSED = [name for name in UNIFORM if not refusals(uniform(name), "megatron_bridge")]


def module(plan: Resolved) -> str:
    return preview(plan, "megatron_bridge")["recipe.py"]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(plans(models=("llama3-8b",), precisions=("bf16", "fp16", "fp8")))
def test_random_degrees_come_back(plan: Resolved) -> None:
    assume(not refusals(plan, "megatron_bridge"))
    back = load_back(plan, "megatron_bridge", preview(plan, "megatron_bridge"))
    assert (back.outcome, back.given) == (SAME, False), back.differences


@pytest.mark.parametrize("sample", EXPRESSED)
def test_the_workload_and_the_words_come_back(sample: str, tmp_path: Path) -> None:
    plan = uniform(sample)
    (tmp_path / "recipe.py").write_text(module(plan))
    found = import_file(tmp_path, "megatron_bridge").resolved
    one, other = plan.plan.workload.job, found.plan.workload.job
    for key in ("global_batch", "sequence_length", "precision", "optimizer", "gradient_precision"):
        assert getattr(one, key) == getattr(other, key) or key == "gradient_precision"
    assert fields_of_plan(found) == fields_of_plan(plan)


@pytest.mark.parametrize("sample", EXPRESSED)
def test_no_argument_of_megatron_is_left_out(sample: str) -> None:
    """Whatever the target `megatron` says of a plan is a field here, or the recipe's own."""
    plan = uniform(sample)
    said = megatron_settings(plan)
    assert set(said) <= {*FIELDS, *OF_THE_RECIPE, *OTHERWISE}
    written = fields_of(ast.parse(module(plan)))
    for flag, value in said.items():
        if flag in FIELDS:
            found = written[FIELDS[flag]].value
            assert found == (str(value).split() if isinstance(found, list) else value)


def test_nothing_of_the_recipe_stays() -> None:
    """A field that one plan sets is set by every plan: to its own value, or to the default."""
    every = {name: set(fields_of(ast.parse(module(uniform(name))))) for name in EXPRESSED}
    always = set.intersection(*every.values())
    sometimes = set.union(*every.values()) - always
    assert set(RESETS) <= always
    assert sometimes <= {"ddp.average_in_collective", "optimizer.optimizer_offload_fraction"}
    for name in EXPRESSED:
        tree = ast.parse(module(uniform(name)))
        targets = [ast.unparse(node.targets[0]) for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        assert len(targets) == len(set(targets))


def test_a_module_is_plain() -> None:
    text = module(uniform("interleaved"))
    tree = ast.parse(text)
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert {name.partition(".")[0] for name in imported} == {"os", "megatron"}
    assert "config.model.virtual_pipeline_model_parallel_size = 2\n" in text
    assert "config.model.overlap_p2p_comm = True\n" in text
    assert max(map(len, text.splitlines())) <= 160
    assert 'config.model.recompute_modules = ["core_attn"]' in module(uniform("selective recompute"))


def test_sizes_of_another_llama_are_set() -> None:
    sizes = {"layers": 16, "embed": 2048, "heads": 32, "kv_heads": 8, "head": 64, "ffn": 8192}
    import explorer
    from explorer.plan import Reference, make_plan

    graph = explorer.load_model("llama", settings=sizes)
    cluster, workload = explorer.load_cluster("dgx-a100"), explorer.default_workload(graph)
    strategy = explorer.uniform(graph, cluster, workload.job, replicas=8, zero=1, microbatches=4)
    reference = Reference(reference="llama", settings=tuple((k, str(v)) for k, v in sizes.items()))
    plan = make_plan(reference, graph, "dgx-a100", cluster, workload, strategy)
    found = Resolved(plan=plan, graphs={"model": graph}, cluster=cluster)
    assert refusals(found, "megatron_bridge") == []
    written = fields_of(ast.parse(module(found)))
    for key, size in (
        ("num_layers", 16),
        ("hidden_size", 2048),
        ("num_query_groups", 8),
        ("kv_channels", 64),
    ):
        assert written[f"model.{key}"].value == size
    assert load_back(found, "megatron_bridge", preview(found, "megatron_bridge")).outcome == SAME


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (resolved(model="gpt2-small", replicas=2, microbatches=8), "the model 'gpt2-small'"),
        (resolved(model="mixtral-8x7b", replicas=8, microbatches=4), "the model 'mixtral-8x7b'"),
        (resolved(replicas=2, microbatches=8, precision="fp32"), "of mixed precision, use bf16"),
        (resolved(stages=2, replicas=2, microbatches=8, zero=3), "ZeRO level 3 of a pipeline"),
        (uniform("gpipe"), "gpipe"),
    ],
)
def test_what_it_has_not_is_named(plan: Resolved, words: str) -> None:
    found = refusals(plan, "megatron_bridge")
    assert any(words in text for text in found), found
    assert all(text.startswith("megatron_bridge cannot express") for text in found)


PROVIDERS = {"model.seq_length", "model.vocab_size", "model.make_vocab_size_divisible_by",
             "model.share_embeddings_and_output_weights"}  # fmt: skip
"""Fields that Bridge's own model providers add to Megatron-Core's."""


OWNERS = {
    "model": "megatron.core.transformer.TransformerConfig",
    "ddp": "megatron.core.distributed.DistributedDataParallelConfig",
    "optimizer": "megatron.core.optimizer.OptimizerConfig",
}
NAMES = """
import dataclasses, importlib, json, sys
for owner in sys.argv[1:]:
    module, _, name = owner.rpartition(".")
    fields = dataclasses.fields(getattr(importlib.import_module(module), name))
    print(json.dumps([owner, [field.name for field in fields]]))
"""


def test_fields_are_megatron_cores() -> None:
    if importlib.util.find_spec("megatron") is None or importlib.util.find_spec("megatron.core") is None:
        pytest.skip("megatron-core is not installed: names of its fields are not compared with its own")
    command = [sys.executable, "-W", "ignore", "-c", NAMES, *OWNERS.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    known = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    for name in {*FIELDS.values(), *RESETS} - PROVIDERS:
        group, _, leaf = name.partition(".")
        assert group in GROUPS
        assert group not in OWNERS or leaf in known[OWNERS[group]], name


# -------------------------------------------------------------------------------------------- others' recipes

OTHERS = '''\
"""Ours, on four nodes."""
import os

from megatron.bridge.recipes.llama import llama3_8b_pretrain_config
from megatron.bridge.training.pretrain import pretrain

open("ran", "w").close()
RANKS = 32
cfg = llama3_8b_pretrain_config(
    global_batch_size=256,
    my_own_keyword=3,
)
cfg.model.tensor_model_parallel_size = 2
cfg.model.sequence_parallel = True
cfg.model.pipeline_model_parallel_size = 4
cfg.model.virtual_pipeline_model_parallel_size = 2
cfg.model.recompute_granularity = "selective"
cfg.model.context_parallel_size = int(os.environ["CP"])
cfg.model.cuda_graph_impl = "none"
cfg.train.train_iters = 20
cfg.train.micro_batch_size = 2
cfg.ddp.use_distributed_optimizer = True
cfg.mixed_precision = "bf16_mixed"
cfg.own.thing = 1
pretrain(cfg)
'''


def test_a_recipe_of_others_is_read_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(OTHERS)
    assert recognised(source_text(path, "", None, None)) == ["megatron_bridge"]
    found = import_file(path, "", cluster="dgx-a100-4")
    assert not (tmp_path / "ran").exists()
    job = found.resolved.plan.strategy.job
    degrees = nearest_degrees(job)
    assert found.resolved.plan.models[0][1].reference == "llama3-8b"
    assert (degrees.tensor, degrees.stages, degrees.chunks, degrees.replicas) == (2, 4, 2, 4)
    assert (degrees.zero, degrees.recompute, degrees.microbatch_size) == (1, "selective", 2)
    assert found.resolved.plan.workload.job.global_batch == 256
    assert found.resolved.plan.workload.job.precision == "bf16"
    said = {item.key: (item.line, item.assumed) for item in found.unknown}
    assert said == {
        "my_own_keyword": (11, "as if it were not there"),
        "model.context_parallel_size": (18, "no value that the text tells: the default of Megatron-LM"),
        "model.cuda_graph_impl": (19, "launches cost what the framework's profile says"),
        "train.train_iters": (20, "no effect on the split"),
        "own.thing": (24, "as if it were not there"),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            OTHERS.replace("size = 2\ncfg.model.seq", "size = 3\ncfg.model.seq"),
            "does not divide the 32 ranks",
        ),
        (OTHERS.replace("global_batch_size=256", "global_batch_size=250"), "a batch of 250"),
    ],
)
def test_contradictions_are_one_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(PlanError) as caught:
        import_file(tmp_path / "mine.py", "megatron_bridge")
    assert len(caught.value.problems) == 1
    assert words in caught.value.problems[0]


def test_what_is_unclear_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OTHERS.replace("llama3_8b", "qwen3_8b"))
    with pytest.raises(InputError) as caught:
        import_file(tmp_path / "mine.py", "megatron_bridge")
    assert caught.value.key == "--model"
    (tmp_path / "mine.py").write_text("import megatron.bridge\n")
    with pytest.raises(InputError, match="no fields of a recipe"):
        import_file(tmp_path / "mine.py", "megatron_bridge")
    (tmp_path / "mine.py").write_text("import megatron.bridge as (\n")
    with pytest.raises(InputError, match="no Python module"):
        import_file(tmp_path / "mine.py", "megatron_bridge")


def test_recipes_are_of_models_that_are_guessed_from_their_names() -> None:
    from explorer.importing.baseline import Facts
    from explorer.importing.guesses import guess_model

    for model, (_, recipe) in RECIPES.items():
        guess = guess_model(Facts(name=recipe))
        assert guess is None or guess.reference == model
    assert EXPORTERS.get("megatron_bridge").documentation.startswith("https://")
