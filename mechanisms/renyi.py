"""Renyi differential privacy of one released path (paper, Theorem 3.1; THEORY section 3).

Every parameter may be an array; all broadcast together.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .errors import InputError
from .regimes import Sensitivity, peak_root
from .release import Release


@dataclass(frozen=True)
class RenyiCurve:
    """An upper bound ``R(alpha)`` on the Renyi divergence of one path, in both directions.

    Attributes:
        excess_limit: The bound is finite for ``0 < alpha - 1 < excess_limit``; may be infinite. An array for a grid.
        divergence: Maps ``alpha - 1``, inside the limit, to R. Vectorised; the last axes are those of the grid.
    """

    excess_limit: Array | float
    divergence: Callable[[Array], Array]


def covariance_term(excess: Array, tau: Array) -> Array:
    """``cov(alpha, tau)`` with ``alpha = 1 + excess``, for ``excess * tau < 1``.

    ``1 - alpha (alpha-1) tau^2 / (1 + tau)`` is factored as ``(1 - b) (1 + b / (1 + tau))``, ``b = excess tau``,
    so that nothing cancels at either end.
    """
    b = excess * tau
    return np.asarray(-(np.log1p(-b) + np.log1p(b / (1.0 + tau))) / (2.0 * excess))


def posterior_curve(sensitivity: Sensitivity, *, ridge: Array, scale: Array, prior_noise: Array) -> RenyiCurve:
    """Curve of a posterior path with prior noise eta; ``eta = 0`` is exact posterior sampling."""
    variance, noise = sensitivity.variance, np.square(ridge)
    square, extra = np.square(scale), np.square(prior_noise)
    amount = square * noise + extra * (variance + noise)
    tau = square * variance / amount
    total = square + extra

    def divergence(excess: Array) -> Array:
        alpha, b = 1.0 + excess, excess * tau
        mean = 0.5 * alpha * (variance + noise) / (amount * (1.0 - b)) * sensitivity.shift**2
        if sensitivity.uniform_mean is not None:
            peak = peak_root(variance, ridge) ** 2
            room = np.minimum(total * noise, total * noise + (total - alpha * square) * variance)
            spread = alpha * square * np.minimum(variance * peak, 0.25) / room
            sharper = 8.0 * alpha * sensitivity.uniform_mean**2 / total * (peak + spread)
            mean = np.minimum(mean, np.where(room > 0, sharper, np.inf))
        return np.asarray(covariance_term(excess, tau) + mean)

    return RenyiCurve(1.0 / tau, divergence)


def centred_curve(sensitivity: Sensitivity, *, ridge: Array) -> RenyiCurve:
    """Curve of the centred, covariance-only release: the covariance term alone."""
    tau = sensitivity.variance / np.square(ridge)
    return RenyiCurve(1.0 / tau, lambda excess: covariance_term(excess, tau))


def nothing_certified(sensitivity: Sensitivity) -> RenyiCurve:
    """Infinite for every order: of a release about which nothing is proved."""
    shape = np.shape(sensitivity.variance)
    return RenyiCurve(
        np.full(shape, np.inf), lambda excess: np.full(np.broadcast_shapes(np.shape(excess), shape), np.inf)
    )


def composed(parts: list[tuple[RenyiCurve, int]]) -> RenyiCurve:
    """Several releases of one dataset, each chosen after seeing the others: the curves add up (THEORY section 4).

    Args:
        parts: A curve and how many paths follow it, for each release.
    """
    if not parts:
        raise InputError("nothing is released: give at least one curve")
    limit = np.min([np.min(curve.excess_limit) for curve, _ in parts])
    return RenyiCurve(
        float(limit),
        lambda excess: np.asarray(np.sum([paths * curve.divergence(excess) for curve, paths in parts], axis=0)),
    )


def gaussian_divergence(
    alpha: float, mean: Array, covariance: Array, mean_prime: Array, covariance_prime: Array
) -> float:
    """Renyi divergence of order alpha of ``N(mean, covariance)`` from ``N(mean', covariance')``; alpha = 1 is KL.

    Infinite where ``alpha S' + (1 - alpha) S`` is not positive definite.

    Raises:
        InputError: alpha is not positive.
    """
    if not alpha > 0:
        raise InputError(f"a Renyi order must be positive, got {alpha!r}")
    shift = np.atleast_1d(np.asarray(mean, dtype=np.float64) - mean_prime)
    first = np.atleast_2d(np.asarray(covariance, dtype=np.float64))
    second = np.atleast_2d(np.asarray(covariance_prime, dtype=np.float64))
    logdet, logdet_prime = np.linalg.slogdet(first)[1], np.linalg.slogdet(second)[1]
    if alpha == 1:
        inner = np.trace(np.linalg.solve(second, first)) - len(shift) + logdet_prime - logdet
        return float(0.5 * (inner + shift @ np.linalg.solve(second, shift)))
    mixed = alpha * second + (1.0 - alpha) * first
    if np.linalg.eigvalsh(mixed).min() <= 0:
        return float("inf")
    logdet_mixed = np.linalg.slogdet(mixed)[1]
    spread = (logdet_mixed - (1.0 - alpha) * logdet - alpha * logdet_prime) / (2.0 * (1.0 - alpha))
    return float(0.5 * alpha * shift @ np.linalg.solve(mixed, shift) + spread)


def covariance_leakage_variances(release: Release) -> tuple[float, float]:
    """Posterior variances ``v_D(b), v_D'(b)`` of a pair of datasets that differ in covariance (THEORY section 7).

    Core: n - 1 copies of a with response 0; ``z = (a, 0)``, ``z' = (b, 0)``, ``k(a, b) = kappa``. The ratio is Lambda.
    """
    n, noise, kappa = release.records, release.ridge**2, release.kappa
    q = (1.0 - kappa) * (1.0 + kappa)
    before = (noise + n * q) / (n + noise)
    left = (noise + (n - 1) * q) / (n - 1 + noise)  # variance at b given the core
    return before, left * noise / (left + noise)
