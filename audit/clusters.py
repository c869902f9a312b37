"""Pairs of neighbouring datasets whose core is a few weighted clusters: their laws, many at once.

``n_j`` records at one place with one response act as a single observation with noise ``r^2 / n_j``, so the core's
posterior is a K x K system however large n is. With ``S = diag(sqrt(n_j)) / r``, clusters Z and ends E (the record and
its replacement),

    pull = S (I + S K_ZZ S)^-1 S K_ZE,    k_C(E, E) = K_EE - K_EZ pull,    mu_C(E) = pull^T y_Z

in which an empty cluster (``n_j = 0``) vanishes by itself. What is released everywhere follows by the closed form in
``mechanisms/gaussian.py``. At listed points T only the kernel seen through them enters: with
``H = k(., T) k(T, T)^-1 k(T, .)``, ``s = sigma^2 + eta^2`` and ``Y = H_ZE - H_ZZ pull``,

    s <w, w'> = H_EE - H_EZ pull - pull^T H_ZE + pull^T H_ZZ pull
                + (sigma^2 / s) Y^T S [I + S (K_ZZ - (sigma^2 / s) H_ZZ) S]^-1 S Y

by Woodbury's identity for ``B = s k(T, T) - sigma^2 k(T, Z) S (I + S K_ZZ S)^-1 S k(Z, T)``: one factor of ``k(T, T)``
serves all pairs. White noise w on every value joins the
``k(T, T)`` that is inverted, as ``w^2 / s`` on its diagonal.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..mechanisms import (
    Array,
    Bounded,
    Centred,
    Diagonal,
    ExactPosterior,
    Exponential1D,
    Mechanism,
    Noised,
    PairLaw,
    Predictive,
    Regime,
    Release,
    Rkhs,
    Separated,
)
from ..mechanisms.cholesky import Factor, factorise

REGIMES = (Bounded, Exponential1D, Diagonal, Rkhs, Separated)  # whose premises the search knows
_FEWEST_DIGITS = 1e-9  # a difference must be this large, ten times what `mechanisms/gaussian.py` insists on
_INSIDE = 1.0 - 1e-12  # responses of a function on the sphere of radius B must not leave it by rounding
_MOST_POINTS = 300  # fewer released points leak less, so that a search on some of them stays valid


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pairs of neighbouring datasets, N of them with K clusters each.

    Attributes:
        places: ``(N, K + 2, d)``: the clusters, then the record of D, then its replacement in D'.
        responses: ``(N, K + 2)``.
        copies: Records in each cluster, ``(N, K)``; 0 is allowed.
        angle: ``(N,)``, which function of the RKHS gives the responses; used under `Rkhs` alone.
    """

    places: Array
    responses: Array
    copies: NDArray[np.intp]
    angle: Array

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.places[index], self.responses[index], self.copies[index], self.angle[index])

    def joined(self, other: Self) -> Self:
        """These candidates, then the others."""
        pairs = zip(self._fields(), other._fields(), strict=True)
        places, responses, copies, angle = (np.concatenate(pair) for pair in pairs)
        return type(self)(places, responses, copies, angle)

    def _fields(self) -> tuple[NDArray[Any], ...]:
        return self.places, self.responses, self.copies, self.angle


