"""The whole flow: the sandwich, verdicts, determinism, an outsider's mechanism."""

import dataclasses

import numpy as np
import pytest
from outside import ByScikitLearn, WrongScale
from support import audit_plan, mechanisms, random_data, release

from gpleak.audit import Subject, draw_replacements, exposure, run_audit
from gpleak.audit.bounds import EpsilonBound, Kind
from gpleak.audit.fidelity import Check, Fidelity
from gpleak.audit.verdict import Evidence, Verdict, rule
from gpleak.mechanisms import (
    Bounded,
    Centred,
    Dataset,
    Domain,
    ExactPosterior,
    InputError,
    Noised,
    NumericalError,
    Record,
    RenyiCurve,
    exact_epsilon,
    pair_delta,
)
from gpleak.reports import render_report

N = 40


def subject(index=0, **changes):
    data = random_data(np.random.default_rng(50), N, 1)
    return Subject(data, mechanisms(N, **changes)[index], Bounded())


# At this significance a lower bound above the exact epsilon has probability 1e-6 a run.
PLAN = audit_plan(significance=1e-6, trials=20_000, targets=3)


@pytest.mark.parametrize("index", [0, 1, 2], ids=["posterior", "noised", "centred"])
@pytest.mark.parametrize("paths", [1, 5])
@pytest.mark.parametrize("points", [None, "few"])
def test_sandwich(index, paths, points):
    """lower <= exact <= certified for every attack; false-failure rate 1e-6 by the plan's significance."""
    points = None if points is None else np.linspace(0, 1, 6)[:, None]
    result = run_audit(subject(index, paths=paths, points=points, ridge=0.5, scale=0.5), PLAN)
    assert len(result.attacks) == 3
    for attack in result.attacks:
        assert attack.epsilon_exact is not None
        assert attack.epsilon_lower.value <= attack.epsilon_exact <= result.certificate.epsilon
        assert attack.epsilon_exact == pytest.approx(result.epsilon_exact[attack.record], rel=1e-9)
        assert attack.epsilon_lower.value <= attack.largest_provable_epsilon
    exposed = [attack.epsilon_exact for attack in result.attacks]
    assert exposed == sorted(exposed, reverse=True)
    assert result.worst_epsilon == exposed[0]


@pytest.mark.parametrize("index", [0, 1, 2], ids=["posterior", "noised", "centred"])
def test_a_strong_leak_is_shown_up_to_the_design_limit(index):
    """The other side of the sandwich: the attack is not vacuous.

    With these parameters P(LLR < 20 | D) and P(LLR > -20 | D') are below 1e-12 (asserted from the exact profile), so
    that all 40,000 trials separate but for a chance of 1e-7, and the bound must be the largest provable one.
    """
    data = random_data(np.random.default_rng(50), N, 1)
    stated = release(N, ridge=0.01, scale=0.01, paths=60)
    if index == 1:
        stated = dataclasses.replace(stated, prior_noise=0.001)
    mechanism = [ExactPosterior, Noised, Centred][index](stated)
    result = run_audit(Subject(data, mechanism, Bounded()), PLAN.model_copy(update={"targets": 1}))
    attack = result.attacks[0]
    replacement = result.replacements.record(int(result.exposure.replacement[attack.record]))
    law = mechanism.contrast(data, attack.record, replacement).law
    # 1 - delta(20) >= P(LLR <= 20), by the definition of delta.
    for side in (law, law.swapped()):
        assert 1.0 - float(pair_delta(side, 20.0, paths=60)) < 1e-12
    assert attack.auc == 1.0
    assert attack.epsilon_lower.value == pytest.approx(attack.largest_provable_epsilon, rel=1e-9)


def test_attack_success_is_that_of_the_exact_trade_off():
    """At every threshold t of the log ratio, the scores' rates obey the exact profile: mean of (1 - e^(t - s))_+.

    That mean has standard error below 0.5 / sqrt(20,000); six of them make a false-failure rate below 1e-6 over
    the 12 comparisons (Hoeffding: 2 exp(-2 n t^2) = 2e-8 each at 0.0213).
    """
    chosen = subject(paths=3)
    result = run_audit(chosen, PLAN)
    attack = result.attacks[0]
    replacement = result.replacements.record(int(result.exposure.replacement[attack.record]))
    law = chosen.mechanism.contrast(chosen.data, attack.record, replacement).law
    scores = np.repeat(attack.curve.threshold[1:], np.diff(attack.curve.true_positives).astype(int))
    assert len(scores) == PLAN.trials
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        mean = np.maximum(-np.expm1(np.minimum(epsilon - scores, 0.0)), 0.0).mean()
        assert mean == pytest.approx(float(pair_delta(law, epsilon, paths=3)), abs=0.0213)


