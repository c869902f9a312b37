"""Every other bound and estimate: known values, brute-force twins, second methods, and what each may be used for."""

import functools
import itertools
import math
import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import counted, gaussian, laplace, randomised_response
from scipy.integrate import quad
from scipy.stats import beta, binom
from support import random_data, release

from gpleak.attacks import Scores
from gpleak.audit.bounds import (
    Bonferroni,
    Design,
    EpsilonBound,
    Explicit,
    FixedCount,
    Guesses,
    IndependentCoins,
    Kind,
    Sequential,
    SharedCoins,
    Split,
    clopper_pearson_bound,
    gaussian_dp_estimate,
    jeffreys_estimate,
    joint_beta_estimate,
    largest_provable_epsilon,
    model_based_bound,
    one_run_bound,
    one_run_p_value,
    one_run_provable,
    sequential_bound,
    sequential_provable,
)
from gpleak.audit.bounds.model_based import log_wealth, stakes
from gpleak.audit.bounds.sequential import Bet, _log_wealth, batches
from gpleak.audit.gdp import epsilon_of_mu, mu_of_epsilon
from gpleak.mechanisms import (
    Dataset,
    ExactPosterior,
    GaussianQuery,
    InputError,
    Noised,
    Thompson,
    diagonal,
    exact_epsilon,
    solve_epsilon,
)

HALF = Explicit(0.5)
QUERY = GaussianQuery(release(5))


