"""Worst-case sensitivities V and Delta, never computed from the private records (THEORY section 3)."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .errors import InputError
from .release import Release


@dataclass(frozen=True)
class Sensitivity:
    """Bounds over all neighbouring datasets.

    Attributes:
        regime: Name of the regime that gave them.
        variance: V, on the core's posterior variance at any admissible point.
        shift: Delta, on ``||mu_D - mu_D'||`` in the RKHS of the core's posterior kernel.
        uniform_mean: M where ``|mu_D| <= M`` everywhere, which sharpens the mean term; None elsewhere.
    """

    regime: str
    variance: float
    shift: float
    uniform_mean: float | None


class Regime(Protocol):
    """Premises about the data under which `Sensitivity` holds."""

    @property
    def name(self) -> str:
        """Name in the configuration and the report."""
        ...

    def sensitivity(self, release: Release) -> Sensitivity:
        """The worst case; raises `InputError` when a premise does not hold."""
        ...


def core_variance(release: Release) -> float:
    """V, for any kernel with ``k >= kappa``: ``1 - max(kappa, 0)^2 (n-1) / (n-1+r^2)``.

    A negative kappa must be floored: the unfloored formula is unsound (THEORY section 1).
    """
    kappa = max(release.kappa, 0.0)
    others, noise = release.records - 1, release.ridge**2
    return ((1.0 - kappa) * (1.0 + kappa) * others + noise) / (others + noise)


def peak_root(variance: float, ridge: float) -> float:
    """``max of sqrt(u) / (r^2 + u) over 0 <= u <= V``; its square is Phi of THEORY section 3."""
    u = min(variance, ridge**2)
    return float(np.sqrt(u) / (ridge**2 + u))


@dataclass(frozen=True)
class Bounded:
    """Responses bounded by M, any kernel."""

    name: str = "bounded"

    def sensitivity(self, release: Release) -> Sensitivity:
        """``Delta <= (M sqrt(n-1) / r) V / (r^2 + V) + 2 M max sqrt(u) / (r^2 + u)``."""
        variance, ridge = core_variance(release), release.ridge
        bound = release.response_bound
        drift = bound * np.sqrt(release.records - 1) / ridge * variance / (ridge**2 + variance)
        return Sensitivity(
            self.name, variance, float(drift + 2.0 * bound * peak_root(variance, ridge)), uniform_mean=None
        )


@dataclass(frozen=True)
class Exponential1D:
    """Responses bounded by M, exponential kernel in one dimension: the posterior mean stays within +-M."""

    name: str = "exponential_1d"

    def sensitivity(self, release: Release) -> Sensitivity:
        """``Delta <= 4 M sqrt(Phi)``.

        Raises:
            InputError: Another kernel, or more than one covariate.
        """
        if release.kernel.name != "exponential" or release.domain.dimension != 1:
            raise InputError(
                f"regime exponential_1d needs the exponential kernel and one covariate, got kernel "
                f"{release.kernel.name} and {release.domain.dimension} covariate(s): use regime bounded"
            )
        variance, bound = core_variance(release), release.response_bound
        shift = 4.0 * bound * peak_root(variance, release.ridge)
        return Sensitivity(self.name, variance, shift, uniform_mean=bound)
