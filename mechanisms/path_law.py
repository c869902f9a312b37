"""The stated law of what is released at fixed points, and the whitening by which draws are held against it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array


@dataclass(frozen=True, eq=False)
class PathLaw:
    """One released path at t points is normal; independent blocks lie side by side (one a round, for a transcript).

    Attributes:
        mean: ``(blocks, t)``.
        covariance: ``(blocks, t, t)``.
        prior_variance: Of a value before any record: the size that rounding errors of the covariance go with.
    """

    mean: Array
    covariance: Array
    prior_variance: float

    def widened(self, jitter: float) -> "PathLaw":
        """The law with a variance added to every value."""
        return PathLaw(self.mean, self.covariance + jitter * np.eye(self.mean.shape[1]), self.prior_variance)

    def whitening(self, *, floor: float) -> "Whitening":
        """Directions with a variance above `floor`; below it float64 cannot tell a variance from rounding."""
        values, vectors = np.linalg.eigh(self.covariance)
        kept = values > floor
        scales = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
        spread = np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 0.0))
        return Whitening(self.mean, vectors * scales[:, None, :], kept, spread, spread**2 > floor)


@dataclass(frozen=True, eq=False)
class Whitening:
    """Turns released values into independent standard normal numbers, if they follow the law.

    Attributes:
        mean: ``(blocks, t)``.
        columns: Scaled eigenvectors, ``(blocks, t, t)``.
        kept: Which of them are used, ``(blocks, t)``.
        spread: Standard deviation of every value, ``(blocks, t)``.
        seen: Which values have one above the floor, ``(blocks, t)``.
    """

    mean: Array
    columns: Array
    kept: NDArray[np.bool_]
    spread: Array
    seen: NDArray[np.bool_]

    def white(self, released: Array) -> Array:
        """Independent numbers ``(..., kept directions)`` of values ``(..., blocks * t)``."""
        values = self._centred(released)
        blocks = enumerate(zip(self.columns, self.kept, strict=True))
        return np.concatenate([values[..., b, :] @ columns[:, kept] for b, (columns, kept) in blocks], axis=-1)

    def standardised(self, released: Array) -> Array:
        """Each value on its own, standard normal but not independent, ``(..., seen values)``."""
        values = self._centred(released) / np.where(self.seen, self.spread, 1.0)
        return np.asarray(values.reshape(*released.shape[:-1], -1)[..., self.seen.reshape(-1)])

    def _centred(self, released: Array) -> Array:
        return np.asarray(released.reshape(*released.shape[:-1], *self.mean.shape) - self.mean)