def test_scores_come_from_the_implementation_not_from_the_law():
    """Swap `release` for a twin with a third of the scale: AUC must rise. Its standard error is below 0.003."""
    data = random_data(np.random.default_rng(50), N, 1)
    aucs = {}
    for kind in (ExactPosterior, ByScikitLearn, WrongScale):
        result = run_audit(Subject(data, kind(release(N)), Bounded()), PLAN)
        aucs[kind] = result.attacks[0].auc
    assert aucs[ByScikitLearn] == pytest.approx(aucs[ExactPosterior], abs=0.03)
    assert aucs[WrongScale] > aucs[ExactPosterior] + 0.05


def test_a_mechanism_that_leaks_more_than_it_states_is_refuted_by_releases():
    data = random_data(np.random.default_rng(50), N, 1)
    plan = PLAN.model_copy(update={"claimed_epsilon": 3.5})
    right = run_audit(Subject(data, ByScikitLearn(release(N, ridge=1.0, scale=1.0)), Bounded()), plan)
    wrong = run_audit(Subject(data, WrongScale(release(N, ridge=1.0, scale=1.0)), Bounded()), plan)
    assert right.worst_epsilon == wrong.worst_epsilon < 3.5
    assert right.verdict == Verdict.NOT_REFUTED
    assert right.fidelity.passed
    assert wrong.verdict == Verdict.VIOLATED
    assert wrong.decided_by == "fidelity test"
    assert wrong.reason.startswith("not the stated mechanism: ")
    assert "by releases" in wrong.reason
    assert "without sampling" not in wrong.reason
    untested = run_audit(
        Subject(data, WrongScale(release(N, ridge=1.0, scale=1.0)), Bounded()), plan.model_copy(update={"fidelity": 0})
    )
    assert untested.fidelity is None
    most = max(untested.attacks, key=lambda attack: attack.epsilon_lower.value)
    assert untested.decided_by == f"core attack on record {most.record}"
    assert untested.decided_at == pytest.approx(1e-6 / 3)


def test_same_seed_same_result_and_targets_do_not_disturb_each_other():
    one, two = run_audit(subject(), PLAN), run_audit(subject(), PLAN)
    assert [a.epsilon_lower for a in one.attacks] == [a.epsilon_lower for a in two.attacks]
    assert [a.auc for a in one.attacks] == [a.auc for a in two.attacks]
    rows = [attack.record for attack in one.attacks]
    alone = run_audit(subject(), PLAN.model_copy(update={"targets": [rows[1]]}))
    assert alone.attacks[0].auc == one.attacks[1].auc
    other = run_audit(subject(), PLAN.model_copy(update={"seed": 1}))
    assert other.attacks[0].auc != one.attacks[0].auc


def test_targets():
    few = audit_plan(trials=50, replacements=3)
    everyone = run_audit(subject(), few.model_copy(update={"targets": "all"}))
    assert [attack.record for attack in everyone.attacks] == list(range(N))
    assert {a.epsilon_lower.significance for a in everyone.attacks} == {0.04 / N}  # a fifth is the fidelity test's
    assert len(run_audit(subject(), few.model_copy(update={"targets": 1000})).attacks) == N
    with pytest.raises(InputError, match="names record 40 but the data have records 0 to 39"):
        run_audit(subject(), few.model_copy(update={"targets": [40]}))


def test_exposure_is_the_maximum_of_all_pairs():
    """Pruning against brute force."""
    for index, paths in ((0, 1), (1, 4), (2, 1)):
        chosen = subject(index, paths=paths)
        replacements = draw_replacements(Domain([[0, 1]]), 1.0, 7, np.random.SeedSequence(3))
        laws = chosen.mechanism.leave_one_out(chosen.data, replacements)
        every = exact_epsilon(laws, 1e-3, paths=paths)
        found = exposure(laws, 1e-3, paths=paths)
        assert found.epsilon == pytest.approx(every.max(axis=1), rel=1e-9)
        assert np.array_equal(found.replacement, every.argmax(axis=1))


def test_replacements_are_public():
    domain = Domain([[2.0, 3.0], [-1.0, 0.0]])
    drawn = draw_replacements(domain, 0.5, 200, np.random.SeedSequence(4))
    assert domain.contains(drawn.covariates).all()
    assert set(drawn.responses) == {-0.5, 0.5}
    assert np.array_equal(drawn.covariates, draw_replacements(domain, 0.5, 200, np.random.SeedSequence(4)).covariates)


