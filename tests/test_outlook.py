"""What surrounds an audit: more paths, trade-off curves, what trials could refute. Against closed forms and twins."""

import numpy as np
import pytest
from support import audit_plan, mechanisms, random_data, release

from gpleak.audit import Rates, Subject, certify_closed, detectable_factor, refuting_power, run_audit
from gpleak.audit.exposure import exposure
from gpleak.audit.gdp import delta_of_mu, epsilon_of_mu, trade_off
from gpleak.audit.outlook import POWER, SUCCESS_FPR, look_around
from gpleak.audit.power import optimal_rates
from gpleak.mechanisms import (
    Bounded,
    ExactPosterior,
    GaussianQuery,
    NumericalError,
    exact_epsilon,
    pair_delta,
    smallest_fnr,
    trade_off_at,
)
from gpleak.reports.rates import most_hits

N = 30
DATA = random_data(np.random.default_rng(60), N, 1)
DELTA = 1e-3


@pytest.fixture(scope="module")
def result():
    return run_audit(Subject(DATA, mechanisms(N)[0], Bounded()), audit_plan(trials=500, targets=3))


def law_of(result):
    """The pair of the worst record, by another way than the audit's."""
    row = result.worst_record
    replacement = result.replacements.record(int(result.exposure.replacement[row]))
    return result.mechanism.contrast(DATA, row, replacement).law.flat()


def test_a_gaussian_pair_has_the_closed_form():
    """The worst pair of the noisy sum is two normals mu apart: L paths are sqrt(L) mu apart (THEORY section 10)."""
    mechanism = GaussianQuery(release(N, scale=1.7))
    result = run_audit(Subject(DATA, mechanism, Bounded()), audit_plan(search=True, trials=50, targets=1))
    found, mu = result.outlook.worst_pair, mechanism.mu()
    assert found.gaussian.mu == pytest.approx(mu, rel=1e-7)
    assert found.gaussian.regret < 1e-6  # what interpolation between 400 epsilons adds
    for paths, epsilon, success in zip(result.outlook.paths, found.epsilon, found.success, strict=True):
        wide = np.sqrt(paths) * mu
        assert epsilon == pytest.approx(epsilon_of_mu(wide, DELTA), rel=1e-7)
        assert success == pytest.approx(1.0 - trade_off(wide, SUCCESS_FPR), abs=1e-5)
    middle = (found.fpr > 1e-5) & (found.fpr < 1 - 1e-5)
    assert middle.sum() > 60
    expected = [trade_off(mu, float(fpr)) for fpr in found.fpr[middle]]
    np.testing.assert_allclose(found.fnr[middle], expected, atol=1e-7)


def test_the_pair_of_the_worst_record_against_other_ways(result):
    found, law = result.outlook.record, law_of(result)
    for paths, epsilon, success in zip(result.outlook.paths, found.epsilon, found.success, strict=True):
        assert epsilon == pytest.approx(float(exact_epsilon(law, DELTA, paths=paths)[0]), rel=1e-6)
        best = 1.0 - smallest_fnr(law, SUCCESS_FPR, paths=paths)
        assert best - 1e-4 <= success <= best + 1e-9
    assert found.epsilon[0] == pytest.approx(result.worst_epsilon, rel=1e-9)
    # Every drawn point is one of the curve: the best miss rate at its false-alarm rate.
    for at in np.flatnonzero((found.fpr > 1e-4) & (found.fpr < 0.99))[::12]:
        assert found.fnr[at] == pytest.approx(smallest_fnr(law, float(found.fpr[at])), abs=1e-6)
    mu, regret = found.gaussian.mu, found.gaussian.regret
    assert regret > 0  # its likelihood ratio is no normal
    for epsilon in (0.3, 1.0, 2.0, 4.0):
        profile = max(float(pair_delta(side, epsilon)[0]) for side in (law, law.swapped()))
        assert profile <= delta_of_mu(mu, epsilon) + regret + 1e-12


def test_curves_cover_rates_that_can_be_drawn(result):
    found = result.outlook.record
    assert found.fpr[0] < 1e-6
    assert found.fnr[-1] < 1e-6
    assert np.all(np.diff(found.fpr) >= 0)
    assert np.all(np.diff(found.fnr) <= 0)
    assert np.diff(found.fpr).max() < 0.1