@dataclass(frozen=True, eq=False)
class Setting:
    """What is released, and which datasets the premises allow.

    Attributes:
        release: The public parameters.
        scale: sigma; 1 for a centred release.
        prior_noise: eta.
        centred: No posterior mean is released.
        norm: B, where one function of RKHS norm B gives every response.
        separation: q, where any two records of a dataset lie at least q apart.
        white: ``w^2 / s``, the white noise on every value against the variance of the paths.
        points: Listed points that the search looks at, with the factor of their kernel matrix; None is everywhere.
    """

    release: Release
    scale: float
    prior_noise: float
    centred: bool
    norm: float | None
    separation: float | None
    white: float = 0.0
    points: tuple[Array, Factor] | None = None

    def at(self, points: Array) -> Self:
        """The same, released at points ``(t, d)``: the factor of their kernel matrix does not depend on the pair."""
        kernel = self.release.kernel(points, points)
        kernel[np.diag_indices_from(kernel)] += self.white
        return replace(self, points=(points, factorise(kernel)))

    def settled(self, candidates: Candidates) -> Candidates:
        """The same pairs with the responses that the premises dictate, where they do.

        Nothing of a response is in a centred release: they are 0. Under `Rkhs` they are the values of
        ``f = B g / |g|``, ``g = cos(angle) k_C'(x, .) + sin(angle) k_C'(x', .)`` with the residual kernels
        ``k_C'(x, .) = k(x, .) - pull_x^T k(Z, .)``: ``(m, m')`` are the inner products of f with them, so that no
        other function of norm B reaches further. Where f exceeds M somewhere it is scaled down.
        """
        if self.centred:
            return replace(candidates, responses=np.zeros_like(candidates.responses))
        if self.norm is None:
            return candidates
        kernel = self._kernel(candidates.places)
        pull, _ = _conditioned(kernel, self._weights(candidates))
        residual = np.concatenate([-pull, np.broadcast_to(np.eye(2), (len(candidates), 2, 2))], axis=1)
        direction = np.stack([np.cos(candidates.angle), np.sin(candidates.angle)], axis=-1)
        coefficients = np.einsum("npe,ne->np", residual, direction)
        values = np.einsum("npq,nq->np", kernel, coefficients)
        square = np.einsum("np,np->n", values, coefficients)
        size = np.maximum(np.sqrt(np.maximum(square, 0.0)) / self.norm, 1e-300)
        size = np.maximum(size, np.abs(values).max(axis=1) / self.release.response_bound)
        # A function of nearly no norm (both ends coincide and cancel) would be rounding scaled up.
        values = np.where((square > _FEWEST_DIGITS)[:, None], values / size[:, None], 0.0)
        return replace(candidates, responses=_INSIDE * values)

    def law(self, candidates: Candidates) -> tuple[PairLaw, NDArray[np.bool_]]:
        """The laws ``(N,)`` of the pairs, and which of them are admissible and have their digits."""
        kernel = self._kernel(candidates.places)
        weights = self._weights(candidates)
        pull, covariance = _conditioned(kernel, weights)
        clusters, noise = weights.shape[1], self.release.ridge**2
        variance = np.maximum(_diagonal(covariance), 0.0)
        spread = variance + noise
        drop = self.scale**2 / spread
        if self.points is not None:
            gram = self._gram_at_points(*self.points, candidates.places, kernel, weights, pull)
            kept = 1.0 - drop * _diagonal(gram)
            fine = kept > _FEWEST_DIGITS
        elif self.prior_noise == 0.0:
            gram, kept = covariance / self.scale**2, noise / spread
            fine = np.ones_like(kept, dtype=bool)
        else:
            share = self.prior_noise**2 / (self.scale**2 + self.prior_noise**2)
            _, smooth = _conditioned(kernel, np.sqrt(share) * weights)
            difference = covariance - share * smooth
            gram, kept = difference / self.scale**2, (noise + share * _diagonal(smooth)) / spread
            fine = _diagonal(difference) > _FEWEST_DIGITS
        responses = candidates.responses
        residual = responses[:, clusters:] - np.einsum("nke,nk->ne", pull, responses[:, :clusters])
        tilt = np.zeros_like(residual) if self.centred else residual / spread
        own = np.maximum(_diagonal(gram), 0.0)
        numbers = (*tilt.T, *drop.T, *own.T, gram[:, 0, 1], *kept.T)
        law = PairLaw(*numbers)
        fine = fine.all(axis=1) & (kept > 0).all(axis=1) & np.isfinite(np.stack(numbers)).all(axis=0)
        return law, fine & self._apart(candidates.places)

    def _weights(self, candidates: Candidates) -> Array:
        """Diagonal of S, ``(N, K)``."""
        return np.asarray(np.sqrt(candidates.copies) / self.release.ridge)

    def _kernel(self, places: Array) -> Array:
        """Kernel matrices ``(N, K + 2, K + 2)``: the kernels are functions of the distance."""
        upper = np.triu_indices(places.shape[1], 1)
        distance = np.linalg.norm(places[:, upper[0]] - places[:, upper[1]], axis=-1)
        matrices = np.empty((len(places), places.shape[1], places.shape[1]))
        matrices[:] = np.eye(places.shape[1])
        matrices[:, upper[0], upper[1]] = matrices[:, upper[1], upper[0]] = self.release.kernel.of_distance(distance)
        return matrices

    def _gram_at_points(
        self, points: Array, factor: Factor, places: Array, kernel: Array, weights: Array, pull: Array
    ) -> Array:
        """Gram matrices ``(N, 2, 2)`` at the listed points; see the module's docstring."""
        clusters, total = weights.shape[1], self.scale**2 + self.prior_noise**2
        seen = factor.whiten(self.release.kernel(points, places.reshape(-1, places.shape[-1])))
        seen = seen.T.reshape(*places.shape[:2], len(points))
        through = seen @ seen.swapaxes(1, 2)
        own, mixed = through[:, :clusters, :clusters], through[:, :clusters, clusters:]
        left = mixed - own @ pull
        plain = through[:, clusters:, clusters:] - pull.swapaxes(1, 2) @ left - mixed.swapaxes(1, 2) @ pull
        share = self.scale**2 / total
        hidden = kernel[:, :clusters, :clusters] - share * own
        unseen = np.eye(clusters) + weights[:, :, None] * hidden * weights[:, None]
        scaled = weights[:, :, None] * left
        return np.asarray((plain + share * scaled.swapaxes(1, 2) @ np.linalg.solve(unseen, scaled)) / total)

    def _apart(self, places: Array) -> NDArray[np.bool_]:
        """Where D and D' both keep the separation; the record and its replacement are never in one dataset."""
        if self.separation is None:
            return np.ones(len(places), dtype=bool)
        distance = np.linalg.norm(places[:, :, None] - places[:, None], axis=-1)
        distance[:, np.arange(places.shape[1]), np.arange(places.shape[1])] = np.inf
        distance[:, -1, -2] = distance[:, -2, -1] = np.inf
        return np.asarray(distance.min(axis=(1, 2)) > self.separation)


