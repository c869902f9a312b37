"""``gpleak init``: a first configuration that names columns, asks for public parameters and shows no private value."""

import os
import pty
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gpleak.reports.starting  # noqa: F401 - registers the command
from gpleak.audit import build_subject, load_config, run_audit
from gpleak.audit.columns import find_columns, words
from gpleak.audit.initial import Publics, outwards, quoted
from gpleak.mechanisms import InputError
from gpleak.reports import cli, starting

ROOT = Path(__file__).parent.parent
STATED = {"domain": "[[0, 1], [0, 1]]", "bound": "2.5", "length-scale": "0.3", "ridge": "2", "scale": "0.8"}
QUICK = ["audit.trials=400", "audit.targets=1", "audit.search=false", "audit.fidelity=200", "compute.workers='serial'"]


@pytest.fixture
def gp(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder of its own; gives exit status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpleak", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return run


def table(columns, rows=8, seed=0, separator=",", number="{:.4f}".format):
    values = np.random.default_rng(seed).random((rows, len(columns)))
    lines = [separator.join(columns), *(separator.join(map(number, row)) for row in values)]
    return "\n".join(lines) + "\n"


def options(**changes):
    stated = {**STATED, **changes}
    return [part for key, value in stated.items() if value is not None for part in (f"--{key}", value)]


@pytest.fixture
def places(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(table(["id", "east", "north", "price"]).replace("id,", "agent,", 1))
    return path


@pytest.mark.parametrize(
    ("names", "covariates", "response"),
    [
        ("lat,lon,y", ["lat", "lon"], "y"),
        ("x,y,z", ["x", "y"], "z"),
        ("x,y,temperature", ["x", "y"], "temperature"),
        ("x,y", ["x"], "y"),
        ("x1,x2,y", ["x1", "x2"], "y"),
        ("y,a,b", ["a", "b"], "y"),
        ("price,sqft,lat,long", ["lat", "long"], "price"),
        ("easting_m,northing_m,depth,no2", ["easting_m", "northing_m", "depth"], "no2"),
        ("time,level", ["time"], "level"),
        ("age,bmi,dose", ["age", "bmi"], "dose"),
        ("id,east_km,north_km,log_price_ratio,rooms", ["east_km", "north_km"], "log_price_ratio"),
        ("recordId,Lat,Lon,Value", ["Lat", "Lon"], "Value"),
        (",a,b", ["a"], "b"),  # pandas writes its index without a name
    ],
)
def test_guesses(tmp_path, names, covariates, response):
    path = tmp_path / "data.csv"
    path.write_text(table(names.split(",")))
    found = find_columns(path)
    assert list(found.covariates) == covariates
    assert found.response == response
    assert found.guessed == {"covariates", "response"}
    assert {name for name, _ in found.left_out} == {*names.split(",")} - {*covariates, response}


def test_what_is_no_measurement_is_left_out_with_a_reason(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("n,year,who,gap,code,x,v\n7,1990,ann,1,3,.5,2\n8,1991,bob,,4,.25,1\n9,1992,eve,2,8,.125,0\n")
    found = find_columns(path)
    assert found.covariates == (
        "year",
        "x",
    )  # a year counts up as the running number does, but its name says what it is
    assert dict(found.left_out) == {
        "n": "it counts the records",
        "who": "not all of its cells are numbers",
        "gap": "not all of its cells are numbers",
        "code": "its name says that it identifies records",
    }
    stated = find_columns(path, covariates=["n"], response="code")
    assert (stated.covariates, stated.response, stated.guessed) == (("n",), "code", frozenset())
    with pytest.raises(InputError, match=r"line 3, column 'gap': is empty"):
        find_columns(path, covariates=["gap"])
    with pytest.raises(InputError, match=r"no column 'yaer'.*did you mean 'year'"):
        find_columns(path, covariates=["yaer"])


def test_words_of_names():
    assert words("eastKm_2") == {"east", "km"}
    assert words("no2") == {"no"}
    assert words("x1") == {"x"}


def test_without_a_terminal_open_keys_are_refused_by_audit(gp, places):
    status, out, err = gp("init", places)
    assert (status, err) == (0, "")
    assert 'covariates: "east", "north" (guessed)' in out
    assert "still open: release.domain, release.response_bound" in out
    text = Path("audit.toml").read_text()
    assert text.count('= "TODO"') == 5
    assert Path("audit.toml").stat().st_mode & 0o077 == 0
    status, out, err = gp("audit", "audit.toml")
    assert status == 2
    assert "release.length_scale = 'TODO'" in err
    assert "positive number" in err
    assert not Path("gpleak-out").exists()


@pytest.mark.parametrize("missing", [*STATED])
def test_one_open_key_is_enough_to_be_refused(gp, places, missing):
    """The default scale of 1, too, is nobody's statement."""
    assert gp("init", places, *options(**{missing: None}))[0] == 0
    key = {"bound": "response_bound", "length-scale": "length_scale"}.get(missing, missing)
    with pytest.raises(InputError, match=f"release.{key} = 'TODO'"):
        load_config(Path("audit.toml"))


@pytest.mark.parametrize("mechanism", ["posterior", "noised", "predictive", "centred", "thompson", "gaussian"])
def test_what_is_written_audits_as_it_is(gp, places, mechanism):
    more = {"prior-noise": "0.5"} if mechanism == "noised" else {}
    if mechanism == "gaussian":
        more = {"length-scale": None, "ridge": None}
    status, out, _ = gp("init", places, "--mechanism", mechanism, *options(**more))
    assert status == 0
    path = Path("audit.toml")
    if mechanism == "predictive":  # where it is released is open, and a comment shows how to say it
        assert "still open: release.points" in out
        with pytest.raises(InputError, match=r"list release\.points"):
            build_subject(load_config(path))
        path.write_text(path.read_text().replace("# TODO points", "points"))
    else:
        assert "still open" not in out
    assert '"TODO"' not in path.read_text()
    config = load_config(path, QUICK)
    result = run_audit(build_subject(config), config.audit, compute=config.compute)
    assert result.mechanism.name == mechanism
    assert result.records == 8
    release = result.mechanism.release
    assert release.domain.sides.tolist() == [[0, 1], [0, 1]]
    assert (release.response_bound, release.scale) == (2.5, 0.8)


@pytest.mark.parametrize(
    ("mechanism", "kernel", "said"),
    [
        ("posterior", None, "for mechanism posterior, kernel matern32 and 1 path: is that your release?"),
        ("centred", "rbf", "for mechanism centred, kernel rbf and 1 path: is that your release?"),
        (
            "gaussian",
            None,
            "for mechanism gaussian, in which no kernel plays a part, and 1 path: is that your release?",
        ),
    ],
)
def test_every_premise_that_nobody_may_have_stated_is_asked_about(gp, places, mechanism, kernel, said):
    more = [] if kernel is None else ["--kernel", kernel]
    status, out, _ = gp("init", places, "--mechanism", mechanism, *more)
    assert status == 0
    assert f"written: audit.toml, {said}\n" in out
    section = tomllib.loads(Path("audit.toml").read_text())["release"]
    assert (section["mechanism"], section["paths"]) == (mechanism, 1)
    assert section["kernel"] == {"posterior": "matern32", "centred": "rbf", "gaussian": "diagonal"}[mechanism]


def test_regime_and_delta_follow_from_what_is_public(gp, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(table(["t", "v"], rows=2000))
    assert gp("init", path, "--kernel", "exponential", *options(domain="[[0,1]]"))[0] == 0
    config = load_config(tmp_path / "audit.toml")
    assert config.release.regime == "exponential_1d"
    assert config.audit.delta == 1e-4  # below one over 2000


def test_no_private_value_is_shown_or_written(gp, places):
    cells = re.findall(r"0\.\d{4}", places.read_text())
    assert len(cells) == 32
    for more in ([], ["--response", "agent"], ["--covariates", "agent,east"], options()):
        status, out, err = gp("init", places, "--force", *more)
        assert status == 0
        text = out + err + Path("audit.toml").read_text()
        assert not [cell for cell in cells if cell in text]
    with_name = places.read_text().replace(cells[5], "Mrs Smith").replace(cells[9], "12.34.56")
    places.write_text(with_name)
    for more in ([], ["--covariates", "east,north", "--response", "price"]):
        _, out, err = gp("init", places, "--force", *more)
        assert not re.search(r"Smith|12\.34|0\.\d{4}", out + err + Path("audit.toml").read_text())


def test_not_private_takes_box_and_bound_and_says_so(gp, places):
    status, out, _ = gp("init", places, "--not-private")
    assert status == 0
    assert "what is certified is then a function of the data" in " ".join(out.split())
    text = Path("audit.toml").read_text()
    assert "domain and response_bound: taken from the data" in text
    assert text.count("TAKEN FROM THE DATA") == 2
    assert "known without the data" not in text
    assert text.count('"TODO"') == 3
    found, section = find_columns(places), tomllib.loads(text)["release"]
    low, high = np.array(section["domain"]).T
    values = found.table.values
    assert (low <= values[:, :2].min(axis=0)).all()
    assert (values[:, :2].max(axis=0) <= high).all()
    assert (high - low).max() < 1.2  # rounded to two digits of lengths below 1
    assert values[:, 2].max() <= section["response_bound"] < values[:, 2].max() * 1.1 + 1e-9
    status, out, _ = gp("init", places, "--not-private", "--force", *options(bound=None))
    assert "taken from the data: response_bound;" in out
    text = Path("audit.toml").read_text()
    assert "domain = [[0.0, 1.0], [0.0, 1.0]]" in text
    assert "domain and" not in text
    build_subject(load_config(Path("audit.toml")))


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=5))
@example([5e-324])
def test_rounding_outwards_holds_every_value(values):
    low, high = outwards(np.array(values))
    assert low < high
    assert low <= min(values) <= max(values) <= high
    if max(values) - min(values) > 1e-9 * max(map(abs, values)):
        assert high - low <= 1.21 * (max(values) - min(values))  # a step at each end, each a tenth at most


def test_case_19_byte_order_mark_and_decimal_commas(gp, tmp_path):
    marked = tmp_path / "marked.csv"
    marked.write_bytes("lat,lon,y\n51.5,-0.12,0.3\n51.6,-0.13,0.4\n".encode("utf-8-sig"))
    assert find_columns(marked).covariates == ("lat", "lon")
    comma = tmp_path / "comma.csv"
    comma.write_text("lat;lon;y\n51,5074;-0,1278;1,25\n51,6;-0,13;2\n")
    assert gp("init", comma, *options(domain="[[50,60],[-1,1]]"))[0] == 0
    written = tomllib.loads(Path("audit.toml").read_text())["data"]
    assert (written["decimal"], written["separator"]) == (",", ";")
    data = build_subject(load_config(Path("audit.toml"))).data
    assert data.covariates.tolist() == [[51.5074, -0.1278], [51.6, -0.13]]
    assert data.responses.tolist() == [1.25, 2.0]


def test_case_19_two_readings_are_an_error(gp, tmp_path):
    both = tmp_path / "both.csv"
    both.write_text("lat;lon;y\n51,5074;-0,1278;1.250,5\n51,6;-0,13;2.000\n")
    status, _, err = gp("init", both)
    assert status == 2
    assert "--decimal" in err
    assert "250" not in err.replace(str(tmp_path), "")  # a run's folder has a number of its own
    assert gp("init", both, "--decimal", ",", "--thousands", ".")[0] == 0
    found = find_columns(both, decimal=",", thousands=".")
    assert found.table.values[:, 2].tolist() == [1250.5, 2000.0]
    for text in ('lat,y\n"51,5074","1,250"\n"51,6","2,125"\n', 'lat,y\n51.5,"1,250"\n51.6,"2,125"\n'):
        both.write_text(text)
        with pytest.raises(InputError, match="decimal marks or thousands"):
            find_columns(both)
    assert find_columns(both, decimal=".", thousands=",").table.values[:, 1].tolist() == [1250.0, 2125.0]


def test_case_19_no_header(gp, tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("51.50,-0.12,0.3\n51.51,-0.13,0.4\n51.52,-0.14,0.5\n")
    status, out, err = gp("init", path)
    assert status == 2
    assert "--header a,b,c" in err
    assert "51.5" not in out + err
    assert not Path("audit.toml").exists()
    assert gp("init", path, "--header", "lat,lon,y", *options(domain="[[50,60],[-1,1]]"))[0] == 0
    assert len(build_subject(load_config(Path("audit.toml"))).data) == 3


def test_case_19_swapped_degrees(tmp_path):
    path = tmp_path / "swapped.csv"
    path.write_text("lat,lon,y\n-120.5,51.5,1\n-120.4,51.6,2\n")
    with pytest.raises(InputError, match="column 'lat' has values beyond 90 degrees") as error:
        find_columns(path)
    assert "120" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("", "is empty"),
        ("x,y\n", "has 0 record(s) below its header"),
        ("x,y\n1,2\n", "has 1 record(s) below its header"),
        ("x\n1\n2\n", "has one column"),
        ("a,b\nann,eve\nbob,joe\n", "has 0 column(s) of numbers"),
        ("a,x\nann,1\nbob,3\n", "has 1 column(s) of numbers"),
        ("id,row,x\n1,4,5\n5,9,2\n", "no covariate and response can be told"),
        ("x,y\n1,2\n1,2,3\n", "line 3: has 3 cells where 2 columns are named"),
        (b"x,y\n\xff,2\n", "is not UTF-8"),
        ("x;y|z\n1;2|3\n4;5|6\n", "--separator"),
    ],
)
def test_files_that_cannot_be_used(gp, tmp_path, content, message):
    path = tmp_path / "data.csv"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    status, out, err = gp("init", path)
    assert status == 2
    assert err.startswith("gpleak: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert out == ""
    assert not Path("audit.toml").exists()


def test_directories_and_places_to_write(gp, tmp_path, places):
    assert "Is a directory" in gp("init", tmp_path)[2]
    before = places.read_text()
    assert "must end in .toml" in gp("init", places, "--out", places, "--force")[2]
    assert places.read_text() == before
    assert "folder that exists" in gp("init", places, "--out", "no/audit.toml")[2]
    Path("audit.toml").write_text("# mine\n")
    status, _, err = gp("init", places)
    assert status == 2
    assert "--force" in err
    assert Path("audit.toml").read_text() == "# mine\n"
    assert gp("init", places, "--force")[0] == 0
    Path("deep/er").mkdir(parents=True)
    assert gp("init", "data.csv", "--out", "deep/er/my.toml", *options())[0] == 0
    assert tomllib.loads(Path("deep/er/my.toml").read_text())["data"]["file"] == "../../data.csv"
    build_subject(load_config(Path("deep/er/my.toml")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bound": "-1"}, "response_bound must be a positive number, got -1"),
        ({"scale": "nan"}, "scale must be a positive number, got nan"),
        ({"domain": "[[0,1]]"}, "1 side(s) and there are 2 covariate(s)"),
        ({"domain": "[[0,1],[1,0]]"}, "the lower first"),
        ({"domain": "0 1"}, "one [low, high] pair a covariate"),
        ({"kernel": "cubic"}, "kernel 'cubic': must be exponential"),
        ({"mechanism": "sklearn"}, "docs/adapters.md"),
        ({"prior-noise": "1"}, "is for mechanism noised"),
        ({"covariates": "east,east"}, "each once"),
    ],
)
def test_statements_that_are_wrong(gp, places, changes, message):
    status, _, err = gp("init", places, *options(**changes))
    assert status == 2
    assert message in err
    assert not Path("audit.toml").exists()


NASTY = ['a "b"', "c\\d", "e\nf = 1", "\x1b[31mred", "ü # w", "\u202eback"]


def test_nasty_names_are_written_and_shown_safely(gp, tmp_path):
    path = tmp_path / "my data.csv"
    rows = [NASTY, *np.random.default_rng(0).random((4, len(NASTY))).round(3).tolist()]
    path.write_text(
        "\n".join(",".join('"' + str(cell).replace('"', '""') + '"' for cell in row) for row in rows) + "\n"
    )
    status, out, err = gp("init", path, *options(domain=str([[0, 1]] * 5)))
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    assert "\u202e" not in out
    text = Path("audit.toml").read_text()
    assert not [c for c in text if not c.isprintable() and c != "\n"]
    assert [*tomllib.loads(text)["data"]["covariates"], tomllib.loads(text)["data"]["response"]] == NASTY
    assert len(build_subject(load_config(Path("audit.toml"))).data) == 4


@given(st.text(max_size=20))
def test_quoted_names_are_read_back(name):
    name = name.encode("utf-8", "ignore").decode()  # TOML has no lone surrogates, nor has a UTF-8 file
    assert tomllib.loads(f"key = {quoted(name)}  # {quoted(name)}") == {"key": name}


def test_questions_on_a_terminal(tmp_path):
    """Bad answers are asked again; an empty one stays open; nothing is suggested from the data."""
    (tmp_path / "data.csv").write_text(table(["east", "north", "price"]))
    script = "import gpleak.reports.starting, gpleak.reports.cli as cli; cli.main()"
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", script, "init", "data.csv"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=tmp_path,
        text=True,
    )
    os.close(theirs)
    os.write(ours, b"1 0\n0 1\n0, 2\n2,5\n2.5\n\n3\n0.8\n")  # two sides, bound, length scale left open, ridge, scale
    out = child.communicate(timeout=60)[0]
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the terminal is gone
        pass
    os.close(ours)
    assert child.returncode == 0
    assert b"give away the most" in shown
    assert b"the lower first" in shown
    assert b"give one number" in shown
    assert "still open: release.length_scale;" in out
    release = tomllib.loads((tmp_path / "audit.toml").read_text())["release"]
    assert release["domain"] == [[0.0, 1.0], [0.0, 2.0]]
    assert (release["response_bound"], release["ridge"], release["scale"]) == (2.5, 3.0, 0.8)
    assert release["length_scale"] == "TODO"
    assert not re.search(rb"0\.\d{4}", shown)


def test_parameters_are_checked():
    with pytest.raises(InputError, match="ridge must be a positive number"):
        Publics(ridge=0.0)
    assert starting.on_terminal() in (True, False)
