"""Interrupted audits go on where they were, with the same scores bit for bit; nothing private is kept."""

import dataclasses
import errno
import importlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from outside import ByScikitLearn
from support import audit_plan, random_data, release

from gpleak.attacks import Jump, Lira, Pool, Serial, Store
from gpleak.audit import ComputeConfig, Subject, run_audit
from gpleak.audit.keeping import about
from gpleak.mechanisms import Bounded, Dataset, ExactPosterior, InputError
from gpleak.reports.record import as_record

SERIAL = ComputeConfig(workers="serial")
PLAN = audit_plan(adversaries=["core", "population", "lira"], shadows=700, trials=2500, targets=2, fidelity=0)


def subject_of(**changes):
    return Subject(random_data(np.random.default_rng(91), 25, 1), ExactPosterior(release(25, **changes)), Bounded())


def outcome(result):
    """All that was found, timings apart."""
    return {key: value for key, value in as_record(result).items() if key != "timings"}


@pytest.fixture
def small_chunks(monkeypatch):
    """So that a small audit has many."""
    monkeypatch.setattr("gpleak.attacks.core._MOST_BLOCKS", 1)
    monkeypatch.setattr("gpleak.attacks.population._MOST_BYTES", 16 * 2 * 320)


@pytest.fixture
def computed(monkeypatch):
    """Counts the chunks that are computed."""
    counts = {"chunks": 0, "stop after": None}
    original = Serial.map

    def counting(self, function, shared, chunks, finished):
        for part in original(self, function, shared, chunks, finished):
            if counts["chunks"] == counts["stop after"]:
                raise KeyboardInterrupt
            counts["chunks"] += 1
            yield part

    monkeypatch.setattr(Serial, "map", counting)
    return counts


@pytest.mark.usefixtures("small_chunks")
def test_an_interrupted_audit_goes_on_where_it_was(tmp_path, computed):
    """Stopped after each number of chunks in turn, then finished: as if nothing had happened."""
    whole = outcome(run_audit(subject_of(), PLAN, compute=SERIAL))
    total, computed["chunks"] = computed["chunks"], 0
    assert total > 10
    for stop in (1, 3, 7, total - 1):
        computed.update({"chunks": 0, "stop after": stop})
        with pytest.raises(KeyboardInterrupt):
            run_audit(subject_of(), PLAN, compute=SERIAL, keep=tmp_path / str(stop))
        computed.update({"chunks": 0, "stop after": None})
        assert outcome(run_audit(subject_of(), PLAN, compute=SERIAL, keep=tmp_path / str(stop))) == whole
        # Only the pilot, which is never written, is drawn again.
        assert computed["chunks"] <= total - stop + 1


@pytest.mark.usefixtures("small_chunks")
def test_more_trials_reuse_the_old_ones(tmp_path, computed):
    more = PLAN.model_copy(update={"trials": 5000})
    whole = outcome(run_audit(subject_of(), more, compute=SERIAL))
    total, computed["chunks"] = computed["chunks"], 0
    run_audit(subject_of(), PLAN, compute=SERIAL, keep=tmp_path)
    before, computed["chunks"] = computed["chunks"], 0
    assert outcome(run_audit(subject_of(), more, compute=SERIAL, keep=tmp_path)) == whole
    assert computed["chunks"] < total - before + 5  # the pilot, and chunks that the old end had cut
    # What only judges the scores may change, too.
    judged = more.model_copy(update={"claimed_epsilon": 0.5, "significance": 0.01})
    computed["chunks"] = 0
    assert run_audit(subject_of(), judged, compute=SERIAL, keep=tmp_path).claimed_epsilon == 0.5
    assert computed["chunks"] <= 1


