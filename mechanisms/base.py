"""What a mechanism is. An outsider's mechanism implements these two protocols and nothing else."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from .arrays import Array
from .data import Dataset, Record
from .moments import Moments
from .pair import PairLaw, QuadraticForm
from .path_law import PathLaw
from .regimes import Sensitivity
from .release import Release
from .renyi import RenyiCurve


@runtime_checkable
class Sampler(Protocol):
    """Draws releases of one dataset at fixed points."""

    @property
    def jitter(self) -> float:
        """Variance added to every released value so that the covariance could be factorised; usually 0."""
        ...

    def draw(self, releases: int, *, paths: int, rng: np.random.Generator) -> Array:
        """Independent releases, ``(releases, paths, points)``.

        Release i must not depend on how many are asked for: two calls with the same generator give the same
        numbers as one call for both.
        """
        ...


@dataclass(frozen=True, eq=False)
class Contrast:
    """How the core adversary reads one released path of a pair.

    The two sufficient statistics of a path with values f at `points` are ``f @ weights - centre``; for a transcript f
    holds the values of all rounds side by side.

    Attributes:
        points: Where the path must be observed, ``(t, d)``.
        weights: ``(t, 2)``.
        centre: ``(2,)``: the statistics of the mean path given the core alone.
        law: The pair, for these points.
        neighbour: The dataset D' itself.
    """

    points: Array
    weights: Array
    centre: Array
    law: PairLaw
    neighbour: Dataset


@runtime_checkable
class Mechanism(Protocol):
    """A randomised release of a dataset, with the law that it claims to follow.

    `sampler` is the implementation that is audited; the other methods say what it is supposed to be.
    """

    @property
    def name(self) -> str:
        """Name in the configuration and the report."""
        ...

    @property
    def release(self) -> Release:
        """The public parameters."""
        ...

    def sampler(self, data: Dataset, points: Array) -> Sampler:
        """The implementation under audit, for `data` and released at points ``(t, d)``."""
        ...

    def renyi(self, sensitivity: Sensitivity) -> RenyiCurve:
        """Upper bound on the Renyi divergence of one path between neighbouring datasets."""
        ...

    def leave_one_out(self, data: Dataset, replacements: Dataset) -> PairLaw:
        """Exact law of every pair (record, replacement), shape ``(n, replacements)``."""
        ...

    def value_law(self, posterior: Moments) -> Moments:
        """Law of one released value, normal, from the posterior mean and variance (kernel variance 1) there."""
        ...

    def contrast(self, data: Dataset, row: int, replacement: Record) -> Contrast:
        """What the adversary who knows all other records looks at to tell the record in `row` from `replacement`."""
        ...


@runtime_checkable
class HasDominatingPair(Protocol):
    """A mechanism with one pair that dominates all dataset pairs: its profile is the certificate, lossless."""

    def dominating_pair(self, sensitivity: Sensitivity) -> QuadraticForm:
        """The pair, for one path; of both directions the worse."""
        ...


@runtime_checkable
class DeclaresGaussianDP(Protocol):
    """A mechanism that declares itself mu-GDP: every pair of datasets is at most as far apart as two normals."""

    def mu(self) -> float:
        """mu of one path; L independent paths are ``sqrt(L) mu``-GDP."""
        ...


@runtime_checkable
class HasPathLaw(Protocol):
    """A mechanism that states the whole law of a path, so that its draws can be held against it."""

    def path_law(self, data: Dataset, points: Array) -> PathLaw:
        """The law of what ``sampler(data, points)`` draws: its last axis is all blocks side by side."""
        ...


@runtime_checkable
class PostProcessesPaths(Protocol):
    """A mechanism whose release is made of exact posterior paths alone: what holds for them holds for it."""

    def exact_paths(self) -> Release:
        """The public parameters of those paths."""
        ...