def setting_of(mechanism: Mechanism, regime: Regime) -> Setting | None:
    """The setting of a mechanism whose pairs have this form, under premises that are known here; None for others.

    Exact types only: what a subclass releases, or takes for granted, is not known.
    """
    release = mechanism.release
    if type(mechanism) not in (ExactPosterior, Noised, Predictive, Centred):
        return None
    if type(regime) not in REGIMES:
        return None
    centred = type(mechanism) is Centred
    setting = Setting(
        release,
        1.0 if centred else release.scale,
        0.0 if centred else release.prior_noise,
        centred,
        regime.norm if isinstance(regime, Rkhs) else None,
        regime.separation if isinstance(regime, Separated) and release.records > 1 else None,
        release.ridge**2 if type(mechanism) is Predictive else 0.0,
    )
    if release.points is None:
        return setting
    places = np.unique(release.points, axis=0)
    # A regular choice; of points on a grid the first and the last are corners.
    return setting.at(places[np.linspace(0, len(places) - 1, min(len(places), _MOST_POINTS)).astype(int)])


def _conditioned(kernel: Array, weights: Array) -> tuple[Array, Array]:
    """``pull (N, K, 2)`` and the core's posterior covariance of the ends, ``(N, 2, 2)``."""
    clusters = weights.shape[1]
    reach = weights[:, :, None] * kernel[:, :clusters, clusters:]
    system = np.eye(clusters) + weights[:, :, None] * kernel[:, :clusters, :clusters] * weights[:, None]
    solved = np.linalg.solve(system, reach)
    return weights[:, :, None] * solved, kernel[:, clusters:, clusters:] - reach.swapaxes(1, 2) @ solved


