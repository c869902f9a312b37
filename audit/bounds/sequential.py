"""An audit that may stop at any look: betting against the claim, batch after batch.

``(eps, delta)``-DP says that at every threshold the stake ``A - e^eps B - delta`` has a mean of at most 0, where A and
B say whether a release with and one without the record is called a member; so does its mirror image. A gambler who
fixes threshold and rate before each batch has wealth ``prod (1 + lambda stake)``, whose expectation never exceeds 1;
the mean of both directions' wealth neither. By Ville's inequality it ever reaches 1 / significance with probability at
most `significance`: looking costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ...attacks import Scores
from ...mechanisms import Array, InputError
from ..roc import roc
from .bound import EpsilonBound, Kind, check_design, direction_of
from .thresholds import halfway, spread_vertices

_CAP = 0.9  # of the rate that a single false alarm would ruin
_RATES = _CAP * 0.5 ** np.arange(12)
_CAUTION = 1.3  # standard errors by which the rates of a bet are taken for worse than seen
_TOLERANCE = 1e-7
_HOPELESS = 700.0  # e^eps overflows, and no number of trials reaches it


@dataclass(frozen=True)
class Bet:
    """One batch in one direction, with the outcomes of its pairs of trials.

    Attributes:
        threshold: Fixed before the batch.
        rate: lambda, fixed before the batch; 0 for no bet.
        hits: Pairs with A = 1, B = 0.
        alarms: A = 0, B = 1.
        both: A = B = 1.
        neither: A = B = 0.
    """

    threshold: float
    rate: float
    hits: int
    alarms: int
    both: int
    neither: int


@dataclass(frozen=True, eq=False)
class Sequential:
    """State of an audit in batches: what was bet, and the scores from which the next bet is chosen.

    Attributes:
        claimed: The epsilon that is put to the test; the bets are chosen against it.
        delta: The delta of the claim.
        significance: Probability of ever refuting a true claim.
        forward: Bets on "TPR > e^eps FPR + delta".
        backward: Bets on the mirror image.
        seen: All scores so far; None before the first batch.
        best: The bound so far; it never falls, for a claim refuted once stays refuted.
    """

    claimed: float
    delta: float
    significance: float
    forward: tuple[Bet, ...] = ()
    backward: tuple[Bet, ...] = ()
    seen: Scores | None = None
    best: float = 0.0

    def __post_init__(self) -> None:
        check_design(self.delta, self.significance)
        if not self.claimed >= 0:
            raise InputError(f"the claimed epsilon must be at least 0, got {self.claimed!r}")

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return self.best > self.claimed

    @property
    def bound(self) -> EpsilonBound:
        """Lower confidence bound, valid at this look and at all looks together."""
        ahead = _log_wealth(self.forward, self.best, self.delta) >= _log_wealth(self.backward, self.best, self.delta)
        return EpsilonBound(
            self.best,
            self.delta,
            self.significance,
            "betting_sequence",
            direction_of(*((self.best, 0.0) if ahead else (0.0, self.best))),
            Kind.CONFIDENCE,
            0 if self.seen is None else min(len(self.seen.member), len(self.seen.nonmember)),
        )

    def look(self, batch: Scores) -> "Sequential":
        """The state after one more batch; surplus trials of a side choose later bets only."""
        pairs = min(len(batch.member), len(batch.nonmember))
        member, nonmember = batch.member[:pairs], batch.nonmember[:pairs]
        forward, backward = self._next_bets()
        after = replace(
            self,
            forward=(*self.forward, _settled(forward, member >= forward[0], nonmember >= forward[0])),
            backward=(*self.backward, _settled(backward, nonmember < backward[0], member < backward[0])),
            seen=batch if self.seen is None else Scores.joined([self.seen, batch]),
        )
        return replace(after, best=_bound(after))

    def _next_bets(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Threshold and rate of both directions from the scores seen so far: none before the first batch."""
        if self.seen is None or self.claimed > _HOPELESS:
            return (np.inf, 0.0), (np.inf, 0.0)
        curve = roc(self.seen)
        vertices = spread_vertices(curve)
        true, false = curve.true_positives[vertices], curve.false_positives[vertices]
        members, nonmembers = curve.members, curve.nonmembers
        bets = []
        for hits, alarms, ours, others in (
            (true, false, members, nonmembers),
            (nonmembers - false, members - true, nonmembers, members),
        ):
            hit, alarm = _cautious(hits, ours, -1.0), _cautious(alarms, others, 1.0)
            rates = _RATES / (np.exp(self.claimed) + self.delta)
            growth = _growth(hit[:, None], alarm[:, None], rates, self.claimed, self.delta)
            vertex, rate = np.unravel_index(int(np.argmax(growth)), growth.shape)
            promising = growth[vertex, rate] > 0
            bets.append((halfway(curve, int(vertices[vertex])), float(rates[rate]) if promising else 0.0))
        return bets[0], bets[1]


