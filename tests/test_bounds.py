"""The Clopper-Pearson bound: exact limits, thresholds, power, second methods, and nothing from nothing."""

import math
import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import counted, gaussian
from scipy.stats import binom

from gpleak.attacks import Scores
from gpleak.audit import Split, clopper_pearson_bound, largest_provable_epsilon
from gpleak.audit.binomial import proportion_lower, proportion_upper
from gpleak.audit.bounds import Bonferroni, Explicit, epsilon_from_rates
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


@pytest.mark.parametrize(
    ("counts", "delta", "significance", "value", "direction"),
    [
        ((1000, 1000, 0, 1000), 0.0, 1e-7, 4.07729, "TPR/FPR"),
        ((3, 20, 0, 20), 0.1, 0.05, 0.0, "none"),
        ((95, 100, 10, 100), 1e-5, 0.05, 1.987962, "TNR/FNR"),
        ((20, 20, 20, 20), 0.0, 0.05, 0.0, "none"),
    ],
)
def test_case_01_by_the_bound(counts, delta, significance, value, direction):
    """CASES 01 a, b, d, c through the bound itself, which says the direction."""
    bound = clopper_pearson_bound(counted(*counts), delta=delta, significance=significance, threshold=Explicit(0.5))
    assert bound.value == pytest.approx(value, abs=6e-6)
    assert bound.direction == direction
    assert bound.method == "clopper_pearson_explicit"
    assert bound.evaluated == counts[1]


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


def wrong_at(significance, delta):
    """Largest probability, over error rates, that the bound from 1,000 trials a side is above what the rates imply.

    Sums of binomials over all counts of up to 30 errors a side; more errors count as wrong.
    """
    trials, most = 1000, 30
    level = {"delta": delta, "significance": significance, "threshold": Explicit(0.5)}
    errors = range(most + 1)
    values = np.array(
        [
            [clopper_pearson_bound(counted(trials - missed, trials, false, trials), **level).value for false in errors]
            for missed in errors
        ]
    )
    rates = np.linspace(0.5, 14.0, 55) / trials
    weights = binom.pmf(np.array(errors), trials, rates[:, None])
    rest = 1 - np.multiply.outer(weights.sum(axis=1), weights.sum(axis=1))
    fnr, fpr = np.meshgrid(rates, rates, indexing="ij")
    truth = np.log(np.maximum((1 - fnr - delta) / fpr, (1 - fpr - delta) / fnr))
    worst = 0.0
    for index in np.ndindex(truth.shape):
        worst = max(worst, weights[index[0]] @ (values > truth[index]) @ weights[index[1]] + rest[index])
    return worst


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
def test_bound_covers_exactly(delta):
    """No sampling: wrong with at most the significance at every pair of error rates, and nearly that at some.

    Where both rates are small one of them decides and hardly anything is given away: 0.0462 of 0.05. A limit at the
    whole significance where half is due would be wrong with 0.091, so this test sees a factor of 2.
    """
    assert 0.9 * 0.05 < wrong_at(0.05, delta) <= 0.05
    assert wrong_at(0.10, delta) > 0.05


def laplace_scores(rng, epsilon, count):
    """Neyman-Pearson scores of the Laplace mechanism, sensitivity 1: true epsilon at delta 0."""
    return Scores(1.0 + rng.laplace(0, 1 / epsilon, count), rng.laplace(0, 1 / epsilon, count))


def test_bound_has_power():
    """Laplace, epsilon 1, 20,000 trials: the bound proves at least 0.5 (smallest of 4,000 seeds: 0.79)."""
    scores = laplace_scores(np.random.default_rng(32), 1.0, 20_000)
    bound = clopper_pearson_bound(scores, delta=0.0, significance=0.05, threshold=Split())
    assert 0.5 < bound.value < 1.0
    assert bound.evaluated == 14_000
    assert bound.significance == 0.05
    assert bound.method == "clopper_pearson_split"


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3, 0.3])
@pytest.mark.parametrize("significance", [0.05, 1e-6, 1e-17])
def test_perfect_separation_proves_the_largest_provable(delta, significance):
    scores = Scores(np.ones(1000), np.zeros(1000))
    bound = clopper_pearson_bound(scores, delta=delta, significance=significance, threshold=Split(0.5))
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
    bound = clopper_pearson_bound(Scores(member, nonmember), delta=1e-5, significance=0.05, threshold=Split())
    assert bound.value == 0.0
    assert bound.direction == "none"


def test_reversed_scores_are_not_turned_around():
    """CASES 03d, 21: members scored lower prove nothing; the class is never swapped."""
    rng = np.random.default_rng(33)
    bound = clopper_pearson_bound(
        Scores(rng.normal(0, 1, 1000), rng.normal(5, 1, 1000)), delta=1e-5, significance=0.05, threshold=Split()
    )
    assert bound.value == 0.0


