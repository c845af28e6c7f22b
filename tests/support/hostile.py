"""Files that nobody means well, and everything of ours that reads files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from explorer.base.errors import InputError
from explorer.base.files import read_text
from explorer.base.plain_data import parse_document, read_document
from explorer.calibrate.between_sources import load_errors
from explorer.calibrate.files import read_evidence
from explorer.calibrate.history import read as read_history
from explorer.calibrate.logs import LogFacts, read_log
from explorer.cluster_profiles import load_cluster
from explorer.export import EXPORTERS, import_config, readable
from explorer.framework_files import load_framework
from explorer.importing import IMPORTERS
from explorer.models import _cache, hf, load_model, partitioning, pipedream, saved
from explorer.plan import load_plan
from explorer.plan_text import packed
from explorer.run.experiment import Experiment
from explorer.run.judging.results import exported, read_result
from explorer.run.spec import read_spec
from explorer.score.reading import read_table
from explorer.score.sets._simumax_rows import model_shapes
from widgets.history.file import read_session
from widgets.history.load import restore

CLUSTER = load_cluster("dgx-a100")
LOG_FACTS = LogFacts(global_batch=8, sequence_length=1024, devices=8)


class Reader(NamedTuple):
    """One way in which a file comes in."""

    name: str
    read: Callable[[Path], object]
    ending: str = ""
    """What the file's name must end in; empty where any does."""


def _titan(path: Path) -> object:
    return import_config(path, "torchtitan", model=None, cluster="dgx-a100")


def _megatron(path: Path) -> object:
    return import_config(path, "megatron", model=None, cluster="dgx-a100")


def _named(trainer: str) -> Callable[[Path], object]:
    """Make a reader of a trainer's configs whose model and cluster the user names."""
    return lambda path: import_config(path, trainer, model="gpt2-small", cluster="dgx-a100")


def _torchrun(path: Path) -> object:
    return import_config(path, "torchrun", model=None, cluster=None)


@lru_cache
def _experiment() -> Experiment:
    """What a small plan's exported folder runs."""
    return exported(load_plan(Path(__file__).parents[1] / "plans" / "03-dapple.yaml"))


def _shared(path: Path) -> str:
    """Make the text of a plan of whatever plain data a file holds; damaged where it holds none."""
    text = read_text(path)
    try:
        return packed(parse_document(text))
    except InputError:
        return f"explorer-plan:1:00000000:{text}"


READERS = (
    Reader("plan", load_plan, ".yaml"),
    Reader("plan in JSON", load_plan, ".json"),
    Reader("plan as a text", lambda path: load_plan(_shared(path))),
    Reader("document", read_document, ".yaml"),
    Reader("cluster", load_cluster, ".yaml"),
    Reader("framework", lambda path: load_framework(str(path)), ".yaml"),
    Reader("model", lambda path: load_model(str(path)), ".json"),
    Reader("model of any name", lambda path: load_model(str(path), trust=False), ".txt"),
    Reader("saved graph", saved.load),
    Reader("partitioning", partitioning.load_partitioning, ".json"),
    Reader("PipeDream profile", pipedream.load),
    Reader("Hugging Face", hf.load, ".json"),
    Reader("cached graph", lambda path: _cache.decode(_packed(path)), ".json.gz"),
    Reader("import of a plan", lambda path: import_config(path, "plan", model=None, cluster=None), ".yaml"),
    Reader("import from torchtitan", _titan, ".py"),
    Reader("import from torchtitan's TOML", _titan, ".toml"),
    Reader("import from deepspeed", _named("deepspeed"), ".json"),
    Reader("import from accelerate", _named("accelerate"), ".yaml"),
    Reader("import from Megatron Bridge", _named("megatron_bridge"), ".py"),
    Reader("import from torchrun", _torchrun, ".yaml"),
    Reader("import from a Megatron-LM script", _megatron, ".sh"),
    Reader("import from Megatron-LM's YAML", _megatron, ".yaml"),
    Reader(
        "import of an order",
        lambda path: import_config(path, "schedule_csv", model="gpt2-small", cluster="dgx-a100"),
        ".csv",
    ),
    Reader("history", read_history, ".jsonl"),
    Reader("run or trace", lambda path: read_evidence(path, CLUSTER), ".json"),
    Reader("packed trace", lambda path: read_evidence(path, CLUSTER), ".json.gz"),
    Reader("trainer's log", lambda path: read_log(path, LOG_FACTS), ".log"),
    Reader("packed log", lambda path: read_log(path, LOG_FACTS), ".log.gz"),
    Reader("errors between sources", load_errors, ".yaml"),
    Reader("run specification", read_spec, ".json"),
    Reader("result of a rank", lambda path: read_result(path, _experiment()), ".json"),
    Reader("rows", lambda path: read_table(path, ("a", "b")), ".csv"),
    Reader("shapes of SimuMax", model_shapes, ".json"),
    Reader("session", lambda path: restore(read_session(path)), ".yaml"),
    Reader("session in JSON", lambda path: restore(read_session(path)), ".json"),
)