def sequential_bound(
    scores: Scores, *, delta: float, significance: float, batch: int, claimed: float = 0.0
) -> EpsilonBound:
    """The bound after all `scores`, taken in batches of `batch` pairs of trials; valid at every look before it.

    Wrong with probability at most `significance`. The first batch is spent on choosing the first bets.
    """
    state = Sequential(claimed, delta, significance)
    for part in batches(scores, batch):
        state = state.look(part)
    return state.bound


def batches(scores: Scores, size: int) -> Sequence[Scores]:
    """Consecutive batches of `size` trials a side; what is left over joins the last.

    Raises:
        InputError: Less than two batches: the first only chooses.
    """
    pairs = min(len(scores.member), len(scores.nonmember))
    if size < 1 or pairs < 2 * size:
        raise InputError(f"a sequential audit needs at least two batches, got {pairs} trials and batches of {size}")
    return [
        Scores(scores.member[at], scores.nonmember[at]) for at in (slice(r.start, r.stop) for r in looks(pairs, size))
    ]


def looks(trials: int, size: int) -> list[range]:
    """Numbers of the trials of each look, `size` of them, in order; what is left over joins the last."""
    starts = range(0, trials - size + 1, size)
    return [range(start, trials if start == starts[-1] else start + size) for start in starts]


def sequential_provable(*, trials: int, batch: int, delta: float, significance: float) -> float:
    """The most that `trials` pairs, the first batch of which chooses, can prove when every bet against it is won.

    Both directions then have the wealth ``(1 + lambda (1 - delta))^N``, with the largest rate
    ``lambda = 0.9 / (e^eps + delta)``.
    """
    evaluated = trials - batch
    if evaluated < 1:
        return 0.0
    gain = np.expm1(np.log(1.0 / significance) / evaluated)  # what lambda (1 - delta) must be
    most = _CAP * (1.0 - delta) / gain - delta
    return float(max(np.log(most), 0.0)) if most > 0 else 0.0


def _settled(bet: tuple[float, float], hit: NDArray[np.bool_], alarm: NDArray[np.bool_]) -> Bet:
    threshold, rate = bet
    both = int((hit & alarm).sum())
    hits, alarms = int(hit.sum()) - both, int(alarm.sum()) - both
    return Bet(threshold, rate, hits, alarms, both, len(hit) - hits - alarms - both)


def _cautious(counts: Array, trials: int, side: float) -> Array:
    """Wilson's limit of a rate: nothing rests on it but the choice of a bet."""
    z = side * _CAUTION
    rate = counts / trials
    root = np.sqrt(rate * (1 - rate) / trials + (z / (2 * trials)) ** 2)
    return np.asarray((rate + z * z / (2 * trials) + z * root) / (1 + z * z / trials))


def _growth(hit: Array, alarm: Array, rate: Array, epsilon: float, delta: float) -> Array:
    """Expected growth of the logarithm of the wealth a pair, for rates of hits and alarms."""
    cost = np.exp(epsilon) + delta
    return np.asarray(
        hit * (1 - alarm) * np.log1p(rate * (1 - delta))
        + (1 - hit) * (1 - alarm) * np.log1p(-rate * delta)
        + hit * alarm * np.log1p(rate * (1 - cost))
        + (1 - hit) * alarm * np.log1p(-rate * cost)
    )


def _log_wealth(bets: Sequence[Bet], epsilon: float, delta: float) -> float:
    """Logarithm of the wealth of bets against `epsilon`; it falls with epsilon.

    Far above the claim a rate would stake more than there is and is capped; a pair that loses delta only is then
    charged at the rate before the cap, a little too much, which keeps the wealth falling.
    """
    if not bets:
        return 0.0
    stated, hits, alarms, both, neither = np.array(
        [(bet.rate, bet.hits, bet.alarms, bet.both, bet.neither) for bet in bets]
    ).T
    cost = np.exp(epsilon) + delta
    rate = np.minimum(stated, _CAP / cost)
    return float(
        hits @ np.log1p(rate * (1 - delta))
        + neither @ np.log1p(-stated * delta)
        + both @ np.log1p(rate * (1 - cost))
        + alarms @ np.log1p(-rate * cost)
    )


def _bound(state: Sequential) -> float:
    """Largest epsilon that is refuted: where the falling mean wealth meets 1 / significance."""
    need = float(np.log(2.0 / state.significance))

    def excess(epsilon: float) -> float:
        forward = _log_wealth(state.forward, epsilon, state.delta)
        return float(np.logaddexp(forward, _log_wealth(state.backward, epsilon, state.delta))) - need

    if excess(state.best) < 0:
        return state.best
    high = state.best + 1.0
    while excess(high) >= 0:
        high += high
    root = float(brentq(excess, state.best, high, xtol=_TOLERANCE, rtol=1e-12))
    return max(root - 2.0 * _TOLERANCE - 1e-11 * root, state.best)