@pytest.fixture(scope="module")
def others():
    """Independent implementations; importing them warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jax_privacy.auditing
        import privacy_estimates

        return jax_privacy.auditing, privacy_estimates


# What a bound is.


@pytest.mark.parametrize("value", [math.nan, -math.nan, -1e-300, -1.0, -math.inf])
def test_a_bound_refuses_what_no_measurement_gives(value):
    """CASES 20a: NaN would compare as "not above the claim"."""
    with pytest.raises(InputError, match="at least 0"):
        EpsilonBound(value, 1e-5, 0.05, "any", "none", Kind.CONFIDENCE, 10)


def test_only_a_confidence_bound_may_refute():
    refuting = {kind for kind in Kind if EpsilonBound(1.0, 1e-5, 0.05, "any", "both", kind, 10).may_refute}
    assert refuting == {Kind.CONFIDENCE}


ESTIMATORS = {
    "clopper_pearson_split": (clopper_pearson_bound, Kind.CONFIDENCE),
    "clopper_pearson_explicit": (functools.partial(clopper_pearson_bound, threshold=HALF), Kind.CONFIDENCE),
    "clopper_pearson_bonferroni": (
        functools.partial(clopper_pearson_bound, threshold=Bonferroni((0.0, 1.0))),
        Kind.CONFIDENCE,
    ),
    "betting_sequence": (functools.partial(sequential_bound, batch=100, claimed=0.5), Kind.CONFIDENCE),
    "one_run": (functools.partial(one_run_bound, design=IndependentCoins()), Kind.CONFIDENCE),
    "model_based_betting": (model_based_bound, Kind.MODEL),
    "jeffreys_split": (jeffreys_estimate, Kind.ESTIMATE),
    "joint_beta_split": (joint_beta_estimate, Kind.ESTIMATE),
    "gaussian_dp_split": (functools.partial(gaussian_dp_estimate, declared=QUERY), Kind.ESTIMATE),
}


def test_all_are_called_alike_and_say_what_they_are():
    """One loop, two arguments; each says its method and kind, echoes what it was asked and shows something."""
    scores = Scores(*gaussian(3.0).draw(np.random.default_rng(50), 600))
    for method, (estimator, kind) in ESTIMATORS.items():
        bound = estimator(scores, delta=1e-3, significance=0.05)
        assert isinstance(bound, EpsilonBound)
        assert (bound.method, bound.kind, bound.delta, bound.significance) == (method, kind, 1e-3, 0.05)
        assert 0.5 < bound.value < math.inf, method
        assert bound.direction != "none"
        assert bound.evaluated in (420, 600, 1200)


@pytest.mark.parametrize("method", ESTIMATORS)
@pytest.mark.parametrize("scores", [np.zeros(200), np.arange(200.0) / 1e3 - 0.1, np.full(200, -np.inf)])
def test_scores_without_signal_show_nothing(method, scores):
    """The same scores on both sides; ratios without signal are 0, so that is all the model-based bound is given."""
    if method == "model_based_betting":
        scores = 0.0 * np.arange(200.0)
    bound = ESTIMATORS[method][0](Scores(scores, scores), delta=1e-5, significance=0.05)
    assert bound.value == 0.0
    assert bound.direction == "none"


@pytest.mark.parametrize("method", ESTIMATORS)
def test_bad_designs_are_refused(method):
    scores = Scores(np.ones(300), np.zeros(300))
    for delta in (-1e-9, 1.0, 1e5, math.nan):
        with pytest.raises(InputError, match="delta must be in"):
            ESTIMATORS[method][0](scores, delta=delta, significance=0.05)
    for significance in (0.0, 1.0, 5.0, math.nan):
        with pytest.raises(InputError, match="significance must be in"):
            ESTIMATORS[method][0](scores, delta=1e-5, significance=significance)


@settings(max_examples=60, deadline=None)
@given(
    member=st.lists(st.integers(-3, 3), min_size=200, max_size=200),
    nonmember=st.lists(st.integers(-3, 3), min_size=200, max_size=200),
    delta=st.sampled_from([0.0, 1e-5, 0.2]),
)
def test_no_scores_give_nan(member, nonmember, delta):
    """Ties, few values, either order: a value of at least 0 with a direction, or 0 without."""
    for method, (estimator, _) in ESTIMATORS.items():
        bound = estimator(Scores(np.array(member), np.array(nonmember)), delta=delta, significance=0.1)
        assert bound.value >= 0
        assert (bound.value > 0) == (bound.direction != "none"), method


# Estimates.


@pytest.mark.parametrize(
    ("counts", "delta", "significance", "value"),
    [
        ((100, 100, 0, 100), 1e-5, 0.05, 4.896),
        ((100, 100, 0, 100), 1e-5, 0.10, 5.286),
        ((50000, 50000, 0, 50000), 1e-7, 0.05, 11.120),
        ((95, 100, 10, 100), 1e-5, 0.05, 2.2905),
    ],
)
def test_case_02_joint_beta(counts, delta, significance, value):
    """CASES 02 a, a at 10 %, b, c: no bracket error, no cap; labelled an estimate."""
    found = joint_beta_estimate(counted(*counts), delta=delta, significance=significance, threshold=HALF)
    assert found.value == pytest.approx(value, abs=0.01)
    assert found.kind is Kind.ESTIMATE
    assert not found.may_refute
    assert found.direction == "both"


@pytest.mark.parametrize("counts", [(95, 100, 10, 100), (70, 100, 1, 100), (5, 5, 0, 5), (980, 1000, 3, 700)])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.2])
def test_joint_beta_is_the_posterior_quantile(counts, delta):
    """Second method: the posterior probability of ``eps(FNR, FPR) <= value``, integrated over FNR, is 5 %.

    The curve below which a pair of rates shows more than epsilon is ``max(1 - delta - e^eps FNR, e^-eps (1 - delta -
    FNR))``; for each FNR the probability of a larger FPR is a beta tail.
    """
    true, members, false, nonmembers = counts
    epsilon = joint_beta_estimate(counted(*counts), delta=delta, significance=0.05, threshold=HALF).value
    fnr, fpr = beta(members - true + 0.5, true + 0.5), beta(false + 0.5, nonmembers - false + 0.5)

    def inside(x):
        least = max(1 - delta - math.exp(epsilon) * x, math.exp(-epsilon) * (1 - delta - x), 0.0)
        return fnr.pdf(x) * fpr.sf(least)

    corner = (1 - delta) / (1 + math.exp(epsilon))
    cuts = sorted({0.0, *fnr.ppf([1e-9, 1e-4, 0.05, 0.5, 0.95, 1 - 1e-4, 1 - 1e-9]), corner, 1 - delta, 1.0})
    assert epsilon > 0
    assert sum(quad(inside, a, b, epsabs=1e-11, limit=200)[0] for a, b in itertools.pairwise(cuts)) == pytest.approx(
        0.05, abs=1e-5
    )


def test_joint_beta_is_no_confidence_bound():
    """CASES note 1: rates of 0.02, 100 trials a side: above the true epsilon with probability 0.24 to 0.25, not 0.05.

    No sampling: binomial sums over all counts of up to 8 errors a side (the rest, below 2e-3, left out);
    Clopper-Pearson, where the rest counts as wrong, stays below the note's 0.008.
    """
    trials, rate, delta, most = 100, 0.02, 1e-5, 8
    truth = math.log((1 - rate - delta) / rate)
    weight = binom.pmf(range(most + 1), trials, rate)
    level = {"delta": delta, "significance": 0.05, "threshold": HALF}
    above = {joint_beta_estimate: 0.0, clopper_pearson_bound: 1 - weight.sum() ** 2}
    for missed, false in itertools.combinations_with_replacement(range(most + 1), 2):  # both are symmetric in them
        scores = counted(trials - missed, trials, false, trials)
        both = weight[missed] * weight[false] * (2 if missed != false else 1)
        for method in above:
            above[method] += both * (method(scores, **level).value > truth)
    assert above[joint_beta_estimate] == pytest.approx(0.24, abs=0.01)
    assert above[clopper_pearson_bound] <= 0.008


@pytest.mark.parametrize("counts", [(95, 100, 10, 100), (60, 100, 1, 80), (1000, 1000, 0, 1000), (499, 500, 301, 600)])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.05])
def test_jeffreys_agrees_with_another_implementation(counts, delta, others):
    """privacy_estimates at the same tails; above Clopper-Pearson, as it always is."""
    true, members, false, nonmembers = counts
    count = others[1].AttackResults(FN=members - true, FP=false, TN=nonmembers - false, TP=true)
    found = jeffreys_estimate(counted(*counts), delta=delta, significance=0.05, threshold=HALF)
    assert found.value == pytest.approx(others[1].compute_eps_lo(count, delta, 0.05, "jeffreys"), rel=1e-9)
    exact = clopper_pearson_bound(counted(*counts), delta=delta, significance=0.05, threshold=HALF)
    assert found.value > exact.value > 0
    assert found.kind is Kind.ESTIMATE


def test_jeffreys_at_the_ends():
    """No true positive, nothing but false ones: limits of exactly 0 and 1 show nothing."""
    for counts in ((0, 20, 0, 20), (20, 20, 20, 20), (0, 20, 20, 20)):
        assert jeffreys_estimate(counted(*counts), delta=0.0, significance=0.05, threshold=HALF).value == 0.0


@pytest.mark.parametrize("count", [200, 6])
def test_case_03_without_signal_a_gaussian_fit_shows_nothing(count):
    """CASES 03 a, b: at every observed threshold, alone and corrected; |mu| would give 11.72 and 24.04."""
    scores = Scores(np.arange(float(count)), np.arange(float(count)))
    level = {"delta": 1e-5, "significance": 0.05, "declared": QUERY}
    for at in range(count):
        assert gaussian_dp_estimate(scores, **level, threshold=Explicit(float(at))).value == 0.0
    grid = Bonferroni(tuple(map(float, range(count))))
    assert gaussian_dp_estimate(scores, **level, threshold=grid).value == 0.0


def test_case_03_gaussian_fit_of_a_signal(others):
    """CASES 03c: mu 2.141446, epsilon 10.878675; jax_privacy agrees where each of its 3 thresholds gets these tails."""
    scores = counted(95, 100, 10, 100)
    found = gaussian_dp_estimate(scores, delta=1e-5, significance=0.05, declared=QUERY, threshold=HALF)
    assert found.value == pytest.approx(10.878675, abs=1e-6)
    assert mu_of_epsilon(found.value, 1e-5) == pytest.approx(2.141446, abs=1e-6)
    assert (found.kind, found.direction) == (Kind.ESTIMATE, "both")
    theirs = others[0].CanaryScoreAuditor(scores.member, scores.nonmember).epsilon_from_gdp(3 * 0.05, 1e-5)
    assert found.value == pytest.approx(theirs, abs=2e-6)
    pure = gaussian_dp_estimate(scores, delta=0.0, significance=0.05, declared=QUERY, threshold=HALF)
    assert pure.value == math.inf  # no Gaussian mechanism has a finite epsilon at delta 0


def test_case_03_reversed_scores_show_nothing():
    """CASES 03d: members far below; never turned around."""
    scores = Scores(np.arange(100.0), np.arange(1000.0, 1100.0))
    level = {"delta": 1e-5, "significance": 0.05, "declared": QUERY}
    for at in (-1.0, 0.0, 50.0, 99.0, 500.0, 1000.0, 1050.0, 1099.0, 2000.0):
        assert gaussian_dp_estimate(scores, **level, threshold=Explicit(at)).value == 0.0
    assert gaussian_dp_estimate(scores, **level).value == 0.0


def test_only_a_declared_gaussian_mechanism_is_fitted():
    scores = Scores(np.ones(50), np.zeros(50))
    for mechanism in (ExactPosterior(release(5)), Noised(release(5, prior_noise=0.5))):
        with pytest.raises(InputError, match=f"{mechanism.name} does not declare itself Gaussian-DP"):
            gaussian_dp_estimate(scores, delta=1e-5, significance=0.05, declared=mechanism)
    for mechanism in (QUERY, Thompson(release(5))):
        assert gaussian_dp_estimate(scores, delta=1e-5, significance=0.05, declared=mechanism).value > 0


def test_the_declared_mu_is_that_of_the_dominating_pair_and_of_the_worst_datasets():
    """A query's is attained by responses M and -M; Thompson's by an uncorrelated record that every round knows."""
    worst = Dataset(np.linspace(0.0, 1.0, 5)[:, None], np.array([1.0, 0.3, -0.2, 0.9, 0.1]))
    other = Dataset(worst.covariates[:1], np.array([-1.0]))
    for mechanism in (QUERY, Thompson(release(5, kernel=diagonal()))):
        expected = epsilon_of_mu(mechanism.mu(), 1e-5)
        assert float(solve_epsilon(mechanism.dominating_pair(None), 1e-5, paths=1)[0]) == pytest.approx(expected)
        exact = exact_epsilon(mechanism.leave_one_out(worst, other), 1e-5)
        assert exact[0, 0] == pytest.approx(expected, rel=1e-9)
        assert exact.max() <= expected * (1 + 1e-9)
    data = random_data(np.random.default_rng(51), 5, 1)
    correlated = Thompson(release(5))
    assert exact_epsilon(correlated.leave_one_out(data, other), 1e-5).max() < epsilon_of_mu(correlated.mu(), 1e-5)


# One run.


def one_release(canaries, guesses, correct):
    """Scores and guesses "in", so many of them right, the others out. If all are right the last is one "out"."""
    if correct == canaries:
        return Scores(np.ones(correct - 1), np.zeros(1)), Guesses(correct - 1, 1)
    out = np.repeat([1.0, 0.0], [guesses - correct, canaries - guesses])
    return Scores(np.ones(correct), out), Guesses(guesses, 0)


def refuted_epsilon(canaries, guesses, correct, delta, significance=0.05):
    scores, made = one_release(canaries, guesses, correct)
    level = {"delta": delta, "significance": significance}
    return one_run_bound(scores, **level, design=IndependentCoins(), guesses=made)


@pytest.mark.parametrize(
    ("design", "delta", "value"),
    [
        ((1000, 100, 90), 0.0, 1.6308231927),
        ((1000, 100, 90), 1e-5, 1.6261434807),
        ((1000, 1000, 600), 0.0, 0.2974679236),
        ((1000, 1000, 600), 1e-5, 0.2972269537),
    ],
)
def test_one_run_known_values(design, delta, value):
    """From an independent implementation of Theorem 5.2 at significance 0.05."""
    bound = refuted_epsilon(*design, delta)
    assert bound.value == pytest.approx(value, abs=2e-9)
    assert bound.evaluated == 1000
    if delta == 0:  # closed form: the Clopper-Pearson limit of the accuracy, in log-odds
        low = beta.ppf(0.05, design[2], design[1] - design[2] + 1)
        assert bound.value == pytest.approx(math.log(low / (1 - low)), rel=1e-9)


def test_one_run_known_p_value():
    """From the same implementation."""
    found = one_run_p_value(canaries=1000, guesses=100, correct=90, epsilon=1.5, delta=1e-5)
    assert found == pytest.approx(0.0187645885, abs=5e-11)


def p_value_twin(canaries, guesses, correct, epsilon, delta):
    """Theorem 5.2 term by term with 40 digits: ``P[W >= v] + 2 m delta max over i of P[v > W >= v - i] / i``."""
    with mp.workdps(40):
        q = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        mass = [mp.binomial(guesses, k) * q**k * (1 - q) ** (guesses - k) for k in range(guesses + 1)]
        above = mp.fsum(mass[correct:])
        steps = [mp.fsum(mass[max(correct - i, 0) : correct]) / i for i in range(1, canaries + 1)]
        return float(min(above + 2 * canaries * mp.mpf(delta) * max(steps), 1))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), canaries=st.integers(1, 40), epsilon=st.floats(0, 30), log_delta=st.floats(-12, -0.1))
def test_one_run_p_value_is_the_theorem(data, canaries, epsilon, log_delta):
    """Brute-force twin."""
    guesses = data.draw(st.integers(1, canaries))
    correct = data.draw(st.integers(0, guesses))
    for delta in (0.0, 10.0**log_delta):
        design = {"canaries": canaries, "guesses": guesses, "correct": correct}
        found = one_run_p_value(**design, epsilon=epsilon, delta=delta)
        assert found == pytest.approx(p_value_twin(canaries, guesses, correct, epsilon, delta), rel=1e-9, abs=1e-290)


def test_one_run_p_value_of_a_large_release():
    """100,000 canaries against scipy's binomial: what the twin is too slow for."""
    canaries, guesses, correct, epsilon, delta = 100_000, 20_000, 15_000, 1.05, 1e-8
    law = binom(guesses, 1 / (1 + math.exp(-epsilon)))
    i = np.arange(1, correct + 1)
    steps = (law.cdf(correct - 1) - law.cdf(correct - i - 1)) / i
    expected = law.sf(correct - 1) + 2 * canaries * delta * steps.max()
    design = {"canaries": canaries, "guesses": guesses, "correct": correct}
    assert one_run_p_value(**design, epsilon=epsilon, delta=delta) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("guesses", [50, 400])
