"""Structured certificate: the supremum of the exact profile over everything that datasets can produce.

THEORY section 3, "sharper 2". The supremum must be found, not sampled: an underestimate would be a false promise. A
search looks over the whole cube of a pair set, then narrows around its most promising places, near and far from the
best. Two independent searches (random points; a scrambled Sobol net) run at two resolutions each; they must agree, and
the value is raised by what they differ by. A numerical supremum is stated as such: method, resolution and agreement are
in the result.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from ..mechanisms import Array, NumericalError, PairSet, QuadraticForm, check_delta, log_profile, solve_epsilon
from ..mechanisms.pair import quadratic_form
from ..mechanisms.profile import chernoff_epsilon

_AGREEMENT = 5e-3  # relative; searches that differ by more are repeated at twice the resolution
_RESOLUTIONS = (1024, 2048, 4096, 8192)  # points that look over the whole cube
_NEAR, _FAR = 6, 10  # places that are narrowed: the best, and the best that lie far from each other
_AROUND = 5  # points around each place a round, a dimension
_ROUNDS, _NARROWING = 34, 0.68  # the last is within 1e-6 of the cube's side
_APART = 0.15
_EDGE = 0.08  # of a side beyond each face: points there are put on the face, so that faces and corners are looked at
_PROFILE_ERROR = 1e-8  # relative, above the accuracy a profile promises
_FAR_BELOW = -1e9  # what ranks points whose bound is below the best
_STRUCTURED = 7  # first key of a seed, as in audit/run.py
_ROUND_UP = 1e-6  # relative; above what the last round leaves


@dataclass(frozen=True, eq=False)
class Supremum:
    """The largest epsilon that a search found over a pair set.

    Attributes:
        epsilon: Raised by the disagreement; infinite where the searches do not agree.
        found: Largest epsilon of a pair that was looked at.
        at: Its place in the cube.
        agreement: By how much, relative to the largest, the searches differ.
        resolution: Points with which the finer search looks over the cube.
        pairs: Pairs whose profile was computed.
    """

    epsilon: float
    found: float
    at: tuple[float, ...]
    agreement: float
    resolution: int
    pairs: int


def structured_supremum(pairs: PairSet, delta: float, *, paths: int, seed: int = 0) -> Supremum:
    """Supremum over a pair set of the exact epsilon at `delta` for L independent paths of one pair.

    It does not compose with other releases. Computed once for equal arguments. Infinite where the searches do not agree
    or a profile did not reach its promised accuracy.
    """
    check_delta(delta)
    try:
        return _supremum(pairs, delta, paths, seed)
    except NumericalError:  # a profile beyond float64: no supremum, so no certificate
        return Supremum(float("inf"), 0.0, (), 1.0, 0, 0)


@lru_cache(maxsize=256)
def _supremum(pairs: PairSet, delta: float, paths: int, seed: int) -> Supremum:
    target = delta * (1.0 - _PROFILE_ERROR)
    done: list[_Best] = []
    for resolution in _RESOLUTIONS:
        for kind in (0, 1):
            key = np.random.SeedSequence(seed, spawn_key=(_STRUCTURED, resolution, kind))
            start = _over_the_cube(pairs.dimension, resolution, kind, np.random.default_rng(key))
            done.append(_narrowed(pairs, target, paths, start, np.random.default_rng(key.spawn(1)[0])))
        last = [search.epsilon for search in done[-4:]]
        agreement = 1.0 - min(last) / max(last) if max(last) > 0 else 0.0
        if len(done) >= 4 and agreement <= _AGREEMENT:
            break
    most = max(done, key=lambda search: search.epsilon)
    # An earlier search that found more than the last four is a disagreement, too.
    agreement = max(agreement, 1.0 - max(last) / most.epsilon if most.epsilon > 0 else 0.0)
    raised = most.epsilon * (1.0 + agreement) * (1.0 + _ROUND_UP) + 1e-9
    return Supremum(
        raised if agreement <= _AGREEMENT else float("inf"),
        most.epsilon,
        tuple(map(float, most.at)),
        agreement,
        resolution,
        sum(search.pairs for search in done),
    )


def _over_the_cube(dimension: int, count: int, kind: int, rng: np.random.Generator) -> Array:
    """Corners, and points all over the cube and its faces: at random or on a scrambled net."""
    inside = rng.random((count, dimension)) if kind == 0 else qmc.Sobol(dimension, rng=rng).random(count)
    corners = np.indices((2,) * dimension).reshape(dimension, -1).T.astype(np.float64)
    return np.concatenate([corners, np.clip((1.0 + 2.0 * _EDGE) * inside - _EDGE, 0.0, 1.0)])


@dataclass(frozen=True, eq=False)
class _Best:
    """The best pair so far, and how many profiles were computed to find it."""

    epsilon: float
    at: Array
    pairs: int


def _narrowed(pairs: PairSet, delta: float, paths: int, start: Array, rng: np.random.Generator) -> _Best:
    """Look at `start`, then closer and closer around the most promising places."""
    best = _Best(0.0, np.zeros(pairs.dimension), 0)
    rank, best = _ranked(pairs, delta, paths, start, best)
    places = _promising(start, rank)
    width = 0.5
    around_each = _AROUND * pairs.dimension
    for _ in range(_ROUNDS):
        width *= _NARROWING
        step = width * rng.uniform(-1.0, 1.0, (len(places), around_each, pairs.dimension))
        # Half of the steps change one number only: ridges along a face are followed that way.
        alone = rng.integers(pairs.dimension, size=(len(places), around_each // 2))
        step[:, : around_each // 2] *= np.eye(pairs.dimension)[alone]
        around = np.clip(places[:, None] + step, 0.0, 1.0)
        around = np.concatenate([places[:, None], around], axis=1)
        rank, best = _ranked(pairs, delta, paths, around.reshape(-1, pairs.dimension), best)
        chosen = rank.reshape(len(places), -1).argmax(axis=1)
        places = around[np.arange(len(places)), chosen]
    return best


def _ranked(pairs: PairSet, delta: float, paths: int, points: Array, best: _Best) -> tuple[Array, _Best]:
    """A rank of each point, and the best pair with these.

    Pairs whose Chernoff bound is below the best epsilon cannot exceed it: they are ranked by that bound, below all
    others, whose rank is their ``log delta`` at the best epsilon: one quadrature each, no root.
    """
    extremes = pairs.extremes(points)
    form = quadratic_form(extremes.law)
    ceiling = chernoff_epsilon(form, delta, paths=paths)
    if best.epsilon == 0.0 and ceiling.max() > 0.0:
        best = _better(form, extremes.owner, np.array([ceiling.argmax()]), points, delta, paths, best)
    rank = np.full(len(points), -np.inf)
    np.maximum.at(rank, extremes.owner, _FAR_BELOW + ceiling)
    live = np.flatnonzero(ceiling > best.epsilon)
    if not len(live):
        return rank, best
    value = log_profile(form[live], np.full(len(live), best.epsilon), paths=paths).log_delta
    np.maximum.at(rank, extremes.owner[live], np.maximum(value, 0.5 * _FAR_BELOW))
    best = replace(best, pairs=best.pairs + len(live))
    above = live[value > np.log(delta)]
    if len(above):
        first = above[np.argsort(-value[value > np.log(delta)])[:2]]
        best = _better(form, extremes.owner, first, points, delta, paths, best)
    return rank, best


def _better(
    form: QuadraticForm,
    owner: NDArray[np.intp],
    which: NDArray[np.intp],
    points: Array,
    delta: float,
    paths: int,
    best: _Best,
) -> _Best:
    """The best of `best` and some pairs, whose epsilon is solved for."""
    epsilon = solve_epsilon(form[which], delta, paths=paths)
    first = int(epsilon.argmax())
    if epsilon[first] <= best.epsilon:
        return best
    return replace(best, epsilon=float(epsilon[first]), at=points[owner[which[first]]])


def _promising(points: Array, rank: Array) -> Array:
    """The best points, and the best that lie apart from each other: a narrow peak far away is kept, too."""
    order = np.argsort(-rank, kind="stable")
    apart = [order[0]]
    for index in order[1:]:
        if len(apart) == _FAR:
            break
        if np.abs(points[apart] - points[index]).max(axis=1).min() > _APART:
            apart.append(index)
    return points[list(dict.fromkeys([*map(int, order[:_NEAR]), *map(int, apart)]))]
