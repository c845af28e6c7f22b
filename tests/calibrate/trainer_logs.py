"""Small logs that look like those of trainers, of our own making, each of the same run.

32 samples of 1,024 tokens a step on 8 devices, half a second a step once it is warm.
"""

from __future__ import annotations

import json

from explorer.calibrate.logs import LogFacts

FACTS = LogFacts(global_batch=32, sequence_length=1024, devices=8)
STEP_S = 0.5
TIMES = (4.0, 0.9, 0.5, 0.505, 0.495, 0.5, 0.5, 0.502, 0.498, 0.5)
GIB = 2**30


def torchtitan() -> str:
    lines = ["[titan] 2026-01-01 10:00:00,000 - root - INFO - Training starts at step 1"]
    for number, seconds in enumerate(TIMES, start=1):
        rate = round(32 * 1024 / 8 / seconds)
        lines += [
            f"[rank{rank}]:[titan] 2026-01-01 10:00:{number:02},000 - root - INFO - \x1b[31mstep: {number:2}"
            f"  \x1b[32mloss: 10.1234  \x1b[38;5;180mgrad_norm:  2.0000  \x1b[36mmemory: 40.20GiB(50.25%)"
            f"  \x1b[34mtps: {rate:,}  tflops: 99.10  mfu: 10.02%\x1b[39m"
            for rank in (0, 1)
        ]
    lines.append("validate step: 10  loss: 9.0  memory: 41.00GiB(51.25%)  tps: 99,999")
    return "\n".join(lines)


def megatron() -> str:
    memory = "allocated: 900.5 | max allocated: 40000.0 | reserved: 41000.0 | max reserved: 41164.8"
    lines = [f"[Rank 0] (after 1 iterations) memory (MB) | {memory}"]
    for number, seconds in enumerate(TIMES, start=1):
        lines.append(
            f" [2026-01-01 10:00:00] iteration {number:8d}/     100 | consumed samples: {32 * number:12d} |"
            f" elapsed time per iteration (ms): {seconds * 1e3:.1f} | throughput per GPU (TFLOP/s/GPU): 99.1"
            " | learning rate: 4.000000E-07 | global batch size:    32 | lm loss: 2.021530E+00 |"
        )
    return "\n".join(lines)


def deepspeed() -> str:
    return "\n".join(
        f"[2026-01-01 10:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step={number}, skipped=0\n"
        f"[2026-01-01 10:00:00,001] [INFO] [timer.py:260:stop] epoch=0/micro_step={4 * number}/"
        f"global_step={number}, RunningAvgSamplesPerSec=60.0, CurrSamplesPerSec={32 / seconds},"
        f" MemAllocated=4.32GB, MaxMemAllocated=40.2GB"
        for number, seconds in enumerate(TIMES, start=1)
    )


def hf_trainer() -> str:
    clock = {n: n // 2 + 5 for n in range(0, 401, 4)}
    drawn = "".join(
        f"\r {n // 4:3d}%|####      | {n}/400 [{at // 60:02d}:{at % 60:02d}<03:00,  2.00it/s]"
        for n, at in clock.items()
    )
    end = {"train_runtime": 205.1, "train_samples_per_second": 62.4, "train_steps_per_second": 1.95}
    return f"{{'loss': 2.1, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.5}}\n{drawn}\n{end}\n"


def profiler() -> str:
    marks = [
        {"ph": "X", "cat": category, "name": f"ProfilerStep#{n}", "ts": 1e6 * n, "dur": seconds * 1e6,
         "pid": 1, "tid": 1}
        for n, seconds in enumerate(TIMES, start=1)
        for category in ("user_annotation", "gpu_user_annotation")
    ]  # fmt: skip
    return json.dumps({"traceEvents": [*marks, {"ph": "M", "name": "ProfilerStep#x"}, "odd"]})


LOOKALIKES = {
    "torchtitan": torchtitan, "megatron": megatron, "deepspeed": deepspeed, "hf_trainer": hf_trainer,
    "profiler": profiler,
}  # fmt: skip
"""A log of every registered trainer."""
