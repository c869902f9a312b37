"""A grid of audits: the same numbers as single audits, whole after an interruption, one folder one sweep."""

import csv
import json
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gpleak.audit.sweep as planning
from gpleak.audit.sweep import MOST_POINTS, differences, parse_axis, plan_sweep
from gpleak.mechanisms import InputError, NumericalError
from gpleak.reports import cli

RNG = np.random.default_rng(5)
RECORDS = [(f"{x:.8f}", f"{y:.8f}") for x, y in zip(RNG.random(12), RNG.uniform(-1, 1, 12), strict=True)]
CONFIG = """
[data]
file = "records.csv"
covariates = ["hidden_place"]
response = "hidden_answer"

[release]
mechanism = "posterior"
kernel = "exponential"
length_scale = 0.3
ridge = 3.0
domain = [[0.0, 1.0]]
response_bound = 1.0

[audit]
adversaries = ["core", "population"]
shadows = 20
targets = 2
trials = 100
fidelity = 0
search = false
claimed_epsilon = 30.0

[compute]
workers = "serial"
"""
GRID = ("--vary", "release.ridge=0.5,1", "--vary", "release.scale=1,2")


def run(*arguments):
    with np.errstate(all="ignore"):  # as `main` does
        return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


def write_config(folder):
    lines = ["hidden_place,hidden_answer", *(",".join(record) for record in RECORDS)]
    (folder / "records.csv").write_text("\n".join(lines) + "\n")
    (folder / "audit.toml").write_text(CONFIG)
    return folder / "audit.toml"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep from beginning to end, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    return run("sweep", write_config(folder), *GRID, "--out", folder / "out"), folder / "out"


@pytest.fixture
def calls(monkeypatch):
    """The configurations' scales and ridges of the audits that are run from here on."""
    seen, real = [], planning.run_audit

    def counted(subject, plan, **options):
        seen.append((subject.mechanism.release.ridge, subject.mechanism.release.scale))
        return real(subject, plan, **options)

    monkeypatch.setattr(planning, "run_audit", counted)
    return seen


def stop_at(monkeypatch, number, error):
    """The audit of this number raises."""
    seen, real = [], planning.run_audit

    def stopping(subject, plan, **options):
        seen.append(plan)
        if len(seen) == number:
            raise error
        return real(subject, plan, **options)

    monkeypatch.setattr(planning, "run_audit", stopping)


def but_seconds(out):
    """Lines of the table without their last column, which is the time."""
    lines = (out / "sweep.csv").read_text().splitlines()
    assert lines[0].endswith(",seconds")
    return [line.rpartition(",")[0] for line in lines]


def read_table(out):
    """The table with its numbers to the last bit, which not every version of pandas reads by itself."""
    with (out / "sweep.csv").open() as file:
        table = pd.DataFrame(list(csv.DictReader(file)))
    words = ["adversary", "verdict"]
    numbers = table.drop(columns=words).map(lambda cell: float(cell or "nan"))
    return pd.concat([numbers, table[words]], axis=1)


def test_a_sweep_writes_what_it_says(whole):
    done, out = whole
    assert done.exit_code == 0, done.output
    names = {path.name for path in out.iterdir()}
    figures = {f"sweep-release.{key}-{kind}.png" for key in ("ridge", "scale") for kind in ("epsilon", "attacks")}
    assert names == {*(f"point-000{n}.json" for n in (1, 2, 3, 4)), "sweep.json", "sweep.csv", *figures}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in out.iterdir())
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in figures)
    assert done.stderr.splitlines() == [
        "point 1 of 4: release.ridge = 0.5, release.scale = 1",
        "point 2 of 4: release.ridge = 0.5, release.scale = 2",
        "point 3 of 4: release.ridge = 1, release.scale = 1",
        "point 4 of 4: release.ridge = 1, release.scale = 2",
    ]
    assert done.stdout.rstrip().endswith(f"table: {out / 'sweep.csv'}")
    listed = json.loads((out / "sweep.json").read_text())
    assert listed["vary"] == {"release.ridge": [0.5, 1.0], "release.scale": [1.0, 2.0]}
    assert [point["record"] for point in listed["points"]] == [f"point-000{n}.json" for n in (1, 2, 3, 4)]
    assert len(listed["identity"]) == 64


