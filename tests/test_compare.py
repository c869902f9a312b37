"""``gpleak compare``: what changed between two audits, what got worse, and what cannot be said."""

import copy
import json
import math
import sys

import numpy as np
import pytest
from support import audit_plan, release

import gpleak.reports.comparing  # noqa: F401 - registers the command
from gpleak.attacks import Scores
from gpleak.audit import Subject, run_audit
from gpleak.audit.judge import FPR_LEVELS
from gpleak.audit.roc import auc, roc, tpr_at_fpr
from gpleak.mechanisms import Bounded, Dataset, ExactPosterior, InputError
from gpleak.reports import as_record, cli, load_record, write_record
from gpleak.reports.attack_changes import risen_rates
from gpleak.reports.comparison import compare_records, settings_of
from gpleak.reports.drawn import curve_record

N = 30


def audited(ridge=3.0, seed=0, **plan):
    rng = np.random.default_rng(5)
    data = Dataset(rng.random((N, 1)), rng.uniform(-1, 1, N))
    subject = Subject(data, ExactPosterior(release(N, ridge=ridge)), Bounded())
    plan = {"claimed_epsilon": 2.0, "trials": 2000, "targets": 2, "fidelity": 200, "seed": seed, **plan}
    record = as_record(run_audit(subject, audit_plan(**plan)))
    return changed(record, "data", "sha256", to="5" * 64)  # as if they came from a file


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Files: the first audit, a leakier one, another seed, more replacements."""
    folder = tmp_path_factory.mktemp("records")
    made = {"first": audited(), "leaky": audited(0.3), "seed": audited(seed=1), "more": audited(replacements=60)}
    for name, record in made.items():
        write_record(record, folder / f"{name}.json")
    return {name: folder / f"{name}.json" for name in made}


@pytest.fixture
def first(records):
    return load_record(records["first"])


def changed(record, *path, to):
    found = copy.deepcopy(record)
    at = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return found


@pytest.fixture
def gp(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpleak", "compare", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return run


def test_an_audit_beside_itself(gp, records):
    status, out, err = gp(records["first"], records["first"])
    assert (status, err) == (0, "")
    assert "no parameter differs" in out
    assert out.rstrip().endswith("nothing got worse")


def test_a_leakier_release_is_worse(gp, records):
    status, out, _ = gp(records["first"], records["leaky"])
    assert status == 1
    assert "release.ridge: 3 then, 0.3 now" in out
    worse = out[out.index("WORSE:") :]
    assert "the verdict is VIOLATED and was NOT_REFUTED" in worse
    assert "worst record, exact: " in worse
    assert "certified: " in worse
    assert "NOT COMPARABLE" not in out
    status, out, _ = gp(records["leaky"], records["first"])
    assert status == 0
    assert "nothing got worse" in out


def test_another_seed_alone_is_not_worse(gp, records):
    status, out, _ = gp(records["first"], records["seed"])
    assert status == 0
    assert "audit.seed: 0 then, 1 now" in out
    assert "other replacements were drawn" in out


def test_more_replacements_alone_are_not_worse(records):
    first, more = load_record(records["first"]), load_record(records["more"])
    more = changed(more, "worst_exact", "epsilon", to=1.5 * first["worst_exact"]["epsilon"])
    untold = ({**record, "replacements": None} for record in (first, more))
    assert compare_records(*untold).status == 1  # records that do not say how many there were
    found = compare_records({**first, "replacements": 31}, {**more, "replacements": 60})
    assert found.status == 0
    assert "other replacements were drawn" in found.notes[0]
    assert found.changed == ("audit.replacements: 31 then, 60 now",)


def test_json_is_strict_and_whole(gp, records):
    status, out, _ = gp(records["first"], records["leaky"], "--json")
    found = json.loads(out, parse_constant=pytest.fail)
    assert found["status"] == status == 1
    assert found["comparable"] is True
    assert found["verdict"] == ["NOT_REFUTED", "VIOLATED"]
    first, leaky = (load_record(records[name]) for name in ("first", "leaky"))
    assert found["epsilons"]["worst record, exact"] == [r["worst_exact"]["epsilon"] for r in (first, leaky)]
    assert found["epsilons"]["certified"] == [r["certificate"]["epsilon"] for r in (first, leaky)]
    assert found["changed"] == ["release.ridge: 3 then, 0.3 now"]
    names = {(attack["adversary"], attack["record"]) for attack in found["attacks"]}
    both = [{(a["adversary"], a["record"]) for a in record["attacks"]} for record in (first, leaky)]
    assert names == both[0] & both[1]
    assert len(found["only_then"]) == len(both[0] - both[1])
    assert len(found["only_now"]) == len(both[1] - both[0])


def test_infinite_epsilons(gp, first, tmp_path):
    """A certificate that is infinite now got worse; strict JSON says Infinity; one that was so cannot rise."""
    infinite = changed(first, "certificate", "epsilon", to=math.inf)
    assert compare_records(first, infinite).worse == (
        f"certified: {first['certificate']['epsilon']:.4g} then, infinite now",
    )
    for name, record in (("a", infinite), ("b", first)):
        write_record(record, tmp_path / f"{name}.json")
    status, out, _ = gp(tmp_path / "a.json", tmp_path / "b.json", "--json")
    assert status == 0
    assert json.loads(out, parse_constant=pytest.fail)["epsilons"]["certified"][0] == "Infinity"
    assert compare_records(infinite, infinite).status == 0


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        (("certificate", "delta"), 1e-5, "another delta: 0.001 then, 1e-05 now"),
        (("neighbouring",), "add_remove", "another neighbouring relation: replace_one then, add_remove now"),
        (("data", "sha256"), "0" * 64, "other data"),
        (("data", "records"), 31, "other data"),
        (("data",), None, "other data"),
    ],
)
def test_what_is_not_comparable_is_said_first(gp, first, tmp_path, path, to, said):
    other = changed(first, *path, to=to)
    write_record(first, tmp_path / "a.json")
    write_record(changed(other, "certificate", "epsilon", to=99.0), tmp_path / "b.json")
    status, out, _ = gp(tmp_path / "a.json", tmp_path / "b.json")
    assert status == 3
    assert out.startswith(f"NOT COMPARABLE: {said}")
    assert "WORSE" not in out
    assert "nothing got worse" not in out
    # A verdict says the same of any data: VIOLATED, where it was not, is worse all the same.
    assert compare_records(first, changed(other, "verdict", to="VIOLATED")).status == 1


@pytest.mark.parametrize(
    ("then", "now", "status"),
    [
        ("NOT_REFUTED", "INCONCLUSIVE", 1),  # an audit that can no longer fail must not pass
        ("INCONCLUSIVE", "NOT_REFUTED", 0),
        ("INCONCLUSIVE", "VIOLATED", 1),
        ("VIOLATED", "VIOLATED", 0),
        ("VIOLATED", "INCONCLUSIVE", 0),
    ],
)
def test_verdicts(first, then, now, status):
    assert compare_records(changed(first, "verdict", to=then), changed(first, "verdict", to=now)).status == status


def test_what_is_no_longer_computed_does_not_pass(first):
    with_pair = changed(first, "worst_pair", to={"epsilon": 0.5})
    found = compare_records(with_pair, first)
    assert found.obstacles == ("worst pair found: no longer computed",)
    assert found.status == 3
    assert compare_records(first, with_pair).status == 0


def test_the_tolerance_is_a_share(first):
    epsilon = first["certificate"]["epsilon"]
    for factor, tolerance, status in ((1.009, 0.01, 0), (1.011, 0.01, 1), (1.011, 0.02, 0), (1.0001, 0.0, 1)):
        other = changed(first, "certificate", "epsilon", to=factor * epsilon)
        assert compare_records(first, other, tolerance=tolerance).status == status
    for wrong in (-0.1, math.nan, math.inf):
        with pytest.raises(InputError, match="tolerance"):
            compare_records(first, first, tolerance=wrong)


def test_an_attack_that_is_stronger_than_chance(first):
    """Five standard errors of the difference; 2,000 trials: 5 sqrt(2 * 0.25 / 2000) = 0.079 at most."""
    area = first["attacks"][0]["auc"]
    assert compare_records(first, changed(first, "attacks", 0, "auc", to=area + 0.06)).status == 0
    found = compare_records(first, changed(first, "attacks", 0, "auc", to=area + 0.1))
    assert found.status == 1
    assert "AUC of the core attack" in found.worse[0]
    above = 1.1 * first["attacks"][0]["epsilon_exact"]
    found = compare_records(first, changed(first, "attacks", 0, "epsilon_lower", "value", to=above))
    assert "was exact then" in found.worse[0]


def test_unmatched_attacks_are_named(first):
    other = changed(first, "attacks", 0, "adversary", to="lira")
    found = compare_records(first, other)
    row = first["attacks"][0]["record"]
    assert found.only_then == (f"core attack on record {row}",)
    assert found.only_now == (f"lira attack on record {row}",)
    assert len(found.attacks) == 1
    assert (found.status, found.conclusion) == (0, "nothing got worse among what both have")
    assert compare_records(other, first).obstacles == ("lira attacks: no longer made",)
    assert compare_records(other, first).status == 3
    assert compare_records(first, changed(first, "attacks", to=[])).obstacles == ("core attacks: no longer made",)


def test_a_raised_claim_is_worse(first):
    assert compare_records(first, changed(first, "claimed_epsilon", to=50.0)).worse == ("claimed: 2 then, 50 now",)
    assert compare_records(first, changed(first, "claimed_epsilon", to=math.inf)).status == 1
    assert compare_records(changed(first, "claimed_epsilon", to=50.0), first).status == 0


def test_a_fidelity_test_that_fails_newly_is_worse(first):
    """Also where both verdicts are VIOLATED for other reasons; a black box states no law that it could break."""
    first = changed(first, "verdict", to="VIOLATED")
    failed = changed(changed(first, "fidelity", "passed", to=False), "fidelity", "p_value", to=1e-9)
    found = compare_records(first, failed)
    assert found.worse == ("fidelity: passed then, failed now with p-value 1e-09",)
    assert compare_records(first, changed(failed, "data", "sha256", to="0" * 64)).status == 1
    assert compare_records(failed, failed).status == compare_records(failed, first).status == 0
    for stated, status in ((None, 0), ("posterior", 1)):
        whose = {"stated": stated, "taken_for": "posterior" if stated is None else None, "notes": []}
        assert compare_records(*(changed(r, "implementation", to=whose) for r in (first, failed))).status == status


def test_a_fidelity_test_that_is_no_longer_made_does_not_pass(first):
    without = changed(first, "fidelity", to=None)
    found = compare_records(first, without)
    assert (found.status, found.obstacles) == (3, ("fidelity test: no longer made",))
    assert compare_records(without, first).status == compare_records(without, without).status == 0
    failed = compare_records(without, changed(first, "fidelity", "passed", to=False))
    assert failed.notes == ("the fidelity test is failed now and was not made then",)


def test_an_attack_that_shows_more_than_its_own_exact_is_worse(first):
    """Whatever was drawn: with another seed, on another record, on other data."""
    exact = first["attacks"][0]["epsilon_exact"]
    broken = changed(first, "attacks", 0, "epsilon_lower", "value", to=1.02 * exact)
    for other in (
        {**broken, "seed": 1},
        changed({**broken, "seed": 1}, "attacks", 0, "record", to=29),
        changed(broken, "data", "sha256", to="0" * 64),
    ):
        found = compare_records(first, other)
        assert found.status == 1
        assert "that is exact: the releases are not those of the stated mechanism" in found.worse[-1]
    assert compare_records(broken, {**broken, "seed": 1}).status == 0
    assert compare_records(first, {**broken, "seed": 1}, tolerance=0.03).status == 0


def test_data_from_memory_are_said_to_be_unknown(gp, first, tmp_path):
    memory = changed(first, "data", "sha256", to=None)
    write_record(memory, tmp_path / "a.json")
    status, out, _ = gp(tmp_path / "a.json", tmp_path / "a.json")
    assert status == 0
    assert out.startswith("NOTE: whether the data are the same cannot be told")
    assert out.rstrip().endswith("nothing got worse, if the data are the same")
    assert compare_records(first, memory).status == 3
    assert compare_records(*[changed(first, "data", to=None)] * 2).notes == ()


def attack_of(scores):
    """What a record says of an attack without an exact value, from scores of members and of others."""
    curve = roc(scores)
    attack = {"adversary": "lira", "record": 3, "auc": auc(curve), "trials": curve.members, "shadows": None}
    points = [vars(tpr_at_fpr(curve, fpr)) for fpr in FPR_LEVELS]
    return {
        **attack,
        "curve": curve_record(curve),
        "tpr_at_fpr": points,
        "epsilon_lower": {"value": 0.0},
        "epsilon_exact": None,
    }


def scores(seed, count=2000, *, share=0.0, mu=0.0):
    """Normal scores; a share of the members is found beyond doubt, the others are shifted by `mu`."""
    rng = np.random.default_rng(seed)
    member = np.where(rng.random(count) < share, 9.0, mu) + rng.standard_normal(count)
    return Scores(member, rng.standard_normal(count))


def test_few_members_found_beyond_doubt_are_worse(first):
    """8 % of members, which the AUC hardly shows: it rises by 0.04, and five standard errors are 0.079."""
    then, now = ({**first, "attacks": [*first["attacks"], attack_of(scores(s, share=s * 0.08))]} for s in (0, 1))
    found = compare_records(then, now)
    assert found.worse == (
        "TPR of the lira attack on record 3 at FPR 0 %, 0.1 %: higher now than chance could make it",
    )
    assert compare_records(now, then).status == compare_records(then, then).status == 0
    without = [changed(record, "attacks", -1, "curve", to=None) for record in (then, now)]
    assert compare_records(*without).status in (0, 1)  # an older record: less is certain, nothing fails
    assert compare_records(then, {**now, "seed": 1}).status == 1


def test_chance_alone_never_makes_an_attack_worse():
    """300 pairs of audits that differ by chance, at four rates: false-failure rate below 300 * 4 * 4e-7 = 5e-4."""
    for mu in (0.0, 1.0, 3.0):
        for seed in range(100):
            then, now = (attack_of(scores([seed, side], 500, mu=mu)) for side in (0, 1))
            assert risen_rates(then, now) == ()


def test_nothing_is_cropped_at_80_columns(gp, first, tmp_path):
    name = "my_package.attacks:AVeryLongAdversaryNameThatSomebodyGave"
    for file, risen in (("a", 0.0), ("b", 0.1)):
        record = changed(changed(first, "attacks", 1, "adversary", to=name), "attacks", 1, "auc", to=0.8 + risen)
        write_record(changed(record, "certificate", "epsilon", to=math.inf), tmp_path / f"{file}.json")
    status, out, _ = gp(tmp_path / "a.json", tmp_path / "b.json")
    assert status == 1
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    row = first["attacks"][1]["record"]
    lines = out.splitlines()
    at = lines.index(f"{name} attack on record {row}"[:80])
    attack = first["attacks"][1]
    for line, when, area in ((lines[at + 1], "then", "0.8000"), (lines[at + 2], "now", "0.9000")):
        rate = next(point["tpr"] for point in attack["tpr_at_fpr"] if point["fpr"] == 0.01)
        shown, exact = (f"{value:.4g}" for value in (attack["epsilon_lower"]["value"], attack["epsilon_exact"]))
        assert line.split() == [when, area, f"{100 * rate:.2f}", "%", shown, exact]


def test_names_that_look_like_infinity_stay_names(first, tmp_path):
    named = changed(changed(first, "release", "mechanism", to="Infinity"), "attacks", 0, "notes", to=["-Infinity"])
    named = changed(named, "certificate", "epsilon", to=math.inf)
    write_record(named, tmp_path / "a.json")
    assert load_record(tmp_path / "a.json") == named


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_records_are_strict_json(records, tmp_path, constant):
    text = records["first"].read_text()
    (tmp_path / "a.json").write_text(text.replace('"claimed_epsilon": 2.0', f'"claimed_epsilon": {constant}'))
    with pytest.raises(InputError, match=f"a.json: is not an audit record .{constant} is no strict JSON"):
        load_record(tmp_path / "a.json")


@pytest.mark.parametrize(
    "path",
    [
        ("certificate", "epsilon"),
        ("worst_exact", "epsilon"),
        ("claimed_epsilon",),
        ("attacks", 0, "auc"),
        ("fidelity", "p_value"),
    ],
)
def test_case_20_nan_is_never_no_worse(gp, records, first, tmp_path, path):
    for side in (0, 1):
        files = [records["first"], records["first"]]
        files[side] = tmp_path / "nan.json"
        files[side].write_text(json.dumps(changed(first, *path, to=math.nan)))
        status, out, err = gp(*files)
        assert (status, out) == (2, "")
        assert "is not an audit record (NaN is no strict JSON" in err
        records_of = [first, first]
        records_of[side] = changed(first, *path, to=math.nan)
        with pytest.raises(ValueError, match="a number is NaN"):
            compare_records(*records_of)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "[" * 100_000,
        "{}",
        '{"schema_version": 0}',
        '{"schema_version": 1}',
        '{"schema_version": 6}',
        '{"schema_version": 6, "verdict": "FINE"}',
        '{"schema_version": 999}',
        '{"schema_version": -1}',
        '{"schema_version": true}',
        '{"schema_version": 7.0}',
        '{"schema_version": "7"}',
        '{"schema_version": "six"}',
    ],
)
def test_files_that_are_no_records(gp, records, tmp_path, content):
    (tmp_path / "odd.json").write_text(content)
    for files in ([records["first"], tmp_path / "odd.json"], [tmp_path / "odd.json", records["first"]]):
        status, out, err = gp(*files)
        assert (status, out) == (2, "")
        assert err.startswith("gpleak: error: ")
        assert err.count("\n") == 1
        assert "unexpected" not in err
    assert gp(records["first"], tmp_path / "none.json")[0] == 2


def test_older_records_are_upgraded(gp, first, tmp_path):
    """A record as version 3 had it: what it did not say is absent, and nothing is said to be worse for it."""
    old = copy.deepcopy(first)
    for key in ("decided_by", "fidelity", "ledger", "certificates", "worst_pair", "implementation", "released"):
        del old[key]
    del old["epsilon_everywhere"]
    for key in ("versions", "command", "outlook"):
        old.pop(key, None)
    old["schema_version"] = 3
    for attack in old["attacks"]:
        for key in ("model_based", "estimates", "kept_bytes", "notes", "curve"):
            attack.pop(key, None)
    write_record(old, tmp_path / "old.json")
    write_record(first, tmp_path / "new.json")
    status, out, _ = gp(tmp_path / "old.json", tmp_path / "new.json")
    assert status == 0
    assert "audit.significance: absent then, 0.05 now" in out


def test_settings_hold_nothing_that_changes_no_result(first):
    settings = settings_of(first)
    assert not [key for key in settings if "timings" in key or "workers" in key]
    assert settings["audit.trials"] == 2000
    assert settings["release.mechanism"] == "posterior"
    assert settings["audit.adversaries"] == "core"