def test_another_run_is_refused_with_the_difference_named(tmp_path):
    run_audit(subject_of(), PLAN, compute=SERIAL, keep=tmp_path)
    data = random_data(np.random.default_rng(92), 25, 1)
    other_data = dataclasses.replace(subject_of(), data=data)
    for subject, plan, message in (
        (subject_of(ridge=0.5), PLAN, r"release\.ridge was 0\.6 and is 0\.5"),
        (subject_of(), PLAN.model_copy(update={"shadows": 900}), r"audit\.shadows was 700 and is 900"),
        (subject_of(), PLAN.model_copy(update={"seed": 1, "delta": 1e-4}), r"audit\.delta was .* also audit\.seed"),
        (other_data, PLAN, r"the records differ"),
        (dataclasses.replace(subject_of(), outsiders={"a:b": Lira()}), PLAN, "from outside was null and is"),
        (dataclasses.replace(subject_of(), population=Jump(0.5)), PLAN, "population was null and is"),
        (
            dataclasses.replace(subject_of(), mechanism=ByScikitLearn(release(25))),
            PLAN,
            "the mechanism's code or state",
        ),
    ):
        with pytest.raises(InputError, match=message) as error:
            run_audit(subject, plan, compute=SERIAL, keep=tmp_path)
        assert "--fresh" in str(error.value)
    fresh = run_audit(subject_of(ridge=0.5), PLAN, compute=SERIAL, keep=tmp_path, fresh=True)
    assert outcome(fresh) == outcome(run_audit(subject_of(ridge=0.5), PLAN, compute=SERIAL))
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json: is corrupt"):
        run_audit(subject_of(ridge=0.5), PLAN, compute=SERIAL, keep=tmp_path)


def test_everything_that_scores_depend_on_is_part_of_the_run():
    """Every field of the plan either does not change scores, or is in the list; a new field must be decided on."""
    assert set(PLAN.model_fields_set) <= {key.removeprefix("audit.") for key in about(subject_of(), PLAN)} | {
        "trials",
        "fidelity",
        "search",
    }
    known = {key.removeprefix("audit.") for key in about(subject_of(), PLAN) if key.startswith("audit.")}
    judging = {"claimed_epsilon", "significance", "trials", "batch", "search", "fidelity"}
    assert set(type(PLAN).model_fields) == known - {"adversaries from outside"} | judging


def test_corrupt_chunks_are_computed_again_and_reported(tmp_path, caplog):
    whole = outcome(run_audit(subject_of(), PLAN, compute=SERIAL, keep=tmp_path))
    chunks = sorted(tmp_path.glob("*.chunk"))
    assert len(chunks) >= 3
    flipped = bytearray(chunks[0].read_bytes())
    flipped[len(flipped) // 2] ^= 1
    chunks[0].write_bytes(flipped)
    chunks[1].write_bytes(chunks[1].read_bytes()[:-100])
    chunks[2].write_bytes(b"")
    with caplog.at_level(logging.WARNING, logger="gpleak"):
        assert outcome(run_audit(subject_of(), PLAN, compute=SERIAL, keep=tmp_path)) == whole
    assert sorted(record.args[0] for record in caplog.records) == [chunk.stem for chunk in chunks[:3]]
    caplog.clear()
    assert outcome(run_audit(subject_of(), PLAN, compute=SERIAL, keep=tmp_path)) == whole
    assert not caplog.records


def test_a_chunk_belongs_to_its_run_and_its_name(tmp_path):
    store = Store(tmp_path, "one")
    store.save("core-0-10", {"scores": np.arange(3.0), "objects": np.array([1])})
    assert store.load("core-0-10")["scores"].tolist() == [0.0, 1.0, 2.0]
    assert Store(tmp_path, "two").load("core-0-10") is None
    (tmp_path / "core-0-10.chunk").rename(tmp_path / "core-10-20.chunk")
    assert store.load("core-10-20") is None
    assert store.load("core-0-10") is None
    with pytest.raises(ValueError, match="allow_pickle"):
        store.save("core-0-10", {"objects": np.array([object()])})


def test_a_full_disk_keeps_what_is_there(tmp_path, monkeypatch):
    whole = outcome(run_audit(subject_of(), PLAN, compute=SERIAL))
    written = []

    def full(descriptor):
        written.append(descriptor)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"cannot be written \(No space left on device\).*make room"):
            run_audit(subject_of(), PLAN, compute=SERIAL, keep=tmp_path)
    assert len(list(tmp_path.glob("*.chunk"))) == 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert outcome(run_audit(subject_of(), PLAN, compute=SERIAL, keep=tmp_path)) == whole


