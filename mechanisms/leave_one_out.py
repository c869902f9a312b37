"""Exact laws of every pair (record, replacement) at once: leave-one-out from one factor of all the data."""

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
    posterior, scale = paths.condition(data), paths.scale
    noise = np.broadcast_to(posterior.noise, len(data))  # of the row, whichever record is in it
    base = left_out(posterior, replacements.covariates)
    alpha = posterior.factor.solve(data.responses)
    mean_prime = posterior.mean(replacements.covariates) - (alpha / base.precision)[:, None] * base.pull
    spread_prime = base.variance_prime + noise[:, None]
    drop, drop_prime = scale**2 * base.precision, scale**2 / spread_prime
    jitter = posterior.factor.jitter
    if paths.points is not None:
        at_points = _gram_at_points(paths, posterior, replacements.covariates, base, paths.points)
        gram, gram_prime, cross, kept = at_points.own, at_points.prime, at_points.cross, at_points.kept
        kept_prime = kept_by_difference(drop_prime * gram_prime)
        jitter = max(jitter, at_points.jitter)
    else:
        gram, gram_prime, cross = base.variance, base.variance_prime, base.covariance
        kept, kept_prime = noise * base.precision, noise[:, None] / spread_prime
        if paths.prior_noise:
            share = paths.share
            smoother = condition(data, kernel=paths.kernel, ridge=paths.ridges(data) / np.sqrt(share))
            smooth = left_out(smoother, replacements.covariates)
            gram = noised_gram(gram, smooth.variance, share)
            gram_prime = noised_gram(gram_prime, smooth.variance_prime, share)
            cross = cross - share * smooth.covariance
            kept = kept + share * smooth.variance * base.precision
            kept_prime = kept_prime + share * smooth.variance_prime / spread_prime
        gram, gram_prime, cross = gram / scale**2, gram_prime / scale**2, cross / scale**2
    law = PairLaw(
        alpha[:, None],
        (replacements.responses - mean_prime) / spread_prime,
        drop[:, None],
        drop_prime,
        gram[:, None],
        gram_prime,
        cross,
        kept[:, None],
        kept_prime,
        jitter=jitter,
    )
    return law if paths.mean_weight else law.centred()


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Leave-one-out posterior at each record ``(n,)`` and at the replacements ``(n, J)``."""

    precision: Array  # a_i = 1 / (v_i + r^2)
    pull: Array  # B_ij
    variance: Array  # v_i, (n,)
    covariance: Array  # k_{C_i}(x_i, x'_j)
    variance_prime: Array  # k_{C_i}(x'_j, x'_j)


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
    return LeftOut(precision, pull, variance, covariance, variance_prime)


@dataclass(frozen=True, eq=False)
class _AtPoints:
    """Gram matrices at listed points: of the record ``(n,)``, the replacement and both ``(n, J)``."""

    own: Array
    prime: Array
    cross: Array
    kept: Array  # 1 - drop * own, (n,)
    jitter: float


def _gram_at_points(paths: Paths, posterior: Posterior, ends: Array, base: LeftOut, points: Array) -> _AtPoints:
    """Gram matrices when the path is released at listed points only: one factor for all pairs.

    The covariance given core i is that given all the data plus ``scale^2 a_i c_i c_i^T`` with
    ``c_i = k_{C_i}(T, x_i)``; the inverse follows by Sherman-Morrison.
    """
    data = posterior.data
    factor = factorise(paths.covariance(posterior, points))
    record_part = factor.whiten(posterior.factor.solve(posterior.kernel(data.covariates, points)).T)  # beta_i
    end_part = factor.whiten(posterior.covariance(points, ends))
    own = np.square(record_part).sum(axis=0)[:, None]  # |beta_i|^2
    mixed = record_part.T @ end_part
    weight = base.pull / base.precision[:, None]
    own_c = own / base.precision[:, None] ** 2
    cross_c = (mixed + own * weight) / base.precision[:, None]
    prime_c = np.square(end_part).sum(axis=0) + 2.0 * mixed * weight + own * weight**2
    update = paths.scale**2 * base.precision[:, None]
    kept = 1.0 + update * own_c
    own_kept = (own_c / kept)[:, 0]
    prime = np.maximum(prime_c - update * cross_c**2 / kept, 0.0)
    return _AtPoints(own_kept, prime, cross_c / kept, (1.0 / kept)[:, 0], factor.jitter)
