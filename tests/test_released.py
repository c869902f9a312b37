"""A released file: read strictly, and audited from end to end."""

import hashlib
import io
import json
import pickle
import sys

import numpy as np
import pytest
from outside import ByScikitLearn
from support import audit_plan, random_data, release

from gpleak.attacks import Pool
from gpleak.audit import ComputeConfig, Subject, Verdict, run_audit
from gpleak.audit.ingest import Format
from gpleak.audit.released import Released, read_released
from gpleak.audit.resolution import resolution_of
from gpleak.audit.whole_function import whole_function
from gpleak.mechanisms import (
    Bounded,
    Centred,
    Dataset,
    ExactPosterior,
    GaussianQuery,
    InputError,
    Noised,
    PerRowNoise,
    Predictive,
    Thompson,
)
from gpleak.mechanisms.foreign import BlackBox
from gpleak.reports import as_record, load_record, render_report, write_record
from gpleak.reports.console import PlainConsole, print_summary


@pytest.fixture
def write(tmp_path):
    def writer(content, name="paths.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return writer


@pytest.fixture
def archive(tmp_path):
    def writer(**arrays):
        np.savez(tmp_path / "paths.npz", **arrays)
        return tmp_path / "paths.npz"

    return writer


def test_csv(write):
    """Columns in any order, paths in the order of the file; the hash is of its bytes."""
    path = write("path_b,x2,path_a,x1\n0.25,2,-1.5,1\n0.125,4,2.75,3\n")
    found = read_released(path, ["x1", "x2"], Format())
    assert found.points.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found.paths.tolist() == [[0.25, 0.125], [-1.5, 2.75]]
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    one = read_released(write("x,path\n0,1.5\n"), ["x"], Format())
    assert one.points.tolist() == [[0.0]]
    assert one.paths.tolist() == [[1.5]]


def test_csv_as_others_write_it(write):
    marked = read_released(write("\ufeffx;path1\n0,5;1.250,75\n0,7;-0,25\n"), ["x"], Format(",", "."))
    assert marked.points[:, 0].tolist() == [0.5, 0.7]
    assert marked.paths.tolist() == [[1250.75, -0.25]]
    assert marked.resolution == pytest.approx(0.01)
    # The data may have no header; the released file needs one.
    same = read_released(write("x;path1\n0,5;2\n"), ["x"], Format(",", header=False))
    assert same.paths.tolist() == [[2.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,path,weight\n0,1,2\n", "has a column 'weight' that is neither a covariate nor a path: leave it out"),
        ("x,path,51.5N\n0,1,2\n", "has a column that is neither"),
        ("x,value\n0,1\n", "has a column 'value' that is neither"),
        ("x\n0\n", "no column whose name begins with 'path'"),
        ("z,path\n0,1\n", "no column 'x'"),
        ("0.1,7.25\n0.2,7.5\n", "if it has no header, write the names of the columns in its first line, which a rel"),
        ("y,path\n0.1,7.25\n", "if there is no header, write the names of the columns in its first line, which a"),
        ("x,path,path\n0,1,1\n", "names column 'path' twice"),
        ("x,x,path\n0,1,1\n", "names column 'x' twice"),
        ("x,path\n", "has no points"),
        ("", "is empty"),
        ("x,path\n0,1\n1,nan\n", "line 3, column 'path': is not a number"),
        ("x,path\n0,1\n1,-inf\n", "line 3, column 'path': is not a number"),
        ("x,path\n0,1\n1,\n", "line 3, column 'path': is empty"),
        ("x,path\n0,1\n1,abc77\n", "line 3, column 'path': is not a number"),
        ("x,path\n0,1\n1e400,1\n", "line 3, column 'x': is too large"),
        ("x,path\n0,1\n1,2,3\n", "line 3: has 3 cells where 2 columns"),
    ],
)
def test_broken_csv_is_refused_and_never_shown(write, text, message):
    path = write(text)
    with pytest.raises(InputError) as error:
        read_released(path, ["x"], Format())
    said = str(error.value).removeprefix(str(path))
    assert message in said
    for secret in ("51.5", "abc77", "1e400", "-inf", "7.25"):
        assert secret not in said
    assert "data.header" not in said


def test_other_kinds_are_refused(write, tmp_path):
    with pytest.raises(InputError, match=r"release\.released = 'paths\.pkl': must be a \.csv, \.npz or \.parquet file"):
        read_released(write("", "paths.pkl"), ["x"], Format())
    with pytest.raises(InputError, match=r"cannot be read .*check release\.released"):
        read_released(tmp_path / "none.npz", ["x"], Format())


def test_npz(archive):
    rng = np.random.default_rng(0)
    points, paths = rng.random((5, 2)), rng.standard_normal((3, 5))
    found = read_released(archive(points=points, paths=paths), ["a", "b"], Format())
    assert np.array_equal(found.points, points)
    assert np.array_equal(found.paths, paths)
    assert found.resolution == 0.0
    flat = read_released(archive(points=points[:, 0], paths=paths[0]), ["a"], Format())
    assert flat.points.shape == (5, 1)
    assert flat.paths.shape == (1, 5)
    fortran = read_released(
        archive(points=np.asfortranarray(points), paths=np.asfortranarray(paths)), ["a", "b"], Format()
    )
    assert np.array_equal(fortran.paths, paths)
    assert fortran.paths.flags.c_contiguous
    whole = read_released(archive(points=np.arange(5), paths=np.arange(5, dtype=np.int16)), ["a"], Format())
    assert whole.paths.dtype == whole.points.dtype == np.float64
    assert whole.resolution == 1.0
    single = read_released(archive(points=points, paths=paths.astype(np.float32)), ["a", "b"], Format())
    assert single.resolution == np.spacing(np.float32(np.abs(paths).max()))
    assert np.array_equal(single.paths, paths.astype(np.float32).astype(np.float64))


POINTS, PATHS = np.zeros((3, 1)), np.zeros((2, 3))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"points": POINTS}, "has no array 'paths'"),
        ({"paths": PATHS}, "has no array 'points'"),
        ({"points": POINTS, "paths": PATHS, "seed": np.zeros(1)}, "has an array 'seed' that is neither"),
        ({"points": POINTS, "paths": PATHS.T}, r"points have shape (3, 1) and paths (3, 2): give (t, 1) and (L, t)"),
        ({"points": np.zeros((3, 2)), "paths": PATHS}, "give (t, 1)"),
        ({"points": np.zeros(3), "paths": np.zeros((1, 2, 3))}, "give (t, 1)"),
        ({"points": np.zeros((0, 1)), "paths": np.zeros((1, 0))}, "holds no value"),
        ({"points": POINTS, "paths": np.zeros((0, 3))}, "holds no value"),
        ({"points": POINTS, "paths": np.where(np.arange(3) == 1, np.nan, PATHS)}, "'paths': is NaN or infinite in row"),
        ({"points": np.array([[0.0], [np.inf], [1.0]]), "paths": PATHS}, "'points': is NaN or infinite in row 1 (0-"),
        ({"points": POINTS, "paths": PATHS.astype(str)}, "holds <U32, not numbers"),
        ({"points": POINTS, "paths": PATHS.astype(bool)}, "holds bool, not numbers"),
        ({"points": POINTS, "paths": PATHS.astype(complex)}, "holds complex128, not numbers"),
        ({"points": POINTS, "paths": PATHS.astype(object)}, "is not an npz archive of plain arrays"),
    ],
)  # fmt: skip
def test_broken_npz_is_refused(archive, arrays, message):
    with pytest.raises(InputError) as error:
        read_released(archive(**arrays), ["x"], Format())
    assert message in str(error.value)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("code in a file was run",))


