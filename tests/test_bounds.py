"""Lower bounds: exact limits, coverage, power, and nothing from nothing."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from gpleak.attacks import Scores
from gpleak.audit import Split, clopper_pearson_bound, largest_provable_epsilon
from gpleak.audit.binomial import proportion_lower, proportion_upper
from gpleak.audit.bounds import epsilon_from_rates
from gpleak.mechanisms import InputError


def lower(k, n, tail):
    return float(proportion_lower(np.array(k), n, tail))


def upper(k, n, tail):
    return float(proportion_upper(np.array(k), n, tail))


def test_case_01_limits_in_small_tails():
    """CASES 01a, c: no success at tail 5e-8 and 1e-17; nothing but successes."""
    assert upper(0, 1000, 5e-8) == pytest.approx(0.0166707224, abs=5e-11)
    assert upper(0, 1000, 1e-17) == pytest.approx(0.03838772, abs=5e-9)
    assert lower(1000, 1000, 5e-8) == pytest.approx(1 - 0.0166707224, abs=5e-11)
    assert upper(20, 20, 0.025) == 1.0
    assert lower(0, 20, 0.025) == 0.0


def test_case_01_epsilon_from_limits():
    """CASES 01: (a) 4.07729; (b) exactly 0; (d) 1.616272 by TPR/FPR only, 1.987962 with both directions."""
    a = epsilon_from_rates(np.array(1 - 0.0166707224), np.array(0.0166707224), 0.0)
    assert float(a[0]) == pytest.approx(4.07729, abs=6e-6)
    b = epsilon_from_rates(proportion_lower(np.array(3), 20, 0.025), proportion_upper(np.array(0), 20, 0.025), 0.1)
    assert lower(3, 20, 0.025) == pytest.approx(0.032071, abs=5e-7)
    assert float(b[0]) == 0.0
    assert lower(95, 100, 0.025) == pytest.approx(1 - 0.1128349, abs=5e-8)
    assert upper(10, 100, 0.025) == pytest.approx(0.1762226, abs=5e-8)
    d = epsilon_from_rates(np.array(lower(95, 100, 0.025)), np.array(upper(10, 100, 0.025)), 1e-5)
    assert float(d[0]) == pytest.approx(1.616272, abs=1e-6)
    assert float(max(d)) == pytest.approx(1.987962, abs=1e-6)


def binomial_sum(p, n, which):
    """P(X in which) for X ~ Binomial(n, p), term by term: all terms are positive."""
    return mp.fsum(mp.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in which)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 200), share=st.floats(0, 1), log_tail=st.floats(-200, -1))
def test_limits_solve_their_equation(n, share, log_tail):
    """P(X >= k | lower) = tail = P(X <= k | upper) with 60 digits: never inside, within 1e-9 outside."""
    k, tail = round(share * n), 10.0**log_tail
    with mp.workdps(60):
        low, high, step = mp.mpf(lower(k, n, tail)), mp.mpf(upper(k, n, tail)), mp.mpf("1e-9")
        if k > 0:
            at = [binomial_sum(x, n, range(k, n + 1)) for x in (low, low * (1 + step))]
            assert at[0] <= tail <= at[1]
        if k < n:
            at = [binomial_sum(x, n, range(k + 1)) for x in (high, high * (1 - step))]
            assert at[0] <= tail <= at[1]


def test_limits_cover_exactly():
    """Coverage by summing the binomial: never below 1 - tail, and not absurdly above (both sides, no sampling)."""
    n, tail = 50, 0.025
    k = np.arange(n + 1)
    low, high = proportion_lower(k, n, tail), proportion_upper(k, n, tail)
    for p in np.linspace(0.01, 0.99, 99):
        weight = binom.pmf(k, n, p)
        assert weight[low > p].sum() <= tail * (1 + 1e-9)
        assert weight[high < p].sum() <= tail * (1 + 1e-9)
    assert max(binom.pmf(k, n, p)[low > p].sum() for p in np.linspace(0.1, 0.9, 500)) > 0.9 * tail


def laplace_scores(rng, epsilon, count):
    """Neyman-Pearson scores of the Laplace mechanism, sensitivity 1: true epsilon at delta 0."""
    return Scores(1.0 + rng.laplace(0, 1 / epsilon, count), rng.laplace(0, 1 / epsilon, count))


def test_coverage_on_a_mechanism_with_epsilon_1():
    """3,000 audits at significance 0.05: binomial test, false-failure rate 1e-6 even if the bound were exact."""
    rng = np.random.default_rng(30)
    wrong = sum(
        clopper_pearson_bound(laplace_scores(rng, 1.0, 500), delta=0.0, significance=0.05, split=Split()).value > 1.0
        for _ in range(3000)
    )
    assert wrong <= binom.isf(1e-6, 3000, 0.05)


def test_an_uncorrected_maximum_would_fail_the_same_test():
    """Positive control: the best of every observed threshold, both directions, without correction.

    It exceeds the truth in 8.8 % of runs (10,000 other seeds); if it were 8 %, the chance that 10,000 runs stay
    within the limit of the test above would be below 1e-6.
    """
    rng = np.random.default_rng(31)
    runs, count, wrong = 10_000, 1000, 0
    k = np.arange(count + 1)
    low, high = proportion_lower(k, count, 0.025), proportion_upper(k, count, 0.025)
    for _ in range(runs):
        scores = laplace_scores(rng, 1.0, count)
        thresholds = np.concatenate([scores.member, scores.nonmember])
        true = count - np.searchsorted(np.sort(scores.member), thresholds)
        false = count - np.searchsorted(np.sort(scores.nonmember), thresholds)
        wrong += np.max(epsilon_from_rates(low[true], high[false], 0.0)) > 1.0
    limit = binom.isf(1e-6, runs, 0.05)
    assert binom.cdf(limit, runs, 0.08) < 1e-6
    assert wrong > limit


def test_bound_has_power():
    """Laplace, epsilon 1, 20,000 trials: the bound proves at least 0.5 (smallest of 4,000 seeds: 0.79)."""
    scores = laplace_scores(np.random.default_rng(32), 1.0, 20_000)
    bound = clopper_pearson_bound(scores, delta=0.0, significance=0.05, split=Split())
    assert 0.5 < bound.value < 1.0
    assert bound.evaluated == 14_000
    assert bound.significance == 0.05
    assert bound.method == "clopper_pearson_split"


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3, 0.3])
@pytest.mark.parametrize("significance", [0.05, 1e-6, 1e-17])
def test_perfect_separation_proves_the_largest_provable(delta, significance):
    scores = Scores(np.ones(1000), np.zeros(1000))
    bound = clopper_pearson_bound(scores, delta=delta, significance=significance, split=Split(0.5))
    most = largest_provable_epsilon(evaluated=500, delta=delta, significance=significance)
    assert bound.value == pytest.approx(most, rel=1e-9)
    assert math.isfinite(most)


def test_largest_provable_epsilon_formula():
    """``log((q - delta) / (1 - q))``, ``q = (share / 2)^(1 / N)``, with 40 digits; floored at 0."""
    for evaluated, share, delta in ((16_000, 0.01, 1e-3), (10, 0.05, 0.0), (10**7, 1e-12, 1e-9)):
        with mp.workdps(40):
            q = (mp.mpf(share) / 2) ** (mp.mpf(1) / evaluated)
            expected = float(mp.log((q - delta) / (1 - q)))
        got = largest_provable_epsilon(evaluated=evaluated, delta=delta, significance=share)
        assert got == pytest.approx(max(expected, 0.0), rel=1e-9)
    assert largest_provable_epsilon(evaluated=1, delta=0.1, significance=0.05) == 0.0


@pytest.mark.parametrize(
    ("member", "nonmember"),
    [
        (np.ones(200), np.ones(200)),
        (np.arange(200.0), np.arange(200.0)),
        (np.arange(6.0), np.arange(6.0)),
        (np.full(50, -np.inf), np.full(50, -np.inf)),
    ],
)
def test_no_signal_gives_no_evidence(member, nonmember):
    """CASES 03a, b, 07b: identical scores on both sides give exactly 0."""
    bound = clopper_pearson_bound(Scores(member, nonmember), delta=1e-5, significance=0.05, split=Split())
    assert bound.value == 0.0
    assert bound.direction == "none"


def test_reversed_scores_are_not_turned_around():
    """CASES 03d, 21: members scored lower prove nothing; the class is never swapped."""
    rng = np.random.default_rng(33)
    bound = clopper_pearson_bound(
        Scores(rng.normal(0, 1, 1000), rng.normal(5, 1, 1000)), delta=1e-5, significance=0.05, split=Split()
    )
    assert bound.value == 0.0


def test_both_directions_are_used():
    """A mechanism that gives itself away only when the record is absent."""
    rng = np.random.default_rng(34)
    member = np.ones(5000)
    nonmember = (rng.random(5000) < 0.5).astype(float)
    bound = clopper_pearson_bound(Scores(member, nonmember), delta=0.0, significance=0.05, split=Split())
    assert bound.direction == "TNR/FNR"
    assert bound.value > 4.0
    bound = clopper_pearson_bound(Scores(-nonmember, -member), delta=0.0, significance=0.05, split=Split())
    assert bound.direction == "TPR/FPR"
    assert bound.value > 4.0


def test_only_the_order_of_scores_matters():
    rng = np.random.default_rng(35)
    scores = laplace_scores(rng, 2.0, 1000)
    bounds = [
        clopper_pearson_bound(
            Scores(scale * scores.member, scale * scores.nonmember), delta=1e-5, significance=0.05, split=Split()
        ).value
        for scale in (1.0, 2.0**-40, 2.0**30)
    ]
    assert bounds[0] == bounds[1] == bounds[2]


def test_bad_scores_and_designs_are_refused():
    with pytest.raises(InputError, match="1 member scores are NaN"):
        Scores(np.array([np.nan, 1.0]), np.ones(2))
    with pytest.raises(InputError, match="non-empty"):
        Scores(np.ones(3), np.ones(0))
    with pytest.raises(InputError, match="at least 2"):
        Split().sizes(1)
    with pytest.raises(InputError, match="fraction"):
        Split(1.0)
    with pytest.raises(InputError, match="significance"):
        clopper_pearson_bound(Scores(np.ones(5), np.ones(5)), delta=0.0, significance=0.0, split=Split())
    assert Split(0.01).sizes(10) == (1, 9)
    assert Split(0.99).sizes(10) == (9, 1)
