"""The gate: nothing passes that was not measured (CASES 20), that was refuted, or that could not have been refuted."""

import dataclasses
from math import inf, nan

import numpy as np
import pytest
from support import audit_plan, random_data, release

from gpleak.audit import SPLIT, Subject, Verdict, largest_provable_epsilon, run_audit
from gpleak.audit.gate import Checked, Outcome, Shown, checked, gate, trials_for
from gpleak.mechanisms import Bounded, ExactPosterior
from gpleak.mechanisms.foreign import BlackBox
from gpleak.mechanisms.foreign.function import FunctionModel

SHOWN = Shown(
    adversary="core",
    record=7,
    epsilon_lower=1.2,
    significance=0.01,
    method="clopper_pearson_split (confidence)",
    provable=6.0,
    trials=4000,
    scores=2800,
    shadows=500,
    exact=1.9,
)
FOUND = Checked(
    claimed=3.0,
    certified=2.9,
    certified_by="renyi, bounded",
    delta=1e-3,
    significance=0.05,
    attacks=(SHOWN,),
    exact=2.0,
    exact_record=4,
    verdict=Verdict.NOT_REFUTED,
    fidelity=True,
)


def found(*, shown=None, **changes):
    attacks = {} if shown is None else {"attacks": (SHOWN, dataclasses.replace(SHOWN, **shown))}
    return dataclasses.replace(FOUND, **attacks, **changes)


def test_a_measured_claim_passes_and_the_gate_echoes_what_it_compared():
    passed = gate(FOUND)
    assert passed.passed
    assert passed.outcome is Outcome.PASSED
    assert passed.reason == ""
    said = dict(passed.lines)
    assert said["claim"] == "epsilon at most 3 at delta 0.001"  # limit
    assert "2,800 of 4,000 trials a side" in said["measured"]  # n
    assert "500 shadows a side" in said["measured"]
    assert "at 99.0 % confidence" in said["shown"]  # confidence
    assert "the core attack on record 7" in said["shown"]
    assert "clopper_pearson_split" in said["measured"]  # method
    assert said["exact"] == "epsilon 2 for record 4, of the stated law, without sampling"
    assert said["certified"] == "epsilon 2.9 (renyi, bounded)"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"shown": {"epsilon_lower": nan}}, "the lower bound on epsilon is nan", id="a"),
        pytest.param({"certified": nan}, "the certified epsilon is nan", id="b"),
        pytest.param({"certified": -1.0}, "the certified epsilon is -1.0", id="b negative"),
        pytest.param({"attacks": ()}, "no attack was made", id="c"),
        pytest.param({"shown": {"scores": 0}}, "it has 0 scores of 4000 trials", id="c no scores"),
        pytest.param({"claimed": nan}, "the claimed epsilon is nan", id="d"),
        pytest.param({"claimed": -0.5}, "the claimed epsilon is -0.5", id="d negative"),
        pytest.param({"claimed": None}, "the claimed epsilon is None", id="d unset"),
        pytest.param({"shown": {"shadows": 0}}, "0 shadows finished", id="f"),
    ],
)
def test_case_20_what_was_not_measured_fails_with_a_reason(given, said):
    for allowed in (False, True):
        for verdict in (Verdict.NOT_REFUTED, None):  # whatever somebody concluded from it
            stopped = gate(found(**given, verdict=verdict), inconclusive_ok=allowed)
            assert not stopped.passed
            assert stopped.outcome is Outcome.NOTHING_MEASURED
            assert said in stopped.reason


def test_case_20e_without_a_certificate_only_the_claim_is_tested_and_that_is_said():
    passed = gate(found(certified=inf, claimed=5.0, shown={"epsilon_lower": 4.08}))
    assert passed.passed
    assert passed.outcome is Outcome.PASSED
    assert "no certificate to violate" in passed.reason
    assert "no certificate to violate" in dict(passed.lines)["certified"]
    assert "at least 4.08" in passed.headline
    # Where the infinite certificate is all that is claimed, nothing could have failed: passes only if that was allowed.
    idle = found(certified=inf, claimed=inf, shown={"epsilon_lower": 4.08}, verdict=Verdict.INCONCLUSIVE)
    assert not gate(idle).passed
    assert gate(idle, inconclusive_ok=True).passed
    assert "no certificate to violate; claim a number" in gate(idle).reason
    assert not gate(found(certified=inf, shown={"epsilon_lower": 4.08})).passed


@pytest.mark.parametrize("bad", [nan, None])
def test_no_number_can_be_missing(bad):
    """Each number of the gate in turn: NaN compares false, and None with nothing."""
    numbers = [one.name for one in dataclasses.fields(Checked) if one.type in (float, "float")]
    assert numbers == ["claimed", "certified", "delta", "significance"]
    for name in numbers:
        assert gate(found(**{name: bad})).outcome is Outcome.NOTHING_MEASURED
    for name in ("epsilon_lower", "significance", "provable", "trials", "scores"):
        stopped = gate(found(shown={name: bad}))
        assert stopped.outcome is Outcome.NOTHING_MEASURED
        assert stopped.reason.startswith("the core attack on record 7: ")
    assert gate(found(exact=nan)).outcome is Outcome.NOTHING_MEASURED
    assert gate(found(shown={"epsilon_lower": inf})).outcome is Outcome.NOTHING_MEASURED
    assert gate(found(significance=0.0)).outcome is Outcome.NOTHING_MEASURED


@pytest.mark.parametrize(
    ("significance", "said"),
    [(0.05, "95.0 %"), (0.001, "99.90 %"), (0.000267, "99.973 %"), (4e-7, "99.999960 %"), (0.5, "50 %")],
)
def test_confidence_is_rounded_down(significance, said):
    assert (
        f"at {said} confidence"
        in dict(gate(found(attacks=(dataclasses.replace(SHOWN, significance=significance),))).lines)["shown"]
    )


