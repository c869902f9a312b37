"""Pairs of laws with a known epsilon: exact log-likelihood ratios under both, and the truth at a delta.

The truths are closed forms or gpleak's own; `test_coverage.py` holds each against a second method.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from second_methods import pair_terms
from support import pair, reference

from gpleak.attacks import Scores
from gpleak.audit.gdp import epsilon_of_mu
from gpleak.mechanisms import exact_epsilon


@dataclass(frozen=True, eq=False)
class Pair:
    """One mechanism on two neighbouring datasets.

    Attributes:
        name: Of the mechanism.
        draw: ``(rng, shape)`` to log-likelihood ratios under D and under D', independent, each of that shape.
        epsilon: The exact epsilon at a delta: the larger of both directions.
    """

    name: str
    draw: Callable
    epsilon: Callable


def counted(true, members, false, nonmembers):
    """Scores 1 and 0 with so many of either side at or above the threshold 1 / 2."""
    return Scores(np.repeat([1.0, 0.0], [true, members - true]), np.repeat([1.0, 0.0], [false, nonmembers - false]))


def gaussian(mu):
    """Unit normals `mu` apart."""

    def draw(rng, shape):
        return mu * (rng.standard_normal(shape) + mu / 2), mu * (rng.standard_normal(shape) - mu / 2)

    return Pair("gaussian", draw, functools.partial(epsilon_of_mu, mu))


def laplace(epsilon):
    """Laplace noise, sensitivity 1: ``delta(eps) = 1 - exp((eps - eps0) / 2)``."""

    def draw(rng, shape):
        member, nonmember = 1 + rng.laplace(0, 1 / epsilon, shape), rng.laplace(0, 1 / epsilon, shape)
        return epsilon * np.clip(2 * member - 1, -1, 1), epsilon * np.clip(2 * nonmember - 1, -1, 1)

    return Pair("laplace", draw, lambda delta: epsilon + 2 * math.log1p(-delta))


def randomised_response(epsilon):
    """One bit, told truly with probability ``p = 1 / (1 + e^-eps0)``: ``delta(eps) = p - e^eps (1 - p)``."""
    truly = 1 / (1 + math.exp(-epsilon))

    def draw(rng, shape):
        member, nonmember = rng.random(shape) < truly, rng.random(shape) >= truly
        return np.where(member, epsilon, -epsilon), np.where(nonmember, epsilon, -epsilon)

    return Pair(f"response_{epsilon:g}", draw, lambda delta: math.log((truly - delta) / (1 - truly)))


def numbers(row):
    """Arguments of `support.pair` and `second_methods.pair_terms`."""
    return [row[key] for key in ("m", "m_prime", "v", "v_prime", "rho", "ridge", "scale")]


def worst_row():
    """The row of exact_pairs.json with ridge 1 and scale 1: epsilon 7.48367 at delta 1e-3."""
    (row,) = [row for row in reference("exact_pairs") if row["ridge"] == row["scale"] == 1]
    return row


def posterior_sampling():
    """One path of a Gaussian process at the two records that differ; ratios straight from the two normal densities.

    With the Cholesky factors of both covariances a density costs a triangular 2 x 2 product: a million draws take a
    tenth of a second.
    """
    arguments = numbers(worst_row())
    laws = [(mean, np.linalg.cholesky(covariance)) for mean, covariance in pair_terms(*arguments)]
    law = pair(*arguments)

    def one_side(rng, shape, here, there):
        x, y = rng.standard_normal((2, *np.atleast_1d(shape)))
        factor = np.linalg.solve(there[1], here[1])
        shift = np.linalg.solve(there[1], here[0] - there[0])
        other = (factor[0, 0] * x + shift[0]) ** 2 + (factor[1, 0] * x + factor[1, 1] * y + shift[1]) ** 2
        return 0.5 * (other - x * x - y * y) - math.log(np.linalg.det(factor))

    def draw(rng, shape):
        return one_side(rng, shape, *laws), -one_side(rng, shape, *laws[::-1])

    return Pair("posterior_sampling", draw, functools.cache(lambda delta: float(exact_epsilon(law, delta))))
