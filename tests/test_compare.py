"""``gpleak compare``: what changed between two audits, what got worse, and what cannot be said."""

import copy
import json
import math
import sys

import numpy as np
import pytest
from support import audit_plan, release

import gpleak.reports.comparing  # noqa: F401 - registers the command
from gpleak.audit import Subject, run_audit
from gpleak.mechanisms import Bounded, Dataset, ExactPosterior, InputError
from gpleak.reports import as_record, cli, load_record, write_record
from gpleak.reports.comparison import compare_records, settings_of

N = 30


def audited(ridge=3.0, seed=0, **plan):
    rng = np.random.default_rng(5)
    data = Dataset(rng.random((N, 1)), rng.uniform(-1, 1, N))
    subject = Subject(data, ExactPosterior(release(N, ridge=ridge)), Bounded())
    plan = {"claimed_epsilon": 2.0, "trials": 2000, "targets": 2, "fidelity": 200, "seed": seed, **plan}
    return as_record(run_audit(subject, audit_plan(**plan)))


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
        monkeypatch.setenv("COLUMNS", "110")
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
        assert "is not the record of an audit (a number is NaN)" in err


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 0}',
        '{"schema_version": 1}',
        '{"schema_version": 6}',
        '{"schema_version": 6, "verdict": "FINE"}',
        '{"schema_version": 999}',
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