def test_one_record_at_library_level():
    mechanism = ExactPosterior(release(1))
    result = run_audit(Subject(Dataset([[0.4]], [0.5]), mechanism, Bounded()), audit_plan(trials=1000))
    assert result.worst_record == 0
    assert 0 < result.worst_epsilon <= result.certificate.epsilon


def test_progress_is_told():
    seen = []
    run_audit(subject(), audit_plan(trials=50, targets=2), progress=lambda done, total, _: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]  # a chunk a target: of so few trials one is enough


class Overconfident(ByScikitLearn):
    """States a Renyi curve that its own pairs exceed."""

    def __init__(self, release):
        super().__init__(release)
        self.renyi = lambda _: RenyiCurve(float("inf"), lambda excess: 1e-6 * (1 + excess))


def test_a_certificate_below_an_exact_value_is_refuted_by_it(monkeypatch):
    """An outsider's certificate that its own pairs exceed is VIOLATED; in our own code it is a defect: no verdict."""
    data = random_data(np.random.default_rng(50), N, 1)
    for claim in (None, 30.0):
        plan = audit_plan(trials=50, claimed_epsilon=claim)
        result = run_audit(Subject(data, Overconfident(release(N)), Bounded()), plan)
        assert result.verdict == Verdict.VIOLATED
        assert "above the certified" in result.reason
    monkeypatch.setattr(ExactPosterior, "renyi", lambda self, _: Overconfident(self.release).renyi(None))
    with pytest.raises(NumericalError, match=r"exceeds the certified epsilon .* gpleak has a defect"):
        run_audit(Subject(data, ExactPosterior(release(N)), Bounded()), audit_plan(trials=50))


def test_equal_records_are_ranked_by_row_and_reported():
    """CASES 10, the class: twenty identical rows differ by rounding only."""
    data = Dataset(np.full((20, 1), 0.4), np.full(20, 0.3))
    for kind, ridge in ((ExactPosterior, 0.01), (ExactPosterior, 1.0), (ExactPosterior, 3.3), (Centred, 1.0)):
        result = run_audit(Subject(data, kind(release(20, ridge=ridge)), Bounded()), audit_plan(trials=50, targets=2))
        assert result.worst_record == 0
        assert [attack.record for attack in result.attacks] == [0, 1]
        assert "<svg" in render_report(result)


def test_undefined_laws_are_refused_not_counted_as_no_leak():
    """CASES 20: a NaN compares false, so it would pass as epsilon 0."""
    fine = mechanisms(N)[0].leave_one_out(random_data(np.random.default_rng(50), N, 1), Dataset([[0.2]], [1.0]))
    for name, value in (("tilt", np.nan), ("gram", np.inf), ("kept", 0.0), ("gram_prime", -1e-3)):
        broken = np.broadcast_to(getattr(fine, name), fine.shape).copy()
        broken[3] = value
        with pytest.raises(NumericalError, match=r"the law of pair 3 \(1 of 40\) is not defined"):
            exposure(dataclasses.replace(fine, **{name: broken}), 1e-3, paths=1)


def evidence(value, provable, record=7):
    bound = EpsilonBound(value, 1e-3, 0.01, "clopper_pearson_split", "TPR/FPR", Kind.CONFIDENCE, 100)
    return Evidence("core", record, bound, provable)


def judged(claimed, *, certified=50.0, worst_exact=2.0, shown=((0.5, 6.0), (1.0, 6.0)), fidelity=None, worst_pair=None):
    return rule(
        claimed,
        certified=certified,
        worst_exact=worst_exact,
        worst_record=1,
        worst_pair=worst_pair,
        evidence=[evidence(*pair) for pair in shown],
        fidelity=fidelity,
    )


def faithful(p_value):
    return Fidelity(p_value, 0.01, (Check("variance", p_value / 20, 1),), 1000, 30)


