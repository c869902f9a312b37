"""How exposed each record is: the largest exact epsilon over the drawn replacements."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import Array, Dataset, Domain, PairLaw
from ..mechanisms.contour import log_profile
from ..mechanisms.pair import QuadraticForm, quadratic_form
from ..mechanisms.profile import chernoff_epsilon, solve_epsilon

_PROFILE_ERROR = 1e-9  # relative, what a profile promises


@dataclass(frozen=True, eq=False)
class Exposure:
    """Exact epsilon of every record, ``(n,)``, and the index of the replacement that shows it."""

    epsilon: Array
    replacement: NDArray[np.intp]


def draw_replacements(domain: Domain, response_bound: float, count: int, seed: np.random.SeedSequence) -> Dataset:
    """`count` public records: uniform in the domain, response at one end of its range with equal odds.

    Nothing private enters. Extreme responses are the ones that a worst-case neighbour would have.
    """
    rng = np.random.default_rng(seed)
    low, high = domain.sides.T
    covariates = low + (high - low) * rng.random((count, domain.dimension))
    return Dataset(covariates, response_bound * rng.choice([-1.0, 1.0], size=count))


def exposure(laws: PairLaw, delta: float, *, paths: int) -> Exposure:
    """Largest exact epsilon of each row of pairs ``(n, J)`` over its replacements and both directions.

    Exact, but most pairs are dismissed without being solved: by a Chernoff upper bound, or because at the
    row's best epsilon so far their delta is already below the target (one quadrature).
    """
    rows, count = laws.shape
    forward, backward = quadratic_form(laws), quadratic_form(laws.swapped())
    shape = (2, rows, count, 2)
    curvature = np.stack([forward.curvature, backward.curvature]).reshape(shape).swapaxes(0, 1).reshape(rows, -1, 2)
    shift = np.stack([forward.shift, backward.shift]).reshape(shape).swapaxes(0, 1).reshape(rows, -1, 2)
    form = QuadraticForm(curvature, shift)  # indexed by row and pair
    every = np.indices((rows, 2 * count)).reshape(2, -1)
    ceiling = chernoff_epsilon(form[every[0], every[1]], delta, paths=paths).reshape(rows, -1)
    # An exact value is a lower bound on the mechanism: the profile's error goes on delta, so that it is rounded down.
    target = min(delta * (1.0 + _PROFILE_ERROR), 0.999999)
    best, which = np.zeros(rows), np.zeros(rows, dtype=np.intp)
    active = np.ones((rows, 2 * count), dtype=bool)
    rank = ceiling.copy()
    while active.any():
        todo = np.flatnonzero(active.any(axis=1))
        candidate = np.where(active[todo], rank[todo], -np.inf).argmax(axis=1)
        active[todo, candidate] = False
        # Twelve digits: what rounding adds must not decide which of two equal records is the more exposed.
        epsilon = _significant(solve_epsilon(form[todo, candidate], target, paths=paths))
        improved = epsilon > best[todo]
        best[todo[improved]], which[todo[improved]] = epsilon[improved], candidate[improved]
        active &= ceiling > best[:, None]
        row, pair = np.nonzero(active)
        if len(row):
            value = log_profile(form[row, pair], best[row], paths=paths).log_delta
            rank[row, pair] = value
            active[row, pair] = value > np.log(target)
    return Exposure(best, which % count)


def _significant(values: Array) -> Array:
    return np.array([float(f"{value:.12g}") for value in values])