def test_the_table_has_the_numbers_of_single_audits(whole, config, tmp_path):
    _, out = whole
    table = read_table(out)
    assert len(table) == 4 * 2 * 2  # points, adversaries, targets
    assert table["point"].tolist() == sorted(table["point"])
    for ridge, scale in ((0.5, 2.0), (1.0, 1.0)):
        single = tmp_path / f"{ridge}"
        changes = ["--set", f"release.ridge={ridge}", "--set", f"release.scale={scale}"]
        assert run("audit", config, "--out", single, *changes).exit_code == 0
        record = json.loads((single / "audit.json").read_text())
        rows = table[(table["release.ridge"] == ridge) & (table["release.scale"] == scale)]
        assert (rows["certified"] == record["certificate"]["epsilon"]).all()
        assert (rows["certified_renyi"] == record["certificate"]["epsilon"]).all()
        assert (rows["worst_exact"] == record["worst_exact"]["epsilon"]).all()
        assert rows["worst_pair"].isna().all()
        assert (rows["verdict"] == record["verdict"]).all()
        assert (rows[["claimed", "seed", "delta", "paths", "trials"]] == [30.0, 0, 1e-3, 1, 100]).all(axis=None)
        for (_, row), attack in zip(rows.iterrows(), record["attacks"], strict=True):
            assert (row["adversary"], row["record"], row["auc"]) == (
                attack["adversary"],
                attack["record"],
                attack["auc"],
            )
            rates = [row[f"tpr_at_{rate['fpr']:g}"] for rate in attack["tpr_at_fpr"]]
            assert rates == [rate["tpr"] for rate in attack["tpr_at_fpr"]]
            assert row["epsilon_lower"] == attack["epsilon_lower"]["value"]
            exact = attack["epsilon_exact"]
            assert np.isnan(row["epsilon_exact"]) if exact is None else row["epsilon_exact"] == exact
            shadows = attack["shadows"]
            assert np.isnan(row["shadows"]) if shadows is None else row["shadows"] == shadows


def test_interrupted_and_resumed_is_the_same_sweep(whole, config, tmp_path, monkeypatch):
    _, uninterrupted = whole
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        stop_at(patched, 3, KeyboardInterrupt())
        assert run("sweep", config, *GRID, "--out", out).exit_code not in (0, 1)
    assert {path.name for path in out.iterdir()} == {"point-0001.json", "point-0002.json", "sweep.json"}
    stop_at(monkeypatch, 3, AssertionError("only two points were left"))
    done = run("sweep", config, *GRID, "--out", out)
    assert done.exit_code == 0, done.output
    assert [line[:12] for line in done.stderr.splitlines()] == ["point 3 of 4", "point 4 of 4"]
    assert but_seconds(out) == but_seconds(uninterrupted)
    for path in uninterrupted.iterdir():
        if path.name.startswith("sweep") and path.suffix != ".csv":
            assert (out / path.name).read_bytes() == path.read_bytes(), path.name


