"""The public parameters of a release: everything an adversary is assumed to know."""

from dataclasses import dataclass

import numpy as np

from .arrays import Array, frozen_array
from .data import Dataset, Domain
from .errors import InputError, RecordError
from .kernels import Kernel
from .profile import check_paths


@dataclass(frozen=True, eq=False)
class Tuning:
    """The parameters that are tuned against leakage: numbers, or arrays that broadcast to a grid."""

    ridge: Array
    scale: Array
    prior_noise: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """What is published about the mechanism; none of it may depend on the private records.

    Attributes:
        kernel: Kernel with variance 1.
        ridge: r, in units of the kernel's standard deviation: ``r^2 = noise variance / sigma^2``.
        domain: Box that every record lies in.
        response_bound: M, ``|response| <= M`` for every record.
        records: n, which replace-one neighbours share.
        scale: sigma, multiplies the posterior standard deviation of a path. Responses' units.
        prior_noise: eta, standard deviation of the independent prior path that the noised mechanism adds.
        paths: L, independent paths released from one dataset.
        points: Where the paths are released, ``(t, d)``; None means everywhere.
        schedule: Scales of the rounds of a transcript, for Thompson sampling; None means `scale` in every round.

    Raises:
        InputError: A parameter is out of range.
    """

    kernel: Kernel
    ridge: float
    domain: Domain
    response_bound: float
    records: int
    scale: float = 1.0
    prior_noise: float = 0.0
    paths: int = 1
    points: Array | None = None
    schedule: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        # Beyond these float64 cannot hold what follows from them; nothing that is released lies there.
        for name, least, most in (("ridge", 1e-6, 1e6), ("scale", 1e-30, 1e30), ("response_bound", 1e-30, 1e30)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InputError(f"{name} must be positive, from {least:g} to {most:g}, got {value!r}")
        if not 0.0 <= self.prior_noise <= 1e30:
            raise InputError(f"prior_noise must be 0 or positive, at most 1e+30, got {self.prior_noise!r}")
        if self.response_bound / self.scale > 1e12:
            raise InputError(
                f"response_bound = {self.response_bound:g} is more than 1e12 times scale = {self.scale:g}: "
                "check the units of both"
            )
        if self.records < 1:
            raise InputError(f"records must be at least 1, got {self.records!r}")
        check_paths(self.paths)
        if self.schedule is not None and not all(1e-30 <= scale <= 1e30 for scale in self.schedule):
            raise InputError("schedule must hold positive scales, from 1e-30 to 1e+30")
        if self.points is not None:
            points = frozen_array(self.points, ndim=2, name="points")
            if len(points) == 0 or points.shape[1] != self.domain.dimension:
                raise InputError(
                    f"points have shape {points.shape}: give at least one, each with "
                    f"{self.domain.dimension} coordinate(s) as in the domain"
                )
            object.__setattr__(self, "points", points)

    @property
    def kappa(self) -> float:
        """Infimum of the kernel over the domain: public, not computed from the records."""
        return self.kernel.infimum(self.domain.diameter)

    @property
    def tuning(self) -> Tuning:
        """Ridge, scale and prior noise."""
        return Tuning(np.asarray(self.ridge), np.asarray(self.scale), np.asarray(self.prior_noise))

    def check(self, data: Dataset) -> None:
        """Check that `data` has the stated size, lies in the domain and respects the bound.

        Raises:
            InputError: The number of records or of covariates is another.
            RecordError: Some records break a rule.
        """
        if len(data) != self.records:
            raise InputError(
                f"the data have {len(data)} records but records = {self.records}: n is public and must match"
            )
        if data.dimension != self.domain.dimension:
            raise InputError(
                f"the data have {data.dimension} covariate(s) but the domain has {self.domain.dimension} "
                "side(s): give one [low, high] pair a covariate"
            )
        outside = np.flatnonzero(~self.domain.contains(data.covariates))
        if len(outside):
            raise RecordError(
                outside.tolist(),
                f"lies outside the public domain {self.domain.sides.tolist()}: widen the domain without looking at "
                "the data, or remove the record",
            )
        above = np.flatnonzero(np.abs(data.responses) > self.response_bound)
        if len(above):
            raise RecordError(
                above.tolist(),
                f"has a response above response_bound = {self.response_bound:g} in size: raise the bound or set "
                "clip_responses = true",
            )
