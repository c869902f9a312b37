"""Theory against draws: a lower bound when the score is the exact log-likelihood ratio of the stated law.

Under D the variable ``X = (1 - exp(eps - LLR))_+`` lies in [0, 1] and has mean ``delta(eps)`` (THEORY section 6). A
gambler who bets on "the mean is above delta" at a fixed rate lambda has wealth ``prod (1 + lambda (X_i - delta))``,
whose expectation is at most 1 if it is not; so is that of an average over several rates. Wealth of at least
1 / significance refutes (Markov), and since every X falls with epsilon, so does the wealth: one root is the bound.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from ...attacks import Scores
from ...mechanisms import Array
from .bound import EpsilonBound, Kind, check_design, direction_of

_TOLERANCE = 1e-7
_RATES = 0.75 * 0.4 ** np.arange(10)  # of the largest rate, 1 / delta


def model_based_bound(scores: Scores, *, delta: float, significance: float) -> EpsilonBound:
    """Lower bound on the exact epsilon of the stated pair; wrong with probability at most `significance`.

    The scores must be exact log-likelihood ratios of the pair, and the trials follow it. If they do not, the value
    means nothing: it checks the theory against draws, proves nothing about a black box and refutes no claim. Each
    direction spends half of the significance.
    """
    check_design(delta, significance)
    forward = _one_direction(scores.member, delta, significance / 2)
    backward = _one_direction(-scores.nonmember, delta, significance / 2)
    return EpsilonBound(
        max(forward, backward),
        delta,
        significance,
        "model_based_betting",
        direction_of(forward, backward),
        Kind.MODEL,
        min(len(scores.member), len(scores.nonmember)),
    )


def _one_direction(ratio: Array, delta: float, significance: float) -> float:
    largest = float(ratio.max())
    if largest <= 0.0:
        return 0.0
    if delta == 0.0:  # one ratio above eps shows that delta(eps) is not 0
        return largest
    ordered, need = np.sort(ratio), -float(np.log(significance))

    def excess(epsilon: float) -> float:
        below = int(np.searchsorted(ordered, epsilon, side="right"))
        return float(log_wealth(stakes(ordered[below:], epsilon, delta), below, delta)) - need

    if excess(0.0) < 0:
        return 0.0
    high = largest  # no X is above 0 there, and the wealth below 1
    if np.isinf(high):  # a release that the other side cannot make: its X is 1 at every epsilon
        high = 1.0
        while excess(high) >= 0:
            if high > 1e300:
                return float("inf")
            high *= 2.0
    root = float(brentq(excess, 0.0, high, xtol=_TOLERANCE, rtol=1e-12))
    return max(root - 2.0 * _TOLERANCE - 1e-11 * root, 0.0)


def stakes(ratio: Array, epsilon: float, delta: float) -> Array:
    """``X - delta`` of each log-likelihood ratio."""
    return np.asarray(-np.expm1(np.minimum(epsilon - ratio, 0.0)) - delta)


def log_wealth(stake: Array, lost: Array | int, delta: float) -> Array:
    """Logarithm of the average wealth over the rates.

    Args:
        stake: ``X - delta``, ``(..., k)``.
        lost: How many further trials have ``X = 0``, ``(...)``.
        delta: What the mean of X is held against.
    """
    rates = _RATES / delta
    each = np.log1p(rates * stake[..., None]).sum(axis=-2) + np.multiply.outer(lost, np.log1p(-rates * delta))
    return np.asarray(logsumexp(each, axis=-1) - np.log(len(rates)))
