"""Estimates of epsilon that promise nothing: shown beside the bounds, never the ground of a verdict.

Each exceeds the true epsilon more often than its significance says: a joint-beta quantile is a Bayesian credible
limit, Jeffreys limits are approximate, and a Gaussian fit extrapolates along a curve that the mechanism need not have.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betainccinv, betaincinv, expit, logit, ndtri

from ...attacks import Scores
from ...mechanisms import DeclaresGaussianDP, InputError, Mechanism
from ..binomial import proportion_lower, proportion_upper
from ..gdp import epsilon_of_mu
from .bound import EpsilonBound, Kind, check_design, direction_of
from .thresholds import Split, Tally, Threshold, epsilon_from_rates

_SPLIT = Split()
_NODES, _WEIGHTS = leggauss(120)
_ENDS = 37.0  # log-odds; what lies beyond has a probability below 1e-16


def jeffreys_estimate(
    scores: Scores, *, delta: float, significance: float, threshold: Threshold = _SPLIT
) -> EpsilonBound:
    """Epsilon from the Jeffreys limits of both rates, quantiles of ``Beta(k + 1/2, n - k + 1/2)``."""

    def value(tally: Tally) -> tuple[float, float]:
        tail = tally.significance / 2
        low = 0.0 if tally.true == 0 else betaincinv(tally.true + 0.5, tally.members - tally.true + 0.5, tail)
        everyone = tally.false == tally.nonmembers
        high = 1.0 if everyone else betainccinv(tally.false + 0.5, tally.nonmembers - tally.false + 0.5, tail)
        forward, backward = epsilon_from_rates(np.asarray(low), np.asarray(high), delta)
        return float(forward), float(backward)

    return _estimate("jeffreys", value, scores, delta, significance, threshold)


def joint_beta_estimate(
    scores: Scores, *, delta: float, significance: float, threshold: Threshold = _SPLIT
) -> EpsilonBound:
    """Posterior quantile of epsilon when both rates have independent Jeffreys priors: credible, not confidence.

    The posterior probability of ``eps(FNR, FPR) <= e`` is one integral over the quantiles of FNR, solved for e
    without a cap.
    """

    def value(tally: Tally) -> tuple[float, float]:
        return _joint_beta(tally, delta), 0.0

    return _estimate("joint_beta", value, scores, delta, significance, threshold, direction="both")


def gaussian_dp_estimate(
    scores: Scores,
    *,
    delta: float,
    significance: float,
    declared: Mechanism | DeclaresGaussianDP,
    threshold: Threshold = _SPLIT,
) -> EpsilonBound:
    """Epsilon of the mu-GDP curve through the limits of both rates.

    mu is floored at 0, not taken by its size: scores without signal show nothing.

    Args:
        scores: HIGHER FOR MEMBERS.
        delta: The delta of the estimate.
        significance: What the limits are taken at.
        declared: The mechanism, which must declare itself mu-GDP.
        threshold: How the threshold is fixed.

    Raises:
        InputError: The mechanism does not declare itself mu-GDP: along a curve it does not have a fit proves nothing.
    """
    if not isinstance(declared, DeclaresGaussianDP):
        name = getattr(declared, "name", type(declared).__name__)
        raise InputError(f"mechanism {name} does not declare itself Gaussian-DP: a Gaussian fit says nothing about it")

    def value(tally: Tally) -> tuple[float, float]:
        tail = tally.significance / 2
        tpr = float(proportion_lower(np.array(tally.true), tally.members, tail))
        fpr = float(proportion_upper(np.array(tally.false), tally.nonmembers, tail))
        if tpr <= fpr:
            return 0.0, 0.0
        mu = float(ndtri(tpr) - ndtri(fpr))
        return (epsilon_of_mu(mu, delta) if delta > 0 else float("inf") if mu > 0 else 0.0), 0.0

    return _estimate("gaussian_dp", value, scores, delta, significance, threshold, direction="both")


def _estimate(
    method: str,
    value: Callable[[Tally], tuple[float, float]],
    scores: Scores,
    delta: float,
    significance: float,
    threshold: Threshold,
    direction: str | None = None,
) -> EpsilonBound:
    check_design(delta, significance)
    tallies = threshold.tallies(scores, delta=delta, significance=significance)
    found = [value(tally) for tally in tallies]
    forward, backward = max(found, key=max)
    which = direction_of(forward, backward)
    which = direction if direction and which != "none" else which
    evaluated = min(tallies[0].members, tallies[0].nonmembers)
    name = f"{method}_{threshold.name}"
    return EpsilonBound(max(forward, backward), delta, significance, name, which, Kind.ESTIMATE, evaluated)


def _joint_beta(tally: Tally, delta: float) -> float:
    missed, false = tally.members - tally.true, tally.false
    beta_fnr = (missed + 0.5, tally.true + 0.5)
    beta_fpr = (false + 0.5, tally.nonmembers - false + 0.5)

    def at_most(epsilon: float) -> float:
        """Posterior probability of ``eps(FNR, FPR) <= epsilon``: FPR must be at least the curve at FNR.

        Over quantiles u of FNR in log-odds, which are dense at both ends, piecewise between the curve's corner and
        the point where FNR alone allows any FPR.
        """
        corner = betainc(*beta_fnr, (1.0 - delta) / (1.0 + np.exp(epsilon)))
        cuts = np.clip(logit([corner, betainc(*beta_fnr, 1.0 - delta)]), -_ENDS, _ENDS)
        total = 0.0
        for low, high in zip((-_ENDS, *cuts), (*cuts, _ENDS), strict=True):
            at = low + (high - low) * (0.5 + 0.5 * _NODES)
            u, rest = expit(at), expit(-at)
            fnr = np.where(at <= 0, betaincinv(*beta_fnr, u), betainccinv(*beta_fnr, rest))
            least = np.maximum(1.0 - delta - np.exp(epsilon) * fnr, (1.0 - delta - fnr) * np.exp(-epsilon))
            weight = 0.5 * (high - low) * _WEIGHTS * u * rest
            total += float(weight @ betaincc(*beta_fpr, np.clip(least, 0.0, 1.0)))
        return total

    if at_most(0.0) >= tally.significance:
        return 0.0
    high = 1.0
    while at_most(high) < tally.significance:
        high *= 2.0
    return float(brentq(lambda epsilon: at_most(epsilon) - tally.significance, 0.0, high, xtol=1e-9))