OF_MODULES = {
    "explorer.base.plain_data": "document",
    "explorer.calibrate.between_sources": "errors between sources",
    "explorer.calibrate.files": "run or trace",
    "explorer.calibrate.history": "history",
    "explorer.calibrate.logs.__init__": "trainer's log",
    "explorer.cli.calibrating": "run or trace",
    "explorer.cluster_profiles": "cluster",
    "explorer.importing.__init__": "import of a plan",
    "explorer.importing.accelerate": "import from accelerate",
    "explorer.importing.deepspeed": "import from deepspeed",
    "explorer.export._carried": "model",
    "explorer.importing._titan_plan": "import of an order",
    "explorer.framework_files": "framework",
    "explorer.models._cache": "cached graph",
    "explorer.models._files": "model",
    "explorer.models.hf": "Hugging Face",
    "explorer.models.partitioning": "partitioning",
    "explorer.models.pipedream": "PipeDream profile",
    "explorer.models.saved": "saved graph",
    "explorer.plan": "plan",
    "explorer.run.judging.results": "result of a rank",
    "explorer.run.spec": "run specification",
    "explorer.score.reading": "rows",
    "explorer.score.published": "rows",
    "explorer.score.sets._sailor_profile": "rows",
    "explorer.score.sets._simumax_rows": "shapes of SimuMax",
    "explorer.score.sets.sailor": "rows",
    "widgets.history.file": "session",
    "widgets.history.opened": "document",
}
"""By module that reads files: the reader above by which they come in."""

OWN_FILES = {
    "explorer.export._files": "the list of an export: tests/export/test_files.py",
    "explorer.profiling.machine": "what the system says of its processor",
    "explorer.run.launching.launch": "what the ranks of a run write",
    "explorer.run.launching.leftovers": "what a launcher wrote of itself",
    "explorer.run.ranks.heap": "what the system says of its control group",
    "explorer.run.worker": "what the launch wrote",
    "explorer.score.profile_numbers": "profiles of the package, whose numbers a fit writes",
    "widgets.report.document": "bundles of the package",
    "widgets.run.slicing": "what the process of a slice prints",
}
"""Modules that read only what the product or the system wrote."""


def _packed(path: Path) -> bytes:
    from explorer.base.files import read_bytes

    return read_bytes(path)


DEEP = 50_000

TEXTS: dict[str, str] = {
    "empty": "",
    "lists without end": "[" * DEEP,
    "mappings without end": "{a: " * DEEP,
    "JSON objects without end": '{"a":' * DEEP,
    "items without end": "- " * DEEP,
    "keys without end": "? " * DEEP,
    "TOML lists without end": "[training]\nsteps = " + "[" * DEEP,
    "a deep value": "schema: explorer.plan/1\nmodels: " + "[" * 200 + "]" * 200,
    "timestamp": "name: !!timestamp foo",
    "bool": "name: !!bool foo",
    "int": "name: !!int ''",
    "float": "name: !!float ''",
    "list as key": "? [a]\n: c",
    "mapping as key": "? {a: b}\n: c",
    "itself": "schema: explorer.plan/1\nmodels: &r [*r]",
    "itself as a mapping": "&r\nschema: explorer.cluster/1\nname: *r",
    "multiplying aliases": "a: &a [1,1,1,1,1,1,1,1,1]\n"
    + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi")),
    "digits": "name: " + "9" * 5000,
    "JSON digits": '{"schema": "explorer.plan/1", "models": ' + "9" * 5000 + "}",
    "TOML digits": "[training]\nlocal_batch_size = " + "9" * 5000 + "\n[parallelism]\n",
    "thirty digits in TOML": "[training]\nlocal_batch_size = " + "9" * 30 + "\n[parallelism]\n",
    "thirty digits in Python": "def f() -> Trainer.Config:\n    return Trainer.Config("
    "training=TrainingConfig(local_batch_size=" + "9" * 30 + "))\n",
    "a list as a name": "schema: explorer.cluster/1\ndevice_kinds: [{name: [a]}]\n",
    "a list as a name over another": "schema: explorer.cluster/1\nextends: dgx-a100\n"
    "device_kinds: [{name: [a]}]\n",
    "two faults": "schema: explorer.plan/1\nmodels: {model: {reference: gpt2-small}}\n"
    "cluster: {reference: 5}\nworkload: {}\n"
    "strategy: {jobs: [{stages: [{layers: [a], meshes: [{devices: [0, 0]}]}]}]}\n",
    "microbatches": "0F0-99999999,0B0\n",
    "many microbatches": "0F0-999999," * 2000 + "0B0\n",
    "infinity": '{"schema": "explorer.validate/1", "a": Infinity}',
    "a run of too many devices": "schema: explorer.plan/2\nmodels: {model: {reference: gpt2-small}}\n"
    "cluster: {reference: dgx-a100}\nworkload: {}\nstrategy: {jobs: [{stage_defaults: {zero: [3]},\n"
    " stages: [{layers: [a], meshes: [{devices: [0 x 9999 by 1 x 9999 by 1 x 9999 by 1]}]}]}]}\n",
    "a number too large": "schema: explorer.cluster/1\nname: a\nlevels: [{name: l, latency_s: 1.0e+308}]\n",
    "a quantity too large": "schema: explorer.cluster/1\nextends: dgx-a100\nlevels: [{name: l, kind: pcie,"
    " scope: all, latency_s: 9e300 s, bandwidth_bytes_per_s: 1}]\n",
    "a long value": f"schema: {'x' * 200_000}",
    "a long value in JSON": json.dumps(
        {"schema": "y" * 200_000, "nodes": [], "edges": [], "maxFPGAs": "z" * 200_000}
    ),
    "a long key": f"{'k' * 100_000}: 1\n",
    "an open quote": 'a,b\n"1,' + "2\n" * 50_000,
    "surrogates": '{"schema": "\\ud800"}',
    "no object": "[1, 2]",
    "null": "null",
    "trace": '{"traceEvents": [], "deviceProperties": 3}',
    "specification": json.dumps(
        {"schema": "explorer.run/1", "cases": [3], "faults": 4, "calibration": [], "survey": 1}
    ),
    "specification of lists": '[["explorer.run/1"]]',
    "order": "{{{{",
}  # fmt: skip
"""Contents, each of which ended a process, hung it, or raised something else once."""

