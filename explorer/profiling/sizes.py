"""Sizes measured on a machine: those that training meets, on processors and on GPUs."""

from __future__ import annotations

from typing import TypeVar

from explorer.run.spec import Survey

T = TypeVar("T")

CPU, CUDA = "cpu", "cuda"
FP32 = "fp32"

_CPU_PRODUCTS = (
    (32, 32, 32), (64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024),
    (64, 1024, 256), (256, 256, 1024), (512, 1024, 256), (256, 4096, 1024),
)  # fmt: skip
_CPU_THIN = (
    (64, 1536, 384), (32, 2048, 512), (16, 3072, 768), (8, 4096, 1024), (16, 16384, 768),
)  # fmt: skip
"""Up-projections of the usual widths and a vocabulary, weights of 2 to 50 MB: how libraries pack them depends
on their size.
"""
_CPU_CONVOLUTIONS = (
    (1, 16, 16, 3), (4, 64, 28, 3),
    *((1, 64 << k, 56 >> k, kernel) for k in range(4) for kernel in (1, 3)),  # a residual network's
)  # fmt: skip
_CUDA_PRODUCTS = (
    *((n, n, n) for n in (128, 256, 512, 1024, 2048, 4096, 8192)),
    *((rows, n, k) for rows in (1024, 4096, 8192) for n, k in ((1024, 4096), (4096, 1024), (4096, 11008))),
    (512, 768, 3072), (2048, 2304, 768), (2048, 3072, 768), (2048, 768, 3072), (3000, 1280, 5120),
    (2048, 50304, 1024), (4096, 2560, 10240), (1024, 8192, 8192), (300, 8192, 1024),
)  # fmt: skip


def survey_of(device: str, precisions: tuple[str, ...], *, quick: bool = False) -> Survey:
    """Return the sizes to measure on a device type; `quick` takes a few of each."""
    if device == CUDA:
        survey = Survey(
            precisions=precisions,
            products=_CUDA_PRODUCTS,
            attentions=((12, 256, 64), (16, 1024, 64), (32, 2048, 128), (64, 4096, 128)),
            convolutions=((8, 64, 56), (32, 64, 56), (32, 256, 28), (64, 512, 14)),
            moved_bytes=(1 << 16, 1 << 20, 1 << 23, 1 << 26, 1 << 29),
            message_bytes=(1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28),
            reduce_bytes=(1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28),
        )
    else:
        survey = Survey(
            precisions=precisions,
            products=_CPU_PRODUCTS,
            thin=_CPU_THIN,
            attentions=((4, 64, 32), (4, 256, 32), (8, 512, 64)),
            convolutions=_CPU_CONVOLUTIONS,
            moved_bytes=(1 << 12, 1 << 15, 1 << 18, 1 << 21, 1 << 24, 1 << 26),
            updated=(1 << 14, 1 << 18, 1 << 22),
            message_bytes=(1 << 8, 1 << 14, 1 << 17, 1 << 20, 1 << 23),
            reduce_bytes=(1 << 8, 1 << 14, 1 << 17, 1 << 20, 1 << 23),
        )
    return _thinned(survey) if quick else survey


def _thinned(survey: Survey) -> Survey:
    """Keep the smallest, middle and largest of all by work; the CPU's largest product takes 0.1 s."""
    return Survey(
        precisions=tuple(dict.fromkeys((*survey.precisions[:1], FP32))),  # slices run in fp32
        products=_few(survey.products, 6),
        thin=_few(survey.thin, 2),
        attentions=_few(survey.attentions, 2),
        convolutions=_few(survey.convolutions, 2),
        moved_bytes=_few(survey.moved_bytes, 3),
        updated=_few(survey.updated, 2),
        message_bytes=_few(survey.message_bytes, 3),
        reduce_bytes=_few(survey.reduce_bytes, 3),
    )


def _few(sizes: tuple[T, ...], count: int) -> tuple[T, ...]:
    if len(sizes) <= count:
        return sizes
    return tuple(sizes[round(i * (len(sizes) - 1) / (count - 1))] for i in range(count))
