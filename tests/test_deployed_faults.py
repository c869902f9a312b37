"""Deployed models, populations and files that must not pass for what they are not, and right ones that must pass."""

import functools
from dataclasses import dataclass, replace

import deployed_models
import numpy as np
import pytest
from deployed_models import regressor
from sklearn.base import clone
from support import audit_plan, random_data, release
from test_deployed import BLACK, DATA, SERIAL, STATED, audited, built, folder, load  # noqa: F401 - a fixture

from gpleak.attacks import Draw
from gpleak.audit import Subject, Verdict, build_stated, build_subject, certification, curves, run_audit, solve
from gpleak.audit import deployed as deployed_module
from gpleak.audit.keeping import about
from gpleak.audit.plugins import load_outside, source_digest
from gpleak.audit.released import Released
from gpleak.mechanisms import Bounded, Centred, ExactPosterior, InputError, Thompson, exponential
from gpleak.mechanisms.foreign import BlackBox, Deployed, Reading, Reported, check_moments, scikit_learn
from gpleak.mechanisms.foreign.function import FunctionModel

GRID = np.stack(np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 5)), axis=-1).reshape(-1, 2)


# Populations from outside.


@dataclass
class Population:
    """Uniform records, and one thing wrong with them."""

    fault: str
    name: str = "elsewhere"

    def draw(self, rng, count, *, core):
        core = 2 if self.fault == "few" else core
        places, responses = rng.random((count, core + 1, 2)), rng.uniform(-1, 1, (count, core + 1))
        if self.fault == "loud":
            responses[:, -1] = 2e4
        if self.fault == "outside":
            places[0, 0, 0] = 1.5
        if self.fault == "broken":
            responses[0, 0] = np.nan
        return Draw(places[:, :-1], responses[:, :-1], places[:, -1], responses[:, -1], None)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("loud", r"responses above response_bound = 1"),
        ("few", r"covariates of shape \(64, 2, 2\): it must be \(64, 24, 2\)"),
        ("outside", "records outside the domain"),
        ("broken", "responses that are not all finite numbers"),
    ],
)
def test_populations_must_keep_to_the_premises(fault, reason):
    plan = audit_plan(adversaries=["population"], shadows=50, trials=100, fidelity=0, targets=1)
    run_audit(Subject(DATA, ExactPosterior(STATED), Bounded(), Population("none")), plan, compute=SERIAL)
    with pytest.raises(InputError, match=f"population elsewhere draws {reason}"):
        run_audit(Subject(DATA, ExactPosterior(STATED), Bounded(), Population(fault)), plan, compute=SERIAL)


# Black boxes.


def loud(sign, x, y, points, paths, rng):  # noqa: ARG001 - the contract
    """It says with most of its values how large the sum of the responses is, far from where the assumed law expects."""
    drawn = rng.standard_normal((paths, len(points)))
    drawn[:, 2:] += 1000.0 * (sign * y.sum() + 50.0)
    return drawn


@pytest.mark.parametrize("batch", [None, 500])
def test_a_score_that_points_the_wrong_way_is_read_the_other_way(batch):
    """The assumed law takes huge values for those of one dataset, rightly or wrongly: an AUC of 0 is a perfect "
    "attack."""
    plan = audit_plan(trials=2000, fidelity=0, targets=3, claimed_epsilon=1.0, batch=batch)
    turned = []
    for sign in (1.0, -1.0):
        model = FunctionModel(functools.partial(loud, sign))
        mechanism = BlackBox(model, ExactPosterior(replace(STATED, points=GRID)))
        result = run_audit(Subject(DATA, mechanism, Bounded()), plan, compute=SERIAL)
        turned.append(sum(any("upside down" in note for note in attack.notes) for attack in result.attacks))
        assert all(attack.auc > 0.99 for attack in result.attacks)
        assert result.verdict is Verdict.VIOLATED
    assert sorted(turned) == [0, 3]


def nothing(x, y, points, paths, rng):  # noqa: ARG001 - the contract
    return rng.standard_normal((paths, len(points)))


def test_reading_scores_either_way_proves_nothing_where_there_is_nothing():
    """Orientation and threshold are chosen on trials that are not evaluated: by chance 0.05 in all; this seed is "
    "not."""
    mechanism = BlackBox(FunctionModel(nothing), ExactPosterior(replace(STATED, points=GRID)))
    plan = audit_plan(trials=4000, fidelity=0, targets=10, claimed_epsilon=0.0)
    result = run_audit(Subject(DATA, mechanism, Bounded()), plan, compute=SERIAL)
    assert result.verdict is not Verdict.VIOLATED
    assert max(attack.epsilon_lower.value for attack in result.attacks) == 0.0


