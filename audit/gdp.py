"""Gaussian differential privacy as a way to report (THEORY section 10)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from ..mechanisms import InputError, check_delta

_GRID = 400


def trade_off(mu: float, fpr: float) -> float:
    """``G_mu(fpr) = Phi(Phi^-1(1 - fpr) - mu)``: the smallest false-negative rate at a false-positive rate."""
    _check_mu(mu)
    return float(ndtr(-ndtri(fpr) - mu))


def delta_of_mu(mu: float, epsilon: float) -> float:
    """``delta_mu(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)``, without overflow of e^eps."""
    _check_mu(mu)
    if mu == 0.0:
        return 0.0
    if np.isinf(mu):
        return 1.0
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    # Both are tails; their difference in logarithms keeps the digits as long as they differ at all.
    return float(-np.exp(first) * np.expm1(min(second - first, 0.0)))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Epsilon of a mu-GDP mechanism at `delta`; 0 where ``delta(0)`` is below it already."""
    check_delta(delta)
    if delta_of_mu(mu, 0.0) <= delta:
        return 0.0
    if np.isinf(mu):
        return float("inf")
    high = mu**2 / 2 + mu * float(np.sqrt(-2.0 * np.log(delta))) + 1.0
    return float(brentq(lambda epsilon: np.log(max(delta_of_mu(mu, epsilon), 1e-320) / delta), 0.0, high, rtol=1e-14))


def mu_of_epsilon(epsilon: float, delta: float) -> float:
    """The mu whose profile passes through ``(epsilon, delta)``: the third map from pure epsilon, and the inverse."""
    check_delta(delta)
    _check_epsilon(epsilon)
    if np.isinf(epsilon):
        return float("inf")
    high = 1.0
    while delta_of_mu(high, epsilon) < delta:
        high *= 2.0
    return float(brentq(lambda mu: delta_of_mu(mu, epsilon) - delta, 0.0, high, xtol=1e-14, rtol=1e-13))


def mu_from_advantage(epsilon: float, fpr: float) -> float:
    """mu with the ``TPR / FPR`` of a pure-epsilon mechanism's strongest adversary at a false-positive rate."""
    _check_epsilon(epsilon)
    missed = max((1.0 - fpr) * np.exp(-epsilon), 1.0 - np.exp(epsilon) * fpr)
    return float(-ndtri(missed) - ndtri(fpr))


def mu_from_precision(epsilon: float, recall: float) -> float:
    """mu with the precision of a pure-epsilon mechanism's strongest adversary at a recall, prior 1/2."""
    _check_epsilon(epsilon)
    fpr = max(recall * np.exp(-epsilon), 1.0 - (1.0 - recall) * np.exp(epsilon))
    return float(ndtri(recall) - ndtri(fpr))


def mu_of_pure_epsilon(epsilon: float) -> float:
    """Smallest mu for which every pure-epsilon mechanism is mu-GDP: the guarantee, not the rule of thumb eps / 5."""
    _check_epsilon(epsilon)
    return float(-2.0 * ndtri(1.0 / (1.0 + np.exp(epsilon))))


@dataclass(frozen=True)
class GdpReport:
    """A mechanism is mu-GDP up to a regret: ``delta(eps) <= delta_mu(eps) + regret`` for every epsilon looked at.

    Attributes:
        mu: Matched to the mechanism's epsilon at the reported delta.
        regret: What delta exceeds the Gaussian's by, at worst; 0 for a Gaussian pair. Never read mu without it.
    """

    mu: float
    regret: float


def gdp_report(epsilon: float, delta: float, profile: Callable[[float], float]) -> GdpReport:
    """mu with its regret for a privacy profile ``delta(epsilon)`` that passes through ``(epsilon, delta)``.

    The regret is the maximum over a grid from 0 to three times epsilon (and at least 3), where the excess, which
    starts at ``delta(0)`` and ends at 0, has its maximum.
    """
    if np.isinf(epsilon):
        return GdpReport(float("inf"), 0.0)
    mu = mu_of_epsilon(epsilon, delta)
    grid = np.linspace(0.0, max(3.0 * epsilon, 3.0), _GRID)
    excess = [profile(float(at)) - delta_of_mu(mu, float(at)) for at in grid]
    return GdpReport(mu, max(max(excess), 0.0))


def _check_mu(mu: float) -> None:
    if not mu >= 0:
        raise InputError(f"mu must be at least 0, got {mu!r}")


def _check_epsilon(epsilon: float) -> None:
    if not epsilon >= 0:
        raise InputError(f"epsilon must be at least 0, got {epsilon!r}")