def test_one_run_covers_exactly(guesses):
    """No sampling: right guesses of pure epsilon 1 are at worst binomial; wrong with at most, and nearly, 5 %."""
    truth, right = 1.0, 1 / (1 + math.exp(-1.0))
    values = np.array([refuted_epsilon(400, guesses, correct, 0.0).value for correct in range(1, guesses + 1)])
    wrong = binom.pmf(np.arange(1, guesses + 1), guesses, right)[values > truth].sum()
    assert 0.02 < wrong <= 0.05
    assert (np.diff(values) >= 0).all()


@settings(max_examples=40, deadline=None)
@given(data=st.data(), canaries=st.integers(2, 60), delta=st.sampled_from([0.0, 1e-4, 0.01, 0.2]))
def test_one_run_never_falls_with_right_guesses_nor_exceeds_the_provable(data, canaries, delta):
    """Validity rests on the first: then "the bound is above the truth" is "so many guesses were right"."""
    guesses = data.draw(st.integers(1, canaries))
    found = [refuted_epsilon(canaries, guesses, correct, delta, 0.2).value for correct in range(1, guesses + 1)]
    assert found == sorted(found)
    most = one_run_provable(canaries=canaries, delta=delta, significance=0.2, guesses=Guesses(guesses, 0))
    assert found[-1] == most


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-3])
def test_one_run_provable_is_attained_by_perfect_scores(delta):
    """As many in as are guessed in; with one canary more on a side a guess must go wrong."""
    most = one_run_provable(canaries=301, delta=delta, significance=0.05)
    level = {"delta": delta, "significance": 0.05, "design": IndependentCoins()}
    assert one_run_bound(Scores(np.ones(151), np.zeros(150)), **level).value == most > 3.0
    assert one_run_bound(Scores(np.ones(152), np.zeros(149)), **level).value < most
    if delta == 0:  # every guess right: q^r = significance
        q = 0.05 ** (1 / 301)
        assert most == pytest.approx(math.log(q / (1 - q)), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3])
