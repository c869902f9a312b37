"""Clopper-Pearson limits that keep their digits in tails as small as 1e-300."""

import numpy as np
from scipy.special import betainccinv, betaincinv

from ..mechanisms import Array

_OUTWARD = 1e-12  # relative; the inverse beta functions are right to 1e-14, and a limit must not be inside


def proportion_lower(successes: Array, trials: int, tail: float) -> Array:
    """Lower confidence limit of a proportion; too high with probability at most `tail`. 0 when nothing succeeded."""
    k = np.asarray(successes, dtype=np.float64)
    limit = betaincinv(np.maximum(k, 1.0), trials - k + 1.0, tail)
    return np.where(k == 0, 0.0, limit * (1.0 - _OUTWARD))


def proportion_upper(successes: Array, trials: int, tail: float) -> Array:
    """Upper confidence limit of a proportion; too low with probability at most `tail`. 1 when nothing failed.

    Through the complement of the incomplete beta function: ``1 - tail`` would round to 1.
    """
    k = np.asarray(successes, dtype=np.float64)
    limit = betainccinv(k + 1.0, np.maximum(trials - k, 1.0), tail)
    return np.where(k == trials, 1.0, np.minimum(limit * (1.0 + _OUTWARD), 1.0))
