"""Search for the worst pair of neighbouring datasets that a mechanism can meet in its public domain.

Any pair is a lower bound on the mechanism's epsilon with no sampling error, so the search may miss the supremum but
can never overstate it. What is searched: cores of up to six clusters of identical records anywhere in the domain,
record and replacement anywhere, every response at +-M. (Given the places, the means ``(m, m')`` are linear in the
responses and the profile is quasi-convex in them, so that nothing between -M and M leaks more.)
"""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..mechanisms import (
    Array,
    Dataset,
    GaussianQuery,
    InputError,
    Mechanism,
    NumericalError,
    PairLaw,
    Record,
    Regime,
    Rkhs,
    Thompson,
    check_delta,
    pair_epsilon,
)
from ..mechanisms.contour import log_profile
from ..mechanisms.foreign import stated_by
from ..mechanisms.pair import QuadraticForm, quadratic_form
from ..mechanisms.profile import chernoff_epsilon, solve_epsilon
from .clusters import REGIMES, Candidates, Setting, fresh, setting_of, sites, starts
from .exposure import exposure

_SEARCH = 6  # first key of a seed, as in audit/run.py
_CHAINS, _CLUSTERS = 2, (1, 2, 3, 6)
_STARTS, _ROUNDS, _CHILDREN, _ELITE, _PROFILED = 2048, 30, 384, 16, 72
_POLISHING, _POLISHED, _POLISHERS = 50, 32, 3
_WIDEST, _NARROWEST, _FINEST = 0.2, 3e-3, 3e-6  # step sizes, in sides of the domain
_WORK = 6e6  # numbers in the kernel matrices of one generation
_NUMBERS = [field.name for field in fields(PairLaw) if field.name != "jitter"]
_MOST_SEPARATE = 400  # separate records are searched one by one; with more of them a generation takes too long


@dataclass(frozen=True, eq=False)
class WorstPair:
    """The worst pair found: a lower bound on the mechanism's epsilon, with no sampling error.

    Attributes:
        core: The clusters' places ``(K, d)`` and responses ``(K,)``.
        copies: Records in each cluster, ``(K,)``; they sum to n - 1.
        record: Of D.
        replacement: Of D'.
        row: Where the record stands, 0-based: last, but first in a transcript, where every round knows it.
        epsilon: Exact, the larger of both directions, rounded down by the profile's error.
        direction: Which one it is, ``"D to D'"`` or ``"D' to D"``.
        delta: Of that epsilon.
        paths: Released from one dataset.
        evaluations: Pairs looked at.
    """

    core: Dataset
    copies: NDArray[np.intp]
    record: Record
    replacement: Record
    row: int
    epsilon: float
    direction: str
    delta: float
    paths: int
    evaluations: int

    @property
    def datasets(self) -> tuple[Dataset, Dataset]:
        """D and D' written out, ``mechanism.contrast(D, row, replacement)`` is the pair."""
        covariates = np.repeat(self.core.covariates, self.copies, axis=0)
        responses = np.repeat(self.core.responses, self.copies)
        data = Dataset(
            np.insert(covariates, self.row, self.record.covariates, axis=0),
            np.insert(responses, self.row, self.record.response),
        )
        return data, data.replaced(self.row, self.replacement)