def _diagonal(matrices: Array) -> Array:
    return np.asarray(np.diagonal(matrices, axis1=1, axis2=2))


def starts(setting: Setting, clusters: int, count: int, rng: np.random.Generator) -> Candidates:
    """Pairs to begin with, ``(count,)``: places at corners, anywhere, on or near one another; responses +-M."""
    release, domain = setting.release, setting.release.domain
    others, bound = release.records - 1, release.response_bound
    responses = bound * rng.choice([-1.0, 1.0], size=(count, clusters + 2))
    angle = rng.choice([0.0, 0.25, 0.5, 0.75], size=count) * np.pi  # one residual or both
    if setting.separation is not None:
        places = np.stack([_packed(setting, clusters, rng) for _ in range(count)])
        return Candidates(places, responses, np.full((count, clusters), min(others, 1), dtype=np.intp), angle)
    places = np.empty((count, clusters + 2, domain.dimension))
    order = [clusters, clusters + 1, *range(clusters)]
    for rank, index in enumerate(order):
        places[:, index] = fresh(setting, places[:, order[:rank]], rng)
    edges = np.rint(others * np.cumsum(rng.dirichlet(np.full(clusters, 0.7), size=count), axis=1))
    copies = np.diff(edges, axis=1, prepend=0.0).astype(np.intp)
    return Candidates(places, responses, copies, angle)


def fresh(setting: Setting, known: Array, rng: np.random.Generator) -> Array:
    """One new place for each pair, ``(N, d)``: a corner, anywhere, or on or near one of the `known` ``(N, j, d)``."""
    domain, count = setting.release.domain, len(known)
    low, high = domain.sides.T
    share = rng.random((count, domain.dimension))
    kind = rng.random((count, 1))
    place = low + (high - low) * np.where(kind < 0.4, np.rint(share), share)
    if known.shape[1]:
        near = known[np.arange(count), rng.integers(known.shape[1], size=count)]
        reach = setting.release.kernel.length_scale * np.exp(rng.uniform(np.log(0.03), np.log(3.0), size=(count, 1)))
        step = rng.standard_normal(near.shape) * reach / np.sqrt(domain.dimension)
        place = np.where(kind < 0.7, place, near + np.where(kind < 0.85, 0.0, step))
    return np.asarray(np.clip(place, low, high))


def sites(setting: Setting, *, filled: bool) -> Array:
    """A grid whose neighbours are a little more than the separation apart, or as far as as many of them can be."""
    apart = (setting.separation or 0.0) * (1.0 + 1e-9)
    most = 1e5 ** (1.0 / setting.release.domain.dimension)  # a finer grid has more room than 400 records need
    axes = []
    for low, high in setting.release.domain.sides:
        count = int(min((high - low) / apart, most)) + 1
        axes.append(np.linspace(low, high, count) if filled else low + apart * np.arange(count))
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _packed(setting: Setting, clusters: int, rng: np.random.Generator) -> Array:
    """Places of one pair of separate records, ``(clusters + 2, d)``, on a grid: around the record, far from it or any.

    The replacement takes the record's site, or one that the core leaves free.
    """
    grid = sites(setting, filled=bool(rng.random() < 0.5))
    record = int(rng.choice([0, len(grid) // 2, int(rng.integers(len(grid)))]))
    distance = np.linalg.norm(grid - grid[record], axis=1)
    ranking = rng.choice([-1.0, 0.0, 1.0]) * distance + 1e-9 * distance.max() * rng.random(len(grid))
    ranking[record] = -np.inf
    order = np.argsort(ranking)
    free = np.concatenate([order[:1], order[clusters + 1 :]])
    replacement = int(rng.choice([record, free[min(1, len(free) - 1)], rng.choice(free), free[-1]]))
    return grid[[*order[1 : clusters + 1], record, replacement]]
