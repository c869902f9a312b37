"""The pytest plugin, run as its users run it: in a process of its own, on tests that pass and tests that must not."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as Tree
from importlib import import_module
from math import inf
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

import gpleak
from gpleak.audit.gate import checked, gate
from gpleak.reports import load_record, pytest_plugin

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "ci"
PLUGIN = "gpleak.reports.pytest_plugin"

# The data and the mechanism of every check below.
SUBJECT = """
import numpy as np, gpleak

rng = np.random.default_rng(1)
DATA = gpleak.Dataset(rng.random((20, 1)), rng.uniform(-1, 1, 20))
POINTS = np.linspace(0, 1, 5)[:, None]
STATED = gpleak.Release(
    kernel=gpleak.exponential(0.3), ridge=2.0, domain=gpleak.Domain([[0, 1]]), response_bound=1.0, records=20,
    points=POINTS,
)
RIGHT = gpleak.ExactPosterior(STATED)
"""
# Each right check below is wrong with at most its significance, 1e-6.
CHECKS = f"""
import dataclasses, os
from types import SimpleNamespace
import pytest
from gpleak.mechanisms.foreign import BlackBox, Deployed
from gpleak.mechanisms.foreign.function import FunctionModel
{SUBJECT}
FAST = dict(significance=1e-6, trials=2000, targets=1, fidelity=300, search=False)

def noise(x, y, points, paths, rng):
    return rng.standard_normal((paths, len(points)))

def undefined(x, y, points, paths, rng):
    return np.full((paths, len(points)), np.nan)

def crashing(x, y, points, paths, rng):
    raise RuntimeError("of its own")

BOX = BlackBox(FunctionModel(noise), RIGHT)

def test_right(leakage):
    result = leakage.check(RIGHT, DATA, claimed_epsilon=4.0, **FAST)
    assert result.verdict == "NOT_REFUTED"

def test_twice(leakage):
    first = leakage.check(RIGHT, DATA, claimed_epsilon=4.0, **FAST)
    both = dict(seed=1, adversaries=["core", "population"], shadows=20)
    second = leakage.check(RIGHT, DATA, claimed_epsilon=4.0, **both, **FAST)
    assert first.attacks[0].auc != second.attacks[0].auc

def test_certified(leakage):
    fast = FAST | dict(trials=10_000)
    assert leakage.check(RIGHT, DATA, claimed_epsilon="certified", **fast).claimed_epsilon > 1.0

@pytest.mark.parametrize("name", ["a/b", "a-b", "a:b"])
def test_names(leakage, name):
    leakage.check(RIGHT, DATA, claimed_epsilon=2.0, **FAST)

def test_weak_but_allowed(leakage):
    leakage.check(RIGHT, DATA, claimed_epsilon=9.0, inconclusive_ok=True, **FAST)

def test_box(leakage):
    leakage.check(BOX, DATA, claimed_epsilon=1.0, **FAST | dict(trials=200))

def test_box_certified(leakage):
    leakage.check(BOX, DATA, claimed_epsilon="certified", inconclusive_ok=True, **FAST | dict(trials=200))

@pytest.mark.leakage(budget="nightly")
def test_budget(leakage):
    result = leakage.check(RIGHT, DATA, claimed_epsilon=4.0, significance=1e-6, targets=1, fidelity=0, search=False)
    assert result.attacks[0].trials == int(os.environ["TRIALS"])

def test_bad_weak(leakage):
    leakage.check(RIGHT, DATA, claimed_epsilon=9.0, **FAST)

def test_bad_above(leakage):
    leakage.check(RIGHT, DATA, claimed_epsilon=0.01, regime=gpleak.Exponential1D(), **FAST)

def test_bad_box(leakage):
    leakage.check(BOX, DATA, claimed_epsilon="certified", **FAST | dict(trials=200))

def test_bad_nan(leakage):
    leakage.check(RIGHT, DATA, claimed_epsilon=float(os.environ["NOT_A_NUMBER"]), **FAST)

