"""Exact laws of every pair (record, replacement) at once: leave-one-out from one factor of all the data."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .cholesky import factorise
from .data import Dataset
from .gaussian import Paths, kept_by_difference, noised_gram
from .pair import PairLaw
from .posterior import Posterior, condition


def leave_one_out_laws(paths: Paths, data: Dataset, replacements: Dataset) -> PairLaw:
    """Exact laws ``(n, J)`` of all pairs (record, replacement) from one factor of the full data.

    With ``A = K + r^2 I``, ``a = diag A^-1`` and ``B = A^-1 k(X, X')`` the core without record i has at the record
    ``v + r^2 = 1 / a_i`` and residual ``(A^-1 y)_i / a_i``, and at a replacement the covariance ``B_ij / a_i`` with
    the record: leave-one-out needs no further factorisation.
    """
    posterior = paths.condition(data)
    base = left_out(posterior, replacements.covariates)
    if paths.points is None:
        grams = _everywhere(paths, posterior, base, replacements.covariates)
    else:
        factor = factorise(paths.covariance(posterior, paths.points))
        record_part, end_part = whitened_parts(posterior, paths.points, replacements.covariates, factor.whiten)
        grams = grams_at_points(paths, base, record_part, end_part, factor.jitter)
    return laws_of(paths, posterior, replacements, base, grams)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Leave-one-out posterior at each record ``(n,)`` and at the replacements ``(n, J)``."""

    precision: Array  # a_i = 1 / (v_i + r^2)
    pull: Array  # B_ij
    variance: Array  # v_i, (n,)
    covariance: Array  # k_{C_i}(x_i, x'_j)
    variance_prime: Array  # k_{C_i}(x'_j, x'_j)
    noise: Array  # r^2 of the row, whichever record is in it, (n,)

    @property
    def spread_prime(self) -> Array:
        """``v' + r^2`` of the replacements, ``(n, J)``."""
        return np.asarray(self.variance_prime + self.noise[:, None])


def left_out(posterior: Posterior, ends: Array) -> LeftOut:
    """Of each record and of the ends ``(J, d)``, from one factor of all the data."""
    kernel, data = posterior.kernel, posterior.data
    precision = posterior.factor.inverse_diagonal()
    reach = kernel(data.covariates, ends)
    pull = posterior.factor.solve(reach)
    covariance = pull / precision[:, None]
    half = posterior.factor.whiten(reach)
    variance_prime = 1.0 - np.square(half).sum(axis=0) + pull * covariance
    variance = np.maximum(1.0 / precision - posterior.noise, 0.0)
    noise = np.broadcast_to(np.asarray(posterior.noise), len(data))
    return LeftOut(precision, pull, variance, covariance, variance_prime, noise)


@dataclass(frozen=True, eq=False)
class Grams:
    """Gram matrices of the pairs: of the record ``(n,)``, of the replacement and of both ``(n, J)``."""

    own: Array
    prime: Array
    cross: Array
    kept: Array  # 1 - drop * own, (n,)
    kept_prime: Array
    jitter: float = 0.0


def laws_of(paths: Paths, posterior: Posterior, replacements: Dataset, base: LeftOut, grams: Grams) -> PairLaw:
    """The laws ``(n, J)`` whose Gram matrices are known."""
    alpha = posterior.factor.solve(posterior.data.responses)
    mean_prime = posterior.mean(replacements.covariates) - (alpha / base.precision)[:, None] * base.pull
    law = PairLaw(
        alpha[:, None],
        (replacements.responses - mean_prime) / base.spread_prime,
        paths.scale**2 * base.precision[:, None],
        paths.scale**2 / base.spread_prime,
        grams.own[:, None],
        grams.prime,
        grams.cross,
        grams.kept[:, None],
        grams.kept_prime,
        jitter=max(posterior.factor.jitter, grams.jitter),
    )
    return law if paths.mean_weight else law.centred()


def _everywhere(paths: Paths, posterior: Posterior, base: LeftOut, ends: Array) -> Grams:
    """Gram matrices when the path is released everywhere."""
    own, prime, cross = base.variance, base.variance_prime, base.covariance
    kept, kept_prime = base.noise * base.precision, base.noise[:, None] / base.spread_prime
    if paths.prior_noise:
        share, data = paths.share, posterior.data
        smoother = condition(data, kernel=paths.kernel, ridge=paths.ridges(data) / np.sqrt(share))
        smooth = left_out(smoother, ends)
        own = noised_gram(own, smooth.variance, share)
        prime = noised_gram(prime, smooth.variance_prime, share)
        cross = cross - share * smooth.covariance
        kept = kept + share * smooth.variance * base.precision
        kept_prime = kept_prime + share * smooth.variance_prime / base.spread_prime
    return Grams(own / paths.scale**2, prime / paths.scale**2, cross / paths.scale**2, kept, kept_prime)


def whitened_parts(
    posterior: Posterior, points: Array, ends: Array, whiten: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """``beta`` of the records ``(k, n)`` and ``k_D(T, x')`` of the ends ``(k, J)``, both whitened.

    `whiten` takes columns ``(t, m)`` to coordinates ``(k, m)`` in which a path of all the data has covariance I. The
    covariance of the path with record i given its core is then ``beta_i / a_i``.
    """
    record_part = whiten(posterior.factor.solve(posterior.kernel(posterior.data.covariates, points)).T)
    return record_part, whiten(posterior.covariance(points, ends))


def grams_at_points(paths: Paths, base: LeftOut, record_part: Array, end_part: Array, jitter: float = 0.0) -> Grams:
    """Gram matrices when the path is released at listed points only: one factor for all pairs.

    The covariance given core i is that given all the data plus ``scale^2 a_i c_i c_i^T`` with
    ``c_i = k_{C_i}(T, x_i)``; the inverse follows by Sherman-Morrison.
    """
    own = np.square(record_part).sum(axis=0)[:, None]  # |beta_i|^2
    mixed = record_part.T @ end_part
    weight = base.covariance
    own_c = own / base.precision[:, None] ** 2
    cross_c = (mixed + own * weight) / base.precision[:, None]
    prime_c = np.square(end_part).sum(axis=0) + 2.0 * mixed * weight + own * weight**2
    update = paths.scale**2 * base.precision[:, None]
    kept = 1.0 + update * own_c
    prime = np.maximum(prime_c - update * cross_c**2 / kept, 0.0)
    kept_prime = kept_by_difference(paths.scale**2 / base.spread_prime * prime)
    return Grams((own_c / kept)[:, 0], prime, cross_c / kept, (1.0 / kept)[:, 0], kept_prime, jitter)
