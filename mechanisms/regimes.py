"""Worst-case sensitivities V and Delta, never computed from the private records (THEORY section 3).

Every number may be an array: a grid of ridges gives a grid of sensitivities.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.spatial import cKDTree

from .arrays import Array
from .data import Dataset
from .errors import InputError
from .kernels import Kernel
from .pair_sets import AnyKernel, OneFunction, OrnsteinUhlenbeck, PairSet, stated_numbers
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
    variance: Array
    shift: Array
    uniform_mean: float | None


class Regime(Protocol):
    """Premises about the data under which `Sensitivity` holds."""

    @property
    def name(self) -> str:
        """Name in the configuration and the report."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Premises that the data cannot show; the publisher answers for them."""
        ...

    def sensitivity(self, release: Release, *, ridge: Array | None = None) -> Sensitivity:
        """The worst case, at the release's ridge or at `ridge`; `InputError` when a premise does not hold."""
        ...

    def check(self, release: Release, data: Dataset) -> None:
        """Verify on the data what can be verified; `InputError` names the offending records."""
        ...

    def pair_set(self, release: Release) -> PairSet:
        """Every pair of numbers that exact posterior sampling can show of such data, or a little more."""
        ...


def core_variance(release: Release, ridge: Array) -> Array:
    """V, for any kernel with ``k >= kappa``: ``1 - max(kappa, 0)^2 (n-1) / (n-1+r^2)``.

    A negative kappa must be floored: the unfloored formula is unsound (THEORY section 1).
    """
    kappa = max(release.kappa, 0.0)
    others, noise = release.records - 1, np.square(ridge)
    return np.asarray(((1.0 - kappa) * (1.0 + kappa) * others + noise) / (others + noise))


def peak_root(variance: Array, ridge: Array) -> Array:
    """``max of sqrt(u) / (r^2 + u) over 0 <= u <= V``; its square is Phi of THEORY section 3."""
    noise = np.square(ridge)
    u = np.minimum(variance, noise)
    return np.asarray(np.sqrt(u) / (noise + u))


def _ridge(release: Release, ridge: Array | None) -> Array:
    return np.asarray(release.ridge if ridge is None else ridge, dtype=np.float64)


_PUBLIC = "the domain, the number of records, the kernel and all parameters were chosen without looking at the data"


@dataclass(frozen=True)
class Bounded:
    """Responses bounded by M, any kernel."""

    name: str = "bounded"
    assumptions: tuple[str, ...] = (_PUBLIC,)

    def sensitivity(self, release: Release, *, ridge: Array | None = None) -> Sensitivity:
        """``Delta <= (M sqrt(n-1) / r) V / (r^2 + V) + 2 M max sqrt(u) / (r^2 + u)``."""
        r, bound = _ridge(release, ridge), release.response_bound
        variance = core_variance(release, r)
        drift = bound * np.sqrt(release.records - 1) / r * variance / (r**2 + variance)
        return Sensitivity(self.name, variance, np.asarray(drift + 2.0 * bound * peak_root(variance, r)), None)

    def pair_set(self, release: Release) -> PairSet:
        """Five numbers (THEORY section 3, "sharper 2", any kernel)."""
        return AnyKernel(stated_numbers(release, self.sensitivity(release).variance))

    def check(self, release: Release, data: Dataset) -> None:
        """The release's own rules are all that is needed."""
        release.check(data)


@dataclass(frozen=True)
class Exponential1D:
    """Responses bounded by M, exponential kernel in one dimension: the posterior mean stays within +-M."""

    name: str = "exponential_1d"
    assumptions: tuple[str, ...] = (_PUBLIC,)

    def sensitivity(self, release: Release, *, ridge: Array | None = None) -> Sensitivity:
        """``Delta <= 4 M sqrt(Phi)``.

        Raises:
            InputError: Another kernel, or more than one covariate.
        """
        if release.kernel.name != "exponential" or release.domain.dimension != 1:
            raise InputError(
                f"regime exponential_1d needs the exponential kernel and one covariate, got kernel "
                f"{release.kernel.name} and {release.domain.dimension} covariate(s): use regime bounded"
            )
        r, bound = _ridge(release, ridge), release.response_bound
        variance = core_variance(release, r)
        return Sensitivity(self.name, variance, 4.0 * bound * peak_root(variance, r), uniform_mean=bound)

    def pair_set(self, release: Release) -> PairSet:
        """Three numbers (THEORY section 3, "sharper 2")."""
        return OrnsteinUhlenbeck(stated_numbers(release, self.sensitivity(release).variance))

    def check(self, release: Release, data: Dataset) -> None:
        """The release's own rules are all that is needed."""
        release.check(data)