@pytest.mark.parametrize("claimed", [None, -1.0, float("inf"), True, "certain"], ids=str)
def test_bad_claim(leakage, claimed):
    leakage.check(RIGHT, DATA, claimed_epsilon=claimed, **FAST)

def test_bad_unset(leakage):
    leakage.check(RIGHT, DATA, **FAST)

@pytest.mark.parametrize("name", ["trials", "shadows", "targets", "delta", "significance", "replacements"])
def test_bad_zero(leakage, name):
    leakage.check(RIGHT, DATA, claimed_epsilon=4.0, **FAST | {{name: 0}})

def test_bad_idle(leakage):
    for mechanism in []:
        leakage.check(mechanism, DATA, claimed_epsilon=4.0, **FAST)

def test_dynamic(request):
    request.getfixturevalue("leakage").check(RIGHT, DATA, claimed_epsilon=4.0, **FAST)

def test_bad_dynamic(request):
    request.getfixturevalue("leakage")

@pytest.fixture
def through(request):
    return lambda: request.getfixturevalue("leakage")

def test_bad_through(through):
    through()

def test_tiny(leakage):
    leakage.check(RIGHT, DATA, claimed_epsilon=4.0, inconclusive_ok=True, **FAST | dict(significance=1e-300))

def test_skipped(leakage):
    pytest.skip("before anything was checked")

def test_bad_nobody(leakage):
    leakage.check(RIGHT, DATA, claimed_epsilon=4.0, adversaries=(), **FAST)

def test_bad_class(leakage):
    leakage.check(gpleak.ExactPosterior, DATA, claimed_epsilon=4.0, **FAST)

def test_bad_function(leakage):
    leakage.check(noise, DATA, claimed_epsilon=4.0, **FAST)

def test_bad_data(leakage):
    leakage.check(RIGHT, [[0.1, 0.2]], claimed_epsilon=4.0, **FAST)

def test_bad_releases(leakage):
    leakage.check(Deployed(FunctionModel(undefined), RIGHT), DATA, claimed_epsilon=4.0, **FAST | dict(fidelity=0))

def test_bad_crash(leakage):
    leakage.check(Deployed(FunctionModel(crashing), RIGHT), DATA, claimed_epsilon=4.0, **FAST)

@pytest.mark.leakage(budget="weekly")
def test_bad_marker(leakage):
    leakage.check(RIGHT, DATA, claimed_epsilon=4.0, **FAST)
