"""What the posterior mechanisms share: drawing Gaussian paths and the law of their pairs.

A path is ``mu_D + N(0, sigma^2 k_D + eta^2 k)``. For a path released everywhere the Gram matrix of the pair has
a closed form: with ``q = eta^2 / (sigma^2 + eta^2)``,

    <w, w'> = [ k_C(x, x') - q k_C*(x, x') ] / sigma^2,    k_C* the core's posterior with ridge^2 = r^2 / q

and ``s`` is ``[f(x) - k_x^T (K_C + r^2 I / q)^-1 f(X_C)] / (sigma^2 + eta^2)``, less the same of the mean.
(Write ``k_C = (k^-1 + P / r^2)^-1``, P the projection on the core's locations, and expand
``k_C (sigma^2 k_C + eta^2 k)^-1 k_C`` in partial fractions.) With ``eta = 0`` this is ``k_C / sigma^2`` and
``f(x) / sigma^2``: the two-point reduction. The share of the variance that a record leaves needs no difference:
``1 - drop <w, w> = (r^2 + q k_C*) / (v + r^2)``. ``<w, w>`` does, and where its digits are gone (dense records, tiny
ridge, noise far above the scale) a `NumericalError` says so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .base import Contrast
from .cholesky import Factor, factorise
from .data import Dataset, Record
from .errors import NumericalError
from .pair import PairLaw
from .path_law import PathLaw
from .posterior import Posterior, condition
from .release import Release

_FEWEST_DIGITS = 1e-10  # a difference of numbers of order 1 must be this large: then six of its digits are right


@dataclass(frozen=True, eq=False)
class GaussianSampler:
    """Draws independent Gaussian paths, ``(mean + factor z)[of]``.

    Repeated points are drawn once and copied (`of`), so they need no jitter; without any, `of` is all of them.
    """

    mean: Array
    factor: Factor
    of: NDArray[np.intp] | slice
    posterior_jitter: float

    @property
    def jitter(self) -> float:
        """Variance that was added to each value, or to the noise of the posterior if that is more."""
        return max(self.factor.jitter, self.posterior_jitter)

    def draw(self, releases: int, *, paths: int, rng: np.random.Generator) -> Array:
        """Independent releases, ``(releases, paths, points)``."""
        # One product of two matrices: over a stack of small ones numpy would do as many small products.
        values = rng.standard_normal((releases * paths, len(self.mean))) @ self.factor.lower.T
        values += self.mean
        return np.asarray(values[:, self.of].reshape(releases, paths, -1))


def path_sampler(
    data: Dataset, points: Array, *, release: Release, scale: float, prior_noise: float, mean_weight: float
) -> GaussianSampler:
    """Sampler of ``mean_weight * mu_D + N(0, scale^2 k_D + prior_noise^2 k)`` at points ``(t, d)``."""
    places, inverse = np.unique(points, axis=0, return_inverse=True)
    of: NDArray[np.intp] | slice = inverse.reshape(-1)
    if len(places) == len(points):
        places, of = points, slice(None)
    mean, covariance, jitter = _path_moments(data, places, release, scale, prior_noise)
    return GaussianSampler(mean_weight * mean, factorise(covariance), of, jitter)


def path_law(
    data: Dataset, points: Array, *, release: Release, scale: float, prior_noise: float, mean_weight: float
) -> PathLaw:
    """The law that `path_sampler` draws from, as one block."""
    mean, covariance, _ = _path_moments(data, points, release, scale, prior_noise)
    return PathLaw(mean_weight * mean[None], covariance[None], scale**2 + prior_noise**2)


def _path_moments(
    data: Dataset, points: Array, release: Release, scale: float, prior_noise: float
) -> tuple[Array, Array, float]:
    """Mean and covariance at the points, and the jitter of the posterior's factor."""
    posterior = condition(data, kernel=release.kernel, ridge=release.ridge)
    covariance = scale**2 * posterior.covariance(points, points)
    if prior_noise:
        covariance += prior_noise**2 * release.kernel(points, points)
    return posterior.mean(points), covariance, posterior.factor.jitter