def test_no_code_in_a_file_is_run(write):
    for content in (pickle.dumps({"points": Bomb()}), b"", b"PK\x03\x04 not really", b"\x93NUMPY\x01\x00"):
        with pytest.raises(InputError, match="is not an npz archive of plain arrays"):
            read_released(write(content, "paths.npz"), ["x"], Format())


def test_parquet_needs_pyarrow(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow: pip install 'gpleak\[parquet\]'"):
        read_released(write(b"PAR1", "paths.parquet"), ["x"], Format())


def test_parquet(tmp_path, write):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "paths.parquet"

    def written(**columns):
        parquet.write_table(pyarrow.table(columns), path)
        return path

    found = read_released(written(path_1=[0.5, 1.5], x=[1, 2], path_0=[0.1, 0.2]), ["x"], Format())
    assert found.points.tolist() == [[1.0], [2.0]]
    assert found.paths.tolist() == [[0.5, 1.5], [0.1, 0.2]]
    for columns, message in (
        ({"x": [1, 2], "path": [0.5, None]}, "column 'path': 1 value"),
        ({"x": [1, 2], "path": [0.5, float("nan")]}, r"column 'path': is NaN or infinite in row 1"),
        ({"x": ["1", "2"], "path": [0.5, 1.0]}, "column 'x': holds object, not numbers"),
        ({"x": [1, 2], "path": [0.5, 1.0], "y": [1, 2]}, "has a column 'y' that is neither"),
        ({"path": [0.5, 1.0]}, "has no column 'x'"),
    ):
        with pytest.raises(InputError, match=message):
            read_released(written(**columns), ["x"], Format())
    with pytest.raises(InputError, match="is not a Parquet file"):
        read_released(write(b"nothing", "paths.parquet"), ["x"], Format())


RNG = np.random.default_rng(500)
VALUES = RNG.standard_normal((2, 100))


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (VALUES, 0.0),
        (1e-8 * VALUES, 0.0),
        (np.round(VALUES, 3), 1e-3),
        (np.round(VALUES, 1), 1e-1),
        (np.round(VALUES, -1) + 10 * np.arange(100), 1.0),
        (np.round(1e6 * VALUES), 1.0),
        (VALUES.astype(np.float32), 2.0**-22),  # from 2 to 4, where the largest of these is, float32 has this step
        (VALUES.astype(np.float32).astype(np.float64), 2.0**-22),
        (VALUES.astype(np.float16), 2.0**-9),
        (np.float32([1.0 / 3.0, 64.1]), 2.0**-17),
        (np.arange(5), 1.0),
        (np.zeros((2, 3)), 1.0),
    ],
)
def test_resolution_of_arrays(values, step):
    assert resolution_of(values) == pytest.approx(step, rel=1e-3)