"""
GOOD = 12  # tests above that pass, with one check each but for test_twice


def run(folder, *arguments, plugins=(), **environment):
    """Pytest in `folder`, with no plugin but ours and those named; every warning is an error there."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        PLUGIN,
        "--strict-markers",
        "-W",
        "error",
    ]
    command += [part for plugin in plugins for part in ("-p", plugin)]
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**clean, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TRIALS": "100000", "NOT_A_NUMBER": "nan", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    """Folder, output and the messages of the failed tests of one run of `CHECKS`."""
    folder = tmp_path_factory.mktemp("checks")
    (folder / "test_checks.py").write_text(CHECKS)
    done = run(folder, "--leakage-report=out", "--junitxml=all.xml", "-rP")
    cases = Tree.parse(folder / "all.xml").iter("testcase")
    failed = {case.get("name"): failure.text for case in cases for failure in case.iter("failure")}
    return folder, done, failed


def records(folder):
    """Every record by the name of its file, read as strict JSON, without what may differ between two runs."""

    def refuse(name):
        raise ValueError(f"{name} is no JSON")

    found = {}
    for path in folder.glob("*.audit.json"):
        json.loads(path.read_text(), parse_constant=refuse)
        found[path.name] = {key: value for key, value in load_record(path).items() if key != "timings"}
    return found


def test_what_must_fail_fails_and_nothing_else(checks):
    _, done, failed = checks
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(name.startswith("test_bad_") for name in failed)
    assert len(failed) == CHECKS.count("def test_bad_") + 4 + 5  # one has five parameters, one six
    assert f"{len(failed)} failed, {GOOD} passed, 1 skipped" in done.stdout
    for name in ("idle", "dynamic", "through"):
        assert "NOTHING MEASURED: the test asked for the fixture leakage but never" in failed[f"test_bad_{name}"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nan", "claimed_epsilon = nan: a check needs something to fail against; set it to"),
        ("claim[None]", "claimed_epsilon = None: a check needs"),
        ("claim[-1.0]", "claimed_epsilon = -1.0: a check needs"),
        ("claim[inf]", "claimed_epsilon = inf: a check needs"),
        ("claim[True]", "claimed_epsilon = True: a check needs"),
        ("claim[certain]", "claimed_epsilon = 'certain': a check needs"),
        ("zero[trials]", "trials = 0: should be greater than or equal to 2; set it to a whole number, at least 2"),
        ("zero[shadows]", "shadows = 0: should be greater than or equal to 2"),
        ("zero[targets]", "targets = 0: should be greater than or equal to 1; set it to a number of records"),
        ("zero[delta]", "delta = 0: should be greater than 0; set it to a probability"),
        ("zero[significance]", "significance = 0: should be greater than 0"),
        ("zero[replacements]", "replacements = 0: should be greater than or equal to 1"),
        ("nobody", "adversaries = []: list should have at least 1 item"),
        ("class", "ExactPosterior'>, which is none"),
        ("function", "Deployed(FunctionModel(release), ExactPosterior(parameters))"),
        ("data", "data is a list: give gpleak.Dataset(covariates, responses)"),
        ("releases", "NaN"),
        ("marker", "the marker leakage has the arguments ['weekly']: it takes one budget, quick or nightly"),
    ],
)
def test_what_would_measure_nothing_is_refused_with_value_rule_and_remedy(checks, name, said):
    folder, _, failed = checks
    message = failed[f"test_bad_{name}"]
    assert message.startswith("leakage: NOTHING MEASURED: ")
    assert said in " ".join(message.split())
    assert "Traceback" not in message
    assert ".py:" in message.splitlines()[1]  # where the check stands
    assert not [path for path in (folder / "out").iterdir() if f"test_bad_{name.split('[')[0]}-" in path.name]


def test_a_violated_claim_says_everything_that_a_red_log_needs(checks):
    folder, _, failed = checks
    message = " ".join(failed["test_bad_above"].split())
    (path,) = (folder / "out").glob("*test_bad_above-*")
    record = load_record(path)
    shown = record["attacks"][0]
    for part in (
        "leakage: VIOLATED: refuted by the exact epsilon of record",
        "the claim is at most 0.01",
        "check 1, at test_checks.py:",
        "claim epsilon at most 0.01 at delta 0.001",
        f"epsilon of at least {shown['epsilon_lower']['value']:.4g} by the core attack on record {shown['record']}",
        "% confidence",
        "clopper_pearson_split (confidence), on 1,400 of 2,000 trials a side",
        f"exact epsilon {record['worst_exact']['epsilon']:.4g} for record {record['worst_exact']['record']}",
        "fails with probability 1e-06 at most",
        "seed 0, budget quick",
        "again pytest test_checks.py::test_bad_above",
        f"report out/{path.name}",
    ):
        assert part in message
    assert len(failed["test_bad_above"].splitlines()) < 25


def test_the_line_of_code_reproduces_it(checks):
    folder, _, failed = checks
    code = re.search(r"\n  or +(gpleak.run_audit.*?)\n  report", failed["test_bad_above"], flags=re.DOTALL).group(1)
    known = {}
    exec(SUBJECT, known)
    names = {
        "gpleak": gpleak,
        "data": known["DATA"],
        "mechanism": known["RIGHT"],
        "Exponential1D": gpleak.Exponential1D,
    }
    result = eval(" ".join(code.split()), names)
    (path,) = (folder / "out").glob("*test_bad_above-*")
    assert result.attacks[0].epsilon_lower.value == load_record(path)["attacks"][0]["epsilon_lower"]["value"]
    assert result.significance == 1e-6
    assert not gate(checked(result)).passed


def test_an_audit_that_could_not_have_failed_fails_unless_that_was_allowed(checks):
    _, done, failed = checks
    message = " ".join(failed["test_bad_weak"].split())
    assert message.startswith("leakage: INCONCLUSIVE: ")
    assert "a check that cannot fail proves nothing; raise trials well above" in message
    assert "test_weak_but_allowed passed, but no attack could have shown more than" in done.stdout


def test_failures_of_other_code_keep_their_traceback_and_are_counted(checks):
    _, done, failed = checks
    assert "RuntimeError: of its own" in failed["test_bad_crash"]
    assert "missing 1 required keyword-only argument: 'claimed_epsilon'" in failed["test_bad_unset"]
    bad = len(failed) - 4  # three made no check (idle, dynamic, through), and the unset claim never became one
    assert f"leakage: {GOOD + 1 + bad} checks, {bad} failed, reports in out" in done.stdout


def test_case_20e_a_black_box_has_no_certificate_and_its_record_is_strict_json(checks):
    folder, done, failed = checks
    (path,) = (folder / "out").glob("*test_box-*")
    assert '"Infinity"' in path.read_text()
    found = next(record for name, record in records(folder / "out").items() if name == path.name)
    assert found["certificate"]["epsilon"] == inf
    assert "test_box passed, but there is no certificate to violate, only the claim was tested" in done.stdout
    # Where that certificate is all that is claimed, nothing could fail.
    assert failed["test_bad_box"].startswith("leakage: INCONCLUSIVE: ")
    assert "the claim is infinite: there is no certificate to violate; claim a number" in failed["test_bad_box"]
    assert "test_box_certified passed, but the claim is infinite: there is no certificate to violate" in done.stdout


def test_every_check_that_ran_has_a_record_of_its_own(checks):
    folder, *_ = checks
    names = sorted(records(folder / "out"))
    assert len(names) == GOOD + 1 + 3  # of the bad ones, three were audited: weak, above and box
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", name) for name in names)
    assert sum("test_names-a" in name for name in names) == 3
    assert sum("test_twice" in name for name in names) == 2


def test_what_a_passing_check_measured_can_be_shown(checks):
    _, done, _ = checks
    assert "leakage: PASSED: the core attack on record" in done.stdout


def test_two_processes_give_the_same_records_and_the_command_line_names_the_budget(checks):
    folder, *_ = checks
    before = records(folder / "out")
    (folder / "again").mkdir()
    shutil.copy(folder / "test_checks.py", folder / "again")
    arguments = (
        "-n",
        "2",
        "-k",
        "twice or names or budget or bad_nan",
        "--leakage-budget=quick",
        "--leakage-report=out",
    )
    done = run(folder / "again", *arguments, plugins=["xdist.plugin"], TRIALS="5000")
    assert "leakage: 7 checks, 1 failed, reports in out" in done.stdout, done.stdout
    after = records(folder / "again" / "out")
    assert len(after) == 6
    for name, record in after.items():
        if "test_budget" in name:
            assert record["attacks"][0]["trials"] == 5000
            assert before[name]["attacks"][0]["trials"] == 100_000
        else:
            assert record == before[name]


def test_a_record_of_an_earlier_run_does_not_stand_for_a_check_that_was_refused(tmp_path):
    option = SimpleNamespace(leakage_report=str(tmp_path), leakage_budget=None)
    item = SimpleNamespace(
        nodeid="test_x.py::test_x",
        config=SimpleNamespace(option=option, invocation_params=SimpleNamespace(dir=tmp_path)),
        user_properties=[],
        get_closest_marker=lambda _: None,
        add_report_section=lambda *_: None,
    )
    known = {}
    exec(SUBJECT, known)
    fast = {"significance": 1e-6, "trials": 2000, "targets": 1, "fidelity": 0, "search": False}
    pytest_plugin.Leakage(item).check(known["RIGHT"], known["DATA"], claimed_epsilon=4.0, **fast)
    assert len(records(tmp_path)) == 1
    with pytest.raises(pytest.fail.Exception, match="NOTHING MEASURED"):
        pytest_plugin.Leakage(item).check(known["RIGHT"], known["DATA"], claimed_epsilon=float("nan"), **fast)
    assert records(tmp_path) == {}


def test_a_run_without_checks_imports_nothing(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_sessionfinish():\n"
        f"    heavy = {{'numpy', 'scipy', 'pydantic', 'matplotlib', 'ray'}} & set(sys.modules)\n"
        f"    print('loaded:', sorted(heavy), '{PLUGIN}' in sys.modules)\n"
    )
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    for arguments in (["--collect-only"], []):
        done = run(tmp_path, "-s", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "loaded: [] True" in done.stdout
        assert "leakage:" not in done.stdout


def test_a_folder_that_is_none_is_a_usage_error(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    for folder in ("file", ""):
        done = run(tmp_path, f"--leakage-report={folder}")
        assert done.returncode == 4
        assert f"--leakage-report={folder}: is no folder" in done.stderr


def test_the_entry_point_names_the_plugin():
    plugins = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert plugins == {"gpleak": PLUGIN}
    assert hasattr(import_module(PLUGIN), "leakage")


def masked(text):
    """Without digits, which may differ in the last place on other machines, and without line breaks."""
    return " ".join(re.sub(r"[0-9]+", "0", text).split())


def test_the_example_passes_and_its_broken_twin_fails_as_the_readme_shows(tmp_path):
    """The right maps pass at seed 0: it was exposed to a false-failure rate of 1e-3 a check. The broken ones differ by
    a p-value below 1e-300, and by ten standard errors of the attack's bound (3.9 against the claim of 2.5)."""
    shutil.copytree(EXAMPLE, tmp_path / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    done = run(tmp_path / "mine", "--leakage-report=leakage-reports", "--leakage-budget=quick", "-ra")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 2 passed" in done.stdout
    assert "leakage: 3 checks, 1 failed, reports in leakage-reports" in done.stdout
    assert "FAILED test_broken_on_purpose.py::test_the_scale_is_a_standard_deviation - " in done.stdout
    found = records(tmp_path / "mine" / "leakage-reports")
    assert sorted(record["verdict"] for record in found.values()) == ["NOT_REFUTED", "NOT_REFUTED", "VIOLATED"]
    (broken,) = (record for name, record in found.items() if "broken" in name)
    assert broken["decided_by"]["test"] == "fidelity test"
    assert max(attack["epsilon_lower"]["value"] for attack in broken["attacks"]) > 2.5
    shown = re.search(r"```text\n(leakage: .*?)```", (EXAMPLE / "README.md").read_text(), flags=re.DOTALL).group(1)
    assert masked(shown) in masked(done.stdout.replace(" --leakage-budget=quick", ""))
    # Nobody's values are in it.
    sys.path.insert(0, str(EXAMPLE))
    try:
        table = import_module("publish").wells()
    finally:
        sys.path.remove(str(EXAMPLE))
    text = done.stdout + json.dumps(list(found.values()))
    for value in np.concatenate([table.covariates.ravel(), table.responses]):
        assert abs(value) == 1.0 or repr(float(value)) not in text


def test_the_workflow_of_the_example_is_one():
    flow = yaml.safe_load((EXAMPLE / "leakage.yml").read_text())
    assert set(flow[True]) == {"push", "pull_request", "schedule"}  # yaml 1.1 takes "on" for a truth value
    assert flow["permissions"] == {"contents": "read"}
    (job,) = flow["jobs"].values()
    command = next(step["run"] for step in job["steps"] if step.get("run", "").startswith("pytest"))
    folder = re.search(r"--leakage-report=(\S+)", command).group(1)
    assert "github.event_name == 'schedule' && '--leakage-budget=nightly' || ''" in command
    upload = job["steps"][-1]
    assert upload["if"] == "always()"
    assert upload["with"]["path"] == folder
