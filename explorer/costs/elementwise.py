"""Arithmetic of costs for one number or for an array of them: the same formula prices one run or many."""

from __future__ import annotations

import numpy as np


def larger(one: float, other: float) -> float:
    """Return the larger of two numbers; of arrays element by element.

    >>> larger(1.0, 2.0)
    2.0
    """
    found = np.maximum(one, other)
    return float(found) if np.ndim(found) == 0 else found
