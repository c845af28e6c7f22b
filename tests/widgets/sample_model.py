"""The sample's model: llama3-8b at operator granularity on A100s, by a small analytic cost.

The numbers are plausible, not measured: a fixture for the page, never a reference for costs.
"""

from __future__ import annotations

from typing import Any

GIB, MIB = 2**30, 2**20
HIDDEN, KV, FF, VOCAB, TOKENS, BLOCKS = 4096, 1024, 14336, 128256, 4096, 32
MICROBATCHES, REPLICAS = 16, 2
CAPACITY = 79.2 * GIB
BYTES = TOKENS * HIDDEN * 2  # one hidden-state tensor
TRANSFER_S = BYTES / 22e9 + 12e-6


def matmul_s(parameters: float) -> float:
    return 2 * parameters * TOKENS / (312e12 * 0.58)


# label, part, parameters, forward seconds, bytes saved, text
OPERATORS = [
    ("norm", "attention", HIDDEN, 3 * BYTES / 1.6e12, 2 * BYTES, "4096"),
    ("q", "attention", HIDDEN * HIDDEN, matmul_s(HIDDEN * HIDDEN), BYTES, "4096 × 4096"),
    ("k", "attention", HIDDEN * KV, matmul_s(HIDDEN * KV), BYTES / 4, "4096 × 1024"),
    ("v", "attention", HIDDEN * KV, matmul_s(HIDDEN * KV), BYTES / 4, "4096 × 1024"),
    ("rope", "attention", 0, 3 * BYTES / 1.6e12, 1.25 * BYTES, "q, k"),
    (
        "attention",
        "attention",
        0,
        2 * TOKENS * TOKENS * HIDDEN / (312e12 * 0.36),
        1.05 * BYTES,
        "32 heads, causal",
    ),
    ("o", "attention", HIDDEN * HIDDEN, matmul_s(HIDDEN * HIDDEN), BYTES, "4096 × 4096"),
    ("add", "attention", 0, 3 * BYTES / 1.6e12, BYTES, "residual"),
    ("norm", "mlp", HIDDEN, 3 * BYTES / 1.6e12, 2 * BYTES, "4096"),
    ("gate", "mlp", HIDDEN * FF, matmul_s(HIDDEN * FF), 3.5 * BYTES, "4096 × 14336"),
    ("up", "mlp", HIDDEN * FF, matmul_s(HIDDEN * FF), 3.5 * BYTES, "4096 × 14336"),
    ("silu", "mlp", 0, 10.5 * BYTES / 1.6e12, 7 * BYTES, "14336"),
    ("down", "mlp", HIDDEN * FF, matmul_s(HIDDEN * FF), BYTES, "14336 × 4096"),
    ("add", "mlp", 0, 3 * BYTES / 1.6e12, BYTES, "residual"),
]
EDGES = [
    (0, 1),
    (0, 2),
    (0, 3),
    (1, 4),
    (2, 4),
    (3, 5),
    (4, 5),
    (5, 6),
    (6, 7),
    (7, 8),
    (8, 9),
    (8, 10),
    (9, 11),
    (10, 11),
    (11, 12),
    (12, 13),
    (7, 13),
]
STAGE_BLOCKS = [(0, 10), (10, 18), (18, 28), (28, 34)]


def layer(
    identifier: str,
    label: str,
    part: str | None,
    parameters: float,
    forward_s: float,
    backward_s: float,
    saved: float,
) -> dict[str, Any]:
    return {
        "id": identifier,
        "label": label,
        "kind": label,
        "part": part,
        "forward_s": forward_s,
        "backward_s": backward_s,
        "weight_bytes": 2.0 * parameters,
        "gradient_bytes": 4.0 * parameters,
        "optimizer_bytes": 12.0 * parameters,
        "saved_bytes": saved,
        "output_bytes": float(BYTES),
        "parameters": int(parameters),
    }


def blocks(count: int = BLOCKS) -> list[dict[str, Any]]:
    """Board.blocks."""
    result = [
        {
            "id": "embed",
            "label": "embed",
            "name": "embedding",
            "kind": "embed",
            "layers": [layer("embed", "embed", None, VOCAB * HIDDEN, 0.0009, 0.0021, BYTES)],
        }
    ]
    for b in range(count):
        layers = [
            layer(f"layers.{b}.{part}.{name}", name, part, p, f, 2.02 * f, saved)
            for name, part, p, f, saved, _ in OPERATORS
        ]
        result.append(
            {"id": f"layers.{b}", "label": str(b), "name": f"block {b}", "kind": "block", "layers": layers}
        )
    head_s = matmul_s(VOCAB * HIDDEN)
    result.append(
        {
            "id": "head",
            "label": "head",
            "name": "head",
            "kind": "head",
            "layers": [
                layer(
                    "head",
                    "head",
                    None,
                    VOCAB * HIDDEN,
                    head_s + 0.0031,
                    2 * head_s + 0.0052,
                    TOKENS * VOCAB * 10,
                )
            ],
        }
    )
    return result


def starts(model: list[dict[str, Any]]) -> list[int]:
    """Flat position where each block starts, and the end."""
    result = [0]
    for block in model:
        result.append(result[-1] + len(block["layers"]))
    return result
