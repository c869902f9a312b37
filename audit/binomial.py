"""Clopper-Pearson limits that keep their digits in tails as small as 1e-300."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betainccinv, betaincinv

from ..mechanisms import Array

_OUTWARD = 1e-12  # relative; the inverse beta functions are right to 1e-13, and a limit must not be inside


def proportion_lower(successes: Array, trials: int, tail: float) -> Array:
    """Lower confidence limit of a proportion; too high with probability at most `tail`. 0 when nothing succeeded."""
    k = np.asarray(successes, dtype=np.float64)
    a, b = np.maximum(k, 1e-300), trials - k + 1.0
    limit = _solved(np.asarray(betaincinv(a, b, tail), dtype=np.float64), lambda x: betainc(a, b, x) > tail)
    return np.where(k == 0, 0.0, limit * (1.0 - _OUTWARD))


def proportion_upper(successes: Array, trials: int, tail: float) -> Array:
    """Upper confidence limit of a proportion; too low with probability at most `tail`. 1 when nothing failed.

    Through the complement of the incomplete beta function: ``1 - tail`` would round to 1.
    """
    k = np.asarray(successes, dtype=np.float64)
    a, b = k + 1.0, np.maximum(trials - k, 1e-300)
    limit = _solved(np.asarray(betainccinv(a, b, tail), dtype=np.float64), lambda x: betaincc(a, b, x) < tail)
    return np.where(k == trials, 1.0, np.minimum(limit * (1.0 + _OUTWARD), 1.0))


def _solved(limit: Array, beyond: Callable[[Array], NDArray[np.bool_]]) -> Array:
    """`limit`, with what the inverse function could not find (NaN, seen for tails below 1e-80) by bisection."""
    lost = np.isnan(limit)
    if not lost.any():
        return limit
    low, high = np.full(limit.shape, -700.0), np.full(limit.shape, 36.0)  # log-odds
    for _ in range(80):
        middle = 0.5 * (low + high)
        past = beyond(1.0 / (1.0 + np.exp(-middle)))
        low, high = np.where(past, low, middle), np.where(past, middle, high)
    return np.where(lost, 1.0 / (1.0 + np.exp(-0.5 * (low + high))), limit)