def test_a_black_box_is_looked_at_where_it_is_released(folder):  # noqa: F811
    options = [option for option in BLACK if not option.startswith("release.points")]
    with pytest.raises(InputError, match=r"only be looked at where it is released: list release\.points"):
        built(folder, *options)


def test_a_black_box_spends_nothing_on_a_test_that_decides_nothing(folder):  # noqa: F811
    result = audited(folder, *BLACK)
    assert result.fidelity is not None
    assert "fidelity" not in {expense.test for expense in result.ledger.expenses}


def test_what_is_known_to_be_approximate_cannot_be_stated_to_be_exact(folder, monkeypatch):  # noqa: F811
    def read(thing, *, public):
        return replace(scikit_learn.read(thing, public=public), approximate="it draws something else")

    class Reader:
        pass

    Reader.read = staticmethod(read)
    monkeypatch.setattr(deployed_module, "scikit_learn", Reader)
    points = "release.points={shape = [3, 3]}"
    assert isinstance(built(folder, points).mechanism, BlackBox)
    with pytest.raises(InputError, match=r"release\.stated = 'posterior', but this is not that mechanism: it"):
        built(folder, points, "release.stated=posterior")


def imaginary(x, y, points, paths, rng):  # noqa: ARG001 - the contract
    return 1j * y.sum() * np.ones((paths, len(points)))


def text(x, y, points, paths, rng):  # noqa: ARG001 - the contract
    return np.full((paths, len(points)), "a")


def failing(x, y, points, paths, rng):  # noqa: ARG001 - the contract
    raise ValueError(f"{y[0]} is private")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (imaginary, "returned complex128: it must return real numbers"),
        (text, "returned <U1: it must return real numbers"),
        (failing, r"the release function failed \(ValueError\)$"),
    ],
)
def test_functions_that_return_no_real_numbers(function, reason):
    sampler = FunctionModel(function).sampler(DATA, GRID)
    with pytest.raises(InputError, match=reason):
        sampler.draw(1, paths=1, rng=np.random.default_rng(0))


# Released files of deployed models, and of our own.


def file_of(points, paths=1):
    drawn = ExactPosterior(STATED).sampler(DATA, points).draw(1, paths=paths, rng=np.random.default_rng(6))[0]
    return Released(points, drawn)


def test_a_right_file_does_not_clear_a_wrong_sampler():
    points = GRID[:9]
    like = ExactPosterior(replace(STATED, points=points))
    plan = audit_plan(trials=200, fidelity=400, targets=1, claimed_epsilon=100.0)
    wrong = Deployed(FunctionModel(deployed_models.with_the_answer), like)
    result = run_audit(Subject(DATA, wrong, Bounded(), released=file_of(points)), plan, compute=SERIAL)
    assert result.verdict is Verdict.VIOLATED
    assert (result.fidelity.source, result.decided_by) == ("sampler", "fidelity test")
    right = Deployed(FunctionModel(deployed_models.by_hand), like)  # by chance it fails with probability 0.01
    result = run_audit(Subject(DATA, right, Bounded(), released=file_of(points)), plan, compute=SERIAL)
    assert result.fidelity.passed
    assert result.fidelity.significance == pytest.approx(result.ledger.share("fidelity") / 2)


def test_a_file_is_tested_even_where_samplers_are_not():
    points = GRID[:9]
    mechanism = ExactPosterior(replace(STATED, points=points))
    plan = audit_plan(trials=200, fidelity=0, targets=1, claimed_epsilon=100.0)
    ones = Released(points, np.ones((1, 9)) * 3.0)
    result = run_audit(Subject(DATA, mechanism, Bounded(), released=ones), plan, compute=SERIAL)
    assert result.verdict is Verdict.VIOLATED
    assert result.fidelity.source == "file"


def test_what_is_certified_of_a_file_counts_its_paths(folder):  # noqa: F811
    np.savez(folder / "paths.npz", points=GRID, paths=file_of(GRID, paths=4).paths)
    own = ("release.mechanism=posterior", "release.kernel=exponential", "release.length_scale=0.4", "release.ridge=0.6")
    (folder / "audit.toml").write_text(
        (folder / "audit.toml").read_text().replace('model = "deployed_models:latent"\n', "")
    )
    config = load(folder, *own, "release.scale=0.8", "release.released=paths.npz")
    with_data, _ = build_stated(config)
    stated, _ = build_stated(
        load(folder, *own, "release.scale=0.8", "release.released=paths.npz", "release.records=25")
    )
    for mechanism in (with_data, stated):
        assert mechanism.release.paths == 4
        assert np.array_equal(mechanism.release.points, GRID)


