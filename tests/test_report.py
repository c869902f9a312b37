"""JSON record and HTML report."""

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from support import audit_plan, mechanisms, random_data

from gpleak.audit import Subject, run_audit
from gpleak.mechanisms import Bounded, InputError
from gpleak.reports import as_record, load_record, render_report, write_record


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
    for attack in old["attacks"]:
        del attack["kept_bytes"], attack["notes"]
        del attack["model_based"], attack["estimates"], attack["epsilon_lower"]["kind"]
    (tmp_path / "audit.json").write_text(json.dumps(old))
    loaded = load_record(tmp_path / "audit.json")
    assert loaded["schema_version"] == 6
    assert all(attack["notes"] == [] for attack in loaded["attacks"])
    assert loaded["population"] is None
    assert loaded["assumptions"] == []
    assert loaded["records"] == old["records"]
    assert loaded["fidelity"] is loaded["ledger"] is loaded["decided_by"] is None
    assert loaded["released"] is loaded["epsilon_everywhere"] is None
    assert {attack["epsilon_lower"]["kind"] for attack in loaded["attacks"]} == {"confidence"}
    assert set(loaded) == set(as_record(result))
    assert [set(attack) for attack in loaded["attacks"]] == [set(attack) for attack in as_record(result)["attacks"]]


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


def test_report_is_one_well_formed_file_without_network_or_script(result):
    html = render_report(result)
    outline = Outline()
    outline.feed(html)
    outline.close()
    assert outline.open == []
    tags = [tag for tag, _ in outline.seen]
    assert tags.count("svg") == 3
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