def test_what_has_changed_is_refused_by_name_and_fresh_starts_over(config, tmp_path, calls):
    out = tmp_path / "out"
    one = ("sweep", config, "--vary", "release.ridge=1", "--out", out)
    assert run(*one).exit_code == 0
    (out / "mine.txt").write_text("kept")

    def refused(*more, command=one):
        error = run(*command, *more).exception
        assert isinstance(error, InputError)
        return str(error)

    again = "use --fresh or another folder"
    assert refused("--set", "release.scale=2") == f"{out}: release.scale: 1.0 then, 2.0 now: {again}"
    many = [f"audit.{key}" for key in ("shadows=30", "trials=120", "seed=1", "targets=1")]
    message = refused(*(part for change in many for part in ("--set", change)))
    assert "audit.shadows: 20 then, 30 now" in message
    assert f"; and 1 more: {again}" in message
    swapped = ["data.covariates=['hidden_answer']", "data.response=hidden_place", "release.domain=[[-1,1]]"]
    message = refused(*(part for change in swapped for part in ("--set", change)))
    assert message.startswith(f"{out}: data.covariates: sha256:")
    assert "hidden" not in message
    assert "varied" in refused(command=("sweep", config, "--vary", "release.scale=1,2", "--out", out))
    run(*one, "--set", "compute.workers=1")  # changes no result
    assert calls == [(1.0, 1.0)]

    table = config.parent / "records.csv"
    table.write_text("\n".join(table.read_text().splitlines()[:-1]) + "\n")
    message = refused()
    assert message.startswith(f"{out}: data.file: sha256:")
    assert message.endswith(again)
    done = run(*one, "--fresh", "--set", "release.scale=2")
    assert done.exit_code == 0, done.output
    assert calls == [(1.0, 1.0), (1.0, 2.0)]
    assert (out / "mine.txt").read_text() == "kept"


def test_fresh_deletes_only_what_a_sweep_wrote(config, tmp_path):
    out = tmp_path / "out"
    run("sweep", config, *GRID, "--out", out)
    (out / "point-0009.json").write_text("not ours")
    assert run("sweep", config, "--vary", "release.length_scale=0.3", "--out", out, "--fresh").exit_code == 0
    assert {path.name for path in out.iterdir()} == {"point-0001.json", "point-0009.json", "sweep.csv", "sweep.json"}
    listed = json.loads((out / "sweep.json").read_text())
    listed["points"][0]["record"] = "../records.csv"
    (out / "sweep.json").write_text(json.dumps(listed))
    error = run("sweep", config, "--vary", "release.length_scale=0.3", "--out", out, "--fresh").exception
    assert "is not the list of a sweep" in str(error)
    assert (tmp_path / "records.csv").exists()


def test_corrupt_points_are_audited_again(whole, config, tmp_path, calls):
    _, uninterrupted = whole
    out = tmp_path / "out"
    out.mkdir()
    for path in uninterrupted.iterdir():
        (out / path.name).write_bytes(path.read_bytes())
    (out / "point-0001.json").write_text("{")
    changed = (out / "point-0002.json").read_text().replace('"adversary": "core"', '"adversary": "nobody"', 1)
    (out / "point-0002.json").write_text(changed)
    (out / "point-0003.json").write_bytes((out / "point-0004.json").read_bytes())
    done = run("sweep", config, *GRID, "--out", out)
    assert done.exit_code == 0, done.output
    assert calls == [(0.5, 1.0), (0.5, 2.0), (1.0, 1.0)]
    said = done.stderr.splitlines()
    assert said[0] == f"{out / 'point-0001.json'}: is not the record of a point: audited again"
    assert said[2] == f"{out / 'point-0002.json'}: is not as it was written: audited again"
    assert said[4] == f"{out / 'point-0003.json'}: is the record of another point: audited again"
    assert but_seconds(out) == but_seconds(uninterrupted)


