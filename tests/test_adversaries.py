"""Every adversary of one audit: the same shadows and trials, outsiders, and what the report says of them."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from outside_attack import Broken, Mean, Nothing
from support import audit_plan, random_data, release

from gpleak import matern32
from gpleak.attacks import Attack, Jump, Lira, OptimalMixture, Pool, WholePath
from gpleak.audit import ComputeConfig, Subject, build_subject, load_config, run_audit
from gpleak.audit.adversaries import population_attacks
from gpleak.audit.targets import choose_population
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
    compared = compare(as_record(result)["attacks"])
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


class Peeks(Mean):
    """It centres the scores of all releases that it is given at once, members first."""

    def fit(self, *_):
        class Centred:
            notes = ()

            def score(self, features):
                return features[:, 0] - features[: len(features) // 2, 0].mean()

        return Centred()


class Order(Mean):
    """It scores the first half of what it is given higher."""

    def fit(self, *_):
        class First:
            notes = ()

            def score(self, features):
                return np.where(np.arange(len(features)) < max(len(features) // 2, 7), 1.0, 0.0)

        return First()


def test_a_scorer_learns_nothing_from_the_others():
    """Members and nonmembers come in one heap: the order tells nothing, and scores must not depend on the company."""
    with pytest.raises(InputError, match="depends on which others are scored with it"):
        audited(subject_of(outsiders={"a:b": Peeks(release(25))}), "a:b")
    with pytest.raises(InputError, match="depends on which others are scored with it"):
        audited(subject_of(outsiders={"a:b": Order(release(25))}), "a:b")


def test_rows_that_may_not_be_drawn_are_not():
    data = random_data(np.random.default_rng(97), 40, 1)
    public = Pool(data, np.arange(3, 20), "file")
    subject = Subject(data, ExactPosterior(release(40)), Bounded(), public)
    aim = choose_population(subject, [5, 30], ())
    assert aim.population.rows.tolist() == [3, 4, *range(6, 20)]


class Interleaved(ExactPosterior):
    """Draws all paths first and then something else: releases depend on how many are asked for."""

    def sampler(self, data, points):
        inner = super().sampler(data, points)

        class Sampler:
            jitter = 0.0

            def draw(self, releases, *, paths, rng):
                drawn = inner.draw(releases, paths=paths, rng=rng)
                return drawn + 1e-3 * rng.standard_normal(drawn.shape)

        return Sampler()


def test_looks_do_not_share_numbers():
    """A sampler that breaks the rule of its protocol is refused where looks begin within a block of a thousand."""
    subject = subject_of(Interleaved)
    with pytest.raises(InputError, match="depend on how many are asked for at once"):
        audited(subject, "core", trials=1500, batch=500, claimed_epsilon=100.0)
    assert audited(subject, "core", trials=2000, batch=1000, claimed_epsilon=100.0).attacks
    assert audited(subject_of(), "core", trials=1500, batch=500, claimed_epsilon=100.0).attacks


def test_workers_find_the_module_beside_the_configuration(tmp_path, monkeypatch):
    """Not one of the same name in the working directory."""
    beside, here = tmp_path / "beside", tmp_path / "here"
    for folder, value in ((beside, "0.25"), (here, "-7.0")):
        folder.mkdir()
        (folder / "neighbour.py").write_text(
            "import numpy as np\nfrom gpleak.attacks import FeatureAttack\n"
            f"VALUE = {value}\n"
            "class Fit:\n    notes = (str(VALUE),)\n"
            "    def score(self, features):\n        return features[:, 0] * VALUE\n"
            "class Own(FeatureAttack):\n    name, sees = 'own', 'values'\n"
            "    def __init__(self, release): pass\n"
            "    def features(self, releases):\n        return releases.values.mean(axis=-1, keepdims=True) * VALUE\n"
            "    def fit(self, member, nonmember):\n        return Fit()\n"
        )
    (beside / "audit.toml").write_text(
        CONFIG.replace("NAME", "neighbour:Own") + "shadows = 600\ntrials = 200\nsearch = false\nfidelity = 0\n"
    )
    monkeypatch.chdir(here)
    records = []
    for workers in ("serial", "1"):
        out = tmp_path / workers
        command = [
            sys.executable,
            "-m",
            "gpleak",
            "audit",
            str(beside / "audit.toml"),
            "--allow-code",
            "--out",
            str(out),
        ]
        command += ["--set", f"compute.workers={workers}", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        records.append(json.loads(done.stdout)["attacks"])
    assert records[0] == records[1]
    assert records[0][0]["notes"] == ["0.25"]


def test_shadows_too_narrow_for_a_grid_are_kept_as_they_are():
    """At ridge 1e-4 no grid of a few thousand nodes is right to 1e-4: the laws are kept, and the score is exact."""
    stated = release(10, kernel=exponential(1.0), ridge=1e-4, scale=1.0, domain=Domain([[0.0, 1.0]]))
    subject = Subject(None, ExactPosterior(stated), Bounded(), Jump())
    (attack,) = audited(subject, "population", shadows=500).attacks
    assert attack.kept == 32 * 500
    assert attack.notes == ()
