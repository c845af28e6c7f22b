"""Products and convolutions in fp32 are in fp32: what a profile measures under that name.

Torch lets convolutions, and if asked products, round fp32 to TF32 on GPUs: ten bits, several times as fast.
Profiles measure TF32 as a precision of its own, and gradients that are compared would differ by a thousandth.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def allow_tf32(*, products: bool, convolutions: bool) -> None:
    """Let products and convolutions in fp32 be rounded to TF32, or not."""
    torch.backends.cuda.matmul.allow_tf32 = products
    torch.backends.cudnn.allow_tf32 = convolutions


@contextmanager
def plain_fp32() -> Iterator[None]:
    """Compute in fp32 where fp32 is meant, inside the context."""
    products, convolutions = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    allow_tf32(products=False, convolutions=False)
    try:
        yield
    finally:
        allow_tf32(products=products, convolutions=convolutions)


__all__ = ["allow_tf32", "plain_fp32"]
