"""What the posterior mechanisms share: drawing Gaussian paths and the law of one pair of them.

A path is ``mu_D + N(0, sigma^2 k_D + eta^2 k + w^2 I)``. For a path released everywhere (``w = 0``) the Gram matrix of
the pair has a closed form: with ``q = eta^2 / (sigma^2 + eta^2)``,

    <w, w'> = [ k_C(x, x') - q k_C*(x, x') ] / sigma^2,    k_C* the core's posterior with ridge^2 = r^2 / q

and ``s`` is ``[f(x) - k_x^T (K_C + r^2 I / q)^-1 f(X_C)] / (sigma^2 + eta^2)``, less the same of the mean.
(Write ``k_C = (k^-1 + P / r^2)^-1``, P the projection on the core's locations, and expand
``k_C (sigma^2 k_C + eta^2 k)^-1 k_C`` in partial fractions.) With ``eta = 0`` this is ``k_C / sigma^2`` and
``f(x) / sigma^2``: the two-point reduction. The share of the variance that a record leaves needs no difference:
``1 - drop <w, w> = (r^2 + q k_C*) / (v + r^2)``. ``<w, w>`` does, and where its digits are gone (dense records, tiny
ridge, noise far above the scale) a `NumericalError` says so.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .base import Contrast
from .cholesky import Factor, factorise
from .data import Dataset, Record
from .errors import InputError, NumericalError
from .kernels import Kernel
from .pair import PairLaw
from .path_law import PathLaw
from .posterior import Posterior, condition

_ALL: NDArray[np.intp] | slice = slice(None)
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Paths:
    """How paths are made of a posterior: ``mean_weight mu_D + N(0, sigma^2 k_D + eta^2 k + w^2 I)``.

    Attributes:
        kernel: k.
        ridge: r; or one a row, ``(n,)``, which a row keeps whichever record is in it.
        points: Where the paths are released, ``(t, d)``; None means everywhere.
        scale: sigma.
        prior_noise: eta.
        white_noise: w, standard deviation of noise that is independent from value to value; needs points.
        mean_weight: 1, or 0 for a release without the posterior mean.
    """

    kernel: Kernel
    ridge: float | Array
    points: Array | None
    scale: float = 1.0
    prior_noise: float = 0.0
    white_noise: float = 0.0
    mean_weight: float = 1.0

    @property
    def total(self) -> float:
        """``sigma^2 + eta^2``, the variance of a value before any record and without white noise."""
        return self.scale**2 + self.prior_noise**2

    @property
    def share(self) -> float:
        """q, the share of the prior noise in `total`."""
        return self.prior_noise**2 / self.total

    def ridges(self, data: Dataset) -> float | Array:
        """The ridge, or the rows' own.

        Raises:
            InputError: There are not as many as rows.
        """
        if isinstance(self.ridge, np.ndarray) and len(self.ridge) != len(data):
            raise InputError(
                f"there are {len(self.ridge)} noise levels but {len(data)} records: give one a row, and leave out "
                "those of the rows that are left out"
            )
        return self.ridge

    def condition(self, data: Dataset) -> Posterior:
        """The posterior of the latent function."""
        return condition(data, kernel=self.kernel, ridge=self.ridges(data))

    def covariance(self, posterior: Posterior, points: Array) -> Array:
        """Of one path at points ``(t, d)``: what of a posterior is released, and all noise."""
        covariance = posterior.covariance(points, points)
        covariance *= self.scale**2  # in place: of ten thousand points it has 0.75 GiB
        if self.prior_noise:
            covariance += self.prior_noise**2 * self.kernel(points, points)
        if self.white_noise:
            covariance[np.diag_indices_from(covariance)] += self.white_noise**2
        return covariance

    def sampler(self, data: Dataset, points: Array) -> GaussianSampler:
        """Sampler of the paths at points ``(t, d)``."""
        places, of = points, _ALL
        if not self.white_noise:  # with it, two values at one place differ
            unique, inverse = np.unique(points, axis=0, return_inverse=True)
            if len(unique) < len(points):
                places, of = unique, inverse.reshape(-1)
        posterior = self.condition(data)
        factor = factorise(self.covariance(posterior, places))
        return GaussianSampler(self.mean_weight * posterior.mean(places), factor, of, posterior.factor.jitter)

    def law(self, data: Dataset, points: Array) -> PathLaw:
        """The law that `sampler` draws from, as one block."""
        posterior = self.condition(data)
        mean, covariance = self.mean_weight * posterior.mean(points), self.covariance(posterior, points)
        return PathLaw(mean[None], covariance[None], self.total + self.white_noise**2)

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """The pair and its sufficient statistics, from one Cholesky factor of the core."""
        core, record = data.without(row), data.record(row)
        ends = np.stack([record.covariates, replacement.covariates])
        responses = np.array([record.response, replacement.response])
        ridges = self.ridges(data)
        others, own = (np.delete(ridges, row), ridges[row]) if isinstance(ridges, np.ndarray) else (ridges, ridges)
        given_core = condition(core, kernel=self.kernel, ridge=others)
        noise = own**2 + given_core.factor.jitter
        covariance = given_core.covariance(ends, ends)
        spread = np.diag(covariance) + noise
        residual = responses - given_core.mean(ends)
        jitter, drop = given_core.factor.jitter, self.scale**2 / spread
        if self.points is not None:
            points = self.points
            reach = given_core.covariance(points, ends)
            factor = factorise(self.covariance(given_core, points))
            weights, jitter = factor.solve(reach), max(jitter, factor.jitter)
            gram = reach.T @ weights
            kept = kept_by_difference(drop * np.diag(gram))
        elif self.prior_noise == 0.0:
            points, weights = ends, np.eye(2) / self.scale**2
            gram = covariance / self.scale**2
            kept = noise / spread
        else:
            points = np.concatenate([core.covariates, ends])
            smoother = condition(core, kernel=self.kernel, ridge=others / np.sqrt(self.share))
            pull = smoother.factor.solve(self.kernel(core.covariates, ends))
            weights = np.concatenate([-pull, np.eye(2)]) / self.total
            smooth = smoother.covariance(ends, ends)
            gram = noised_gram(covariance, smooth, self.share) / self.scale**2
            kept = (noise + self.share * np.diag(smooth)) / spread
        numbers = (*(residual / spread), *drop, gram[0, 0], gram[1, 1], gram[0, 1], *kept)
        law = PairLaw(*(np.asarray(value) for value in numbers), jitter=jitter)
        centre = given_core.mean(points) @ weights
        if not self.mean_weight:
            law, centre = law.centred(), np.zeros(2)
        return Contrast(points, weights, centre, law, data.replaced(row, replacement))


@runtime_checkable
class MadeOfPosterior(Protocol):
    """A mechanism whose paths are made of a posterior as `Paths` says: then all pairs have a law in closed form."""

    @property
    def path_recipe(self) -> Paths:
        """How its paths are made of a posterior."""
        ...


def noised_gram(plain: Array, smooth: Array, share: float) -> Array:
    """``k_C - q k_C*``, refused where the difference has lost its digits."""
    difference = plain - share * smooth
    own = np.diag(difference) if difference.ndim == 2 and difference.shape == (2, 2) else difference
    if np.any(own < _FEWEST_DIGITS):
        raise NumericalError(
            f"the exact leakage of a noised release has lost its digits (a difference of {float(own.min()):.2g}): "
            "use a larger ridge, or less prior noise against the scale"
        )
    return np.asarray(difference)


def kept_by_difference(used: Array) -> Array:
    """``1 - used`` for paths at listed points, refused where nothing is left of it."""
    kept = 1.0 - used
    if np.any(kept < _FEWEST_DIGITS):
        raise NumericalError("the exact leakage at the listed points has lost its digits: use a larger ridge")
    return np.asarray(kept)
