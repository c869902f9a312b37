"""Every pair of numbers that datasets can produce under a regime, as images of a cube (THEORY section 3, "sharper 2").

A dataset pair is five numbers ``(m, m', v, v', rho)`` (THEORY section 6). For fixed ``(v, v', rho)`` the profile is
quasi-convex in ``(m, m')``, so only the extreme points of the feasible ``(m, m')`` count. What is left is a cube of
three to five bounded numbers: a supremum over it bounds every dataset. The maps are onto and no edge is cut off: an
edge is the image of a face, and ``rho`` enters as a cosine, so nothing is singular where a variance is 0.

All sets are symmetric under exchanging the two records, so one direction of the profile suffices on them.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .pair import PairLaw
from .release import Release

_PARALLEL = 1e-12  # relative: edges whose crossing rounding would move anywhere
_INSIDE = 1e-9  # relative: a vertex may be so far outside, which only enlarges the set
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Extremes:
    """Pairs of extreme residuals at points of the cube.

    Attributes:
        law: The pairs, flat.
        owner: Index of the point that each belongs to, ``(pairs,)``.
    """

    law: PairLaw
    owner: NDArray[np.intp]


class PairSet(Protocol):
    """What datasets can produce under the premises of a regime, or a little more. Equal sets have equal hashes."""

    def __hash__(self) -> int: ...

    @property
    def dimension(self) -> int:
        """Of the cube."""
        ...

    def extremes(self, points: Array) -> Extremes:
        """Extreme pairs at points ``(b, dimension)`` of the unit cube."""
        ...


@dataclass(frozen=True)
class Stated:
    """The public numbers of exact posterior sampling on which a pair set rests; equal ones compare equal.

    Attributes:
        ridge: r.
        scale: sigma.
        response_bound: M.
        records: n.
        kappa: Infimum of the kernel over the domain.
        variance: V, bound on the core's posterior variance.
    """

    ridge: float
    scale: float
    response_bound: float
    records: int
    kappa: float
    variance: float


def stated_numbers(release: Release, variance: Array) -> Stated:
    """The numbers of a release and its V."""
    return Stated(release.ridge, release.scale, release.response_bound, release.records, release.kappa, float(variance))


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """Bounded responses and the exponential kernel in one dimension.

    The kriging weights are not negative and the posterior obeys a maximum principle, so every dataset has
    ``0 <= rho <= min(v, v')``, ``|mu| <= M w(v)`` with ``w(v) = min(1, (1-v)/kappa)``, ``|mu' - (rho/v) mu| <=
    M (1 - rho/v)`` and the mirror images. The cube is ``(v/V, v'/V, rho/min(v, v'))``.
    """

    stated: Stated
    dimension: int = 3

    def extremes(self, points: Array) -> Extremes:
        """Vertices of the polygon of ``(mu, mu')`` with every sign of the responses; up to a common sign."""
        bound = self.stated.response_bound
        v, v_prime = self.stated.variance * points[:, 0], self.stated.variance * points[:, 1]
        least, most = np.minimum(v, v_prime), np.maximum(v, v_prime)
        # rho / v and rho / v': where a variance is 0 so is rho, and the ratio is free, which is the third number.
        slope, slope_prime = (
            points[:, 2] * np.where(v > 0, least / np.maximum(v, _TINY), 1.0),
            points[:, 2] * np.where(v_prime > 0, least / np.maximum(v_prime, _TINY), 1.0),
        )
        one, zero = np.ones_like(v), np.zeros_like(v)
        edges = [
            (one, zero, bound * self._reach(v)),
            (zero, one, bound * self._reach(v_prime)),
            (-slope, one, bound * (1.0 - slope)),
            (one, -slope_prime, bound * (1.0 - slope_prime)),
        ]
        means, feasible = [], []
        for first, second in combinations(edges, 2):
            for sign in (1.0, -1.0):
                mean, mean_prime, crosses = _crossing(first, second, sign)
                for normal, normal_prime, limit in edges:
                    crosses &= np.abs(normal * mean + normal_prime * mean_prime) <= limit + _INSIDE * bound
                # The polygon is symmetric about 0; the responses are not turned with it, so both vertices count.
                means += [(mean, mean_prime), (-mean, -mean_prime)]
                feasible += [crosses, crosses]
        mean, mean_prime = (np.stack(column, axis=1) for column in zip(*means, strict=True))
        # Turning every sign changes no profile: y = +M serves y = -M, too.
        keep = np.repeat(np.stack(feasible, axis=1)[:, None], 2, axis=1)
        response_prime = bound * np.array([1.0, -1.0])[:, None]
        m = np.repeat((bound - mean)[:, None], 2, axis=1)
        both = response_prime - np.stack([mean_prime, mean_prime], axis=1)
        owner = np.nonzero(keep)[0]
        cosine = points[:, 2] * np.sqrt(np.divide(least, most, out=np.ones_like(v), where=most > 0))
        law = _pairs(self.stated, m[keep], both[keep], v[owner], v_prime[owner], cosine[owner])
        return Extremes(law, owner)

    def _reach(self, variance: Array) -> Array:
        """``w(v)``: how far the mean of a core with such a variance can be from 0, over M."""
        kappa = self.stated.kappa
        if self.stated.records == 1:
            return np.zeros_like(variance)
        if kappa < _TINY:
            return np.ones_like(variance)
        return np.asarray(np.minimum(1.0, (1.0 - variance) / kappa))


@dataclass(frozen=True)
class AnyKernel:
    """Bounded responses, any kernel.

    With ``P = [[1, k], [k, 1]]``, k in ``[inf k, 1]``, and ``G = P^(1/2) H P^(1/2)``, ``0 <= H <= I``, every dataset
    has its ``(mu, mu')`` in the ellipse ``M sqrt(n-1) Omega^(1/2)`` (unit disc), ``r^2 Omega = P^(1/2) (H - H^2)
    P^(1/2)``. The cube is k, both eigenvalues of H and its angle, and the place on the ellipse; where a variance would
    exceed V, H is shrunk until it does not.
    """

    stated: Stated
    dimension: int = 5

    def extremes(self, points: Array) -> Extremes:
        """Both signs of the second response against the first; the ellipse is symmetric about 0."""
        stated = self.stated
        bound, floor = stated.response_bound, stated.kappa
        k = floor + (1.0 - floor) * points[:, 0]
        turn, around = np.pi * points[:, 3], 2.0 * np.pi * points[:, 4]
        axes = _half_turned(k, turn)
        gram = np.einsum("bij,bj->bi", np.square(axes), points[:, 1:3])  # the two variances
        shrink = np.minimum(1.0, self.stated.variance / np.maximum(gram.max(axis=1), _TINY))
        share = points[:, 1:3] * shrink[:, None]
        v, v_prime = (np.einsum("bij,bj->bi", np.square(axes), share)).T
        rho = np.einsum("bj,bj,bj->b", axes[:, 0], axes[:, 1], share)
        radius = bound * np.sqrt(stated.records - 1) / stated.ridge
        circle = np.stack([np.cos(around), np.sin(around)], axis=1) * np.sqrt(share * (1.0 - share))
        mean, mean_prime = radius * np.einsum("bij,bj->ib", axes, circle)
        m = np.concatenate([bound - mean, bound - mean])
        m_prime = np.concatenate([bound - mean_prime, -bound - mean_prime])
        owner = np.tile(np.arange(len(points)), 2)
        return Extremes(_pairs(stated, m, m_prime, v[owner], v_prime[owner], _cosine(rho, v, v_prime)[owner]), owner)


@dataclass(frozen=True)
class OneFunction:
    """One function of RKHS norm at most B gives every response: ``(m, m')`` is in the ellipse ``B G^(1/2)`` (disc).

    The cube is ``v/V``, ``v'/V``, the cosine of the two residual kernels, and the place on the ellipse.
    """

    stated: Stated
    norm: float
    dimension: int = 4

    def extremes(self, points: Array) -> Extremes:
        """The boundary of the ellipse."""
        v, v_prime = self.stated.variance * points[:, 0], self.stated.variance * points[:, 1]
        cosine, around = 2.0 * points[:, 2] - 1.0, 2.0 * np.pi * points[:, 3]
        sine = np.sqrt((1.0 - cosine) * (1.0 + cosine))
        m = self.norm * np.sqrt(v) * np.cos(around)
        m_prime = self.norm * np.sqrt(v_prime) * (cosine * np.cos(around) + sine * np.sin(around))
        return Extremes(_pairs(self.stated, m, m_prime, v, v_prime, cosine), np.arange(len(points)))


def _pairs(stated: Stated, m: Array, m_prime: Array, v: Array, v_prime: Array, cosine: Array) -> PairLaw:
    """Pairs of exact posterior sampling, released everywhere, from their five numbers."""
    noise, variance = stated.ridge**2, stated.scale**2
    spread, spread_prime = v + noise, v_prime + noise
    return PairLaw(
        m / spread,
        m_prime / spread_prime,
        variance / spread,
        variance / spread_prime,
        v / variance,
        v_prime / variance,
        cosine * np.sqrt(v * v_prime) / variance,
        noise / spread,
        noise / spread_prime,
    )


def _crossing(
    first: tuple[Array, Array, Array], second: tuple[Array, Array, Array], sign: float
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Where two edges cross, ``a x = b`` and ``a' x = sign b'``, and where they are not parallel."""
    (a, b, limit), (c, d, other) = first, second
    determinant = a * d - b * c
    crosses = np.abs(determinant) > _PARALLEL
    safe = np.where(crosses, determinant, 1.0)
    return (limit * d - sign * other * b) / safe, (sign * other * a - limit * c) / safe, crosses


def _half_turned(k: Array, turn: Array) -> Array:
    """``P^(1/2)`` times a rotation, ``(b, 2, 2)``: columns are the axes of the set."""
    along, across = np.sqrt((1.0 + k) / 2.0), np.sqrt((1.0 - k) / 2.0)
    cosine, sine = np.cos(turn), np.sin(turn)
    # Eigenvectors of P are (1, 1) and (1, -1).
    first = np.stack([along * cosine + across * sine, along * cosine - across * sine], axis=1)
    second = np.stack([-along * sine + across * cosine, -along * sine - across * cosine], axis=1)
    return np.stack([first, second], axis=2)


def _cosine(rho: Array, v: Array, v_prime: Array) -> Array:
    product = np.sqrt(v * v_prime)
    return np.clip(np.divide(rho, product, out=np.ones_like(rho), where=product > 0), -1.0, 1.0)