def test_resolution_of_text():
    """As written: trailing zeros count, exponents move the last digit, of steps of many sizes it is the largest."""
    assert resolution_of(np.array([1.5, 2.0]), ["1.50", "2.00"]) == 0.01
    assert resolution_of(np.array([1.5, 2.0]), ["1.5e0", "20e-1"]) == pytest.approx(0.1)
    assert resolution_of(np.array([1200.0, 3400.0]), ["1.2e3", "3.4E+3"]) == 100.0
    assert resolution_of(np.array([7.0]), ["+7"]) == 1.0
    values = 10.0 ** RNG.uniform(-4, 1, 1000)
    written = [f"{value:.3g}" for value in values]
    largest = 10.0 ** (np.floor(np.log10(values.max())) - 2)
    assert resolution_of(np.array([float(text) for text in written]), written) == pytest.approx(largest)
    assert resolution_of(np.zeros(2), ["0.00", "-0.00"]) == 0.01
    exact = [repr(float(value)) for value in values]
    assert resolution_of(values, exact) == 0.0


def test_released_is_a_checked_value():
    with pytest.raises(InputError, match=r"give \(t, d\) and \(L, t\), not empty"):
        Released(np.zeros((3, 1)), np.zeros((1, 2)))
    with pytest.raises(InputError, match="must be finite"):
        Released(np.zeros((3, 1)), np.full((1, 3), np.nan))
    with pytest.raises(InputError, match="resolution must be 0 or a positive number, got nan"):
        Released(np.zeros((3, 1)), np.zeros((1, 3)), float("nan"))


# From end to end.

N, T = 60, 40
GRID = np.linspace(0, 1, T)[:, None]
DATA = random_data(np.random.default_rng(501), N, 1)
SERIAL = ComputeConfig(workers="serial")
PLAN = audit_plan(trials=200, targets=2, significance=4e-6)


def audited(mechanism, paths, *, plan=PLAN, data=DATA, population=None, step=0.0):
    released = Released(mechanism.release.points, paths, step, "0" * 64)
    subject = Subject(data, mechanism, Bounded(), population, released=released)
    return run_audit(subject, plan, compute=SERIAL)


def drawn(mechanism, *, data=DATA, paths=1, seed=0):
    points = mechanism.release.points
    return mechanism.sampler(data, points).draw(1, paths=paths, rng=np.random.default_rng(seed))[0]


STATED = ExactPosterior(release(N, points=GRID, ridge=0.3, scale=0.3, paths=2))