def path_contrast(
    data: Dataset, row: int, replacement: Record, *, release: Release, scale: float, prior_noise: float
) -> Contrast:
    """The pair and its sufficient statistics, from one Cholesky factor of the core."""
    core, record = data.without(row), data.record(row)
    ends = np.stack([record.covariates, replacement.covariates])
    responses = np.array([record.response, replacement.response])
    given_core = condition(core, kernel=release.kernel, ridge=release.ridge)
    covariance = given_core.covariance(ends, ends)
    spread = np.diag(covariance) + given_core.noise
    residual = responses - given_core.mean(ends)
    jitter, drop = given_core.factor.jitter, scale**2 / spread
    if release.points is not None:
        points = release.points
        reach = given_core.covariance(points, ends)
        base = scale**2 * given_core.covariance(points, points)
        if prior_noise:
            base += prior_noise**2 * release.kernel(points, points)
        factor = factorise(base)
        weights, jitter = factor.solve(reach), max(jitter, factor.jitter)
        gram = reach.T @ weights
        kept = _kept_by_difference(drop * np.diag(gram))
    elif prior_noise == 0.0:
        points, weights = ends, np.eye(2) / scale**2
        gram = covariance / scale**2
        kept = given_core.noise / spread
    else:
        points, total = np.concatenate([core.covariates, ends]), scale**2 + prior_noise**2
        share = prior_noise**2 / total
        smoother = condition(core, kernel=release.kernel, ridge=release.ridge / np.sqrt(share))
        pull = smoother.factor.solve(release.kernel(core.covariates, ends))
        weights = np.concatenate([-pull, np.eye(2)]) / total
        smooth = smoother.covariance(ends, ends)
        gram = _noised_gram(covariance, smooth, share) / scale**2
        kept = (given_core.noise + share * np.diag(smooth)) / spread
    numbers = (*(residual / spread), *drop, gram[0, 0], gram[1, 1], gram[0, 1], *kept)
    law = PairLaw(*(np.asarray(value) for value in numbers), jitter=jitter)
    centre = given_core.mean(points) @ weights
    return Contrast(points, weights, centre, law, data.replaced(row, replacement))