def test_verdicts():
    assert judged(3.0, worst_exact=2.9).verdict == Verdict.NOT_REFUTED
    assert judged(3.0, worst_exact=2.9).decided_by is None
    by_exact = judged(3.0, worst_exact=3.1)
    assert by_exact.verdict == Verdict.VIOLATED
    assert (by_exact.decided_by, by_exact.significance) == ("exact epsilon of record 1", 0.0)
    assert "without sampling" in by_exact.reason
    by_attack = judged(3.0, shown=((3.2, 6.0), (0.5, 6.0)))
    assert by_attack.verdict == Verdict.VIOLATED
    assert (by_attack.decided_by, by_attack.significance) == ("core attack on record 7", 0.01)
    assert "significance 0.01" in by_attack.reason
    weak = judged(8.0)
    assert weak.verdict == Verdict.INCONCLUSIVE
    assert "raise audit.trials" in weak.reason
    # A claim of 0 is a claim, not "unset" (CASES 16).
    assert judged(0.0, worst_exact=0.1).verdict == Verdict.VIOLATED
    unfaithful = judged(3.0, fidelity=faithful(1e-5))
    assert unfaithful.verdict == Verdict.VIOLATED
    assert (unfaithful.decided_by, unfaithful.significance) == ("fidelity test", 0.01)
    assert unfaithful.reason.startswith("not the stated mechanism: the variance of its releases from the neighbouring")
    assert judged(3.0, fidelity=faithful(0.02)).verdict == Verdict.NOT_REFUTED
    by_pair = judged(3.0, worst_pair=3.5)
    assert by_pair.verdict == Verdict.VIOLATED
    assert (by_pair.decided_by, by_pair.significance) == ("worst pair", 0.0)
    assert "whatever these data show" in by_pair.reason
    assert judged(3.0, worst_exact=3.1, worst_pair=3.5).decided_by == "exact epsilon of record 1"
    everything = judged(3.0, worst_exact=3.1, shown=((3.2, 6.0),), fidelity=faithful(0.0))
    assert everything.decided_by == "fidelity test"
    for part in ("p-value below 1e-300", "without sampling", "by releases"):
        assert part in everything.reason
    for ruling in (by_exact, by_attack, weak, unfaithful):
        assert "private" not in ruling.reason
        assert "safe" not in ruling.reason


def test_case_20_nothing_measured_never_passes():
    """CASES 20a-d, f: NaN and nothing compare false; (e): an infinite certificate is no certificate to violate."""
    with pytest.raises(InputError, match="got nan: nothing was measured"):
        evidence(np.nan, 6.0)
    with pytest.raises(InputError, match="at least 0, got -1"):
        evidence(-1.0, 6.0)
    with pytest.raises(InputError, match="largest provable epsilon is NaN"):
        evidence(1.0, np.nan)
    for bad in (np.nan, -1.0):
        with pytest.raises(InputError, match="certified epsilon must be 0 or more"):
            judged(3.0, certified=bad)
        with pytest.raises(InputError, match="claimed epsilon must be 0 or more"):
            judged(bad)
    with pytest.raises(InputError, match="no attack was made"):
        judged(3.0, shown=())
    with pytest.raises(InputError, match="worst record is NaN"):
        judged(3.0, worst_exact=np.nan)
    with pytest.raises(InputError, match="p-value of the fidelity test is NaN"):
        judged(3.0, fidelity=faithful(np.nan))
    free = judged(np.inf, certified=np.inf, shown=((4.08, 6.0),))
    assert free.verdict == Verdict.INCONCLUSIVE
    assert "no certificate to violate" in free.reason


def test_only_a_confidence_bound_is_a_ground_of_a_verdict():
    for kind in (Kind.MODEL, Kind.ESTIMATE):
        bound = EpsilonBound(9.0, 1e-3, 0.01, "joint_beta_split", "both", kind, 100)
        with pytest.raises(InputError, match="joint_beta_split is no ground of a verdict"):
            Evidence("core", 7, bound, 6.0)


def test_claim_defaults_to_the_certificate():
    result = run_audit(subject(), audit_plan(trials=100, targets=1))
    assert result.claimed_epsilon == result.certificate.epsilon
    zero = run_audit(subject(), audit_plan(trials=100, targets=1, claimed_epsilon=0.0))
    assert zero.claimed_epsilon == 0.0
    assert zero.verdict == Verdict.VIOLATED


def test_records_are_values():
    record = Record(np.array([0.1]), 0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.response = 1.0
    with pytest.raises(ValueError, match="read-only"):
        record.covariates[0] = 2.0


def test_the_whole_sandwich_with_the_searches(monkeypatch):
    """records <= worst pair <= certificate, for one audit with everything on; the report shows all of it."""
    result = run_audit(subject(paths=2), audit_plan(search=True, trials=200, targets=1))
    assert result.worst_epsilon <= result.worst_pair.epsilon <= result.certificate.epsilon
    assert [certificate.method for certificate in result.certificates] == ["renyi", "structured"]
    assert result.certificate.method == "structured"
    report = render_report(result)
    for text in ("worst pair found", "numerical supremum", "certified, best"):
        assert text in report
    # A claim between the records and the worst pair is refuted for the mechanism, not for these records.
    claim = 0.5 * (result.worst_epsilon + result.worst_pair.epsilon)
    monkeypatch.setattr("gpleak.audit.run.worst_pair", lambda *_, **__: result.worst_pair)  # found once is enough
    refuted = run_audit(subject(paths=2), audit_plan(search=True, trials=200, targets=1, claimed_epsilon=claim))
    assert refuted.decided_by == "worst pair"
