"""Random plans, run for real: numbers, bytes sent and held, and refusals in one line.

python benchmarks/random_runs.py [--plans 1..100] [--engine layers|likeness|torch|slice] [--rows FILE]
    [--processes] [--limit 180] [--only-model NAME]

A plan is drawn from its number: a small model (of the zoo, of a Hugging Face configuration, a user's module
with several inputs, outputs, tied weights or skip connections) and a strategy: stages, replicas, tensor,
context and expert ranks, ZeRO, recomputation, offload, schedule and its options, uneven cuts, shares and
replicas, update rules, slices, tiles, batch, optimizer, precision. It then runs as `explorer validate` runs
it, on ranks that are forked from this process (with `--processes` as torchrun starts them). Asked of each:
gradients and weights of one process, bytes sent as predicted, peak bytes within 5 % of the prediction; or,
of a plan that cannot run, one line before anything starts. Prints a line for each plan that does otherwise,
and a table of how plans ended by model and by feature. Ends with 1 if there is any such line.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from random_strategies import CHANGES, CONFIGS, MODELS, draw, model_of

from explorer.base.errors import ExplorerError, InputError
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.plan import Reference, Resolved, load_plan, make_plan, save_plan
from explorer.run import Experiment, make_experiment, start
from explorer.run.judging.compare import Comparison
from explorer.run.launching.launch import RunResult
from explorer.workload import Workload

ROOT = Path(__file__).parents[1]
CLUSTER, RANKS = "dgx-a100", 4
MEMORY_PCT, MEMORY_BYTES = 5.0, 2e5
"""Largest error of a peak: both have to be passed, since small models hold little but roundings."""
# ---- running ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ended:
    """How a plan ended."""

    number: int
    model: str
    text: str = ""
    engine: str = ""
    how: str = ""
    """ran, refused, no plan, or what is wrong."""
    said: str = ""
    gradient: float = 0.0
    memory_pct: float = 0.0
    took_s: float = 0.0
    features: list[str] = field(default_factory=list)


WRONG = ("numbers", "bytes", "memory", "traceback", "refusal", "hang")


class TooLongError(Exception):
    """A plan took longer than it may."""


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def forked(spec: Any, folder: Path) -> RunResult:
    """Run a specification on ranks that are forked from this process.

    Raises:
        RuntimeError: a rank failed; its traceback.
    """
    from explorer.run.ranks.session import run_session
    from explorer.run.worker import Desk

    environment = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_port()), "WORLD_SIZE": str(spec.ranks),
        "LOCAL_WORLD_SIZE": str(spec.ranks), "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    (folder / "events").touch()
    Desk(folder, 0, spec.ranks)
    gc.collect()
    children = []
    for rank in range(spec.ranks):
        child = os.fork()
        if not child:
            status = 1
            try:
                signal.alarm(0)
                _quiet()
                os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank))
                result = run_session(spec, Desk(folder, rank, spec.ranks))
                (folder / f"result-{rank}.json").write_text(json.dumps(result))
                status = 0
            except BaseException:  # noqa: BLE001 - told, and the exit status says it
                (folder / f"error-{rank}").write_text(traceback.format_exc())
            finally:
                os._exit(status)
        children.append(child)
    try:
        _wait(children, folder)
    finally:
        for child in children:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
    ranks = tuple(json.loads((folder / f"result-{rank}.json").read_text()) for rank in range(spec.ranks))
    lines = (folder / "events").read_text().splitlines()
    return RunResult(ranks=ranks, events=tuple(json.loads(line) for line in lines), wall_s=0.0)


def _quiet() -> None:
    """Say nothing: profilers of four ranks do, at every count."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _wait(children: list[int], folder: Path) -> None:
    left = set(children)
    while left:
        child, status = os.waitpid(-1, 0)
        left.discard(child)
        if status:
            time.sleep(0.3)
            errors = [path.read_text() for path in sorted(folder.glob("error-*"))]
            own = [text for text in errors if "Connection" not in text.splitlines()[-1]] or errors
            raise RuntimeError(own[0] if own else f"a rank ended with {status}")