def leave_one_out_laws(
    data: Dataset, replacements: Dataset, *, release: Release, scale: float, prior_noise: float
) -> PairLaw:
    """Exact laws ``(n, J)`` of all pairs (record, replacement) from one factor of the full data.

    With ``A = K + r^2 I``, ``a = diag A^-1`` and ``B = A^-1 k(X, X')`` the core without record i has at the record
    ``v + r^2 = 1 / a_i`` and residual ``(A^-1 y)_i / a_i``, and at a replacement the covariance ``B_ij / a_i`` with
    the record: leave-one-out needs no further factorisation.
    """
    posterior = condition(data, kernel=release.kernel, ridge=release.ridge)
    base = _left_out(posterior, replacements.covariates)
    alpha = posterior.factor.solve(data.responses)
    mean_prime = posterior.mean(replacements.covariates) - (alpha / base.precision)[:, None] * base.pull
    spread_prime = base.variance_prime + posterior.noise
    drop, drop_prime = scale**2 * base.precision, scale**2 / spread_prime
    jitter = posterior.factor.jitter
    if release.points is not None:
        at_points = _gram_at_points(
            posterior, replacements.covariates, base, release.points, scale=scale, prior_noise=prior_noise
        )
        gram, gram_prime, cross, kept = at_points.own, at_points.prime, at_points.cross, at_points.kept
        kept_prime = _kept_by_difference(drop_prime * gram_prime)
        jitter = max(jitter, at_points.jitter)
    else:
        gram, gram_prime, cross = base.variance, base.variance_prime, base.covariance
        kept, kept_prime = posterior.noise * base.precision, posterior.noise / spread_prime
        if prior_noise:
            share = prior_noise**2 / (scale**2 + prior_noise**2)
            smoother = condition(data, kernel=release.kernel, ridge=release.ridge / np.sqrt(share))
            smooth = _left_out(smoother, replacements.covariates)
            gram = _noised_gram(gram, smooth.variance, share)
            gram_prime = _noised_gram(gram_prime, smooth.variance_prime, share)
            cross = cross - share * smooth.covariance
            kept = kept + share * smooth.variance * base.precision
            kept_prime = kept_prime + share * smooth.variance_prime / spread_prime
        gram, gram_prime, cross = gram / scale**2, gram_prime / scale**2, cross / scale**2
    return PairLaw(
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


def _noised_gram(plain: Array, smooth: Array, share: float) -> Array:
    """``k_C - q k_C*``, refused where the difference has lost its digits."""
    difference = plain - share * smooth
    own = np.diag(difference) if difference.ndim == 2 and difference.shape == (2, 2) else difference
    if np.any(own < _FEWEST_DIGITS):
        raise NumericalError(
            f"the exact leakage of a noised release has lost its digits (a difference of {float(own.min()):.2g}): "
            "use a larger ridge, or less prior noise against the scale"
        )
    return np.asarray(difference)


def _kept_by_difference(used: Array) -> Array:
    """``1 - used`` for paths at listed points, refused where nothing is left of it."""
    kept = 1.0 - used
    if np.any(kept < _FEWEST_DIGITS):
        raise NumericalError("the exact leakage at the listed points has lost its digits: use a larger ridge")
    return np.asarray(kept)


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """Leave-one-out posterior at each record ``(n,)`` and at the replacements ``(n, J)``."""

    precision: Array  # a_i = 1 / (v_i + r^2)
    pull: Array  # B_ij
    variance: Array  # v_i, (n,)
    covariance: Array  # k_{C_i}(x_i, x'_j)
    variance_prime: Array  # k_{C_i}(x'_j, x'_j)


def _left_out(posterior: Posterior, ends: Array) -> _LeftOut:
    kernel, data = posterior.kernel, posterior.data
    precision = posterior.factor.inverse_diagonal()
    reach = kernel(data.covariates, ends)
    pull = posterior.factor.solve(reach)
    covariance = pull / precision[:, None]
    half = posterior.factor.whiten(reach)
    variance_prime = 1.0 - np.square(half).sum(axis=0) + pull * covariance
    variance = np.maximum(1.0 / precision - posterior.noise, 0.0)
    return _LeftOut(precision, pull, variance, covariance, variance_prime)


@dataclass(frozen=True, eq=False)
class _AtPoints:
    """Gram matrices at listed points: of the record ``(n,)``, the replacement and both ``(n, J)``."""

    own: Array
    prime: Array
    cross: Array
    kept: Array  # 1 - drop * own, (n,)
    jitter: float


def _gram_at_points(
    posterior: Posterior,
    ends: Array,
    base: _LeftOut,
    points: Array,
    *,
    scale: float,
    prior_noise: float,
) -> _AtPoints:
    """Gram matrices when the path is released at listed points only: one factor for all pairs.

    The covariance given core i is that given all the data plus ``scale^2 a_i c_i c_i^T`` with
    ``c_i = k_{C_i}(T, x_i)``; the inverse follows by Sherman-Morrison.
    """
    data = posterior.data
    covariance = scale**2 * posterior.covariance(points, points)
    if prior_noise:
        covariance += prior_noise**2 * posterior.kernel(points, points)
    factor = factorise(covariance)
    record_part = factor.whiten(posterior.factor.solve(posterior.kernel(data.covariates, points)).T)  # beta_i
    end_part = factor.whiten(posterior.covariance(points, ends))
    own = np.square(record_part).sum(axis=0)[:, None]  # |beta_i|^2
    mixed = record_part.T @ end_part
    weight = base.pull / base.precision[:, None]
    own_c = own / base.precision[:, None] ** 2
    cross_c = (mixed + own * weight) / base.precision[:, None]
    prime_c = np.square(end_part).sum(axis=0) + 2.0 * mixed * weight + own * weight**2
    update = scale**2 * base.precision[:, None]
    kept = 1.0 + update * own_c
    own_kept = (own_c / kept)[:, 0]
    prime = np.maximum(prime_c - update * cross_c**2 / kept, 0.0)
    return _AtPoints(own_kept, prime, cross_c / kept, (1.0 / kept)[:, 0], factor.jitter)