BYTES: dict[str, bytes] = {
    "binary": bytes(range(256)) * 40,
    "NUL": b"a\0b\n",
    "no UTF-8": b"name: \xff\xfe",
    "gzip of nothing": b"\x1f\x8b\x08\x00",
}


def hostile_paths(folder: Path, ending: str) -> Iterator[tuple[str, Path]]:
    """Every hostile file, one after another, with its name."""
    ending = ending or ".json"
    for name, content in [*((k, v.encode()) for k, v in TEXTS.items()), *BYTES.items()]:
        path = folder / f"file{ending}"
        path.write_bytes(content)
        yield name, path
        path.unlink()
    path = folder / f"pipe{ending}"
    os.mkfifo(path)
    yield "a pipe that nobody writes to", path
    path = folder / f"zero{ending}"
    path.symlink_to("/dev/zero")
    yield "a device without end", path
    (folder / f"folder{ending}").mkdir()
    yield "a folder", folder / f"folder{ending}"
    yield "nothing", folder / f"nothing{ending}"
    yield "a name too long", folder / ("n" * 5000 + ending)
    yield "a name with a NUL", folder / f"a\0b{ending}"


def traps(reference: str) -> dict[str, str]:
    """Files that name code, of every kind that may name a model."""
    entry = json.dumps({"reference": reference})
    with_settings = json.dumps({"reference": reference, "settings": {"cmd": "touch pwned"}})
    plan = (
        "schema: explorer.plan/1\nmodels: {{model: {}}}\ncluster: {{reference: dgx-a100}}\nworkload: {{}}\n"
        "strategy: {{jobs: [{{stages: [{{layers: [a], meshes: [{{devices: [0]}}]}}]}}]}}\n"
    )
    session: dict[str, Any] = {
        "schema": "explorer.session/1", "version": "0", "saved_s": 1.0, "at": 0,
        "inputs": [{"model": {"reference": reference}, "cluster": {"reference": "dgx-a100"}, "workload": {}}],
        "stages": [{"layers": ["a"], "meshes": [{"devices": [0]}]}], "strategies": [{"stages": [0]}],
        "states": [{"inputs": 0, "strategy": 0}],
    }  # fmt: skip
    titan = (
        f'EXPLORER = {{"model": "{reference}", "cluster": "dgx-a100"}}\n\n\ndef f() -> Trainer.Config:\n'
        "    return Trainer.Config(training=TrainingConfig(local_batch_size=1))\n"
    )
    megatron = f'# explorer: {{"model": "{reference}", "cluster": "dgx-a100"}}\n'
    return {
        "plan": plan.format(entry),
        "megatron": f"{megatron}train.py --micro-batch-size 1 --num-layers 2 --lr $(touch pwned)\n",
        "megatron bridge": f"{megatron}import megatron.bridge\nconfig.train.micro_batch_size = 1\n",
        "megatron in YAML": f"{megatron}MODEL_ARGS: {{--micro-batch-size: 1, --num-layers: 2}}\n",
        "plan with settings": plan.format(with_settings),
        "session": json.dumps(session),
        "torchtitan": "from torchtitan.trainer import Trainer\n" + titan,
        "configuration": json.dumps({"model_type": reference, "architectures": [reference]}),
        "framework": f"schema: explorer.framework/1\nextends: {reference}\n",
        "cluster": f"schema: explorer.cluster/1\nextends: {reference}\n",
        "graph": json.dumps({"schema": "explorer.layer_graph/1", "name": reference, "source": reference}),
        "tag": f"!!python/object/apply:{reference.replace(':', '.')} []\n",
    }


READABLE = {exporter.name for exporter in EXPORTERS if readable(exporter.name)} | set(IMPORTERS.names())
"""Targets whose files come in again, and trainers whose files come in."""
