"""The optimal score of an adversary who knows the population: a mixture over shadows, no fitted density."""

import numpy as np

from ..mechanisms import Array, Moments, NumericalError

_VALUES_AT_ONCE = 1 << 16  # 512 KiB: the block of trials times shadows stays in the cache


def mixture_log_ratio(law: Moments, centre: Array, squares: Array, *, paths: int) -> Array:
    """``log p(paths | in) - log p(paths | out)``; higher speaks for membership (THEORY section 8).

    Given a shadow dataset the L values at the target are independent ``N(mu_s, s_s^2)``, so mean and sum of squares
    around it are sufficient and the density is the average over shadows. This is the joint score of mean and
    variance; it is Bayes-optimal for these values as the number of shadows grows.

    Args:
        law: Of one released value under each shadow, ``(2, S)``: in, then out.
        centre: Mean of the L values of each trial, ``(B,)``.
        squares: Sum of their squared distances from it, ``(B,)``.
        paths: L.

    Raises:
        NumericalError: A shadow's variance is not positive: its density is not defined.
    """
    if not np.all(law.variance > 0):
        raise NumericalError("a shadow's released value has no spread: its density is not defined")
    return _log_density(law.mean[0], law.variance[0], centre, squares, paths) - _log_density(
        law.mean[1], law.variance[1], centre, squares, paths
    )


def _log_density(mean: Array, variance: Array, centre: Array, squares: Array, paths: int) -> Array:
    """Log of the average over shadows, up to a constant that both hypotheses share: ``(B,)``."""
    half_precision, log_scale = 0.5 / variance, -0.5 * paths * np.log(variance)
    result = np.empty(len(centre))
    block = max(1, _VALUES_AT_ONCE // len(mean))
    for start in range(0, len(centre), block):
        part = slice(start, start + block)
        exponent = centre[part, None] - mean
        np.square(exponent, out=exponent)
        exponent *= paths
        exponent += squares[part, None]
        exponent *= -half_precision
        exponent += log_scale
        top = exponent.max(axis=1, keepdims=True)
        exponent -= top
        np.exp(exponent, out=exponent)
        result[part] = np.log(exponent.mean(axis=1)) + top[:, 0]
    return result
