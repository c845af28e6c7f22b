"""The bundled file of errors between sources, as text."""

from __future__ import annotations

import json
from collections.abc import Iterable

from explorer.calibrate.between_sources import SCHEMA, ErrorBands

_HEAD = "# Written by scripts/fit_costs.py: how far predictions were off for sources that were left out.\n"


def errors_text(known: ErrorBands) -> str:
    """Return the text of the file, which `load_errors` reads back to an equal value."""
    lines = [f"schema: {SCHEMA}", f"coverage: {known.coverage:g}"]
    for key, pairs in (
        ("hardware", known.hardware),
        ("software", known.software),
        ("log_errors", known.log_errors),
    ):
        lines.append(f"{key}: {{{', '.join(f'{name}: {value:g}' for name, value in pairs)}}}")
    lines += [f"kernels: {_words(known.kernels)}", "sources:"]
    for item in known.sources:
        lines.append(f"  - source: {json.dumps(item.source)}")
        lines.append(f"    rows: {item.rows}")
        for key in ("kinds", "makers", "generations", "software"):
            lines.append(f"    {key}: {_words(getattr(item, key))}")
    return _HEAD + "\n".join(lines) + "\n"


def _words(names: Iterable[str]) -> str:
    return f"[{', '.join(map(json.dumps, names))}]"