def worst_pair(mechanism: Mechanism, regime: Regime, delta: float, *, seed: int = 0) -> WorstPair | None:
    """The worst pair that a seeded search finds among the datasets that the regime allows.

    Two independent chains of populations with 1, 2, 3 and 6 clusters: each starts from thousands of pairs with places
    at corners, on or near each other and anywhere, and from the best pair with fewer clusters, breeds around its dozen
    best with shrinking steps, and is polished. Where the paths are released at listed points the pair is judged at
    these points (the search looks at 300 of them at most, the result at all). Under `Separated` no two records share a
    place, so that all n - 1 are searched, from subsets of a packed grid; under `Rkhs` all responses are one function's,
    chosen for the pair. Of a transcript two layouts of the public covariates are looked at, with M against -M as the
    first response; of a query M against -M.

    Args:
        mechanism: The mechanism with its public parameters.
        regime: Premises on D and D'.
        delta: Probability.
        seed: Of the search; the same seed finds the same pair.

    Returns:
        The pair, or None if there is nothing to search: a black box; an outsider's mechanism or regime; `Thompson` or
        `GaussianQuery` under `Rkhs`; `Separated` with more than 400 records or more than a grid holds.

    Raises:
        InputError: `delta` is no probability, or a premise of the regime does not hold for the release.
    """
    check_delta(delta)
    regime.sensitivity(mechanism.release)
    if (stated := stated_by(mechanism)) is None:
        return None
    mechanism = stated
    with threadpool_limits(1):
        if type(mechanism) in (Thompson, GaussianQuery) and type(regime) in REGIMES and type(regime) is not Rkhs:
            return _worst_layout(mechanism, regime, delta)
        setting = setting_of(mechanism, regime)
        if setting is None:
            return None
        others = mechanism.release.records - 1
        if setting.separation is None:
            sizes = [size for size in _CLUSTERS if size <= max(others, 1)]
        elif others > _MOST_SEPARATE or len(sites(setting, filled=False)) <= others:
            return None
        else:
            sizes = [max(others, 1)]
        seeds = np.random.SeedSequence(seed, spawn_key=(_SEARCH,)).spawn(_CHAINS)
        judges, found = [_Judge(setting, delta) for _ in range(_CHAINS)], []
        for judge, child in zip(judges, seeds, strict=True):
            rng = np.random.default_rng(child)
            best = None
            for size in sizes:
                best = judge.search(size, rng, best)
                found.append(best)
        return _result(setting, found, delta, sum(judge.evaluations for judge in judges))


class _Judge:
    """One chain of populations: ranks pairs by their delta at an epsilon that follows the best one.

    Most pairs are dismissed by their Chernoff bound, a small part of the work of a profile. The epsilon makes one
    Newton step a generation; it only ranks, and what is reported is solved at the end.
    """

    def __init__(self, setting: Setting, delta: float) -> None:
        self.setting, self.target, self.paths = setting, delta, setting.release.paths
        self.epsilon: float | None = None  # none yet
        self.evaluations = 0

    def search(self, clusters: int, rng: np.random.Generator, smaller: Candidates | None) -> Candidates:
        """Start, breed and polish; the best pair as one candidate, none if not one is admissible.

        The best pair with fewer clusters takes part with its clusters split, and so is not lost.
        """
        room = int(_WORK / ((clusters + 2) ** 2 * max(clusters, 6)))
        begun = starts(self.setting, clusters, min(_STARTS, max(room, 8)), rng)
        if smaller is not None:
            begun = _split(smaller, clusters).joined(begun)
        begun = self.setting.settled(begun)
        elite = self.selected(begun, 0, keep=_ELITE)
        schedule = [(_CHILDREN, _ELITE, step) for step in np.geomspace(_WIDEST, _NARROWEST, _ROUNDS)]
        schedule += [(_POLISHED, _POLISHERS, step) for step in np.geomspace(_NARROWEST * 3, _FINEST, _POLISHING)]
        for children, keep, step in schedule:
            if not len(elite):
                break
            elite = elite[:keep]
            young = _mutants(self.setting, elite, min(children, max(room, 8)), step, rng)
            elite = self.selected(elite.joined(self.setting.settled(young)), len(elite), keep=keep)
        return elite[:1]

    def selected(self, candidates: Candidates, elite: int, *, keep: int) -> Candidates:
        """The best `keep` of the candidates, best first; the first `elite` of them are always looked at closely."""
        self.evaluations += len(candidates) - elite
        law, fine = self.setting.law(candidates)
        index = np.flatnonzero(fine)
        if not len(index):
            return candidates[:0]
        sides = [[getattr(side, name)[index] for name in _NUMBERS] for side in (law, law.swapped())]
        form = quadratic_form(PairLaw(*map(np.concatenate, zip(*sides, strict=True))))
        of = np.concatenate([index, index])
        ceiling = np.nan_to_num(chernoff_epsilon(form, self.target, paths=self.paths), posinf=0.0)
        first = np.argsort(np.where(of < elite, -np.inf, -ceiling), kind="stable")[:_PROFILED]
        if self.epsilon is None:
            leader = form[first[ceiling[first].argmax()][None]]
            self.epsilon = float(solve_epsilon(leader, self.target, paths=self.paths)[0])
        score, slope = self._log_delta(form[first], self.epsilon)
        order = np.lexsort((-ceiling[first], -score))
        if slope[order[0]] < 0:
            step = (score[order[0]] - np.log(self.target)) / -slope[order[0]]
            self.epsilon = float(np.clip(self.epsilon + step, 0.5 * self.epsilon, 2.0 * self.epsilon + 1e-3))
        return candidates[_varied(candidates, of[first][order], keep)]

    def _log_delta(self, form: QuadraticForm, epsilon: float) -> tuple[Array, Array]:
        """``log delta`` and its slope; ``-inf`` where it cannot be computed: such a pair is no evidence."""
        try:
            value = log_profile(form, np.full(len(form.curvature), epsilon), paths=self.paths)
        except NumericalError:
            if len(form.curvature) == 1:
                return np.array([-np.inf]), np.zeros(1)
            halves = np.array_split(np.arange(len(form.curvature)), 2)
            left, right = (self._log_delta(form[half], epsilon) for half in halves)
            return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])
        return value.log_delta, value.slope