def run_plan(resolved: Resolved, options: argparse.Namespace) -> tuple[Comparison, float]:
    """Validate a plan; return how many gradients were compared as well."""
    experiment = make_experiment(
        resolved, rounds=1, engine=options.engine, baseline="single", ranks=options.ranks, warmup_rounds=0
    )
    if options.processes:
        with start(experiment.spec) as handle:
            for _ in handle.events():
                pass
            return _finished(experiment, handle.result())
    spec = replace(experiment.spec, pin=False, quiet_share=0.0, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        return _finished(experiment, forked(spec, Path(folder)))


def _finished(experiment: Experiment, result: RunResult) -> tuple[Comparison, float]:
    records = [record for rank in result.ranks for record in rank["cases"].get("numerics", ())]
    left = sum(record.get("left", 0) for record in records)
    compared = sum(record.get("numerics", {}).get("compared", 0.0) for record in records)
    return experiment.finish(result), 0.0 if left else compared


def judged(ended: Ended, found: Comparison, compared: float) -> None:
    """Say what a comparison says."""
    ended.how = "ran"
    ended.gradient = max(found.numerics.get("gradient", 0.0), found.numerics.get("weight", 0.0))
    limit = 1e-10 if found.numerics_precision == "fp64" else 1e-5
    errors = [(100 * (m.predicted_bytes / m.measured_bytes - 1), m) for m in found.memory if m.measured_bytes]
    if errors:
        worst, item = max(errors, key=lambda pair: abs(pair[1].predicted_bytes - pair[1].measured_bytes))
        ended.memory_pct = worst
        wide = abs(item.predicted_bytes - item.measured_bytes) > MEMORY_BYTES
        if abs(worst) > MEMORY_PCT and wide:
            ended.how = "memory"
            ended.said = f"rank {item.rank}: {item.predicted_bytes:.0f} predicted, {item.measured_bytes:.0f}"
    if wrong := [item for item in found.sent if not item.equal]:
        ended.how, ended.said = "bytes", str(wrong)
    if found.numerics_ok is False or (found.numerics_ok and ended.gradient > limit):
        ended.how, ended.said = "numbers", f"{found.numerics} in {found.numerics_precision}"
    if not compared:
        ended.how, ended.said = "numbers", f"nothing was compared: {found.numerics}"
    if found.numerics_ok is None:
        ended.said = f"unjudged: {found.numerics}"


def one(number: int, options: argparse.Namespace, folder: Path) -> Ended:
    """Draw and run a plan."""
    name = options.only_model or model_of(number)
    ended = Ended(number, name, engine=options.engine)
    begun = time.monotonic()
    try:
        signal.alarm(options.limit)
        resolved = made(number, name, ended, folder)
    except InputError as error:
        signal.alarm(0)
        ended.how, ended.said = "no plan", str(error)
        return ended
    except Exception:  # noqa: BLE001 - any other error is what is looked for
        signal.alarm(0)
        ended.how, ended.said = "traceback", traceback.format_exc()
        return ended
    try:
        if options.engine == "slice":
            _slice(resolved, ended)
        else:
            judged(ended, *run_plan(resolved, options))
    except ExplorerError as error:
        text = str(error)
        one_line = "\n" not in text and "Traceback" not in text and len(text) < 700
        started = type(error).__name__ == "RunError"
        ended.how, ended.said = ("traceback" if started else "refused" if one_line else "refusal"), text
    except TooLongError:
        ended.how, ended.said = "hang", "".join(traceback.format_exc().splitlines()[-3:])
    except Exception:  # noqa: BLE001 - any other error is what is looked for
        ended.how, ended.said = "traceback", traceback.format_exc()
    finally:
        signal.alarm(0)
    ended.took_s = time.monotonic() - begun
    return ended


def _slice(resolved: Resolved, ended: Ended) -> None:
    from explorer.models.module_source import open_module
    from explorer.plan import located
    from explorer.run.one_rank.slice_run import run_slice

    item = resolved.plan.models[0][1]
    source = open_module(
        located(item.reference, resolved.folder), sequence_length=item.sequence_length or None,
        settings=dict(item.settings),
    )  # fmt: skip
    found = run_slice(resolved, source)
    ended.how, peak = "ran", found.memory
    ended.memory_pct = 100 * (peak.predicted_bytes / peak.measured_bytes - 1)
    ended.said = f"peak {ended.memory_pct:+.1f} %"


def made(number: int, name: str, ended: Ended, folder: Path) -> Resolved:
    """Draw a plan, write it and read it back."""
    model = MODELS[name]
    reference = model.reference.replace("hf:", f"hf:{folder}/")
    graph = load_model(
        reference, settings=dict(model.settings), sequence_length=model.tokens or None, trust=True
    )
    cluster = load_cluster(CLUSTER)
    drawn = draw(number, name, graph, cluster)
    ended.text = drawn.text
    ended.features = [f"schedule {drawn.words['schedule']}", *(k for k in drawn.words if k in CHANGES)]
    ended.features += [k for k in ("context", "expert", "sequence_parallel", "chunks") if drawn.words.get(k)]
    ended.features += [f"zero {drawn.words['zero']}"] if drawn.words.get("zero") else []
    ended.features += [f"tensor {drawn.words['tensor']}"] if drawn.words["tensor"] > 1 else []
    ended.features += [f"recompute {drawn.words['recompute']}"] if drawn.words["recompute"] != "none" else []
    named = Reference(reference=reference, settings=model.settings, sequence_length=model.tokens)
    plan = make_plan(named, graph, CLUSTER, cluster, Workload(jobs=(drawn.job,)), drawn.strategy)
    path = folder / f"plan-{number}.yaml"
    save_plan(plan, {drawn.job.graph: graph}, path)
    return load_plan(path, trust=True)


# ---- telling ---------------------------------------------------------------------------------------


def table(rows: list[Ended]) -> Iterator[str]:
    """Yield a table of how plans ended, by model and by feature."""
    ways = ("ran", "refused", "no plan", *WRONG)
    yield f"| plans | {' | '.join(ways)} |"
    yield f"|---|{'---|' * len(ways)}"
    groups: dict[str, list[Ended]] = defaultdict(list)
    for row in rows:
        groups["all"].append(row)
        groups[row.model].append(row)
    for row in rows:
        for feature in row.features:
            groups[feature].append(row)
    for name, some in groups.items():
        count = Counter(row.how for row in some)
        yield f"| {name} | {' | '.join(str(count[way] or '') for way in ways)} |"


def _numbers(text: str) -> range:
    low, _, high = text.partition("..")
    return range(int(low), int(high or low) + 1)


def main(arguments: list[str]) -> int:
    """Print what is wrong, and a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", default="1..60", metavar="k..l,m")
    parser.add_argument("--engine", default="layers", choices=("layers", "likeness", "torch", "dry", "slice"))
    parser.add_argument("--ranks", type=int, default=RANKS, help="most ranks of a run")
    parser.add_argument("--processes", action="store_true", help="ranks as torchrun starts them")
    parser.add_argument("--limit", type=int, default=180, help="seconds a plan may take")
    parser.add_argument("--only-model", choices=MODELS)
    parser.add_argument("--rows", type=Path, help="file that gets a line for every plan")
    parser.add_argument("--keep", type=Path, help="folder of the plans; removed at the end if not given")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))  # where the user's modules are found
    import torch

    torch.set_num_threads(1)

    def late(*_: object) -> None:
        raise TooLongError

    signal.signal(signal.SIGALRM, late)
    rows, numbers = [], [n for part in options.plans.split(",") for n in _numbers(part)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=True, parents=True)
        for name, config in CONFIGS.items():
            (folder / f"{name}.json").write_text(json.dumps(config))
        for number in numbers:
            ended = one(number, options, folder)
            rows.append(ended)
            if options.rows:
                with options.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(ended)) + "\n")
            if ended.how in WRONG:
                print(f"{number}: {ended.how}: {ended.model}: {ended.text}\n    {ended.said}", flush=True)
    print(*table(rows), sep="\n")
    return int(any(row.how in WRONG for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
