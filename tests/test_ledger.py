"""One significance for everything: what is spent adds up, in the audit, its record and its report."""

import numpy as np
import pytest
from support import audit_plan, mechanisms, random_data

from gpleak.audit import Subject, open_ledger, run_audit
from gpleak.audit.ledger import Expense, Ledger
from gpleak.audit.verdict import Evidence, Verdict, rule
from gpleak.mechanisms import Bounded, InputError
from gpleak.reports import as_record, render_report

N = 30


def subject(index=0, **changes):
    return Subject(random_data(np.random.default_rng(60), N, 1), mechanisms(N, **changes)[index], Bounded())


@pytest.mark.parametrize("fidelity", [True, False])
@pytest.mark.parametrize("attacks", [1, 3, 1000])
def test_everything_is_spent_once(fidelity, attacks):
    aims = [("core", row) for row in range(attacks)] + [("population", None)]
    ledger = open_ledger(0.05, aims, fidelity=fidelity, looks=1)
    assert len(ledger.expenses) == attacks + 1 + fidelity
    assert ledger.spent == pytest.approx(0.05, rel=1e-12)
    assert ledger.share("core") == ledger.share("population")
    if fidelity:
        assert ledger.share("fidelity") == pytest.approx(0.01)


def test_overspending_is_refused():
    with pytest.raises(InputError, match=r"spend 0\.06 of a significance of 0\.05"):
        Ledger(0.05, (Expense("core", 1, 0.03, 1, 2, 1), Expense("core", 2, 0.03, 1, 2, 1)))


@pytest.mark.parametrize("batch", [None, 200])
def test_the_audit_spends_what_the_ledger_says(batch):
    plan = audit_plan(trials=1000, targets=3, adversaries=["core", "population"], shadows=50, batch=batch)
    result = run_audit(subject(), plan)
    record = as_record(result)
    entries = {(entry["test"], entry["record"]): entry for entry in record["ledger"]["entries"]}
    assert len(entries) == 7
    assert record["ledger"]["spent"] == pytest.approx(0.05)
    assert record["fidelity"]["significance"] == entries["fidelity", None]["significance"]
    for attack in record["attacks"]:
        entry = entries[attack["adversary"], attack["record"]]
        assert attack["epsilon_lower"]["significance"] == entry["significance"]
        assert entry["looks"] == (1 if batch is None else None)
        assert attack["epsilon_lower"]["method"] == ("clopper_pearson_split" if batch is None else "betting_sequence")
    report = render_report(result)
    for text in ("What the significance was spent on", "fidelity test", "core attack", "population attack"):
        assert text in report
    assert ("any number" in report) == (batch is not None)


def test_estimates_are_shown_and_decide_nothing():
    """Every estimate and the model-based bound of a leaky release exceed a claim that the bound does not."""
    result = run_audit(subject(ridge=0.4, scale=0.4), audit_plan(trials=2000, targets=1))
    (attack,) = result.attacks
    beside = [attack.model_based, *attack.estimates]
    assert [bound.method.split("_")[0] for bound in beside] == ["model", "jeffreys", "joint"]
    claim = 0.5 * (attack.epsilon_lower.value + min(bound.value for bound in beside))
    assert attack.epsilon_lower.value < claim
    evidence = [Evidence(attack.adversary, attack.record, attack.epsilon_lower, attack.largest_provable_epsilon)]
    stated = {"certified": np.inf, "worst_exact": None, "worst_record": None, "fidelity": None}
    assert rule(claim, evidence=evidence, **stated).verdict != Verdict.VIOLATED
    assert rule(0.9 * attack.epsilon_lower.value, evidence=evidence, **stated).verdict == Verdict.VIOLATED
    report = render_report(result)
    assert "no ground of a verdict" in report
    assert "confidence given the stated law" in report


def test_sequential_audit_stops_when_the_claim_falls():
    """A claim of 0.5 against an exact epsilon above 5: refuted at the second or third look of ten.

    At significance 1e-6, in each of 200 other seeds it took at most 3 looks.
    """
    leaky = subject(ridge=0.4, scale=0.4)
    plan = audit_plan(trials=20_000, batch=2000, targets=1, claimed_epsilon=0.5, significance=1e-6)
    result = run_audit(leaky, plan)
    (attack,) = result.attacks
    assert attack.epsilon_exact > 5.0
    assert 4000 <= attack.trials <= 8000
    assert 0.5 < attack.epsilon_lower.value <= min(attack.epsilon_exact, attack.largest_provable_epsilon)
    assert attack.epsilon_lower.method == "betting_sequence"
    kept = run_audit(leaky, plan.model_copy(update={"claimed_epsilon": 2.0 * attack.epsilon_exact}))
    assert kept.attacks[0].trials == 20_000  # no evidence, no end
    assert kept.attacks[0].epsilon_lower.value <= kept.attacks[0].epsilon_exact


def test_batches_use_the_same_releases_as_one_look():
    """The trials of a sequential audit are the first ones of an audit that looks once."""
    plan = audit_plan(trials=2500, targets=2, adversaries=["core", "population"], shadows=50)
    once = run_audit(subject(), plan)
    batched = run_audit(subject(), plan.model_copy(update={"batch": 700, "claimed_epsilon": 1e3}))
    for one, other in zip(once.attacks, batched.attacks, strict=True):
        assert one.trials == other.trials == 2500
        assert np.array_equal(one.curve.threshold, other.curve.threshold)
        assert one.auc == other.auc


def test_looks_cover_all_trials_once():
    for trials, batch in ((10, None), (10, 5), (11, 5), (14, 5), (15, 5), (20_000, 7)):
        looks = audit_plan(trials=trials, batch=batch).looks
        assert [i for look in looks for i in look] == list(range(trials))
        assert all(len(look) >= (batch or trials) for look in looks)
    with pytest.raises(ValueError, match="less than two batches"):
        audit_plan(trials=9, batch=5)