def _split(candidates: Candidates, clusters: int) -> Candidates:
    """The same pairs with more clusters, which share the places and the records of those that are there."""
    fewer = candidates.copies.shape[1]
    of = np.arange(clusters) % fewer
    parts = np.bincount(of)
    copies = (candidates.copies[:, of] + np.arange(clusters) // fewer) // parts[of]
    index = np.concatenate([of, [fewer, fewer + 1]])
    return Candidates(candidates.places[:, index], candidates.responses[:, index], copies, candidates.angle)


def _varied(candidates: Candidates, order: NDArray[np.intp], keep: int) -> NDArray[np.intp]:
    """The first `keep` of `order`, each once; equal signs fill a quarter of them at most while there are others."""
    _, position = np.unique(order, return_index=True)
    order = order[np.sort(position)]
    signs = np.sign(candidates.responses[order])
    signs *= np.where(signs[:, -2:-1] < 0, -1.0, 1.0)
    _, pattern = np.unique(signs, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    rank = np.array([np.sum(pattern[:i] == pattern[i]) for i in range(len(order))])
    return order[np.argsort(rank >= max(keep // 4, 1), kind="stable")[:keep]]


def _mutants(setting: Setting, elite: Candidates, count: int, step: float, rng: np.random.Generator) -> Candidates:
    """Variations of the elite: places moved, replaced by fresh ones or drawn along a difference of two parents."""
    low, high = setting.release.domain.sides.T
    parent = elite[rng.integers(len(elite), size=count)]
    points = parent.places.shape[1]
    size = step * np.exp(rng.standard_normal((count, 1, 1)))
    moved = rng.random((count, points, 1)) < rng.choice([1.0 / points, 0.5, 1.0], size=(count, 1, 1))
    places = parent.places + moved * size * (high - low) * rng.standard_normal(parent.places.shape)
    one, other = (elite.places[rng.integers(len(elite), size=count)] for _ in range(2))
    places += (rng.random((count, 1, 1)) < 0.2) * rng.uniform(0.3, 1.0, (count, 1, 1)) * (one - other)
    places = np.clip(places, low, high)
    rows = np.flatnonzero(rng.random(count) < 0.2)
    which = rng.integers(points, size=len(rows))
    places[rows, which] = fresh(setting, parent.places[rows], rng)
    responses = np.where(rng.random((count, points)) < 0.15 / points, -1.0, 1.0) * parent.responses
    angle = parent.angle + size[:, 0, 0] * rng.standard_normal(count)
    copies = parent.copies.copy()
    if setting.separation is None and copies.shape[1] > 1:
        rows = np.flatnonzero(rng.random(count) < 0.4)
        source, sink = (rng.integers(copies.shape[1], size=len(rows)) for _ in range(2))
        # From one copy to all of a cluster, every order of magnitude alike.
        amount = np.floor(np.maximum(copies[rows, source], 1) ** rng.random(len(rows))).astype(np.intp)
        amount = np.minimum(amount, copies[rows, source])
        copies[rows, source] -= amount
        copies[rows, sink] += amount
    return Candidates(places, responses, copies, angle)


def _result(setting: Setting, found: list[Candidates], delta: float, evaluations: int) -> WorstPair | None:
    """The best of the pairs found, judged at all points that are released."""
    release = setting.release
    if release.points is not None:
        setting = setting.at(np.unique(release.points, axis=0))
    judged: list[tuple[float, str, Candidates]] = []
    for candidate in found:
        law, fine = setting.law(candidate)
        if fine.any():
            judged.append((*_exact(law, delta, release.paths), candidate))
    if not judged:
        return None
    epsilon, direction, candidate = max(judged, key=lambda one: one[0])
    places, responses, copies = candidate.places[0], candidate.responses[0], candidate.copies[0]
    used = np.flatnonzero(copies)
    return WorstPair(
        core=Dataset(places[used], responses[used]),
        copies=copies[used],
        record=Record(places[-2], float(responses[-2])),
        replacement=Record(places[-1], float(responses[-1])),
        row=release.records - 1,
        epsilon=epsilon,
        direction=direction,
        delta=delta,
        paths=release.paths,
        evaluations=evaluations,
    )


def _exact(law: PairLaw, delta: float, paths: int) -> tuple[float, str]:
    """Exact epsilon of one pair, rounded down, and its direction."""
    law = law.flat()
    epsilon = float(exposure(law[None], delta, paths=paths).epsilon[0])
    forward, backward = (pair_epsilon(one, delta, paths=paths)[0] for one in (law, law.swapped()))
    return epsilon, "D to D'" if forward >= backward else "D' to D"


def _worst_layout(mechanism: Mechanism, regime: Regime, delta: float) -> WorstPair | None:
    """The response M against -M of one record at a corner; all others opposite, or on a grid."""
    release = mechanism.release
    low, high = release.domain.sides.T
    bound, others = release.response_bound, release.records - 1
    # In a transcript every round knows the first record, and the less the others tell of it the more a path does.
    row = 0 if type(mechanism) is Thompson else others
    per_side = int(np.ceil(release.records ** (1.0 / release.domain.dimension) - 1e-9))
    grid = release.domain.grid((per_side,) * release.domain.dimension)
    grid = grid[np.argsort(-np.linalg.norm(grid - low, axis=1), kind="stable")][:others]
    best: WorstPair | None = None
    for places, copies in ((high[None], np.array([others])), (grid, np.ones(len(grid), dtype=np.intp))):
        used = np.flatnonzero(copies)
        core = Dataset(places[used], np.zeros(len(used)))
        ends = Record(low, bound), Record(low, -bound)
        pair = WorstPair(core, copies[used], *ends, row, 0.0, "D to D'", delta, release.paths, 2)
        data = pair.datasets
        try:
            for one in data:
                regime.check(release, one)
        except InputError:
            continue  # the regime does not allow this layout
        epsilon, direction = _exact(mechanism.contrast(data[0], row, ends[1]).law, delta, release.paths)
        if best is None or epsilon > best.epsilon:
            best = replace(pair, epsilon=epsilon, direction=direction)
    return best