def test_whatever_speaks_against_the_claim_fails():
    for given, said in (
        ({"verdict": Verdict.VIOLATED, "reason": "the verdict's own"}, "the verdict's own"),
        ({"shown": {"epsilon_lower": 3.1}}, "at least 3.1 by releases, at significance 0.01"),
        ({"shown": {"epsilon_lower": 2.95}}, "above the certified 2.9: the claim stands, but"),
        ({"exact": 3.2}, "the exact epsilon of record 4 is 3.2"),
    ):
        stopped = gate(found(**given), inconclusive_ok=True)
        assert not stopped.passed
        assert stopped.outcome is Outcome.VIOLATED
        assert said in stopped.reason
    by_proof = gate(found(verdict=Verdict.VIOLATED, reason="why", decided_by="exact epsilon of record 4"))
    assert by_proof.headline == "refuted by the exact epsilon of record 4, the claim is at most 3"
    more = dict(gate(found(shown={"epsilon_lower": 2.0})).lines)  # than the exact 1.9 of its pair
    assert "the implementation is not what is stated" in more["so"]


def test_a_check_that_could_not_fail_does_not_pass_however_small_the_exact_epsilon_is():
    weak = found(claimed=8.0, verdict=Verdict.INCONCLUSIVE)
    stopped = gate(weak)
    assert not stopped.passed
    assert stopped.outcome is Outcome.INCONCLUSIVE
    needed = trials_for(8.0, delta=1e-3, significance=0.01)
    assert f"raise trials well above {needed:,}," in stopped.reason
    assert gate(dataclasses.replace(weak, verdict=None)) == stopped
    allowed = gate(weak, inconclusive_ok=True)
    assert allowed.passed
    assert allowed.outcome is Outcome.INCONCLUSIVE
    assert "proves nothing" in allowed.reason
    assert "claim less" in gate(found(claimed=40.0)).reason
    assert gate(found(verdict=Verdict.INCONCLUSIVE, reason="another cause")).reason == "another cause"


@pytest.mark.parametrize(("claimed", "significance"), [(0.0, 0.5), (1.0, 1e-3), (5.0, 0.01), (8.0, 1e-6)])
def test_trials_for_is_the_fewest(claimed, significance):
    def provable(trials):
        evaluated = SPLIT.sizes(trials)[1]
        return largest_provable_epsilon(evaluated=evaluated, delta=1e-3, significance=significance)

    needed = trials_for(claimed, delta=1e-3, significance=significance)
    assert provable(needed) > claimed
    assert needed == 2 or provable(needed - 1) <= claimed
    assert trials_for(25.0, delta=1e-3, significance=significance) is None


@pytest.mark.parametrize(
    ("significance", "said"),
    [
        (0.5, "50 %"),
        (0.05, "95.0 %"),
        (0.01, "99.0 %"),
        (0.1 * 0.1, "99.0 %"),  # 0.010000000000000002 in float64
        (0.001, "99.90 %"),
        (0.00123, "99.87 %"),  # 99.877 rounded down
        (1e-6, "99.99990 %"),
        (1e-9, "99.99999990 %"),
        (1.01e-12, "1 - 1.1e-12"),  # rounded down, too
        (1e-17, "1 - 1e-17"),  # 1 - 1e-17 is 1 in float64
        (1e-300, "1 - 1e-300"),
        (5e-324, "1 - 5.0e-324"),  # the smallest positive number
    ],
)
def test_confidence_is_rounded_down_and_is_never_certainty(significance, said):
    shown = dataclasses.replace(SHOWN, significance=significance)
    stated = gate(found(attacks=(shown,), significance=significance))
    assert stated.passed
    assert dict(stated.lines)["shown"].endswith(f", at {said} confidence")


def test_of_a_whole_audit():
    """False-failure rate: the plan's significance, 1e-6."""
    data = random_data(np.random.default_rng(50), 40, 1)
    mechanism = ExactPosterior(release(40, ridge=2.0))
    plan = audit_plan(significance=1e-6, claimed_epsilon=4.0, trials=5000, targets=2, fidelity=1000)
    result = run_audit(Subject(data, mechanism, Bounded()), plan)
    passed = gate(checked(result))
    assert passed.passed, passed.reason
    assert dict(passed.lines)["claim"] == "epsilon at most 4 at delta 0.001"
    assert "5,000 trials a side; the worst of 2 attack(s)" in dict(passed.lines)["measured"]
    assert f"for record {result.worst_record}" in dict(passed.lines)["exact"]
    few = run_audit(Subject(data, mechanism, Bounded()), plan.model_copy(update={"trials": 100}))
    assert gate(checked(few)).outcome is Outcome.INCONCLUSIVE


def test_of_a_black_box():
    """Noise that ignores the data: bound 0 but for 1e-6. Nothing is exact, and there is no certificate to violate."""

    def noise(_x, _y, points, paths, rng):
        return rng.standard_normal((paths, len(points)))

    mechanism = BlackBox(FunctionModel(noise), ExactPosterior(release(10)))
    plan = audit_plan(significance=1e-6, claimed_epsilon=1.0, trials=200, targets=1, fidelity=0)
    result = run_audit(Subject(random_data(np.random.default_rng(50), 10, 1), mechanism, Bounded()), plan)
    passed = gate(checked(result))
    assert passed.passed
    assert "no certificate to violate" in passed.reason
    assert dict(passed.lines)["exact"] == "unknown: nothing is exact of this mechanism"
