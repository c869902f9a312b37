"""Power: what a design can refute, predicted from the exact pair and held against the real bound."""

import json
import re

import numpy as np
import pytest
from scipy.stats import binom
from support import audit_plan, pair, random_data, reference, release
from typer.testing import CliRunner

from gpleak.attacks import Scores
from gpleak.audit import (
    Rates,
    Split,
    Subject,
    clopper_pearson_bound,
    detectable_factor,
    largest_provable_epsilon,
    optimal_rates,
    plan_power,
    refuting_power,
    run_audit,
    trials_to_refute,
)
from gpleak.audit.binomial import proportion_lower, proportion_upper
from gpleak.audit.bounds import epsilon_from_rates
from gpleak.audit.power import _power_at
from gpleak.mechanisms import Bounded, ExactPosterior, GaussianQuery, InputError, Thompson, exact_epsilon
from gpleak.reports.cli import app

ROW = reference("exact_pairs")[1]
LAW = pair(*(ROW[name] for name in ("m", "m_prime", "v", "v_prime", "rho", "ridge", "scale")))
EXACT, DELTA, SHARE = ROW["epsilon_exact"], 1e-3, 0.05
RATES = optimal_rates(LAW, reach=2 * EXACT, paths=1)
LEVEL = {"delta": DELTA, "significance": SHARE}


def draw(rng, count):
    """Log-likelihood ratios of the pair under both datasets, from the laws of THEORY section 6."""
    v, v_prime, rho, ridge, scale = (ROW[name] for name in ("v", "v_prime", "rho", "ridge", "scale"))
    gram, sides = np.array([[v, rho], [rho, v_prime]]), []
    for side, residual in enumerate((ROW["m"], ROW["m_prime"])):
        column, spread = gram[side], gram[side, side] + ridge**2
        root = np.linalg.cholesky(scale**2 * (gram - np.outer(column, column) / spread))
        u = residual / spread * column + rng.standard_normal((count, 2)) @ root.T
        # The law's own statistics are u / scale^2.
        sides.append(LAW.log_likelihood_ratio(*(u / scale**2).T))
    return Scores(*sides)


@pytest.mark.parametrize(
    ("tpr", "fpr", "claimed"), [(0.3, 0.05, 0.5), (0.9, 0.4, 0.3), (0.99, 0.5, 2.0), (0.2, 0.2, 0.1)]
)
def test_power_at_a_threshold_is_an_exact_sum(tpr, fpr, claimed):
    """Against all pairs of counts, one by one."""
    count, tail = 60, 0.025
    k = np.arange(count + 1)
    low, high = proportion_lower(k, count, tail), proportion_upper(k, count, tail)
    shown = np.maximum(*epsilon_from_rates(low[:, None], high[None], DELTA))
    weight = binom.pmf(k, count, tpr)[:, None] * binom.pmf(k, count, fpr)
    expected = float(weight[shown > claimed].sum())
    assert _power_at(tpr, fpr, claimed, count, DELTA, tail) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_predicted_power_is_that_of_the_real_bound(factor):
    """400 runs with the planned trials at predicted power 0.9; false-failure rate 1e-6.

    The prediction simulates 100 choices of the threshold, so its own standard error is at most 0.03: the limits are
    those of binomials with 0.78 and 0.99.
    """
    claimed = EXACT / factor
    trials = trials_to_refute(RATES, claimed, power=0.9, **LEVEL)
    assert refuting_power(RATES, claimed, trials=trials, **LEVEL) >= 0.9
    runs = 400
    refuted = sum(
        clopper_pearson_bound(draw(np.random.default_rng([80, seed]), trials), **LEVEL).value > claimed
        for seed in range(runs)
    )
    assert binom.ppf(5e-7, runs, 0.78) <= refuted <= binom.isf(5e-7, runs, 0.99)
    # It would catch a plan that forgets the held-out choice: that one asks for a fifth fewer trials.
    assert refuting_power(RATES, claimed, trials=trials // 3, **LEVEL) < 0.7


def test_more_trials_refute_closer_claims():
    factors = [detectable_factor(RATES, EXACT, trials=n, power=0.9, **LEVEL) for n in (1000, 20_000, 10**6, 10**9)]
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] > 1.0
    for trials, factor in zip((1000, 20_000), factors, strict=False):
        assert refuting_power(RATES, EXACT / factor, trials=trials, **LEVEL) >= 0.9
        assert refuting_power(RATES, 1.02 * EXACT / factor, trials=trials, **LEVEL) < 0.9
    needed = [trials_to_refute(RATES, EXACT / factor, power=0.9, **LEVEL) for factor in (1.5, 2.0, 3.0)]
    assert needed == sorted(needed, reverse=True)