def test_more_paths_cost_more_and_the_certificate_covers_them(result):
    outlook, regime = result.outlook, Bounded()
    assert outlook.paths == (1, 2, 5, 10, 20, 50, 100)
    for paths, certified in zip(outlook.paths, outlook.certified, strict=True):
        changed = ExactPosterior(release(N, paths=paths))
        assert certified == certify_closed(changed, regime, DELTA).epsilon
    assert outlook.certified[0] == result.certificate.epsilon
    for values in (outlook.certified, outlook.record.epsilon, outlook.record.success):
        assert np.all(np.diff(values) >= 0)
    assert np.all(np.array(outlook.record.epsilon) <= outlook.certified)
    allowed = [float(most_hits(epsilon, DELTA, np.array(SUCCESS_FPR))) for epsilon in outlook.certified]
    assert np.all(np.array(outlook.record.success) <= np.array(allowed) + 1e-12)
    # With the exact epsilon in place of the certified one the same inequality holds and is not vacuous.
    first = float(most_hits(outlook.record.epsilon[0], DELTA, np.array(SUCCESS_FPR)))
    assert SUCCESS_FPR < outlook.record.success[0] <= first < 1.0


def test_own_number_of_paths_is_among_them():
    mechanism = ExactPosterior(release(N, paths=3))
    result = run_audit(Subject(DATA, mechanism, Bounded()), audit_plan(trials=50, targets=1))
    assert {1, 3, 6, 15, 30, 100} <= set(result.outlook.paths)
    own = result.outlook.paths.index(3)
    assert result.outlook.record.epsilon[own] == pytest.approx(result.worst_epsilon, rel=1e-9)
    assert result.outlook.certified[own] == result.certificate.epsilon


def test_the_refutable_claim_is_refuted_as_often_as_promised(result):
    """Against `detectable_factor` on a finer grid of thresholds, by which `gpleak plan` goes."""
    found, exact = result.outlook.refutable, result.worst_epsilon
    assert found.record == result.worst_record
    assert (found.trials, found.power) == (500, POWER)
    assert found.significance == result.ledger.share("core")
    rates = optimal_rates(law_of(result), reach=2 * exact + 2, paths=1)
    assert isinstance(rates, Rates)
    how = {"trials": 500, "delta": DELTA, "significance": found.significance}
    factor = detectable_factor(rates, exact, power=POWER, **how)
    assert found.claim == pytest.approx(exact / factor, rel=0.12)
    assert refuting_power(rates, found.claim, **how) > POWER - 0.05
    assert refuting_power(rates, 1.3 * found.claim, **how) < POWER


def test_looks_at_any_time_promise_no_power():
    plan = audit_plan(trials=200, batch=50, targets=1)
    assert run_audit(Subject(DATA, mechanisms(N)[0], Bounded()), plan).outlook.refutable is None


def test_what_float64_cannot_say_is_left_out_and_ends_nothing(monkeypatch):
    def lost(*_, **__):
        raise NumericalError("too far")

    subject, plan = Subject(DATA, mechanisms(N)[0], Bounded()), audit_plan(trials=50, targets=1)
    whole = run_audit(subject, plan)
    monkeypatch.setattr("gpleak.audit.outlook.trade_off_at", lost)
    result = run_audit(subject, plan)
    assert result.verdict == whole.verdict
    assert result.outlook.record is result.outlook.refutable is None
    assert result.outlook.certified == whole.outlook.certified
    monkeypatch.setattr("gpleak.audit.outlook.trade_off_at", trade_off_at)
    calls = []

    def lost_for_many(law, delta, *, paths):
        calls.append(paths)
        if paths > 10:
            raise NumericalError("too far")
        return exposure(law, delta, paths=paths)

    monkeypatch.setattr("gpleak.audit.outlook.exposure", lost_for_many)
    partly = run_audit(subject, plan).outlook.record
    assert partly.epsilon[:4] == whole.outlook.record.epsilon[:4]
    assert partly.epsilon[4:] == (None, None, None)
    assert partly.success == whole.outlook.record.success


def test_without_data_there_is_no_pair():
    subject, plan = Subject(DATA, mechanisms(N)[0], Bounded()), audit_plan(trials=50, targets=1)
    ledger = run_audit(subject, plan).ledger
    outlook = look_around(subject, plan, laws=None, exposed=None, worst=None, targets=[], ledger=ledger)
    assert outlook.record is outlook.worst_pair is outlook.refutable is None
    assert outlook.certified is not None