@dataclass(frozen=True)
class Rkhs:
    """One function of RKHS norm at most B gives every response, of the data and of every neighbour.

    Raises:
        InputError: The norm is not positive.
    """

    norm: float
    name: str = "rkhs"

    def __post_init__(self) -> None:
        if not 0.0 < self.norm < np.inf:
            raise InputError(f"rkhs_norm must be positive, got {self.norm!r}")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """One function, of every neighbour too: interpolating each dataset by some such function is not enough."""
        one = (
            f"one function of RKHS norm at most {self.norm:g} gives every response, of the data and of every neighbour"
        )
        return (_PUBLIC, one)

    def sensitivity(self, release: Release, *, ridge: Array | None = None) -> Sensitivity:
        """``Delta <= B V / (r^2 + V)``."""
        r = _ridge(release, ridge)
        variance = core_variance(release, r)
        return Sensitivity(self.name, variance, np.asarray(self.norm * variance / (r**2 + variance)), None)

    def pair_set(self, release: Release) -> PairSet:
        """Four numbers (THEORY section 3, "sharper 2", RKHS responses)."""
        return OneFunction(stated_numbers(release, self.sensitivity(release).variance), self.norm)

    def check(self, release: Release, data: Dataset) -> None:
        """A function of norm B is at most B in size (kernel variance 1); that is all the data can show."""
        release.check(data)
        above = np.flatnonzero(np.abs(data.responses) > self.norm)
        if len(above):
            raise InputError(
                f"record {int(above[0])} has a response above rkhs_norm = {self.norm:g} in size, which no function of "
                "that norm reaches: raise rkhs_norm"
            )


@dataclass(frozen=True)
class Diagonal:
    """Distinct records do not see each other: ``k(x, x') = 1`` if ``x = x'``, else 0."""

    name: str = "diagonal"
    assumptions: tuple[str, ...] = (
        _PUBLIC,
        "the released path is that of the diagonal kernel, whose values at different points are independent",
    )

    def sensitivity(self, release: Release, *, ridge: Array | None = None) -> Sensitivity:
        """``Delta <= sqrt(2) M / r``, V <= 1.

        Raises:
            InputError: The kernel is another.
        """
        if release.kernel.name != "diagonal":
            raise InputError(
                f"regime diagonal needs the diagonal kernel, got {release.kernel.name}: use regime bounded"
            )
        r = _ridge(release, ridge)
        return Sensitivity(self.name, np.ones_like(r), np.sqrt(2.0) * release.response_bound / r, None)

    def pair_set(self, release: Release) -> PairSet:
        """That of any kernel: responses are bounded here, too."""
        return AnyKernel(stated_numbers(release, self.sensitivity(release).variance))

    def check(self, release: Release, data: Dataset) -> None:
        """The release's own rules are all that is needed."""
        release.check(data)


@dataclass(frozen=True)
class Separated:
    """Any two records, of the data and of every neighbour, lie at least q apart; the release must enforce it.

    Raises:
        InputError: The separation is not positive.
    """

    separation: float
    name: str = "separated"

    def __post_init__(self) -> None:
        if not 0.0 < self.separation < np.inf:
            raise InputError(f"separation must be positive, got {self.separation!r}")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """On the data it is verified; for neighbours the release must enforce it."""
        apart = f"the release refuses datasets with two records closer than {self.separation:g}"
        return (_PUBLIC, apart)

    def sensitivity(self, release: Release, *, ridge: Array | None = None) -> Sensitivity:
        """``Delta <= (M / r) (1 + S / (1 + r^2 - S))``, S a bound on the kernel's row sums below ``1 + r^2``.

        Raises:
            InputError: The records are too close for the kernel: S is not below ``1 + r^2``.
        """
        r = _ridge(release, ridge)
        total = row_sum(release.kernel, release.domain.dimension, self.separation, release.domain.diameter)
        room = 1.0 + r**2 - total
        if np.any(room <= 0):
            raise InputError(
                f"regime separated needs kernel row sums below 1 + ridge^2 = {float(np.min(1 + r**2)):.4g}, got "
                f"{total:.4g} at separation {self.separation:g}: use a larger separation or regime bounded"
            )
        shift = release.response_bound / r * (1.0 + total / room)
        return Sensitivity(self.name, core_variance(release, r), np.asarray(shift), None)

    def pair_set(self, release: Release) -> PairSet:
        """That of any kernel: separated data with bounded responses are among its datasets."""
        return AnyKernel(stated_numbers(release, self.sensitivity(release).variance))

    def check(self, release: Release, data: Dataset) -> None:
        """Verify the separation and name the offending pair."""
        release.check(data)
        if len(data) < 2:
            return
        distance, nearest = map(np.asarray, cKDTree(data.covariates).query(data.covariates, k=2))
        row = int(distance[:, 1].argmin())
        if distance[row, 1] < self.separation:
            other = int(nearest[row, 1]) if nearest[row, 1] != row else int(nearest[row, 0])
            raise InputError(
                f"records {min(row, other)} and {max(row, other)} lie {distance[row, 1]:.4g} apart, less than "
                f"separation = {self.separation:g}: the release must refuse such data, or state a smaller separation"
            )


def row_sum(kernel: Kernel, dimension: int, separation: float, diameter: float) -> float:
    """``S = sum_m N_m phi(m q)``, ``N_m = (2m+3)^d - (2m-1)^d``: at most so many points lie in shell m.

    Shells beyond the domain's diameter are empty; phi decreases, so shell m counts at its inner edge.
    """
    last = min(int(np.ceil(diameter / separation)), 200_000)
    if last == 200_000:
        return float("inf")
    m = np.arange(1.0, last + 1.0)
    count = (2.0 * m + 3.0) ** dimension - (2.0 * m - 1.0) ** dimension
    return float(np.sum(count * kernel.of_distance(m * separation)))
