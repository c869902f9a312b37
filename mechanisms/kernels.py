"""Stationary unit-variance kernels, evaluated by scikit-learn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, Matern

from .arrays import Array
from .errors import InputError

_MOST_AT_ONCE = 1 << 22  # kernel values


@dataclass(frozen=True)
class Kernel:
    """A kernel ``k(x, x') = phi(|x - x'| / length_scale)`` with ``phi(0) = 1``, not negative and decreasing.

    Made by `exponential`, `matern32`, `matern52`, `rbf` and `diagonal`. Not negative and decreasing is what makes
    `infimum` right; a kernel that is not must not be built from this class.
    """

    name: str
    length_scale: float
    evaluator: Any

    def __post_init__(self) -> None:
        if not (np.isfinite(self.length_scale) and self.length_scale > 0):
            raise InputError(f"length_scale must be positive, got {self.length_scale!r}")

    def __call__(self, points: Array, others: Array) -> Array:
        """Kernel matrix ``(n, m)`` between ``(n, d)`` and ``(m, d)``."""
        if len(points) == 0 or len(others) == 0:
            return np.zeros((len(points), len(others)))
        if len(points) * len(others) <= _MOST_AT_ONCE:
            return np.asarray(self.evaluator(points, others), dtype=np.float64)
        matrix = np.empty((len(points), len(others)))  # block by block: the evaluator needs several times its result
        rows = max(1, _MOST_AT_ONCE // len(others))
        for start in range(0, len(points), rows):
            matrix[start : start + rows] = self.evaluator(points[start : start + rows], others)
        return matrix

    def of_distance(self, distance: Array) -> Array:
        """Kernel values at distances of any shape."""
        values = self(np.reshape(distance, (-1, 1)), np.zeros((1, 1)))
        return values.reshape(np.shape(distance))

    def infimum(self, diameter: float) -> float:
        """Smallest value on a domain of this `diameter` (THEORY section 1, kappa)."""
        return float(self.of_distance(np.array(diameter)))


def exponential(length_scale: float) -> Kernel:
    """``exp(-t)``, ``t = |x - x'| / length_scale``: rough paths, in one dimension the Ornstein-Uhlenbeck process."""
    return Kernel("exponential", length_scale, Matern(length_scale, "fixed", nu=0.5))


def matern32(length_scale: float) -> Kernel:
    """``(1 + sqrt(3) t) exp(-sqrt(3) t)``: paths differentiable once."""
    return Kernel("matern32", length_scale, Matern(length_scale, "fixed", nu=1.5))


def matern52(length_scale: float) -> Kernel:
    """``(1 + sqrt(5) t + 5 t^2 / 3) exp(-sqrt(5) t)``: paths differentiable twice."""
    return Kernel("matern52", length_scale, Matern(length_scale, "fixed", nu=2.5))


def rbf(length_scale: float) -> Kernel:
    """``exp(-t^2 / 2)``: smooth paths."""
    return Kernel("rbf", length_scale, RBF(length_scale, "fixed"))


def diagonal(length_scale: float = 1.0) -> Kernel:
    """1 where ``x = x'``, else 0: values at different points are independent. The length scale has no effect."""
    return Kernel("diagonal", length_scale, _same_place)


def _same_place(points: Array, others: Array) -> Array:
    return np.asarray((cdist(points, others) == 0).astype(np.float64))
