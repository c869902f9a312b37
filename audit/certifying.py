"""What `gpleak certify` and `gpleak curve` compute: no private record is needed."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..mechanisms import Array, InputError, Mechanism, PerRowNoise, PostProcessesPaths, Regime, Release, Tuning
from ..mechanisms.foreign import stated_by
from .accountant import (
    Certificate,
    certificates,
    certified_delta,
    certify_closed,
    covariance_lower_bound,
    epsilon_grid,
    most_paths,
    smallest,
    smallest_value,
)
from .gdp import GdpReport, gdp_report

Parameter = Literal["ridge", "scale", "prior_noise"]

_CANDIDATES: dict[str, Array] = {
    "ridge": np.geomspace(1e-3, 1e6, 271),
    "scale": np.geomspace(1e-6, 1e6, 361),
    "prior_noise": np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 361)]),
}


@dataclass(frozen=True)
class Certification:
    """Everything that is known about a mechanism without looking at data.

    Attributes:
        mechanism: The mechanism with its public parameters.
        regime: Premises.
        delta: Of every epsilon here.
        certificates: All that apply.
        best: The smallest.
        covariance_lower_bound: An epsilon that the mechanism has at least, whatever the responses.
        gdp: mu with its regret, for the best certificate that needs no search.
        budget: Epsilon for `most_paths`: the claim where there is one, else that certificate.
        most_paths: L_max at the budget by certificates that need no search: paths can be added one by one.
    """

    mechanism: Mechanism
    regime: Regime
    delta: float
    certificates: list[Certificate]
    best: Certificate
    covariance_lower_bound: float
    gdp: GdpReport
    budget: float
    most_paths: int


@dataclass(frozen=True)
class Solved:
    """A parameter solved for a budget; value and epsilon are None where no value meets it.

    Attributes:
        parameter: Which.
        budget: Epsilon.
        value: Smallest value that was certified to meet it.
        epsilon: What that value certifies.
        method: "closed", or "structured" where a numerical supremum allowed a smaller value.
    """

    parameter: Parameter
    budget: float
    value: float | None
    epsilon: float | None
    method: str


def certification(mechanism: Mechanism, regime: Regime, delta: float, *, budget: float | None = None) -> Certification:
    """All certificates of a mechanism, what they mean in other terms, and how many paths a budget allows.

    Of a deployed model they are those of the mechanism that it is stated to be.

    Raises:
        InputError: Nothing is certified of a black box, or of noise levels by row.
    """
    mechanism = _certified(mechanism)
    found = certificates(mechanism, regime, delta)
    best = smallest(found)
    closed = smallest([certificate for certificate in found if certificate.search is None])
    budget = closed.epsilon if budget is None else budget
    return Certification(
        mechanism,
        regime,
        delta,
        found,
        best,
        covariance_lower_bound(mechanism, delta),
        gdp_report(closed.epsilon, delta, lambda epsilon: certified_delta(mechanism, regime, epsilon)),
        budget,
        most_paths(
            lambda paths: certify_closed(with_parameter(mechanism, "paths", paths), regime, delta).epsilon, budget
        ),
    )


def _certified(mechanism: Mechanism) -> Mechanism:
    """The mechanism that certificates are about; `InputError` where nothing is certified."""
    stated = stated_by(mechanism)
    if stated is None or type(stated) is PerRowNoise:
        raise InputError(f"nothing is certified of {mechanism.name}: an audit can test a claim, audit.claimed_epsilon")
    return stated


def with_parameter(mechanism: Mechanism, parameter: str, value: float) -> Mechanism:
    """The mechanism with one public parameter changed."""
    change: dict[str, Any] = {parameter: value}
    release: Release = replace(mechanism.release, **change)
    changed: Mechanism = type(mechanism)(release)  # type: ignore[call-arg]
    return changed


def solve(mechanism: Mechanism, regime: Regime, delta: float, *, parameter: Parameter, budget: float) -> Solved:
    """Smallest value of a parameter with which any certificate meets a budget, the others fixed.

    A minute where a structured certificate is searched for: `solve_closed` does without.

    Raises:
        InputError: The mechanism does not use the parameter, so that no value of it changes anything.
    """
    mechanism = _certified(mechanism)
    closed = solve_closed(mechanism, regime, delta, parameter=parameter, budget=budget)
    if isinstance(mechanism, PostProcessesPaths) and parameter in ("ridge", "scale"):
        searched = _solve_structured(mechanism, regime, delta, parameter, budget, start=closed.value)
        if searched is not None:
            return Solved(parameter, budget, *searched, "structured")
    return closed


def solve_closed(mechanism: Mechanism, regime: Regime, delta: float, *, parameter: Parameter, budget: float) -> Solved:
    """Smallest value with which a certificate that needs no search meets a budget, the others fixed.

    Raises:
        InputError: The mechanism does not use the parameter, so that no value of it changes anything.
    """
    used = {
        "centred": ("ridge",),
        "posterior": ("ridge", "scale"),
        "predictive": ("ridge", "scale"),
        "thompson": ("ridge",) if mechanism.release.schedule is not None else ("ridge", "scale"),
        "gaussian": ("scale",),
    }.get(mechanism.name, tuple(_CANDIDATES))
    if parameter not in used:
        raise InputError(f"mechanism {mechanism.name} does not use {parameter}: solve for {' or '.join(used)}")

    def certified(value: float) -> float:
        try:
            return certify_closed(with_parameter(mechanism, parameter, value), regime, delta).epsilon
        except InputError:  # a premise of the regime, or of the release, fails at this value
            return float("inf")

    value = smallest_value(certified, budget, _CANDIDATES[parameter])
    return Solved(parameter, budget, value, None if value is None else certified(value), "closed")


def _solve_structured(
    mechanism: Mechanism, regime: Regime, delta: float, parameter: Parameter, budget: float, *, start: float | None
) -> tuple[float, float] | None:
    """A smaller value that the structured certificate allows, to a part in a thousand, and its epsilon.

    Downwards from what the closed certificates allow, by halves and then by bisection: every step is a search of
    seconds, and what is returned was itself certified.
    """

    def certified(value: float) -> float:
        try:
            changed = with_parameter(mechanism, parameter, value)
            found = certificates(changed, regime, delta)
        except InputError:  # a premise of the regime, or of the release, fails at this value
            return float("inf")
        return found[-1].epsilon

    good, best = start, None
    if good is None:  # nothing closed is feasible: the largest candidate is all that may be
        good = float(_CANDIDATES[parameter][-1])
        epsilon = certified(good)
        if epsilon > budget:
            return None
        best = (good, epsilon)
    bad = good
    while bad > _CANDIDATES[parameter][0]:
        bad = good / 2.0
        epsilon = certified(bad)
        if epsilon > budget:
            break
        good, best = bad, (bad, epsilon)
    while good - bad > 1e-3 * good:
        middle = float(np.sqrt(good * bad))
        epsilon = certified(middle)
        if epsilon <= budget:
            good, best = middle, (middle, epsilon)
        else:
            bad = middle
    return best


def curves(mechanism: Mechanism, regime: Regime, delta: float) -> dict[str, tuple[Array, Array]]:
    """Renyi-certified epsilon against ridge, scale and paths, the others fixed: ``{name: (values, epsilon)}``."""
    mechanism = _certified(mechanism)
    at, one = mechanism.release.tuning, mechanism.release.paths
    ridges, scales = at.ridge * np.geomspace(0.1, 10.0, 81), at.scale * np.geomspace(0.1, 10.0, 81)
    paths = np.unique(np.geomspace(1, 1000, 61).round().astype(int))
    by_ridge, _ = epsilon_grid(mechanism, regime, delta, tuning=Tuning(ridges, at.scale, at.prior_noise), paths=one)
    by_scale, _ = epsilon_grid(mechanism, regime, delta, tuning=Tuning(at.ridge, scales, at.prior_noise), paths=one)
    by_paths, _ = epsilon_grid(mechanism, regime, delta, tuning=at, paths=paths)
    found = {"ridge": (ridges, by_ridge), "scale": (scales, by_scale), "paths": (paths.astype(float), by_paths)}
    return {name: (x, np.broadcast_to(y, x.shape)) for name, (x, y) in found.items()}