def private_forms(data):
    """Every private value as text at full and at printed precision, and as bytes."""
    values = [float(value) for value in (*data.covariates.ravel(), *data.responses)]
    texts = {form for value in values for form in (repr(value), f"{value:.8g}", f"{value:.6g}")}
    return [text.encode() for text in texts if len(text) > 6] + [np.float64(value).tobytes() for value in values]


def test_nothing_private_is_kept(tmp_path):
    """No record in any file, at any precision; the folder and its files are their owner's alone."""
    subject = subject_of()
    run_audit(subject, PLAN, compute=SERIAL, keep=tmp_path / "chunks")
    forms = private_forms(subject.data)
    files = [path for path in (tmp_path / "chunks").rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        content = path.read_bytes()
        assert not [form for form in forms if form in content]
        assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "chunks").stat().st_mode & 0o777 == 0o700
    # The search finds what is there.
    assert [form for form in forms if form in subject.data.covariates.tobytes()]


CONFIG = """
[data]
file = "data.csv"
covariates = ["x"]
response = "y"

[release]
mechanism = "posterior"
kernel = "matern52"
length_scale = 0.3
ridge = 0.5
domain = [[0.0, 1.0]]
response_bound = 1.0

[audit]
adversaries = ["population"]
shadows = 60000
trials = 3000
targets = 1
fidelity = 0
search = false

[compute]
workers = "serial"
"""


@pytest.fixture
def folder(tmp_path):
    data = random_data(np.random.default_rng(93), 30, 1)
    table = np.column_stack([data.covariates, data.responses])
    np.savetxt(tmp_path / "data.csv", table, delimiter=",", header="x,y", comments="")
    (tmp_path / "audit.toml").write_text(CONFIG)
    return tmp_path


def command(folder, *arguments):
    return [
        sys.executable,
        "-m",
        "gpleak",
        "audit",
        str(folder / "audit.toml"),
        "--out",
        str(folder / "out"),
        *arguments,
    ]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "ctrl-c"])
