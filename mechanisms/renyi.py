"""Renyi differential privacy of one released path (paper, Theorem 3.1; THEORY section 3)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .regimes import Sensitivity, peak_root


@dataclass(frozen=True)
class RenyiCurve:
    """An upper bound ``R(alpha)`` on the Renyi divergence of one path, in both directions.

    Attributes:
        excess_limit: The bound is finite for ``0 < alpha - 1 < excess_limit``; may be infinite.
        divergence: Maps ``alpha - 1``, inside the limit, to R. Vectorised.
    """

    excess_limit: float
    divergence: Callable[[Array], Array]


def covariance_term(excess: Array, tau: float) -> Array:
    """``cov(alpha, tau)`` with ``alpha = 1 + excess``, for ``excess * tau < 1``.

    ``1 - alpha (alpha-1) tau^2 / (1 + tau)`` is factored as ``(1 - b) (1 + b / (1 + tau))``, ``b = excess tau``,
    so that nothing cancels at either end.
    """
    b = excess * tau
    return np.asarray(-(np.log1p(-b) + np.log1p(b / (1.0 + tau))) / (2.0 * excess))


def posterior_curve(sensitivity: Sensitivity, *, ridge: float, scale: float, prior_noise: float) -> RenyiCurve:
    """Curve of a posterior path with prior noise eta; ``eta = 0`` is exact posterior sampling."""
    variance, noise = sensitivity.variance, ridge**2
    amount = scale**2 * noise + prior_noise**2 * (variance + noise)
    tau = scale**2 * variance / amount
    total = scale**2 + prior_noise**2

    def divergence(excess: Array) -> Array:
        alpha, b = 1.0 + excess, excess * tau
        mean = 0.5 * alpha * (variance + noise) / (amount * (1.0 - b)) * sensitivity.shift**2
        if sensitivity.uniform_mean is not None:
            peak = peak_root(variance, ridge) ** 2
            room = np.minimum(total * noise, total * noise + (total - alpha * scale**2) * variance)
            spread = alpha * scale**2 * min(variance * peak, 0.25) / room
            sharper = 8.0 * alpha * sensitivity.uniform_mean**2 / total * (peak + spread)
            mean = np.minimum(mean, np.where(room > 0, sharper, np.inf))
        return np.asarray(covariance_term(excess, tau) + mean)

    return RenyiCurve(1.0 / tau, divergence)


def centred_curve(sensitivity: Sensitivity, *, ridge: float) -> RenyiCurve:
    """Curve of the centred, covariance-only release: the covariance term alone."""
    tau = sensitivity.variance / ridge**2
    return RenyiCurve(1.0 / tau, lambda excess: covariance_term(excess, tau))