# Transcripts through someone else's code.


def test_actions_of_a_deployed_transcript_are_public():
    """A pair with other actions refutes no claim about these."""
    data = random_data(np.random.default_rng(3), 12, 1)
    own = Thompson(release(12, ridge=3.0))
    exact = run_audit(Subject(data, own, Bounded()), audit_plan(search=True, trials=200, fidelity=0), compute=SERIAL)
    assert exact.worst_epsilon < exact.worst_pair.epsilon
    claim = 0.5 * (exact.worst_epsilon + exact.worst_pair.epsilon)
    plan = audit_plan(search=True, trials=200, fidelity=0, claimed_epsilon=claim)
    result = run_audit(Subject(data, Deployed(own, own), Bounded()), plan, compute=SERIAL)
    assert result.verdict is not Verdict.VIOLATED


# The comparison of moments.


@dataclass
class Telling:
    """It reports what it is given."""

    told: Reported
    name: str = "telling"

    def sampler(self, data, points):
        raise NotImplementedError

    def reported(self, data, points):  # noqa: ARG002 - the contract
        return self.told


def right(points, accuracy=1e-6):
    law = ExactPosterior(STATED).path_law(DATA, points)
    return Reported(law.mean[0], law.covariance[0], accuracy)


@pytest.mark.parametrize("accuracy", [np.nan, np.inf, -1.0, 0.05])
def test_a_comparison_that_could_not_fail_is_refused(accuracy):
    like = ExactPosterior(replace(STATED, points=GRID))
    check_moments(Deployed(Telling(right(GRID)), like), DATA)
    with pytest.raises(InputError, match="which is no comparison"):
        check_moments(Deployed(Telling(right(GRID, accuracy)), like), DATA)


def test_ill_conditioned_data_cannot_be_compared():
    like = ExactPosterior(replace(STATED, points=GRID, ridge=1e-6, kernel=exponential(1e3)))
    model = Telling(right(GRID))
    with pytest.raises(InputError, match="which is no comparison"):
        check_moments(Deployed(model, like), DATA)


def test_moments_of_another_shape():
    like, told = ExactPosterior(replace(STATED, points=GRID)), right(GRID)
    for wrong in (replace(told, mean=told.mean[:, None]), replace(told, covariance=told.covariance[:3])):
        with pytest.raises(InputError, match=r"of 25 points has shape .*: it must be \(25"):
            check_moments(Deployed(Telling(wrong), like), DATA)
    for what in ("mean", "covariance"):
        with pytest.raises(InputError, match=f"a posterior {what} is NaN or infinite"):
            check_moments(Deployed(Telling(replace(told, **{what: np.nan * getattr(told, what)})), like), DATA)
    transcript = Thompson(release(25, 2, points=GRID))
    with pytest.raises(InputError, match="has one a round"):
        check_moments(Deployed(Telling(told), transcript), DATA)


def test_a_fitted_model_is_compared_with_itself_fitted_again():
    fitted = clone(deployed_models.latent).fit(DATA.covariates, DATA.responses)
    scikit_learn.read(fitted)
    fitted.alpha_ = 2.0 * fitted.alpha_
    with pytest.raises(InputError, match="predicts something else than the same model fitted again"):
        scikit_learn.read(fitted)


def test_without_data_moments_are_compared_on_made_up_records(folder):  # noqa: F811
    build_stated(load(folder, "release.records=25"), allow_code=True)
    with pytest.raises(InputError, match="look for scaling or a mean function"):
        build_stated(load(folder, "release.model=deployed_models:scaled", "release.records=25"), allow_code=True)


# Commands on deployed models.