def test_a_grid_that_grows_keeps_its_points(config, tmp_path, calls):
    out = tmp_path / "out"

    def grid(ridges, scales):
        axes = ("--vary", f"release.scale={scales}", "--vary", f"release.ridge={ridges}")
        return run("sweep", config, *axes, "--out", out)

    assert grid("1", "1,2").exit_code == 0
    before = (out / "point-0002.json").read_bytes()
    assert grid("0.5,1.0", "1,2").exit_code == 0  # 1.0 is 1
    assert calls == [(1.0, 1.0), (1.0, 2.0), (0.5, 1.0), (0.5, 2.0)]
    assert (out / "point-0002.json").read_bytes() == before
    table = pd.read_csv(out / "sweep.csv").drop_duplicates("point")
    assert table[["release.scale", "release.ridge", "point"]].to_numpy().tolist() == [
        [1.0, 0.5, 3],
        [1.0, 1.0, 1],
        [2.0, 0.5, 4],
        [2.0, 1.0, 2],
    ]
    assert grid("0.5", "2").exit_code == 0
    assert set(pd.read_csv(out / "sweep.csv")["point"]) == {4}
    assert not list(out.glob("*.png"))  # nothing is varied any more
    assert grid("1", "1").exit_code == 0
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["release.ridge"], "--vary release.ridge: write section.key=value,value, such as release.ridge=0.3,1"),
        (["ridge=1"], "write section.key=value,value"),
        (["release.ridge=1,,2"], "a value is missing"),
        (["release.ridge="], "a value is missing"),
        (["release.domain=[[0,1]"], "a quote or bracket is not closed"),
        (["compute.workers=1,2"], "compute.workers cannot be varied: [compute] changes no result"),
        (["data.file=a.csv,b.csv"], "data.file cannot be varied: only public parameters"),
        (["release.rdge=1"], "release.rdge = 1: {config}: unknown key 'rdge' in [release]: did you mean 'ridge'?"),
        (["release.ridge=1,-1", "release.scale=1,2"], "release.ridge = -1, release.scale = 1: {config}: release.ridge"),
        (["release.ridge=1,1.0"], "release.ridge = 1.0 is the same point as release.ridge = 1"),
        (["release.ridge=1", "release.ridge=2"], "a key is varied twice"),
        (["audit.lira.density=kernel", "audit.lira={}"], "a key is varied twice"),
        (["release.ridge=1", "--set release.ridge=2"], "a key is given twice"),
        (["release.ridge=1", "--set release.rdge=2"], "{config}: unknown key 'rdge'"),
        (["release.prior_noise=0,0.5"], "release.prior_noise = 0.5: mechanism posterior"),
        (["release.regime=bounded,diagonal"], "release.regime = diagonal: regime diagonal needs"),
        (["release.response_bound=1,0.1"], "release.response_bound = 0.1: "),
        (["release.mechanism=posterior,gaussian"], "release.mechanism = gaussian: mechanism gaussian releases no path"),
        (["audit.targets=1,[12]"], "audit.targets = [12]: audit.targets names record 12 but the data have records 0"),
        (["release.mechanism=posterior,outside:ByScikitLearn"], "pass --allow-code"),
        (["audit.adversaries=['core'],['outside_attack:Mean']"], "pass --allow-code"),
        (["audit.seed=" + ",".join(map(str, range(MOST_POINTS + 1)))], "--vary makes 10,001 combinations: at most 10,"),
    ],
)
def test_what_cannot_be_varied_is_refused_before_anything_runs(config, tmp_path, calls, arguments, message):
    options = [part for text in arguments for part in (text.split() if text[:2] == "--" else ["--vary", text])]
    done = run("sweep", config, *options, "--out", tmp_path / "out")
    assert isinstance(done.exception, InputError)
    assert message.format(config=config) in str(done.exception)
    assert "\n" not in str(done.exception)
    assert calls == []
    assert not (tmp_path / "out").exists()


