"""The law of a dataset pair, reduced to the two coordinates in which its members differ.

Given the core, a released path separates ``D = core + z`` from ``D' = core + z'`` only through two numbers
``(s, s')`` (THEORY section 6). Write the path in coordinates whitened by ``B``, its covariance given the
core alone, and let ``w, w'`` be the whitened ``k_C(x, .), k_C(x', .)``. Then

    path under D   ~  N(tilt w,   I - drop w w^T)        tilt = m / (v + r^2),   drop = sigma^2 / (v + r^2)
    path under D'  ~  N(tilt' w', I - drop' w' w'^T)     s = <w, path>,          s' = <w', path>

for every mechanism in this package; only the Gram matrix of ``w, w'`` depends on which it is.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from .arrays import Array
from .errors import NumericalError


@dataclass(frozen=True, eq=False)
class PairLaw:
    """One dataset pair, or many at once: every field is an array, all broadcast together.

    Attributes:
        tilt: ``m / (v + r^2)``; m is the core's residual at the record, v its posterior variance.
        tilt_prime: The same for the replacement.
        drop: ``sigma^2 / (v + r^2)``.
        drop_prime: The same for the replacement.
        gram: ``<w, w>``.
        gram_prime: ``<w', w'>``.
        gram_cross: ``<w, w'>``.
        kept: ``1 - drop * gram``, the share of the variance along w that the record leaves. Stated by itself because
            the difference loses all its digits when the ridge is small.
        kept_prime: ``1 - drop_prime * gram_prime``.
        jitter: Largest variance that had to be added to factorise a covariance; usually 0.
    """

    tilt: Array
    tilt_prime: Array
    drop: Array
    drop_prime: Array
    gram: Array
    gram_prime: Array
    gram_cross: Array
    kept: Array
    kept_prime: Array
    jitter: float = field(default=0.0, kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Common shape of the pairs."""
        return np.broadcast_shapes(*(np.shape(value) for value in self._fields()))

    def _fields(self) -> tuple[Array, ...]:
        return (
            self.tilt,
            self.tilt_prime,
            self.drop,
            self.drop_prime,
            self.gram,
            self.gram_prime,
            self.gram_cross,
            self.kept,
            self.kept_prime,
        )

    def swapped(self) -> Self:
        """The pair in the other direction, ``(D', D)``."""
        return type(self)(
            self.tilt_prime,
            self.tilt,
            self.drop_prime,
            self.drop,
            self.gram_prime,
            self.gram,
            self.gram_cross,
            self.kept_prime,
            self.kept,
            jitter=self.jitter,
        )

    def centred(self) -> Self:
        """The same pair when the release carries no posterior mean."""
        zero = np.zeros(())
        return replace(self, tilt=zero, tilt_prime=zero)

    def flat(self) -> Self:
        """The same pairs as arrays of one dimension."""
        return type(self)(*(np.broadcast_to(value, self.shape).ravel() for value in self._fields()), jitter=self.jitter)

    def __getitem__(self, index: Any) -> Self:
        """Some of the pairs, by any numpy index."""
        return type(self)(*(np.broadcast_to(value, self.shape)[index] for value in self._fields()), jitter=self.jitter)

    def log_likelihood_ratio(self, s: Array, s_prime: Array) -> Array:
        """``log dP_D / dP_D'`` of one path from its two statistics; higher speaks for D (THEORY section 6)."""
        return _log_density(s, self.tilt, self.drop, self.gram, self.kept) - _log_density(
            s_prime, self.tilt_prime, self.drop_prime, self.gram_prime, self.kept_prime
        )


def _log_density(s: Array, tilt: Array, drop: Array, gram: Array, kept: Array) -> Array:
    """Log density of the path under one dataset against the core alone, by the rank-one update."""
    residual = s - tilt * gram
    density = tilt * s - 0.5 * tilt**2 * gram - 0.5 * (drop / kept) * residual**2 - 0.5 * np.log(kept)
    return np.asarray(density)


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """The log-likelihood ratio of pairs as a quadratic form in two independent standard normals.

    Under D, ``LLR = sum_j k_j x_j^2 / 2 + (1 + k_j) d_j x_j + (1 + k_j) d_j^2 / 2 - log(1 + k_j) / 2``.

    Attributes:
        curvature: ``k``, ``(pairs, 2)``, each above -1.
        shift: ``d``, ``(pairs, 2)``: distance of the means in units of the noise under D.
    """

    curvature: Array
    shift: Array

    def __getitem__(self, index: Any) -> "QuadraticForm":
        """Some of the pairs, by any numpy index."""
        return QuadraticForm(self.curvature[index], self.shift[index])


def quadratic_form(law: PairLaw) -> QuadraticForm:
    """Diagonalise flat pairs ``(n,)``.

    Curvatures are formed as differences from the identity, never as ``lambda - 1``, so nearly identical
    datasets keep their digits. Where ``w`` and ``w'`` coincide the second coordinate is exactly empty.

    Raises:
        NumericalError: A number of a pair is NaN or infinite, or a variance is not positive: nothing follows from it.
    """
    law = law.flat()
    broken = ~np.all([np.isfinite(value) for value in law._fields()], axis=0)
    broken |= (law.kept <= 0) | (law.kept_prime <= 0) | (law.gram < 0) | (law.gram_prime < 0)
    if broken.any():
        raise NumericalError(
            f"the law of pair {int(broken.argmax())} ({int(broken.sum())} of {len(broken)}) is not defined in float64: "
            "use a larger ridge"
        )
    length, length_prime = np.sqrt(law.gram), np.sqrt(law.gram_prime)
    product = length * length_prime
    cosine = np.ones_like(product)
    np.divide(law.gram_cross, product, out=cosine, where=product > 0)
    cosine = np.clip(cosine, -1.0, 1.0)
    across = length_prime * np.sqrt((1.0 - cosine) * (1.0 + cosine))
    along = length_prime * cosine
    # In the basis (w / |w|, orthogonal): covariance under D is diag(kept, 1), precision under D' is
    # I + gain w' w'^T.
    kept = law.kept
    gain = law.drop_prime / law.kept_prime
    excess = np.empty((*law.shape, 2, 2))
    excess[..., 0, 0] = -law.drop * law.gram + gain * kept * along**2
    excess[..., 0, 1] = excess[..., 1, 0] = gain * np.sqrt(kept) * along * across
    excess[..., 1, 1] = gain * across**2
    curvature, basis = np.linalg.eigh(excess)
    # What rounding leaves of a curvature that cancels is noise of either sign; a spurious positive one would
    # make a bounded or a Gaussian ratio look heavy-tailed.
    scale = (law.drop * law.gram + gain * law.gram_prime)[:, None]
    curvature = np.where(np.abs(curvature) <= 8.0 * np.finfo(float).eps * scale, 0.0, curvature)
    difference = np.stack(
        [(law.tilt * length - law.tilt_prime * along) / np.sqrt(kept), -law.tilt_prime * across], axis=-1
    )
    return QuadraticForm(curvature, np.einsum("...ij,...i->...j", basis, difference))
