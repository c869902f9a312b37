"""JSON record and HTML report."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from support import audit_plan, mechanisms, random_data, release
from typer.testing import CliRunner

from gpleak.audit import Subject, run_audit
from gpleak.mechanisms import Bounded, ExactPosterior, GaussianQuery, InputError
from gpleak.mechanisms.foreign import BlackBox, Deployed
from gpleak.reports import as_record, load_record, render_report, write_record
from gpleak.reports.advice import headline, manager_sentence, next_steps
from gpleak.reports.cli import app, command_text
from gpleak.reports.drawings import all_drawings
from gpleak.reports.files import report_files
from gpleak.reports.html import render_public, render_record
from gpleak.reports.public import redacted
from gpleak.reports.rates import most_hits


@pytest.fixture(scope="module")
def result():
    data = random_data(np.random.default_rng(60), 30, 1)
    return run_audit(Subject(data, mechanisms(30)[0], Bounded()), audit_plan(trials=500, targets=3))


def test_infinity_is_a_string_and_comes_back(tmp_path, result):
    record = as_record(result)
    record["certificate"]["epsilon"] = math.inf
    write_record(record, tmp_path / "audit.json")
    raw = json.loads((tmp_path / "audit.json").read_text(), parse_constant=pytest.fail)
    assert raw["certificate"]["epsilon"] == "Infinity"
    assert load_record(tmp_path / "audit.json") == record


def test_older_records_still_load(tmp_path, result):
    """Schema version 1 knew no population adversary, no version before 4 a ledger or a fidelity test."""
    old = {**as_record(result), "schema_version": 1}
    for key in ("population", "assumptions", "ledger", "fidelity", "decided_by", "released", "epsilon_everywhere"):
        del old[key]
    for key in ("outlook", "command", "versions"):
        del old[key]
    for attack in old["attacks"]:
        del attack["curve"]
        del attack["kept_bytes"], attack["notes"]
        del attack["model_based"], attack["estimates"], attack["epsilon_lower"]["kind"]
    (tmp_path / "audit.json").write_text(json.dumps(old))
    loaded = load_record(tmp_path / "audit.json")
    assert loaded["schema_version"] == 7
    assert all(attack["notes"] == [] for attack in loaded["attacks"])
    assert loaded["population"] is None
    assert loaded["assumptions"] == []
    assert loaded["records"] == old["records"]
    assert loaded["fidelity"] is loaded["ledger"] is loaded["decided_by"] is None
    assert loaded["released"] is loaded["epsilon_everywhere"] is None
    assert {attack["epsilon_lower"]["kind"] for attack in loaded["attacks"]} == {"confidence"}
    assert set(loaded) == set(as_record(result))
    assert [set(attack) for attack in loaded["attacks"]] == [set(attack) for attack in as_record(result)["attacks"]]
    html = render_record(loaded)  # with what it has
    assert html.count("<svg") == 4  # no curves of the attacks, nothing about more paths
    assert str(result.verdict) in html
    assert "What the significance was spent on" not in html


def test_nan_is_never_written(tmp_path, result):
    record = as_record(result)
    record["claimed_epsilon"] = math.nan
    with pytest.raises(ValueError, match="JSON"):
        write_record(record, tmp_path / "audit.json")
    assert list(tmp_path.iterdir()) == []


def test_records_from_elsewhere_are_refused(tmp_path, result):
    path = tmp_path / "audit.json"
    for text in ("", "[]", '{"a": 1}'):
        path.write_text(text)
        with pytest.raises(InputError, match="is not an audit record"):
            load_record(path)
    write_record({**as_record(result), "schema_version": 99}, path)
    with pytest.raises(InputError, match="newer than this gpleak's"):
        load_record(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, result, monkeypatch):
    path = tmp_path / "audit.json"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
        write_record(as_record(result), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_written_files_are_the_owners_whatever_stood_there(tmp_path, result):
    path = tmp_path / "audit.json"
    path.write_text("old")
    path.chmod(0o666)
    write_record(as_record(result), path)
    assert path.stat().st_mode & 0o777 == 0o600


class Outline(HTMLParser):
    """Tags that must be closed are, and nothing is fetched or run."""

    VOID = frozenset({"meta", "br", "link", "img", "path", "use", "rect"})

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("kind", ["internal", "public"])
def test_a_report_is_one_well_formed_file_without_network_or_script(result, kind):
    record = as_record(result)
    html = render_record(record) if kind == "internal" else render_public(redacted(record))
    outline = Outline()
    outline.feed(html)
    outline.close()
    assert outline.open == []
    tags = [tag for tag, _ in outline.seen]
    assert tags.count("svg") == (7 if kind == "internal" else 4)
    names = [attributes["id"] for _, attributes in outline.seen if "id" in attributes]
    assert len(set(names)) == len(names)
    assert not {"script", "link", "iframe", "object", "img"} & set(tags)
    for _, attributes in outline.seen:
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names of formats
    assert "url(http" not in html


def test_report_says_what_was_found(result):
    html = render_report(result)
    assert str(result.verdict).replace("_", " ") in html
    for words in ("replace one record", "certified", "For internal use", "Provenance", f"seed</th><td>{result.seed}"):
        assert words in html
    for attack in result.attacks:
        assert f"<td>{attack.record}</td>" in html


def test_report_is_the_same_twice(result):
    assert render_report(result) == render_report(result)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_report_can_be_made_again_from_its_record(tmp_path, result):
    record = as_record(result, command="gpleak audit mine.toml")
    write_record(record, tmp_path / "audit.json")
    done = run("report", tmp_path / "audit.json", "--public", "--figures", "--out", tmp_path / "again")
    assert done.exit_code == 0, done.output
    files = report_files(record, public=True, figures=True)
    assert "gpleak audit mine.toml" in files["report.html"]
    written = {path.relative_to(tmp_path / "again").as_posix(): path for path in (tmp_path / "again").rglob("*.*")}
    assert set(written) == set(files)
    for name, path in written.items():
        assert path.stat().st_mode & 0o777 == 0o600
        content = files[name]
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content), name
    assert done.output.strip() == str(tmp_path / "again" / "report.html")


def test_a_broken_record_is_refused_with_a_reason(tmp_path, result):
    record = as_record(result)
    del record["release"]["kernel"], record["attacks"][0]["auc"]
    write_record(record, tmp_path / "audit.json")
    done = run("report", tmp_path / "audit.json")
    assert isinstance(done.exception, InputError)
    assert "is not the whole record of an audit" in str(done.exception)
    assert not (tmp_path / "report.html").exists()


def test_figures_come_with_their_numbers(result):
    record = as_record(result)
    drawings = all_drawings(record)
    assert list(drawings) == [
        "ladder",
        "attacked",
        "roc",
        "histogram",
        "epsilon-by-paths",
        "success-by-paths",
        "trade-off",
    ]
    for drawing in drawings.values():
        assert drawing.png.startswith(b"\x89PNG")
        assert len(drawing.csv.splitlines()) == len(drawing.numbers) + 1
        assert drawing.alt in drawing.svg
    rungs = drawings["ladder"].numbers.set_index("what")["epsilon"]
    assert rungs["worst record, exact"] == result.worst_epsilon
    assert rungs["claimed"] == result.claimed_epsilon
    assert drawings["histogram"].numbers["records"].sum() == 30
    by_paths = drawings["epsilon-by-paths"].numbers
    assert by_paths["record_exact"].tolist() == record["outlook"]["record"]["epsilon"]


def test_curves_in_a_record_are_thin_true_and_inside_their_bands(result):
    for attack, kept in zip(result.attacks, as_record(result)["attacks"], strict=True):
        curve, whole = kept["curve"], attack.curve
        vertices = set(zip(whole.false_positives, whole.true_positives, strict=True))
        shown = list(zip(curve["false_positives"], curve["true_positives"], strict=True))
        assert set(shown) <= vertices
        assert shown[-1] == (500, 500)
        assert len(shown) <= 200
        for side, count, total in (("fpr", "false_positives", 500), ("tpr", "true_positives", 500)):
            rate = np.array(curve[count]) / total
            assert np.all(np.array(curve[f"{side}_low"]) <= rate)
            assert np.all(rate <= np.array(curve[f"{side}_high"]))
        # At 1 % and 10 % the thinned curve is the whole one.
        for point in attack.tpr_at_fpr:
            at = max(place for place, (false, _) in enumerate(shown) if false <= point.fpr * 500 + 1e-9)
            assert curve["true_positives"][at] == point.tpr * 500


def test_what_a_certificate_allows_is_the_definition():
    """TPR <= e^eps FPR + delta and 1 - FPR <= e^eps (1 - TPR) + delta (THEORY section 9)."""
    fpr = np.linspace(0.0, 1.0, 101)
    for epsilon, delta in ((0.0, 1e-3), (0.5, 1e-3), (3.0, 0.1), (800.0, 1e-6)):
        tpr, growth = most_hits(epsilon, delta, fpr), np.exp(min(epsilon, 700.0))
        assert np.all(tpr <= growth * fpr + delta + 1e-12)
        assert np.all(1 - fpr <= growth * (1 - tpr) + delta + 1e-9 * growth)
        assert np.all((fpr <= tpr) & (tpr <= 1))
        slack = np.minimum(growth * fpr + delta - tpr, growth * (1 - tpr) + delta - (1 - fpr))
        assert np.all((slack < 1e-9 * growth) | (tpr == 1.0))  # and not less than it allows


@pytest.mark.parametrize(("search", "claim", "verdict"), [(False, 0.1, "VIOLATED"), (True, 5.0, "NOT_REFUTED")])
def test_the_public_report_is_the_same_for_all_data(search, claim, verdict):
    """Other data, other attacks, other hash: the same bytes. Only the verdict is a function of the data."""
    pages, insides = set(), set()
    for seed in (61, 62):
        data = random_data(np.random.default_rng(seed), 20, 1)
        kind = GaussianQuery if search else ExactPosterior  # whose worst pair needs no seconds
        subject = Subject(data, kind(release(20, scale=3.0)), Bounded(), sha256=f"{seed:064d}", clipped=seed)
        plan = audit_plan(search=search, trials=20_000, targets=2, claimed_epsilon=claim, fidelity=2000)
        record = as_record(run_audit(subject, plan), command=f"gpleak audit {seed}.toml")
        assert record["verdict"] == verdict
        public = redacted(record)
        assert set(public) == set(record)
        assert render_public(public) == render_public(redacted({**record, "new": "secret"}))
        pages.add(render_public(public))
        insides.add(render_record(record))
    assert len(insides) == 2
    (page,) = pages
    assert ("refuted" in page) == (verdict == "VIOLATED") or "did not refute" in page
    assert ("worst pair found" in page) == search
    assert "For internal use" not in page


def test_every_verdict_has_its_plain_words(result):
    """The words follow from the record; a promise is made only where a certificate is below the claim."""
    record = as_record(result)
    seen = {}
    for verdict, decided, claimed, certified in (
        ("VIOLATED", "fidelity test", 3.0, 2.0),
        ("VIOLATED", "exact epsilon of record 1", 0.01, 2.0),
        ("VIOLATED", "core attack on record 1", 9.0, 2.0),
        ("INCONCLUSIVE", None, math.inf, math.inf),
        ("INCONCLUSIVE", None, 50.0, 2.0),
        ("INCONCLUSIVE", None, 50.0, 60.0),
        ("NOT_REFUTED", None, 3.0, 2.0),
        ("NOT_REFUTED", None, 3.0, 9.0),
        ("NOT_REFUTED", None, 3.0, math.inf),
    ):
        case = {
            **record,
            "verdict": verdict,
            "decided_by": None if decided is None else {"test": decided, "significance": 0.01},
            "claimed_epsilon": claimed,
            "certificate": {**record["certificate"], "epsilon": certified},
        }
        sentence = manager_sentence(case)
        assert sentence.endswith(".")
        assert next_steps(case)
        assert headline(case) in render_record(case)
        assert ("at most" in sentence) == (verdict == "NOT_REFUTED" and certified <= claimed)
        assert ("publish" in sentence) == (verdict == "VIOLATED")
        seen[verdict, decided, claimed, certified] = sentence
    assert len(set(seen.values())) == len(seen)
    # e^2 / 100 + 1e-3 = 7.489 %, rounded up.
    assert "at most 7.5\u00a0%" in seen["NOT_REFUTED", None, 3.0, 2.0]


def test_the_command_is_what_finds_the_same_numbers(tmp_path):
    text = command_text(tmp_path / "my file.toml", ["release.ridge=1", "compute.workers=2"], allow_code=True)
    assert text == f"gpleak audit '{tmp_path}/my file.toml' --set release.ridge=1 --allow-code"


CONFIG = """
[data]
file = "data.csv"
covariates = [COLUMNS]
response = "y"
[release]
mechanism = "posterior"
kernel = "exponential"
length_scale = 0.4
ridge = 0.8
domain = [DOMAIN]
response_bound = 1.0
regime = "bounded"
[audit]
trials = 200
targets = 2
search = false
[compute]
workers = "serial"
"""


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_an_audit_writes_all_that_was_asked_for(tmp_path, columns):
    data = random_data(np.random.default_rng(64), 20, columns)
    names = [f"x{index}" for index in range(columns)]
    rows = np.column_stack([data.covariates, data.responses])
    text = "\n".join([",".join([*names, "y"]), *(",".join(f"{value:.9f}" for value in row) for row in rows)])
    (tmp_path / "data.csv").write_text(text)
    listed = ", ".join(f'"{name}"' for name in names)
    config = CONFIG.replace("COLUMNS", listed).replace("DOMAIN", ", ".join(["[0.0, 1.0]"] * columns))
    (tmp_path / "my.toml").write_text(config)
    out = tmp_path / "out"
    options = ["--public", "--figures", "--include-locations", "--out", out]
    done = run("audit", tmp_path / "my.toml", *options, "--set", "audit.seed=3")
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    files = {path.relative_to(out).as_posix() for path in out.rglob("*.*") if "chunks" not in path.parts}
    reports = {"audit.json", "report.html", "report-public.html", "report-private.html"}
    assert files >= reports | {"figures/roc.png", "figures/roc.csv", "figures/private-map.csv"}
    for name in files:
        assert (out / name).stat().st_mode & 0o777 == 0o600
    record = load_record(out / "audit.json")
    assert record["command"] == f"gpleak audit {tmp_path / 'my.toml'} --set audit.seed=3"
    assert render_record(record) == (out / "report.html").read_text()
    private, report = (out / "report-private.html").read_text(), (out / "report.html").read_text()
    assert "PRIVATE" in private
    assert "Responses are not shown" in private
    assert ("further covariate" in private) == (columns == 3)
    places = (out / "figures" / "private-map.csv").read_text()
    assert places.splitlines()[0] == ",".join(["record", *names[:2], "epsilon_exact"])
    # Locations are in the private files only; responses are nowhere.
    everywhere = "".join((out / name).read_bytes().decode("latin-1") for name in files if not name.endswith(".png"))
    for row in rows:
        place, response = (f"{value:.9f}"[:9] for value in (row[0], row[-1]))
        assert response not in everywhere
        assert place in places
        assert place not in report
    # Nobody asks for them again: those of the earlier audit go.
    again = run("audit", tmp_path / "my.toml", "--out", out, "--set", "audit.seed=3")
    assert again.exception is None or isinstance(again.exception, SystemExit), repr(again.exception)
    assert {path.name for path in out.iterdir() if path.suffix} == {"audit.json", "report.html"}


def test_locations_need_records(tmp_path):
    root = Path(__file__).parent.parent
    done = run("audit", root / "examples" / "jump" / "audit.toml", "--include-locations", "--out", tmp_path)
    assert isinstance(done.exception, InputError)
    assert "--include-locations needs records with exact epsilons" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def audited_record(**changes):
    """A record of twenty records, as the report gets it."""
    data = random_data(np.random.default_rng(5), 20, 1)
    subject = Subject(data, changes.pop("mechanism", ExactPosterior(release(20, ridge=3.0, scale=3.0))), Bounded())
    plan = audit_plan(**{"trials": 5_000, "targets": 1, "fidelity": 0, **changes})
    return as_record(run_audit(subject, plan))


def test_code_that_nobody_held_against_the_mechanism_is_promised_nothing():
    """What is certified is the stated mechanism; whether the code is it was not tested."""
    own = ExactPosterior(release(20, ridge=3.0, scale=3.0))
    for mechanism, fidelity, promised in (
        (own, 0, True),
        (Deployed(own, own), 400, True),
        (Deployed(own, own), 0, False),
    ):
        record = audited_record(mechanism=mechanism, fidelity=fidelity, claimed_epsilon=3.0)
        assert (record["verdict"], record["certificate"]["epsilon"] <= 3.0) == ("NOT_REFUTED", True)
        page, public = render_record(record), render_public(redacted(record))
        assert ("recognises any one record in at most" in page) is promised
        assert ("You may claim as little as" in page) is promised
        assert ("whether it is that mechanism was not tested" in page) is not promised
        assert ("is that mechanism was not tested" in public) is not promised
    assert "if the deployed code is the stated mechanism" in render_public(
        redacted(audited_record(mechanism=Deployed(own, own), fidelity=400, claimed_epsilon=3.0))
    )


def test_the_seed_leaves_no_trace_in_what_is_public():
    """Whoever used it for the release, too, would give away the noise."""
    pages = {render_public(redacted(audited_record(search=True, seed=seed, claimed_epsilon=3.0))) for seed in (0, 12)}
    assert len(pages) == 1


def test_a_claim_that_only_other_data_break_is_not_said_to_betray_these():
    record = audited_record(search=True)
    between = 0.5 * (record["worst_exact"]["epsilon"] + record["worst_pair"]["epsilon"])
    record = audited_record(search=True, claimed_epsilon=between)
    assert (record["verdict"], record["decided_by"]["test"]) == ("VIOLATED", "worst pair")
    page = render_record(record)
    assert "a single record can be told from the release" not in page
    assert "although no record of these data was found above the claim" in page
    assert "contradicts what is claimed" not in render_public(redacted(record))


def test_a_black_box_is_promised_nothing():
    own = ExactPosterior(release(20, ridge=3.0, scale=3.0, points=np.linspace(0, 1, 5)[:, None]))
    record = audited_record(mechanism=BlackBox(own, own), claimed_epsilon=3.0)
    for page in (render_record(record), render_public(redacted(record))):
        assert "epsilon is the guarantee" not in page
        assert "Hatched" not in page
    assert "uses the optimal score" not in render_record(record)