def test_the_command_fails_with_one_line_and_status_2(config, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    command = ["gpleak", "sweep", str(config), "--out", str(tmp_path / "out")]
    for more, message in (([], ""), (["--vary", "release.ridge=0"], f"release.ridge = 0: {config}: release.ridge = 0")):
        monkeypatch.setattr(sys, "argv", [*command, *more])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == 2
        said = capsys.readouterr()
        assert message in said.err
        assert said.err.startswith("gpleak: error: ")
        assert said.err.count("\n") == 1
        assert said.out == ""


def test_status_says_violated_or_failed(config, tmp_path, monkeypatch):
    claims = ("sweep", config, "--vary", "audit.claimed_epsilon=30,0.01", "--out", tmp_path / "claims")
    done = run(*claims)
    assert done.exit_code == 1, done.output
    assert set(pd.read_csv(tmp_path / "claims" / "sweep.csv")["verdict"]) >= {"VIOLATED"}
    assert run(*claims).exit_code == 1  # nothing is left to run
    stop_at(monkeypatch, 1, NumericalError("did not\nconverge"))
    done = run("sweep", config, *GRID, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "gpleak: error: release.ridge = 0.5, release.scale = 1: did not converge" in done.stderr.splitlines()
    assert set(pd.read_csv(tmp_path / "out" / "sweep.csv")["point"]) == {2, 3, 4}


def test_code_from_outside_is_known_by_its_source(config, tmp_path):
    """With --allow-code it is varied like anything else; when its source changes, its points are others."""
    source = (Path(__file__).parent / "outside.py").read_text()
    (config.parent / "swept_outside.py").write_text(source)
    vary = ["--vary", "release.mechanism=posterior,swept_outside:ByScikitLearn", "--set", "audit.adversaries=['core']"]
    done = run("sweep", config, *vary, "--allow-code", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "out" / "sweep.csv")
    assert list(table["release.mechanism"].unique()) == ["posterior", "swept_outside:ByScikitLearn"]
    overrides = ["release.mechanism=swept_outside:ByScikitLearn", "audit.adversaries=['core']"]

    def planned():
        return plan_sweep(config, ["release.ridge=1"], overrides, allow_code=True)

    before = planned()
    (config.parent / "swept_outside.py").write_text(source + "\n# changed\n")
    assert planned().identity != before.identity
    (found,) = differences(before.settings, planned().settings)
    assert found.startswith("release.mechanism: swept_outside:ByScikitLearn, source")


def test_nothing_private_is_written(whole):
    """No covariate or response in any file or on the terminal, as in the file, in full or printed; nor a column's name.

    A value at six decimals stands in some 3,000 public numbers by chance with probability 3e-3 each: the seeds are
    fixed, so that this either happens always or never.
    """
    done, out = whole
    written = done.stdout + done.stderr + "".join(path.read_bytes().decode("latin-1") for path in out.iterdir())
    assert "hidden" not in written
    assert "records.csv" not in written
    for text in (cell.lstrip("-") for record in RECORDS for cell in record):
        assert text not in written
        assert repr(float(text)) not in written
        assert f"{float(text):.6f}" not in written


def test_values_are_split_outside_brackets_and_quotes():
    assert parse_axis("audit.adversaries=['core'], ['core','population']").texts == (
        "['core']",
        "['core','population']",
    )
    assert parse_axis('release.points={shape=[3,4]},"a,b.csv"').texts == ("{shape=[3,4]}", '"a,b.csv"')
    assert parse_axis(" release.mechanism = posterior , centred").texts == ("posterior", "centred")


def test_points_of_a_nested_key_or_a_file_are_told_apart(config):
    """The grid of a release is a key within a key; a file counts by its bytes, not by its name."""
    planned = plan_sweep(config, ["release.points.shape=[3],[4]", "audit.lira.density=kernel,mixture"])
    assert [point.name for point in planned.points] == [
        "release.points.shape = [3], audit.lira.density = kernel",
        "release.points.shape = [3], audit.lira.density = mixture",
        "release.points.shape = [4], audit.lira.density = kernel",
        "release.points.shape = [4], audit.lira.density = mixture",
    ]
    assert len({point.identity for point in planned.points}) == 4
    assert not {"release.points", "release.points.shape", "audit.lira.density"} & set(planned.settings)
    pool, points = config.parent / "pool.csv", config.parent / "points.csv"
    pool.write_text("hidden_place,hidden_answer\n0.5,0.5\n0.6,0.6\n0.7,0.7\n")
    points.write_text("hidden_place\n0.5\n")

    def identity():
        return plan_sweep(
            config, ["release.ridge=1"], ["population.file=pool.csv", "release.points=points.csv"]
        ).identity

    seen = [identity()]
    pool.write_text(pool.read_text() + "0.8,0.8\n")
    seen.append(identity())
    points.write_text(points.read_text() + "0.6\n")
    seen.append(identity())
    assert len(set(seen)) == 3
    assert identity() == seen[-1]
