"""What rounding does to normal values, and what it takes that a test of normality does not see it.

A value ``y`` that is rounded to a step ``h`` has an error ``e(y)``, a sawtooth: a sum of waves of lengths ``h / m``. A
normal value averages a wave to ``exp(-2 pi^2 m^2 s^2 / h^2)`` of its height, which is 3e-9 or less from one step a
standard deviation ``s`` on. Then three things are left, and each has its remedy here:

- variance ``h^2 / 12``, which is counted;
- errors that are alike where values are (a difference of two values may have less than a step): `alike`, by which
  directions are chosen;
- the lattice itself, which the empirical distribution of many values shows whatever the moments: normal noise hides it.
"""

import hashlib

import numpy as np

from ..mechanisms import Array, Whitening

ERROR = 1.0 / np.sqrt(12.0)  # standard deviation of a rounding error, in steps
_HARMONICS = 20
_CROSSED = 3  # two values may go up at different rates: harmonics of different orders, up to this one
_WASHED_OUT = 1.5  # variance in squared steps that leaves exp(-2 pi^2 1.5) = 1e-13 of a wave
_NOISE = 0.75  # of the distance of lattice points: leaves exp(-2 pi^2 0.75^2) = 1.5e-5 of the first wave
_DRAWN_OUT = 100.0  # a direction is used from this many times the variance by which independence may be wrong
_MANY = 10.0  # or, of many values, from this many times their root: the sum of squares moves by 0.07 of its spread


def on_lattice(values: Array, step: float) -> bool:
    """Whether all values are multiples of one step, not to a number of digits, for which steps differ."""
    places = values / step
    return bool(np.all(np.abs(places - np.rint(places)) <= 1e-6 + 1e-14 * np.abs(places)))


def alike(covariance: Array, step: float) -> float:
    """Variance that rounding errors add to any one direction, beyond that of independent ones, at most.

    By the waves ``m`` of one error and ``n`` of the other, for normal values each with a standard deviation of about a
    step or more,

        |cov(e_i, e_j)| <= step^2 / (2 pi^2) sum_mn exp(-2 pi^2 var(m y_i +- n y_j) / step^2) / (m n),

    with the sign that makes the variance the smaller one (the other adds 1e-9), and no eigenvalue of a matrix exceeds
    the largest sum of a row's absolute values.

    Args:
        covariance: Of the values, ``(t, t)``; one of variance 0 is left out.
        step: To which they are rounded.
    """
    scaled = covariance / step**2
    own = np.diag(scaled)
    seen = own > 0
    # var(m y_i - n y_j) is below neither that of y_i given y_j nor that of y_j given y_i.
    given = own[:, None] - np.square(scaled) / np.where(seen, own, 1.0)
    near = (np.maximum(given, given.T) < _WASHED_OUT) & seen[:, None] & seen
    first, second = np.nonzero(np.triu(near, 1))
    errors, together = np.zeros(len(first)), np.abs(scaled[first, second])
    for m in range(1, _HARMONICS + 1):
        for n in range(1, _HARMONICS + 1):
            if m == n or max(m, n) <= _CROSSED:
                apart = m**2 * own[first] + n**2 * own[second] - 2.0 * m * n * together
                errors += np.exp(-2.0 * np.pi**2 * np.maximum(apart, 0.0)) / (m * n)
    rows = np.bincount(first, errors, len(own)) + np.bincount(second, errors, len(own))
    return float(rows.max() * step**2 / (2.0 * np.pi**2))


def least_variance(covariance: Array, step: float, *, paths: int, even: bool) -> float:
    """Variance of a direction from which on rounding errors pass for independent normal noise of ``step^2 / 12``.

    They are uniform, which nobody sees where they make up a twelfth or less. What is counted wrong of them (`alike`;
    and all of it where steps differ) may make up a hundredth, or less of many values, which see more.

    Args:
        covariance: Of the values, ``(t, t)``.
        step: The coarsest to which they are rounded.
        paths: L.
        even: Whether the step is the same for all values.
    """
    wrong = alike(covariance, step) + (0.0 if even else (ERROR * step) ** 2)
    return max(step**2, max(_DRAWN_OUT, _MANY * float(np.sqrt(paths * len(covariance)))) * wrong)


def hiding_noise(covariance: Array, step: float) -> float:
    """Standard deviation of the normal noise that hides the lattice in every direction.

    Values that are rounded alike are a lattice of a longer step: n equal ones, along the direction of their mean, one
    of ``sqrt(n) step``. The distance is taken from the variance that the errors have together.
    """
    return _NOISE * float(np.sqrt(step**2 + alike(covariance, step) / ERROR**2))


def noisy(values: Array, deviation: float) -> Array:
    """The values with independent normal noise.

    Its seed is a hash of the values: the same file gives the same answer, and no seed from which a release was drawn
    gives the same noise.
    """
    if not deviation:
        return values
    seed = int.from_bytes(hashlib.sha256(np.ascontiguousarray(values).tobytes()).digest(), "big")
    return np.asarray(values + deviation * np.random.default_rng(seed).standard_normal(values.shape))


def widened(whitening: Whitening, variance: float) -> Whitening:
    """The whitening, in the same directions, of what has independent noise of a variance more."""
    lengths = 1.0 + variance * np.square(whitening.columns).sum(axis=1)  # squared columns are 1 / variances
    columns = whitening.columns / np.sqrt(lengths)[:, None, :]
    spread = np.sqrt(np.square(whitening.spread) + variance)
    return Whitening(whitening.mean, columns, whitening.kept, spread, whitening.seen)