@pytest.fixture(scope="module")
def result():
    return audited(STATED, drawn(STATED, paths=2))


def test_a_right_file_is_audited(result):
    """Fidelity is at significance 8e-7 (a fifth of 4e-6): it fails a right file with that probability."""
    assert result.verdict != Verdict.VIOLATED
    assert result.fidelity.source == "file"
    assert result.fidelity.passed
    assert result.ledger.share("fidelity") == pytest.approx(8e-7)
    seen = result.released
    assert (seen.paths, seen.points, seen.resolution, seen.sha256) == (2, T, 0.0, "0" * 64)
    found = seen.membership
    assert found.evidence.shape == found.false_alarm.shape == (N,)
    assert found.in_quantiles.shape == found.out_quantiles.shape == (N, 3)
    assert (found.population, found.others, found.directions) == ("replacements", PLAN.replacements, T)
    assert (np.diff(found.in_quantiles, axis=1) > 0).all()
    assert (found.in_quantiles[:, 1] > found.out_quantiles[:, 1]).all()
    assert result.epsilon_exact.shape == (N,)


def test_the_same_twice(result):
    again = audited(STATED, drawn(STATED, paths=2))
    assert np.array_equal(again.released.membership.evidence, result.released.membership.evidence)
    assert np.array_equal(again.released.membership.false_alarm, result.released.membership.false_alarm)
    other = audited(STATED, drawn(STATED, paths=2), plan=PLAN.model_copy(update={"seed": 1}))
    assert not np.array_equal(other.released.membership.evidence, result.released.membership.evidence)


@pytest.mark.parametrize(
    "paths",
    [
        drawn(STATED, data=Dataset(DATA.covariates, DATA.responses[::-1]), paths=2),
        drawn(Predictive(STATED.release), paths=2),
        drawn(STATED, paths=1)[[0, 0]],
    ],
    ids=["shuffled", "predictive", "twice"],
)
def test_a_wrong_file_is_a_violation(paths):
    found = audited(STATED, paths)
    assert found.verdict == Verdict.VIOLATED
    assert found.decided_by == "fidelity test"
    assert found.reason.startswith("the file is not a release of the stated mechanism for these data: its ")
    assert "is not compatible" in render_report(found)


def test_values_of_any_size_end_in_a_verdict_or_a_refusal(tmp_path):
    """Evidence is a number, so that the record can be written and the violation is not lost."""
    paths = drawn(STATED, paths=2)
    found = audited(STATED, np.where(np.arange(T) == 3, 1e90, paths))
    assert found.verdict == Verdict.VIOLATED
    assert np.isfinite(found.released.membership.evidence).all()
    write_record(as_record(found), tmp_path / "audit.json")
    with pytest.raises(InputError, match=r"holds values at point 3 \(0-based\) that are more than 1e\+100 prior"):
        audited(STATED, np.where(np.arange(T) == 3, 1e200, paths))


def test_the_population_file_is_who_else_it_may_be():
    public = random_data(np.random.default_rng(502), 25, 1)
    found = audited(STATED, drawn(STATED, paths=2), population=Pool(public, np.arange(25), "file"))
    assert found.released.membership.population == "file"
    assert "rows drawn from the population file" in render_report(found)


@pytest.mark.parametrize("kind", [ExactPosterior, Noised, Predictive, Centred, PerRowNoise])
def test_whatever_is_made_of_a_posterior_can_be_audited(kind):
    stated = release(N, points=GRID, prior_noise=0.3 if kind is Noised else 0.0)
    mechanism = kind(stated, np.full(N, 0.5)) if kind is PerRowNoise else kind(stated)
    found = audited(mechanism, np.round(drawn(mechanism), 4), step=1e-4)
    assert found.fidelity.passed
    assert np.isfinite(found.released.membership.evidence).all()
    assert 0 < found.worst_epsilon <= found.worst_everywhere * (1 + 1e-9)


@pytest.mark.parametrize(
    "mechanism",
    [
        Thompson(release(N, points=GRID)),
        GaussianQuery(release(N, points=GRID)),
        ByScikitLearn(release(N, points=GRID)),
        BlackBox(ByScikitLearn(release(N, points=GRID)), ExactPosterior(release(N, points=GRID))),
    ],
    ids=["thompson", "gaussian", "outsider", "black box"],
)
def test_mechanisms_without_a_law_of_whole_paths_are_refused(mechanism):
    with pytest.raises(
        InputError, match=r"cannot be audited for mechanism .*: use posterior, noised, predictive, centred"
    ):
        audited(mechanism, np.zeros((1, T)))