def test_one_run_agrees_with_another_implementation(delta, others):
    """jax_privacy guesses "in" only, at a fixed threshold; its root is to 1e-6."""
    auditing, _ = others
    member, nonmember = laplace(3.0).draw(np.random.default_rng(52), 500)
    auditor = auditing.CanaryScoreAuditor(member, nonmember)
    for at in (-2.0, 0.5, 2.5):
        theirs = auditor.epsilon_one_run(0.05, delta, threshold_strategy=auditing.Explicit(at))
        made = Guesses(int((member >= at).sum() + (nonmember >= at).sum()), 0)
        level = {"delta": delta, "significance": 0.05, "design": IndependentCoins()}
        assert one_run_bound(Scores(member, nonmember), **level, guesses=made).value == pytest.approx(theirs, abs=2e-6)
    assert theirs > 0.5


def test_one_run_refuses_other_designs_and_too_many_guesses():
    scores = Scores(np.ones(6), np.zeros(4))
    level = {"delta": 1e-5, "significance": 0.05}
    for design in (FixedCount(5), SharedCoins(2)):
        assert isinstance(design, Design)
        with pytest.raises(InputError, match="independent fair coin"):
            one_run_bound(scores, **level, design=design)
    for guesses in (Guesses(6, 5), Guesses(11, 0), Guesses(0, 11)):
        with pytest.raises(InputError, match="11 guesses for 10 canaries"):
            one_run_bound(scores, **level, design=IndependentCoins(), guesses=guesses)
    assert one_run_bound(scores, **level, design=IndependentCoins(), guesses=Guesses(6, 4)).value > 0
    for counts in ((0, 0), (-1, 3), (3, -1)):
        with pytest.raises(InputError, match="at least one guess"):
            Guesses(*counts)