def test_both_directions_are_used():
    """A mechanism that gives itself away only when the record is absent."""
    rng = np.random.default_rng(34)
    member = np.ones(5000)
    nonmember = (rng.random(5000) < 0.5).astype(float)
    bound = clopper_pearson_bound(Scores(member, nonmember), delta=0.0, significance=0.05, threshold=Split())
    assert bound.direction == "TNR/FNR"
    assert bound.value > 4.0
    bound = clopper_pearson_bound(Scores(-nonmember, -member), delta=0.0, significance=0.05, threshold=Split())
    assert bound.direction == "TPR/FPR"
    assert bound.value > 4.0


def test_only_the_order_of_scores_matters():
    rng = np.random.default_rng(35)
    scores = laplace_scores(rng, 2.0, 1000)
    bounds = [
        clopper_pearson_bound(
            Scores(scale * scores.member, scale * scores.nonmember), delta=1e-5, significance=0.05, threshold=Split()
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
        clopper_pearson_bound(Scores(np.ones(5), np.ones(5)), delta=0.0, significance=0.0, threshold=Split())
    assert Split(0.01).sizes(10) == (1, 9)
    assert Split(0.99).sizes(10) == (9, 1)


WHOLE = st.lists(st.integers(-6, 6), min_size=2, max_size=40)
ANY = st.lists(st.one_of(st.floats(allow_nan=False), st.sampled_from([-1.0, 0.0, 1.0])), min_size=2, max_size=40)
DELTA = st.sampled_from([0.0, 1e-9, 1e-3, 0.2, 0.9])
LEVEL = st.sampled_from([0.5, 0.05, 1e-6, 1e-30])


def test_thresholds_fixed_beforehand_must_be_numbers():
    with pytest.raises(InputError, match="must be a number, got nan"):
        Explicit(math.nan)
    with pytest.raises(InputError, match="must be numbers, got nan"):
        Bonferroni((0.0, math.nan))
    with pytest.raises(InputError, match="at least one threshold"):
        Bonferroni(())


def test_every_declared_threshold_is_paid_for():
    """A useful threshold among nine useless or repeated ones proves what it proves alone at a tenth of the level."""
    scores = laplace_scores(np.random.default_rng(36), 2.0, 500)
    level = {"delta": 1e-5, "significance": 0.05}
    for others in ((99.0,) * 9, (math.inf,) * 9, (-math.inf,) * 9, (1.0,) * 9, tuple(np.arange(50.0, 59.0))):
        grid = Bonferroni((*others, 1.0))
        bound = clopper_pearson_bound(scores, **level, threshold=grid)
        alone = clopper_pearson_bound(scores, delta=1e-5, significance=0.005, threshold=Explicit(1.0))
        assert bound.value == alone.value > 0.3
        assert bound.significance == 0.05
        assert bound.evaluated == 500
        assert grid.share(0.05) == 0.005
        assert sum(tally.significance for tally in grid.tallies(scores, **level)) == pytest.approx(0.05)
    fewer = Scores(scores.member, scores.nonmember[:400])
    assert clopper_pearson_bound(fewer, **level, threshold=grid).evaluated == 400
    whole = clopper_pearson_bound(scores, **level, threshold=Explicit(1.0))
    assert whole.value > alone.value  # the correction costs something: forgetting it would be seen


@settings(max_examples=60, deadline=None)
@given(member=WHOLE, nonmember=WHOLE, grid=st.lists(st.integers(-7, 7), min_size=1, max_size=6), delta=DELTA)
def test_a_grid_gives_the_best_of_its_thresholds(member, nonmember, grid, delta):
    """In either direction and in any order, each at its share."""
    scores = Scores(np.array(member), np.array(nonmember))
    alone = [
        clopper_pearson_bound(scores, delta=delta, significance=0.5 / len(grid), threshold=Explicit(at)) for at in grid
    ]
    whole = clopper_pearson_bound(scores, delta=delta, significance=0.5, threshold=Bonferroni(tuple(grid)))
    best = max(alone, key=lambda bound: bound.value)
    assert (whole.value, whole.direction) == (best.value, best.direction)


def test_each_threshold_of_a_grid_may_prove_in_its_own_direction():
    """TPR/FPR 300 to 3 at the high one, TNR/FNR 300 to 0 at the low one: the second is better, wherever it stands."""
    scores = Scores(np.repeat([2.0, 1.0], [300, 700]), np.repeat([2.0, 1.0, 0.0], [3, 697, 300]))
    for grid in ((2.0, 1.0), (1.0, 2.0)):
        bound = clopper_pearson_bound(scores, delta=0.0, significance=0.05, threshold=Bonferroni(grid))
        assert bound.direction == "TNR/FNR"
        assert (
            bound.value == clopper_pearson_bound(scores, delta=0.0, significance=0.025, threshold=Explicit(1.0)).value
        )


def test_a_split_chooses_without_the_trials_it_evaluates():
    """Whatever the evaluated scores are, the threshold is the same; whatever the choosing scores are, the count is."""
    rng = np.random.default_rng(37)
    scores, others = laplace_scores(rng, 2.0, 1000), laplace_scores(rng, 0.1, 1000)
    level = {"delta": 1e-5, "significance": 0.05}
    (tally,) = Split().tallies(scores, **level)
    mixed = [np.concatenate([a[:300], b[300:]]) for a, b in zip(*map(sides, (scores, others)), strict=True)]
    (again,) = Split().tallies(Scores(*mixed), **level)
    assert again.threshold == tally.threshold
    assert tally.members == tally.nonmembers == 700 == Split().evaluated(1000)
    assert tally.true == (scores.member[300:] >= tally.threshold).sum()
    assert tally.false == (scores.nonmember[300:] >= tally.threshold).sum()
    assert again.true == (others.member[300:] >= tally.threshold).sum()


def sides(scores):
    return scores.member, scores.nonmember


@settings(max_examples=150, deadline=None)
@given(member=ANY, nonmember=ANY, delta=DELTA, significance=LEVEL)
def test_no_scores_give_more_than_the_largest_provable_or_nan(member, nonmember, delta, significance):
    """Infinite, enormous and denormal scores included; a threshold half way between 1e308 and -1e308 overflows."""
    scores = Scores(np.array(member), np.array(nonmember))
    with np.errstate(over="ignore"):
        for threshold in (Split(), Split(0.5), Explicit(0.0), Explicit(math.inf), Bonferroni((-1.0, 0.0, 1.0))):
            bound = clopper_pearson_bound(scores, delta=delta, significance=significance, threshold=threshold)
            most = largest_provable_epsilon(
                evaluated=max(len(member), len(nonmember)),
                delta=delta,
                significance=threshold.share(significance),
            )
            assert 0 <= bound.value <= most * (1 + 1e-9)
            assert (bound.value > 0) == (bound.direction != "none")


@settings(max_examples=100, deadline=None)
@given(member=WHOLE, nonmember=WHOLE, at=st.integers(-6, 6), delta=DELTA)
def test_a_monotone_map_of_scores_and_thresholds_changes_nothing(member, nonmember, at, delta):
    """By rank: maps that bend, squeeze and stretch, as long as they keep the order."""
    member, nonmember = np.array(member, dtype=float), np.array(nonmember, dtype=float)
    grid = np.array([at, at + 1.0])
    for bend in (np.exp, np.arctan, lambda x: x**3 * 1e60, lambda x: 1e-200 * x):
        before, after = (
            clopper_pearson_bound(Scores(*sides), delta=delta, significance=0.2, threshold=Bonferroni(tuple(at_)))
            for sides, at_ in (((member, nonmember), grid), ((bend(member), bend(nonmember)), bend(grid)))
        )
        assert before == after


@pytest.fixture(scope="module")
def others():
    """Independent implementations; importing them warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jax_privacy.auditing
        import privacy_estimates

        return jax_privacy.auditing, privacy_estimates


COUNTS = [
    (95, 100, 10, 100),
    (60, 100, 1, 80),
    (1000, 1000, 0, 1000),
    (7, 9, 2, 11),
    (499, 500, 301, 600),
    (3, 50, 2, 50),
]


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.05])
def test_bound_agrees_with_two_other_implementations(counts, delta, others):
    """jax_privacy, each direction; privacy_estimates' "beta", both: at the same two tails."""
    auditing, estimates = others
    true, members, false, nonmembers = counts
    scores = counted(*counts)
    bound = clopper_pearson_bound(scores, delta=delta, significance=0.05, threshold=Explicit(0.5))
    theirs = auditing.CanaryScoreAuditor(*sides(scores)).epsilon_clopper_pearson(
        0.05, delta, one_sided=False, threshold_strategy=auditing.Explicit(0.5)
    )
    assert bound.value == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    count = estimates.AttackResults(FN=members - true, FP=false, TN=nonmembers - false, TP=true)
    theirs = estimates.compute_eps_lo(count, delta, 0.05, "beta")
    assert bound.value == pytest.approx(theirs, rel=1e-9, abs=1e-12)


def test_bound_at_other_thresholds_agrees_with_another_implementation(others):
    """Continuous scores, where both sides count "at or above"; the threshold is one of the scores."""
    auditing, _ = others
    member, nonmember = gaussian(1.0).draw(np.random.default_rng(38), 300)
    for at in (*np.quantile(member, [0.05, 0.5, 0.95], method="nearest"), *nonmember[:3]):
        theirs = auditing.CanaryScoreAuditor(member, nonmember).epsilon_clopper_pearson(
            0.01, 1e-5, one_sided=False, threshold_strategy=auditing.Explicit(at)
        )
        ours = clopper_pearson_bound(
            Scores(member, nonmember), delta=1e-5, significance=0.01, threshold=Explicit(float(at))
        )
        assert ours.value == pytest.approx(theirs, rel=1e-9, abs=1e-12)
