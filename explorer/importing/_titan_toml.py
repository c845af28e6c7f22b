"""Older torchtitan configs: TOML tables of releases before 0.3, under the names of 0.3.0."""

from __future__ import annotations

from typing import Any

from explorer.base.errors import InputError
from explorer.base.formats import parse_toml
from explorer.importing._titan_settings import TitanSettings

_TABLES = ("parallelism", "experimental", "training", "model", "optimizer", "activation_checkpoint")

_RENAMED = {
    "training.batch_size": "training.local_batch_size",
    "training.tensor_parallel_degree": "parallelism.tensor_parallel_degree",
    "training.data_parallel_degree": "parallelism.data_parallel_shard_degree",
    "training.data_parallel_replicate_degree": "parallelism.data_parallel_replicate_degree",
    "training.data_parallel_shard_degree": "parallelism.data_parallel_shard_degree",
    "activation_checkpoint.type": "activation_checkpoint.mode",
}
_WITHOUT_WORD = ("float8", "mx", "quantize", "compile", "fault_tolerance", "checkpoint", "lr_scheduler")
"""Tables that change the run if they are switched on, but for which a plan has no word."""


def read(text: str) -> TitanSettings:
    """Return the settings in a TOML text.

    Raises:
        InputError: the text is not TOML, or has none of torchtitan's tables.
    """
    data = parse_toml(text)
    tables = {name: table for name, table in data.items() if isinstance(table, dict)}
    if not {"parallelism", "experimental", "training"} & set(tables):
        raise InputError(
            "no torchtitan config",
            found=", ".join(tables) or "no table",
            allowed="tables [model], [training] and [parallelism]",
        )
    values: dict[str, Any] = {}
    for name in _TABLES:
        for key, value in tables.get(name, {}).items():
            # a feature that is experimental in one release is parallelism in the next
            home = "parallelism" if name == "experimental" else name
            full = _RENAMED.get(f"{home}.{key}", f"{home}.{key}")
            values[full] = value
    if isinstance(mode := values.get("activation_checkpoint.mode"), str):
        values["activation_checkpoint.mode"] = mode.replace("_", "-")
    # releases with TOML had no switch for it: tensor parallelism always split norms by sequence
    values.setdefault("parallelism.enable_sequence_parallel", True)
    values.setdefault("activation_checkpoint.mode", "selective")
    return TitanSettings(values=values, notes=tuple(_left_out(tables)))


def _left_out(tables: dict[str, Any]) -> list[str]:
    found = []
    for name in _WITHOUT_WORD:
        on = {key: value for key, value in tables.get(name, {}).items() if key.startswith("enable") and value}
        if on:
            found.append(f"{name}: {', '.join(on)}")
    compiled = tables.get("training", {}).get("compile")
    return found + (["training.compile"] if compiled else [])