def test_one_run_ties_count_against_the_attacker():
    """All canaries alike, half of them in: every guess is wrong; half of each group alike: no better than a coin."""
    level = {"delta": 0.0, "significance": 0.05, "design": IndependentCoins()}
    assert one_run_bound(Scores(np.ones(50), np.ones(50)), **level).value == 0.0
    tied = Scores(np.repeat([1.0, 0.0], 25), np.repeat([1.0, 0.0], 25))
    assert one_run_bound(tied, **level).value == 0.0


@settings(max_examples=60, deadline=None)
@given(
    member=st.lists(st.integers(0, 2), min_size=1, max_size=3),
    nonmember=st.lists(st.integers(0, 2), min_size=1, max_size=3),
    data=st.data(),
)
def test_one_run_counts_the_worst_order_of_ties(member, nonmember, data):
    """Brute force: over all orders of the canaries that sort their scores, the fewest right guesses."""
    total = len(member) + len(nonmember)
    included = data.draw(st.integers(0, total))
    excluded = data.draw(st.integers(int(included == 0), max(total - included, int(included == 0))))
    canaries = [(score, True) for score in member] + [(score, False) for score in nonmember]
    right = []
    for order in itertools.permutations(canaries):
        if all(a[0] >= b[0] for a, b in itertools.pairwise(order)):
            last = order[total - excluded :]
            right.append(sum(c[1] for c in order[:included]) + sum(not c[1] for c in last))
    level = {"delta": 0.0, "significance": 0.9}
    made = Guesses(included, excluded)
    bound = one_run_bound(
        Scores(np.array(member), np.array(nonmember)), **level, design=IndependentCoins(), guesses=made
    )
    correct = min(right)
    if correct == 0:
        assert bound.value == 0.0
    else:
        low = beta.ppf(0.9, correct, included + excluded - correct + 1)
        assert bound.value == pytest.approx(max(math.log(low / (1 - low)), 0.0) if low < 1 else math.inf, abs=1e-8)


# The bound that knows the law.