def test_the_file_must_be_what_the_mechanism_releases():
    for mechanism in (
        ExactPosterior(release(N)),
        ExactPosterior(release(N, points=GRID[:7])),
        ExactPosterior(release(N, points=GRID, paths=3)),
    ):
        subject = Subject(DATA, mechanism, Bounded(), released=Released(GRID, np.zeros((1, T))))
        with pytest.raises(InputError, match=r"the file holds 1 path\(s\) at 40 points: the mechanism must release"):
            run_audit(subject, PLAN, compute=SERIAL)


def test_reports_show_it_and_no_private_record(result, tmp_path):
    record = as_record(result)
    write_record(record, tmp_path / "audit.json")
    assert load_record(tmp_path / "audit.json") == record
    shown = record["released"]
    assert [row["record"] for row in shown["records"]] == list(range(N))
    assert shown["records"][7]["evidence"] == result.released.membership.evidence[7]
    assert len(shown["records"][7]["in_quantiles"]) == 3
    assert [row["record"] for row in record["epsilon_everywhere"]] == list(range(N))
    assert record["fidelity"]["source"] == "file"
    html = render_report(result)
    assert html.count("<svg") == 8
    for words in (
        "What this very release says",
        f"on these {T} points",
        "of the whole function",
        "The file, 2 path(s) at",
    ):
        assert words in html
    console = PlainConsole(highlight=False, width=200, file=io.StringIO())
    print_summary(result, console)
    text = console.file.getvalue()
    strongest = int(result.released.membership.evidence.argmax())
    assert f"this very release: record {strongest} has evidence of " in text
    assert text.count(" if it is in, ") == 5
    assert f"worst record, exact, on these {T} points" in text
    everything = json.dumps(record) + html + text
    for value in (*DATA.covariates[:, 0], *DATA.responses):
        assert repr(float(value)) not in everything
        assert f"{value:.6g}" not in everything


def test_reports_without_a_file_say_nothing_of_one():
    mechanism = ExactPosterior(release(N))
    found = run_audit(Subject(DATA, mechanism, Bounded()), PLAN, compute=SERIAL)
    assert found.released is found.exposure_everywhere is None
    assert as_record(found)["released"] is None
    html = render_report(found)
    assert "very release" not in html
    assert "whole function" not in html


def test_the_whole_function_betrays_more_than_a_coarse_grid():
    """Beside three points of any mechanism; of predictive draws the latent function."""
    few = np.array([[0.1], [0.5], [0.9]])
    for kind in (ExactPosterior, Noised, Predictive, Centred):
        mechanism = kind(release(N, points=few, prior_noise=0.3 if kind is Noised else 0.0))
        found = run_audit(Subject(DATA, mechanism, Bounded()), PLAN, compute=SERIAL)
        assert (found.exposure_everywhere.epsilon >= found.exposure.epsilon * (1 - 1e-9)).all()
        assert found.worst_everywhere > 1.2 * found.worst_epsilon
        everywhere = ExactPosterior if kind is Predictive else kind
        whole = everywhere(release(N, prior_noise=0.3 if kind is Noised else 0.0))
        alone = run_audit(Subject(DATA, whole, Bounded()), PLAN, compute=SERIAL)
        assert found.exposure_everywhere.epsilon == pytest.approx(alone.exposure.epsilon, rel=1e-9)
    assert whole_function(Thompson(release(N, points=few))).release.points is None
    assert whole_function(ExactPosterior(release(N))) is None
    assert whole_function(BlackBox(ByScikitLearn(release(N)), ExactPosterior(release(N, points=few)))) is None


def test_one_path_at_200_points_of_500_records():
    """The size that the README promises; not its time, which is measured (docs/released_files.md)."""
    data = random_data(np.random.default_rng(503), 500, 2)
    mechanism = ExactPosterior(release(500, 2, points=np.random.default_rng(504).random((200, 2))))
    found = audited(mechanism, drawn(mechanism, data=data), data=data)
    assert found.fidelity.passed
    assert found.released.membership.directions == 200
    assert found.epsilon_exact.shape == (500,)
