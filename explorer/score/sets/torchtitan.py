"""torchtitan's benchmark notes of December 2024: tokens per second and GPU, and memory, of Llama 3 on H100.

The notes are sentences, not a table: "8B, FSDP 8 GPUs, local batch 2, selective recomputation: 5762
tokens/s/GPU, 82.4 GiB." Local batch is per replica; a pipeline of p stages cuts it into p microbatches
(torchtitan's default of the time). fp8 is the precision of that name, as a user asks for it. Asynchronous
tensor parallelism runs collectives in tiles. Recomputation is torch's: `selective` by operator, `full` up to
the last tensor that a backward needs. If a note mentions neither a compiler nor anything that needs one,
kernels are eager PyTorch's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from explorer.base.errors import ExplorerError, InputError
from explorer.base.units import GIB
from explorer.framework_files import load_framework
from explorer.score.llama import Llama, LlamaRun, llama_case, with_chunks
from explorer.score.machines import nodes_of
from explorer.score.published import PATH, Section, section_of
from explorer.score.reading import count, positive
from explorer.score.rows import SETS, ReadRows, RowProblem, ScoredCase, ScoredRow
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees

FRAMEWORK = "torchtitan-2024"
MODELS = {
    "8B": Llama(layers=32, embed=4096, heads=32, kv_heads=8, ffn=14336),
    "70B": Llama(layers=80, embed=8192, heads=64, kv_heads=8, ffn=28672),
    "405B": Llama(layers=126, embed=16384, heads=128, kv_heads=8, ffn=53248),
}
POLICIES = {"selective": "operators", "full": "blocks"}
"""Tensors recomputed under each kind of recomputation: as torch's checkpoints do it."""
CHUNKS = 2
"""Stages per device under an interleaved schedule (torchtitan's default)."""
_START = re.compile(r"(?<![\d.\w])(\d+B),")
_RESULT = re.compile(r"(\d+(?:\.\d+)?)(?: tokens/s/GPU)?(?: and|,) (\d+(?:\.\d+)?)(?: GiB)?")


@SETS.add(
    "torchtitan", title="torchtitan: Llama 3 on 8 to 512 H100",
    paper="torchtitan, benchmark notes of December 2024", path=PATH, device=("h100-sxm-96gb-hbm2e",),
    source="torchtitan", framework=FRAMEWORK, unit="tokens_per_s",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read tokens per second and GPU, with memory."""
    section = section_of(path, "torchtitan")
    found = re.search(r"sequence (\d+)", section.prose)
    sequence = count(found[1], "sequence") if found else 8192
    rows: list[ScoredRow] = []
    problems = []
    for line, sentence in sentences(section):
        try:
            rows += _rows(line, sentence, sequence)
        except ExplorerError as error:
            problems.append(RowProblem(path.name, line, str(error)))
    return ReadRows(tuple(rows), tuple(problems))


def sentences(section: Section) -> list[tuple[int, str]]:
    """Return the sentences on each model, with the line where each begins."""
    text, lines = "", []
    for number, line in section.text:
        lines.append((len(text), number))
        text += f"{line.strip()} "
    starts = [match.start() for match in _START.finditer(text)]
    return [
        (max(pair for pair in lines if pair[0] <= start)[1], text[start:stop].strip())
        for start, stop in zip(starts, [*starts[1:], len(text)], strict=True)
    ]


def _rows(line: int, sentence: str, sequence: int) -> Iterator[ScoredRow]:
    setting, colon, results = sentence.partition(":")
    if not colon:
        raise InputError(f"{sentence[:60]!r} has no results", key="torchtitan", allowed="SETTING: RESULTS")
    name = setting.split(",")[0]
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}", key="model", found=name, allowed=", ".join(MODELS))
    run, devices = _run(setting, sequence)
    cluster = nodes_of("torchtitan-h100-64", devices, FRAMEWORK)
    for part in results.rstrip(". ").split(";"):
        result = _RESULT.search(part)
        if result is None:
            raise InputError(f"{part.strip()!r}", key="results", allowed="100 tokens/s/GPU and 82.5 GiB")
        label = part[: result.start()].strip()
        chunks = CHUNKS if label.startswith("interleaved") else 1
        laid_out = _techniques(with_chunks(run, chunks), f"{setting}, {label}")
        case = llama_case(MODELS[name], laid_out, cluster)
        yield ScoredRow(
            name=f"{setting}{' ' if label else ''}{label}",
            line=line,
            group=f"{name} b{run.batch} n{devices}",
            case=case,
            measured=positive(result[1], "tokens/s/GPU"),
            measured_memory_bytes=positive(result[2], "GiB") * GIB,
            predicted=partial(_tokens_per_s, case, devices),
        )


def _run(setting: str, sequence: int) -> tuple[LlamaRun, int]:
    data, tensor, pipeline = (_after(word, setting, 1) for word in ("FSDP", "TP", "PP"))
    devices = _number(r"(\d+) GPUs", setting, data * tensor * pipeline)
    if data * tensor * pipeline != devices:
        raise InputError(
            f"FSDP {data} x TP {tensor} x PP {pipeline} on {devices} GPUs", key="GPUs", found=devices,
            allowed=str(data * tensor * pipeline),
        )  # fmt: skip
    local = _after("local batch", setting, 1)
    if local % pipeline:
        raise InputError(f"local batch {local} in {pipeline} microbatches", key="local batch", found=local,
                         allowed=f"a multiple of {pipeline}")  # fmt: skip
    kind = re.search(r"(selective|full) recomputation", setting)
    degrees = Degrees(
        replicas=data, tensor=tensor, stages=pipeline, microbatch_size=local // pipeline,
        recompute="selective" if kind else "none",
    )  # fmt: skip
    run = LlamaRun(
        degrees=degrees, batch=local * data, sequence=sequence,
        policy=POLICIES[kind[1]] if kind else "attention", framework=FRAMEWORK,
    )  # fmt: skip
    return run, devices


def _techniques(run: LlamaRun, text: str) -> LlamaRun:
    """Apply the statements on kernels. Asynchronous tensor parallelism is a pass of the compiler, and fp8 is
    run with it (torchtitan's documents: its casts are slow without).
    """
    fp8 = re.search(r"fp8|float8", text, re.IGNORECASE) is not None
    tiles = re.search(r"async(hronous)?[ -]?TP", text, re.IGNORECASE) is not None
    compiled = fp8 or tiles or "compile" in text
    return replace(
        run, fp8=fp8, tiles=tiles, kernels="fused" if compiled else load_framework(FRAMEWORK).kernels
    )


def _after(word: str, text: str, default: int) -> int:
    return _number(rf"\b{word} (\d+)", text, default)


def _number(form: str, text: str, default: int) -> int:
    match = re.search(form, text)
    return count(match[1], form) if match else default


def _tokens_per_s(case: ScoredCase, devices: int) -> float:
    job = case.workload.job
    return job.global_batch * job.sequence_length / simulate(*case).step_time_s / devices