def test_model_based_at_delta_0_is_the_largest_ratio():
    """One ratio above epsilon shows that ``delta(eps) > 0``."""
    member, nonmember = laplace(1.5).draw(np.random.default_rng(53), 200)
    bound = model_based_bound(Scores(member, nonmember), delta=0.0, significance=0.05)
    assert bound.value == max(member.max(), -nonmember.min()) == 1.5
    assert bound.kind is Kind.MODEL
    assert not bound.may_refute
    assert model_based_bound(Scores([-1.0, 0.3], [2.0, -0.7]), delta=0.0, significance=0.05).direction == "TNR/FNR"
    assert model_based_bound(Scores([-1.0, 0.8], [2.0, -0.7]), delta=0.0, significance=0.05).value == 0.8


@settings(max_examples=100, deadline=None)
@given(
    ratios=st.lists(st.floats(-50, 50), min_size=1, max_size=30),
    better=st.lists(st.floats(0, 30), min_size=30, max_size=30),
    delta=st.sampled_from([0.0, 1e-6, 1e-3, 0.3]),
)
def test_model_based_never_falls_when_trials_are_better(ratios, better, delta):
    """A larger ratio of a member, or a smaller one of a nonmember; 3e-7 is what the root is rounded by."""
    ratios, better = np.array(ratios), np.array(better[: len(ratios)])
    level = {"delta": delta, "significance": 0.3}
    for sign in (1.0, -1.0):
        before = model_based_bound(Scores(ratios, -sign * ratios), **level).value
        after = model_based_bound(Scores(ratios + better, -sign * ratios - better), **level).value
        assert after >= before - 3e-7


@settings(max_examples=100, deadline=None)
@given(ratios=st.lists(st.floats(-800, 800), min_size=1, max_size=30), delta=st.sampled_from([1e-300, 1e-6, 1e-3, 0.9]))
def test_model_based_wealth_falls_with_epsilon_and_meets_the_need_at_the_bound(ratios, delta):
    """The value is the root: just below it the bet is won, just above it is not."""
    ratios = np.array(ratios)
    value = model_based_bound(Scores(ratios, np.zeros(1)), delta=delta, significance=0.2).value

    def wealth(epsilon):
        return float(log_wealth(stakes(ratios, epsilon, delta), 0, delta))

    assert np.all(np.diff([wealth(epsilon) for epsilon in np.linspace(0, 800, 41)]) <= 1e-9)
    assert value <= max(ratios.max(), 0.0)
    assert wealth(value + 1e-6 + 1e-10 * value) < math.log(2 / 0.2)
    if value > 0:
        assert wealth(value) >= math.log(2 / 0.2)


@pytest.mark.parametrize("delta", [1e-5, 1e-3, 0.05])
def test_model_based_wealth_at_the_truth_is_1_on_average(delta):
    """Exactly, without sampling: all outcomes of four responses; at an epsilon below the truth it is more than 1."""
    pair = randomised_response(1.0)
    truly = 1 / (1 + math.exp(-1.0))
    outcomes = np.array(list(itertools.product([1.0, -1.0], repeat=4)))
    weight = np.where(outcomes > 0, truly, 1 - truly).prod(axis=1)
    mean = [
        float(weight @ np.exp(log_wealth(stakes(outcomes, epsilon, delta), 0, delta)))
        for epsilon in (pair.epsilon(delta), pair.epsilon(delta) - 1e-3)
    ]
    assert mean[0] == pytest.approx(1.0, abs=1e-9)
    assert mean[1] > 1 + 1e-6
    lost = (outcomes <= 0).sum(axis=1)
    won = [
        float(log_wealth(stakes(row[row > 0], 0.9, delta), count, delta))
        for row, count in zip(outcomes, lost, strict=True)
    ]
    assert won == pytest.approx(log_wealth(stakes(outcomes, 0.9, delta), 0, delta))


def test_model_based_with_a_release_that_the_other_side_cannot_make():
    """A ratio of +inf: its X is 1 at every epsilon, so the bound is infinite once it pays for the trials lost."""
    for delta in (0.0, 1e-6, 1e-300):
        for rest in ([], [-math.inf], [-3.0, 0.2, 700.0]):
            bound = model_based_bound(Scores([math.inf, *rest], [0.0]), delta=delta, significance=0.05)
            assert (bound.value, bound.direction) == (math.inf, "TPR/FPR")
            bound = model_based_bound(Scores([0.0], [-math.inf, *(-r for r in rest)]), delta=delta, significance=0.05)
            assert (bound.value, bound.direction) == (math.inf, "TNR/FNR")
    few = model_based_bound(Scores([math.inf, *np.zeros(99)], np.zeros(100)), delta=0.05, significance=0.05)
    assert few.value == 0.0  # delta 0.05 allows five such releases in a hundred
    enough = model_based_bound(Scores([math.inf] * 30 + [0.0] * 70, np.zeros(100)), delta=0.05, significance=0.05)
    assert enough.value == math.inf


# The betting sequence.