def test_what_cannot_be_refuted():
    assert trials_to_refute(RATES, EXACT, power=0.9, **LEVEL) is None
    assert detectable_factor(RATES, EXACT, trials=10, power=0.9, **LEVEL) is None
    nothing = Rates(np.linspace(0, 1, 50), np.linspace(0, 1, 50))
    assert trials_to_refute(nothing, 0.1, power=0.9, **LEVEL) is None
    assert refuting_power(nothing, 0.1, trials=10_000, **LEVEL) <= SHARE
    for power in (0.0, 1.0):
        with pytest.raises(InputError, match="power must be in"):
            trials_to_refute(RATES, 1.0, power=power, **LEVEL)


def test_power_respects_the_most_that_can_be_shown():
    """A perfect attack refutes claims up to the largest provable epsilon and none above."""
    perfect = Rates(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    for trials in (100, 10_000):
        most = largest_provable_epsilon(evaluated=Split().evaluated(trials), **LEVEL)
        assert refuting_power(perfect, 0.999 * most, trials=trials, **LEVEL) == pytest.approx(1.0)
        assert refuting_power(perfect, 1.001 * most, trials=trials, **LEVEL) == 0.0


@pytest.mark.parametrize("kind", [ExactPosterior, Thompson, GaussianQuery])
def test_plan_is_about_the_attack_that_the_audit_makes(kind):
    data = random_data(np.random.default_rng(60), 30, 1)
    subject = Subject(data, kind(release(30, ridge=1.0, scale=2.0)), Bounded())
    plan = audit_plan(trials=2000)
    found = plan_power(subject, plan, factor=2.0)
    result = run_audit(subject, plan)
    attack = max(result.attacks, key=lambda attack: attack.epsilon_exact)
    assert found.record == attack.record
    assert found.exact == pytest.approx(attack.epsilon_exact, rel=1e-9)
    assert found.significance == attack.epsilon_lower.significance
    assert found.planned_provable == attack.largest_provable_epsilon
    assert found.claimed == pytest.approx(found.exact / 2)
    law = subject.mechanism.contrast(
        data, found.record, result.replacements.record(int(result.exposure.replacement[found.record]))
    ).law
    assert float(exact_epsilon(law, plan.delta)) == pytest.approx(found.exact, rel=1e-8)


EXAMPLE = "examples/faults/audit.toml"


def command(*arguments):
    from pathlib import Path

    return CliRunner().invoke(app, ["plan", str(Path(__file__).parent.parent / EXAMPLE), "--allow-code", *arguments])


def test_the_command_says_how_many_trials():
    done = command("--detect", "1.5")
    assert done.exit_code == 0
    assert re.search(r"trials to refute it\s+[\d,]{6,}", done.stdout)
    assert "too small by a factor of 1.5" in done.stdout
    assert "The 20,000 trials of the configuration refute this claim" in done.stdout
    plain = json.loads(command("--detect", "1.5", "--json").stdout)
    assert plain["trials"] > 20_000
    assert plain["claimed"] == pytest.approx(plain["exact"] / 1.5)
    assert plain["power"] == 0.9
    eager = json.loads(command("--detect", "1.5", "--power", "0.5", "--json").stdout)
    assert eager["trials"] < plain["trials"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--detect", "1"), "--detect must be above 1, got 1: it is how many times the claim is too small"),
        (("--detect", "nan"), "--detect must be above 1"),
        (("--detect", "2", "--power", "1.5"), r"--power must be in \(0, 1\)"),
        (("--detect", "2", "--set", "audit.adversaries=['population']"), "needs the exact profile of a pair"),
    ],
)
def test_bad_plans_are_refused(arguments, message):
    done = command(*arguments)
    assert isinstance(done.exception, InputError)
    assert re.search(message, str(done.exception))
