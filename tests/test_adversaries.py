"""Every adversary of one audit: the same shadows and trials, outsiders, and what the report says of them."""

import json
import re

import numpy as np
import pytest
from outside_attack import Broken, Mean, Nothing
from support import audit_plan, random_data, release

from gpleak import matern32
from gpleak.attacks import Attack, Jump, Lira, OptimalMixture, WholePath
from gpleak.audit import ComputeConfig, Subject, build_subject, load_config, run_audit
from gpleak.audit.adversaries import population_attacks
from gpleak.mechanisms import Bounded, Centred, Domain, ExactPosterior, InputError, Noised, exponential
from gpleak.reports.html import compare, render_report
from gpleak.reports.record import as_record

SERIAL = ComputeConfig(workers="serial")
POINTS = np.linspace(0.1, 0.9, 5)[:, None]


def subject_of(kind=ExactPosterior, *, outsiders=None, **changes):
    data = random_data(np.random.default_rng(90), 25, 1)
    stated = release(25, **{"ridge": 0.2, "scale": 0.3, "points": POINTS, **changes})
    return Subject(data, kind(stated), Bounded(), outsiders=outsiders or {})


def audited(subject, *names, **changes):
    settings = {"shadows": 200, "trials": 400, "targets": 2, "fidelity": 0, **changes}
    return run_audit(subject, audit_plan(adversaries=list(names), **settings), compute=SERIAL)


@pytest.mark.parametrize("kind", [ExactPosterior, Noised, Centred])
@pytest.mark.parametrize("paths", [1, 3])
@pytest.mark.parametrize("kernel", [exponential(0.3), matern32(0.3)], ids=["markov", "dense"])
def test_every_adversary_attacks_every_mechanism(kind, paths, kernel):
    result = audited(subject_of(kind, paths=paths, kernel=kernel), "core", "population", "lira", "path")
    found = [(attack.adversary, attack.record) for attack in result.attacks]
    targets = [record for name, record in found if name == "core"]
    assert found == [(name, record) for name in ("core", "population", "lira", "path") for record in targets]
    for attack in result.attacks:
        assert 0.0 <= attack.auc <= 1.0
        assert (attack.shadows is None) == (attack.kept is None) == (attack.adversary == "core")
    per_shadow = {attack.adversary: attack.kept / 200 for attack in result.attacks if attack.kept}
    assert per_shadow["lira"] == 16 * (1 if paths == 1 else 2)
    assert per_shadow["path"] == 16 * (9 if paths == 1 else 14)
    if paths > 1:
        assert per_shadow["population"] == 32
    json.dumps(as_record(result), allow_nan=False)


def test_they_share_shadows_and_trials():
    """An attack alone and among others scores the same, where they look at the same paths."""
    together = audited(subject_of(), "lira", "path")
    apart = audited(subject_of(), "path")
    (path,) = (a for a in together.attacks if a.adversary == "path" and a.record == apart.attacks[0].record)
    assert path.auc == apart.attacks[0].auc
    everywhere = subject_of(points=None)
    alone = {name: audited(everywhere, name).attacks[0].auc for name in ("population", "lira")}
    both = audited(everywhere, "lira", "population").attacks
    for attack in both[::2]:
        assert attack.auc == alone[attack.adversary]


def test_a_whole_path_needs_points():
    with pytest.raises(InputError, match=r"needs release\.points"):
        audited(subject_of(points=None), "path")


def test_outsiders_take_part():
    subject = subject_of(outsiders={"outside_attack:Mean": Mean(release(25))})
    result = audited(subject, "population", "outside_attack:Mean")
    assert [attack.adversary for attack in result.attacks[::2]] == ["population", "mean"]
    assert result.attacks[2].notes == ("the mean itself",)
    assert {expense.test for expense in result.ledger.expenses} == {"population", "mean"}
    with pytest.raises(InputError, match="was not loaded"):
        audited(subject_of(), "outside_attack:Mean")
    with pytest.raises(InputError, match=r"record \d+: mean: 400 of 400 shadow releases have a statistic that is not"):
        audited(subject_of(outsiders={"outside_attack:Broken": Broken(release(25))}), "outside_attack:Broken")
    twice = subject_of(outsiders={"a:b": Mean(release(25)), "c:d": Mean(release(25))})
    with pytest.raises(InputError, match="each attack needs a name of its own"):
        audited(twice, "a:b", "c:d")
    assert not isinstance(Nothing(release(25)), Attack)


CONFIG = """
[release]
mechanism = "posterior"
kernel = "exponential"
length_scale = 1.0
ridge = 0.5
domain = [[0.0, 1.0]]
response_bound = 1.0
records = 10

[population]
source = "jump"

[audit]
adversaries = ["NAME"]
"""


@pytest.mark.parametrize("named", ["outside_attack:Mean", "meanest"])
def test_outsiders_are_loaded_by_module_or_entry_point(tmp_path, monkeypatch, named):
    """An entry point is only looked up: its code runs with the flag alone."""
    from importlib.metadata import EntryPoint

    points = [EntryPoint("meanest", "outside_attack:Mean", "gpleak.attacks")]
    monkeypatch.setattr("gpleak.audit.plugins.entry_points", lambda group: points if group == "gpleak.attacks" else [])
    path = tmp_path / "audit.toml"
    path.write_text(CONFIG.replace("NAME", named))
    config = load_config(path)
    with pytest.raises(InputError, match="pass --allow-code"):
        build_subject(config)
    subject = build_subject(config, allow_code=True)
    (attack,) = population_attacks(subject, config.audit)
    assert attack.name == "mean"
    path.write_text(CONFIG.replace("NAME", "outside_attack:Nothing"))
    with pytest.raises(InputError, match="is not an attack, it lacks sees, learner"):
        build_subject(load_config(path), allow_code=True)


def test_options_reach_the_published_attack():
    options = {"density": "gaussian", "mode": "offline_tail"}
    plan = audit_plan(adversaries=["lira", "population", "path"], lira=options)
    lira, population, path = population_attacks(subject_of(paths=3), plan)
    assert lira == Lira("gaussian", False, "offline_tail")
    assert population == OptimalMixture(3)
    assert path == WholePath()
    result = audited(subject_of(), "lira", lira=options)
    assert result.attacks[0].notes[0].startswith("offline, one tail")


def test_too_few_shadows_for_one_attack_name_the_target():
    """CASES 07c: the counts and the remedy."""
    stated = release(10, kernel=exponential(1.0), domain=Domain([[0.0, 1.0]]), points=POINTS)
    subject = Subject(None, ExactPosterior(stated), Bounded(), Jump())
    with pytest.raises(InputError, match=r"the target: path: 5 shadow\(s\) with the record and 5.*audit.shadows"):
        audited(subject, "path", shadows=5)


def test_the_report_compares_them():
    result = audited(subject_of(), "core", "population", "lira", "path")
    compared = compare(result.attacks)
    assert [one.adversary for one in compared] == ["core", "population", "lira", "path"]
    for one in compared:
        own = [attack for attack in result.attacks if attack.adversary == one.adversary]
        assert one.auc == pytest.approx(np.mean([attack.auc for attack in own]))
        assert one.epsilon_lower == max(attack.epsilon_lower.value for attack in own)
    text = re.sub(r"\s+", " ", render_report(result))
    assert "Adversaries compared" in text
    assert "Lira: online: log p_in - log p_out" in text
    assert "bytes a shadow" in text
    assert "Adversaries compared" not in render_report(audited(subject_of(), "population"))