@settings(max_examples=200, deadline=None)
@given(
    tpr=st.floats(0, 1),
    fpr=st.floats(0, 1),
    share=st.floats(0, 1),
    claimed=st.floats(0, 20),
    epsilon=st.floats(0, 20),
    delta=st.sampled_from([0.0, 1e-5, 0.05, 0.9]),
)
def test_a_true_claim_has_no_expected_gain(tpr, fpr, share, claimed, epsilon, delta):
    """One pair of trials, summed over its four outcomes, with any rate that may be bet: expected wealth at most 1.

    For every epsilon that the two rates allow, above and below the claim; exactly 1 on the edge below the claim. A bet
    against less than the two rates imply gains.
    """
    rate = 0.9 * share / (math.exp(claimed) + delta)

    def expected(at):
        chances = (tpr * (1 - fpr), (1 - tpr) * fpr, tpr * fpr, (1 - tpr) * (1 - fpr))
        bets = [Bet(0.0, rate, *(int(i == j) for j in range(4))) for i in range(4)]
        return sum(chance * math.exp(_log_wealth((bet,), at, delta)) for chance, bet in zip(chances, bets, strict=True))

    if tpr <= math.exp(epsilon) * fpr + delta:
        assert expected(epsilon) <= 1 + 1e-12
    if tpr > delta and fpr > 1e-9 and (edge := math.log((tpr - delta) / fpr)) >= 0:
        assert expected(edge) <= 1 + 1e-9
        if edge <= claimed:
            assert expected(edge) == pytest.approx(1.0, abs=1e-9)
            assert expected(edge - 0.1) >= 1 - 1e-12


@settings(max_examples=150, deadline=None)
@given(
    counts=st.lists(st.tuples(*[st.integers(0, 30)] * 4, st.floats(0, 1)), min_size=1, max_size=5),
    claimed=st.floats(0, 15),
    delta=st.sampled_from([0.0, 1e-5, 0.05]),
)
def test_the_wealth_falls_with_epsilon(counts, claimed, delta):
    """Across the cap too: this is why one root is the bound."""
    largest = 0.9 / (math.exp(claimed) + delta)
    bets = [Bet(0.0, share * largest, *numbers) for *numbers, share in counts]
    wealth = [_log_wealth(bets, epsilon, delta) for epsilon in np.linspace(0, 20, 81)]
    assert np.all(np.diff(wealth) <= 1e-9)


def test_bets_are_fixed_before_their_batch():
    """Whatever a batch holds, what was bet on it is the same; the scores before it decide."""
    rng = np.random.default_rng(54)
    first = Scores(*gaussian(2.0).draw(rng, 200))
    state = Sequential(0.5, 1e-5, 0.05).look(first)
    states = [state.look(batch) for batch in (first, Scores(-first.member, -first.nonmember), Scores([9.0], [-9.0]))]
    for side in ("forward", "backward"):
        bets = [getattr(after, side)[-1] for after in states]
        assert len({(bet.threshold, bet.rate) for bet in bets}) == 1
        assert bets[0].rate > 0
        assert len({(bet.hits, bet.alarms) for bet in bets}) == 3
    other = Sequential(0.5, 1e-5, 0.05).look(Scores(5 + first.member, 5 + first.nonmember)).look(first)
    assert other.forward[-1].threshold == pytest.approx(states[0].forward[-1].threshold + 5)


def test_a_score_at_the_threshold_is_called_a_member():
    """In both directions, and the four outcomes of a pair are told apart."""
    state = Sequential(0.5, 1e-5, 0.05).look(Scores(*gaussian(2.0).draw(np.random.default_rng(56), 200)))
    bets = [getattr(state.look(Scores([9.0], [-9.0])), side)[-1] for side in ("forward", "backward")]
    for side, bet in zip(("forward", "backward"), bets, strict=True):
        at, below, above = bet.threshold, np.nextafter(bet.threshold, -9), bet.threshold + 1
        member = np.array([at, at, below, below, above, below])
        nonmember = np.array([below, at, at, below, below, below])
        found = getattr(state.look(Scores(member, nonmember)), side)[-1]
        both, neither = (1, 2) if side == "forward" else (2, 1)
        assert (found.hits, found.alarms, found.both, found.neither) == (2, 1, both, neither)


def test_the_bound_is_where_the_mean_of_both_wealths_is_due():
    """After the second look, the first with bets: ``(forward + backward) / 2 = 1 / significance`` there."""
    scores = Scores(*gaussian(2.0).draw(np.random.default_rng(57), 800))
    for claimed in (0.0, 0.5, 1.0):
        state = Sequential(claimed, 1e-3, 0.05)
        for batch in batches(scores, 400):
            state = state.look(batch)

        def wealth(epsilon, state=state):
            return sum(math.exp(_log_wealth(bets, epsilon, 1e-3)) for bets in (state.forward, state.backward)) / 2

        assert state.best > 0.5
        assert wealth(state.best) >= 20 > wealth(state.best + 1e-6)


def test_the_first_batch_only_chooses():
    """However perfect it is."""
    state = Sequential(0.0, 1e-5, 0.05).look(Scores(np.ones(10_000), np.zeros(10_000)))
    assert state.bound.value == 0.0
    assert state.bound.direction == "none"
    assert [bet.rate for bet in (*state.forward, *state.backward)] == [0.0, 0.0]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), claimed=st.sampled_from([0.0, 0.3, 2.0]), delta=st.sampled_from([0.0, 1e-3, 0.1]))