def test_parameters_and_curves_of_what_a_model_is_stated_to_be(folder):  # noqa: F811
    mechanism, regime = build_stated(load(folder, "release.records=25"), allow_code=True)
    own = ExactPosterior(mechanism.release)
    # Of the centred release, for which nothing is searched.
    centred = Centred(mechanism.release)
    of_model = solve(Deployed(mechanism.model, centred), regime, 1e-3, parameter="ridge", budget=50.0)
    assert of_model == solve(centred, regime, 1e-3, parameter="ridge", budget=50.0)
    assert of_model.value is not None
    ours, theirs = curves(own, regime, 1e-3), curves(mechanism, regime, 1e-3)
    assert all(np.array_equal(ours[name][1], theirs[name][1]) for name in ours)
    black, regime = build_stated(load(folder, *BLACK, "release.records=25"), allow_code=True)
    for asked in (certification, curves):
        with pytest.raises(InputError, match="nothing is certified of callable"):
            asked(black, regime, 1e-3)


def test_looks_at_a_deployed_model(folder):  # noqa: F811
    """Looks begin within a block of trials; scikit-learn's last digits depend on how many are drawn at once."""
    grid = ("release.points={shape = [5, 5]}", "audit.trials=1500", "audit.batch=300", "audit.fidelity=0")
    result = audited(folder, *grid, "audit.claimed_epsilon=30.0")
    assert result.attacks[0].trials == 1500


# Code from outside.


def test_kept_chunks_see_what_a_partial_or_a_decorator_hides(folder, monkeypatch):  # noqa: F811
    monkeypatch.syspath_prepend(str(folder))
    source = (
        "import functools\n"
        "def plain(k, x, y, points, paths, rng):\n    return k * rng.standard_normal((paths, len(points)))\n"
        "partial = functools.partial(plain, 1)\n"
        "from loud import announced\n"
        "@announced\n"
        "def decorated(x, y, points, paths, rng):\n    return plain(2, x, y, points, paths, rng)\n"
    )
    (folder / "loud.py").write_text("def announced(f):\n    def g(*a):\n        return f(*a)\n    return g\n")
    (folder / "hidden.py").write_text(source)
    before = {}
    for edited in (False, True):
        if edited:
            (folder / "hidden.py").write_text(source.replace("k * rng", "50 * y.sum() + rng"))
        for name in ("partial", "decorated"):
            config = load(folder, *BLACK, f"release.model=hidden:{name}")
            try:
                subject = build_subject(config, allow_code=True)
            except InputError:
                pytest.fail(f"hidden:{name} cannot be loaded")
            if name == "decorated":  # a closure cannot be pickled, so nothing is kept of it
                with pytest.raises(InputError, match="cannot be pickled"):
                    about(subject, config.audit)
                continue
            known = about(subject, config.audit)
            assert not edited or known["mechanism.model"] != before[name]["mechanism.model"]
            assert not edited or known["mechanism"] != before[name]["mechanism"]
            before[name] = known


def test_digests_look_behind_partials_and_wrappers():
    assert source_digest(functools.partial(nothing)) == source_digest(nothing) != "unknown"

    @functools.wraps(nothing)
    def wrapper(*arguments):
        return nothing(*arguments)

    assert source_digest(wrapper) == source_digest(nothing)
    assert source_digest(3) == "unknown"
    assert source_digest(regressor()) != source_digest(deployed_models.third)


def test_a_module_of_the_same_name_is_not_run_in_place_of_another(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "named_alike.py").write_text(f"value = {name!r}\n")
    asked = {"group": "gpleak.models", "key": "release.model", "allow_code": True}
    assert load_outside("named_alike:value", folder=tmp_path / "one", **asked) == "one"
    assert load_outside("named_alike:value", folder=tmp_path / "one", **asked) == "one"
    with pytest.raises(InputError, match="a module 'named_alike' is already loaded from elsewhere"):
        load_outside("named_alike:value", folder=tmp_path / "two", **asked)


def test_code_that_fails_is_named_without_its_text(tmp_path):
    (tmp_path / "failing_model.py").write_text("raise RuntimeError('12345.678')\n")
    (tmp_path / "misspelt_model.py").write_text("def f(:\n")
    asked = {"group": "gpleak.models", "key": "release.model", "allow_code": True, "folder": tmp_path}
    for name, kind in (("failing_model:f", "RuntimeError"), ("misspelt_model:f", "SyntaxError")):
        with pytest.raises(InputError, match=rf"cannot be loaded, its code failed \({kind}\)") as error:
            load_outside(name, **asked)
        assert "12345" not in str(error.value)


def test_readings_have_no_certificate_of_their_own():
    """What an adapter does not say is not made up."""
    reading = Reading(model=FunctionModel(nothing))
    assert (reading.kernel, reading.ridge, reading.scale, reading.draws, reading.approximate) == (None,) * 5