def test_a_process_that_was_stopped_goes_on(folder, how):
    """Stopped as soon as two chunks are there; the second run finds them and ends like one that was never stopped."""
    chunks = folder / "out" / "chunks"
    with subprocess.Popen(command(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while len(list(chunks.glob("*.chunk"))) < 2 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(how)
        _, errors = process.communicate(timeout=120)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert errors == "gpleak: interrupted: the same command goes on where it was\n"
    assert not (folder / "out" / "audit.json").exists()
    kept = len(list(chunks.glob("*.chunk")))
    assert kept >= 2
    done = subprocess.run(command(folder, "--verbose", "--json"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"gpleak: \d+ of \d+ shadow chunks are there already", done.stderr)
    resumed = json.loads(done.stdout)
    assert resumed == json.loads((folder / "out" / "audit.json").read_text())
    other = command(folder, "--json", "--quiet", "--fresh", "--set", "compute.workers=1")
    again = subprocess.run(other, capture_output=True, text=True, check=True)
    assert again.stderr == ""
    fresh = json.loads(again.stdout)
    for record in (resumed, fresh):
        del record["timings"]
    assert resumed == fresh


def test_contradicting_options(folder):
    done = subprocess.run(command(folder, "--quiet", "--verbose"), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "gpleak: error: --quiet and --verbose contradict each other: give one of them\n"


def test_the_last_bit_of_the_data_decides():
    """One last bit of one response makes another run."""
    subject = subject_of()
    responses = subject.data.responses.copy()
    responses[3] = np.nextafter(responses[3], 2.0)
    other = dataclasses.replace(subject, data=Dataset(subject.data.covariates, responses))
    assert about(subject, PLAN)["data"] != about(other, PLAN)["data"]


class FailsLate(ByScikitLearn):
    """Its sampler fails when it has been asked often, and quotes a private value."""

    asked, patience = 0, 2200

    def sampler(self, data, points):
        type(self).asked += 1
        if self.asked > self.patience:
            raise ValueError(f"not again: {data.responses[0]}")
        return super().sampler(data, points)


@pytest.mark.usefixtures("small_chunks")
def test_a_failure_in_a_chunk_says_where_and_keeps_the_others(tmp_path):
    """The shadow is named; what was finished before is there for the next run."""
    FailsLate.asked = 0
    subject = dataclasses.replace(subject_of(), mechanism=FailsLate(release(25)))
    plan = PLAN.model_copy(update={"adversaries": ["core", "lira"], "trials": 50})
    with pytest.raises(ValueError, match="not again") as error:
        run_audit(subject, plan, compute=SERIAL, keep=tmp_path)
    pair, chunk = error.value.__notes__
    number = int(re.fullmatch(r"in pair (\d+)", pair)[1])
    first, last = map(int, re.fullmatch(r"in shadow pairs (\d+) to (\d+)", chunk).groups())
    assert first <= number <= last
    assert len(list(tmp_path.glob("shadow-*.chunk"))) >= 1


def test_a_failure_on_the_command_line_shows_its_place_and_no_value(folder):
    (folder / "late.py").write_text(
        "from gpleak import ExactPosterior\n"
        "class Late(ExactPosterior):\n"
        "    def sampler(self, data, points):\n"
        "        raise ValueError(f'private {data.responses[0]}')\n"
    )
    changes = ["--allow-code", "--set", "release.mechanism=late:Late", "--set", "audit.adversaries=['lira']"]
    done = subprocess.run(command(folder, *changes), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "gpleak: error: failed with an unexpected ValueError (in pair 0, in shadow pairs 0 to 63): "
        "set GPLEAK_DEBUG=1 to see where\n"
    )


@dataclasses.dataclass(frozen=True)
class Sloped:
    """A population of one's own."""

    slope: float
    name: str = "sloped"

    def draw(self, rng, count, *, core):
        raise NotImplementedError


def test_code_and_state_from_outside_are_part_of_the_run(tmp_path, monkeypatch):
    """Another option of an attack, another parameter or subset of a population, an edited source file."""
    data = random_data(np.random.default_rng(96), 30, 1)

    def identity(**changes):
        return about(dataclasses.replace(subject_of(), **changes), PLAN)

    for one, other in (
        ({"outsiders": {"a:b": Lira()}}, {"outsiders": {"a:b": Lira("gaussian")}}),
        ({"population": Sloped(1.0)}, {"population": Sloped(2.0)}),
        ({"population": Pool(data, np.arange(30), "file")}, {"population": Pool(data, np.arange(20), "file")}),
        ({"population": Pool(data, np.arange(30), "file")}, {"population": Sloped(1.0)}),
    ):
        assert identity(**one) == identity(**one)
        assert identity(**one) != identity(**other)
    monkeypatch.syspath_prepend(tmp_path)
    written = []
    for line in ("sign = 1", "sign = -1"):
        (tmp_path / "edited.py").write_text(f"class Edited:\n    {line}\n")
        sys.modules.pop("edited", None)
        importlib.invalidate_caches()
        edited = importlib.import_module("edited")
        written.append(identity(outsiders={"edited:Edited": edited.Edited()}))
    assert written[0] != written[1]
    with pytest.raises(InputError, match="cannot be pickled"):
        identity(outsiders={"a:b": lambda: None})


def test_fresh_needs_a_folder():
    command = [sys.executable, "-m", "gpleak", "audit", "examples/king_county/audit.toml", "--fresh"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "gpleak: error: --fresh needs the folder to start over in: add --out DIR\n",
    )