def test_the_bound_never_falls_and_equals_the_running_state(data, claimed, delta):
    """Batches of good and of misleading scores in any order."""
    batch = st.lists(st.integers(-2, 2), min_size=40, max_size=40)
    parts = data.draw(st.lists(st.tuples(batch, batch), min_size=2, max_size=6))
    state, path = Sequential(claimed, delta, 0.2), []
    for member, nonmember in parts:
        state = state.look(Scores(np.array(member), np.array(nonmember)))
        path.append(state.bound.value)
        assert state.refuted == (state.bound.value > claimed)
    assert path == sorted(path)
    whole = Scores(*(np.concatenate([part[side] for part in parts]) for side in (0, 1)))
    assert sequential_bound(whole, delta=delta, significance=0.2, batch=40, claimed=claimed) == state.bound
    assert state.bound.evaluated == 40 * len(parts)


def test_batches_are_consecutive_and_none_is_lost():
    """What is left over joins the last; less than two batches are refused."""
    scores = Scores(np.arange(25.0), np.arange(100.0, 130.0))
    parts = batches(scores, 10)
    assert [len(part.member) for part in parts] == [10, 15]
    assert np.array_equal(np.concatenate([part.nonmember for part in parts]), np.arange(100.0, 125.0))
    for size in (0, -1, 13):
        with pytest.raises(InputError, match="at least two batches"):
            batches(scores, size)
    for claimed in (-1.0, math.nan):
        with pytest.raises(InputError, match="at least 0"):
            Sequential(claimed, 1e-5, 0.05)


def test_an_infinite_claim_is_never_refuted():
    """Nothing is bet against it, even by perfect scores; nor against one that no number of trials reaches."""
    for claimed in (math.inf, 701.0):
        state = Sequential(claimed, 1e-5, 0.05)
        for _ in range(4):
            state = state.look(Scores(np.ones(1000), np.zeros(1000)))
        assert not state.refuted
        assert state.bound.value == 0.0


@pytest.mark.parametrize("flip", [False, True])
def test_the_direction_is_the_side_that_leaks(flip):
    """A mechanism that gives itself away only when the record is absent (or, turned around, only when present).

    Scores 1 for members, 1 or 0 evenly for nonmembers: "TNR/FNR" has no false alarm, TPR/FPR is 2. Failure: 500 coins
    so uneven that it shows nothing, below 1e-6 (a bound above 2 needs 100 zeros in 400: binom.cdf(99, 400, .5) < 1e-6).
    """
    assert binom.cdf(99, 400, 0.5) < 1e-6
    coins = (np.random.default_rng(55).random(500) < 0.5).astype(float)
    scores = Scores(-coins, -np.ones(500)) if flip else Scores(np.ones(500), coins)
    bound = sequential_bound(scores, delta=0.0, significance=0.05, batch=100, claimed=1.0)
    assert bound.direction == ("TPR/FPR" if flip else "TNR/FNR")
    assert bound.value > 2.0


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.05])
@pytest.mark.parametrize("claimed", [0.0, 1.0, 3.0])
def test_sequential_provable_is_attained_by_perfect_scores(claimed, delta):
    """Perfect separation wins every bet in both directions; whatever the claim, if the largest rate is bet."""
    level = {"delta": delta, "significance": 0.05}
    bound = sequential_bound(Scores(np.ones(1000), np.zeros(1000)), **level, batch=100, claimed=claimed)
    most = sequential_provable(trials=1000, batch=100, **level)
    assert bound.value == pytest.approx(most, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    kept=st.integers(0, 60),
    size=st.integers(5, 20),
    claimed=st.floats(0, 4),
    delta=st.sampled_from([0.0, 1e-3, 0.3]),
    significance=st.sampled_from([0.5, 0.05, 1e-9]),
)
def test_sequential_provable_is_never_exceeded(kept, size, claimed, delta, significance):
    """Nearly perfect scores and perfect ones."""
    member = np.where(np.arange(60) < kept, 1.0, 0.0)
    level = {"delta": delta, "significance": significance}
    most = sequential_provable(trials=60, batch=size, **level)
    for scores in (Scores(member, np.zeros(60)), Scores(np.ones(60), np.zeros(60)), Scores(np.ones(60), 1 - member)):
        assert sequential_bound(scores, **level, batch=size, claimed=claimed).value <= most + 1e-9
    assert sequential_provable(trials=60, batch=60, **level) == 0.0


def test_a_split_proves_less_than_all_trials_at_one_threshold():
    """What is held back to choose the threshold is not evaluated."""
    level = {"delta": 1e-5, "significance": 0.05}
    assert largest_provable_epsilon(evaluated=Split().evaluated(1000), **level) < largest_provable_epsilon(
        evaluated=HALF.evaluated(1000), **level
    )
