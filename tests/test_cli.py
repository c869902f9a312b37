"""The command as a person meets it: exit status, output, errors, files."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "king_county"


def run(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "gpleak", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", **environment},
        timeout=900,  # workers of a cluster have a low priority: a busy machine starves them
        check=False,
    )


def audit(out, *arguments, **environment):
    return run("audit", EXAMPLE / "audit.toml", "--out", out, *arguments, **environment)


FAST = ("--set", "audit.search=false")  # without the structured certificate and the worst pair, which take seconds
CORE = ("--set", "audit.adversaries=['core']", *FAST)


def without_timings(path):
    return re.sub(r'"timings": \{[^}]*\}', "", path.read_text())


@pytest.fixture(scope="module")
def default(tmp_path_factory):
    out = tmp_path_factory.mktemp("default")
    return audit(out), out


def test_default_audit_is_not_refuted(default):
    done, out = default
    assert done.returncode == 0
    assert "NOT_REFUTED" in done.stdout
    # No progress bar where stderr is no terminal; a line a minute, which a busy machine may take.
    assert all(line.startswith("gpleak: attacks: ") for line in done.stderr.splitlines())
    assert {path.name for path in out.iterdir()} == {"audit.json", "report.html", "chunks"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in out.iterdir())


def test_record_has_the_stated_shape(default):
    _, out = default
    record = json.loads((out / "audit.json").read_text(), parse_constant=pytest.fail)
    assert record["schema_version"] == 7
    assert record["verdict"] == "NOT_REFUTED"
    assert record["neighbouring"] == "replace_one"
    assert record["data"]["records"] == 500
    assert record["data"]["clipped"] == 0
    assert len(record["data"]["sha256"]) == 64
    assert record["release"]["jitter"] == 0.0
    # The ridge is the smallest, to three decimals, with which the theorem certifies 2.95.
    renyi, structured = record["certificates"]
    assert renyi["method"] == "renyi"
    assert 2.948 < renyi["epsilon"] <= 2.95
    assert structured["method"] == "structured"
    assert structured["agreement"] < 5e-3
    assert record["certificate"] == {"delta": 1e-3, **structured}
    assert record["worst_exact"]["epsilon"] < record["worst_pair"]["epsilon"] < structured["epsilon"] < 1.25
    assert sum(cluster["copies"] for cluster in record["worst_pair"]["core"]) == 499
    assert len(record["records"]) == 500
    assert [row["record"] for row in record["records"]] == list(range(500))
    worst = max(record["records"], key=lambda row: row["epsilon_exact"])
    assert record["worst_exact"] == {
        "epsilon": worst["epsilon_exact"],
        "record": worst["record"],
        "replacement": worst["replacement"],
    }
    assert record["population"] == "data"
    assert record["timings"]["engine"] == ("ray" if len(os.sched_getaffinity(0)) > 1 else "serial")
    assert len(record["attacks"]) == 10
    for attack in record["attacks"]:
        core = attack["adversary"] == "core"
        assert attack["trials"] == 20_000
        assert attack["evaluated"] == 14_000
        assert attack["shadows"] == (None if core else 2000)
        assert [point["fpr"] for point in attack["tpr_at_fpr"]] == [0.0, 0.001, 0.01, 0.1]
        for point in attack["tpr_at_fpr"]:
            assert point["realised_fpr"] <= point["fpr"]
            assert point["tpr_low"] <= point["tpr"] <= point["tpr_high"]
            assert not point["coarse"]
        assert attack["epsilon_lower"]["significance"] == pytest.approx(0.004)
        assert attack["epsilon_lower"]["kind"] == "confidence"
        # The seed is fixed; for another one these could fail with the stated significance.
        assert attack["epsilon_lower"]["value"] <= record["certificate"]["epsilon"]
        if core:
            assert attack["epsilon_lower"]["value"] <= attack["epsilon_exact"] <= record["certificate"]["epsilon"]
        else:
            assert attack["epsilon_exact"] is None
    by = {(attack["adversary"], attack["record"]): attack["auc"] for attack in record["attacks"]}
    # Standard error of a difference below 0.004: knowing the core helps by 0.02 to 0.03 here.
    for record_number in {number for _, number in by}:
        assert by["core", record_number] > by["population", record_number]


def test_small_ridge_is_violated(tmp_path):
    """Exit 1 because a record's exact epsilon exceeds the claim; the attack shows at least 30 % of it."""
    done = audit(tmp_path, "--set", "release.ridge=1", *CORE)
    assert done.returncode == 1
    assert "VIOLATED" in done.stdout
    record = json.loads((tmp_path / "audit.json").read_text())
    assert record["worst_exact"]["epsilon"] > 3.0
    assert "without sampling" in record["reason"]
    most = record["attacks"][0]
    assert most["record"] == record["worst_exact"]["record"]
    assert 0.3 * most["epsilon_exact"] <= most["epsilon_lower"]["value"] <= most["epsilon_exact"]


@pytest.mark.parametrize("mechanism", [("posterior",), ("noised", "release.prior_noise=0.2"), ("centred",)])
def test_each_mechanism_and_the_same_bytes_twice(tmp_path, mechanism):
    name, *more = mechanism
    changes = [f"release.mechanism={name}", "audit.trials=2000", "audit.targets=2", "release.ridge=2", *more]
    options = [*CORE, *(part for change in changes for part in ("--set", change))]
    outputs = []
    for folder in ("one", "two"):
        done = audit(tmp_path / folder, *options)
        assert done.returncode in (0, 1), done.stderr
        outputs.append(without_timings(tmp_path / folder / "audit.json"))
    assert outputs[0] == outputs[1]
    record = json.loads((tmp_path / "one" / "audit.json").read_text())
    assert record["release"]["mechanism"] == name
    for attack in record["attacks"]:
        assert attack["epsilon_lower"]["value"] <= attack["epsilon_exact"] <= record["certificate"]["epsilon"]


def test_noised_with_no_noise_is_the_posterior(tmp_path):
    options = [*CORE, "--set", "audit.trials=500", "--set", "audit.targets=1"]
    audit(tmp_path / "posterior", *options)
    audit(tmp_path / "noised", *options, "--set", "release.mechanism=noised")
    posterior, noised = (json.loads((tmp_path / n / "audit.json").read_text()) for n in ("posterior", "noised"))
    assert noised["certificate"] == posterior["certificate"]
    assert noised["records"] == posterior["records"]
    assert noised["attacks"] == posterior["attacks"]


def test_inconclusive_and_strict(tmp_path):
    weak = [*CORE, "--set", "audit.trials=50", "--set", "audit.targets=1", "--set", "audit.claimed_epsilon=5"]
    assert audit(tmp_path, *weak).returncode == 0
    done = audit(tmp_path, *weak, "--strict")
    assert done.returncode == 3
    assert "INCONCLUSIVE" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "release.ridge=-1"], "release.ridge = -1: should be greater than 0"),
        (["--set", "data.file=none.csv"], "none.csv: cannot be read"),
        (["--set", "release.domain=[[0,10],[0,10]]"], "lies outside the public domain"),
        (["--set", "audit.targets=[500]"], "names record 500 but the data have records 0 to 499"),
        (["--set", "release.regime=exponential_1d"], "regime exponential_1d needs the exponential kernel and one"),
        (["--set", "release.mechanism=outside:ByScikitLearn"], "--allow-code"),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, arguments, message):
    done = audit(tmp_path, *CORE, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("gpleak: error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_usage_errors_are_status_2():
    assert run("audit").returncode == 2
    assert run("audit", "nowhere.toml").returncode == 2
    assert run("nonsense").returncode == 2


def test_a_reader_who_goes_away_does_not_change_the_status(tmp_path):
    """A closed pipe would be status 1, which means VIOLATED."""
    command = [sys.executable, "-m", "gpleak", "audit", str(EXAMPLE / "audit.toml"), "--out", str(tmp_path), *CORE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        complaint = process.stderr.read()
        process.wait(timeout=120)
    assert process.returncode == 0
    assert complaint == b""


def test_interruption_is_one_line_and_status_130(tmp_path):
    """As soon as the work begins, which is when libraries are called back from C and lose the exception."""
    command = [sys.executable, "-m", "gpleak", "audit", str(EXAMPLE / "audit.toml"), "--out", str(tmp_path / "out")]
    command += [*CORE, "--set", "audit.trials=1000000", "--set", "audit.targets=300", "--set", "compute.workers=serial"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "out").exists():  # the folder is made just before the work begins
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        try:
            complaint = process.communicate(timeout=120)[1].decode()
        finally:
            process.kill()
    assert process.returncode == 130
    assert complaint.strip().endswith("gpleak: interrupted: the same command goes on where it was")
    assert "Traceback" not in complaint.split("gpleak: interrupted")[1]
    assert not (tmp_path / "out" / "audit.json").exists()


def test_interruption_while_the_libraries_load():
    code = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'gpleak.reports.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from gpleak.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "gpleak: interrupted: nothing was written\n"


def test_output_folder_with_brackets(tmp_path):
    done = audit(tmp_path / "o[/x]", *CORE, "--set", "audit.trials=50", "--set", "audit.targets=1")
    assert done.returncode == 0, done.stderr
    assert "o[/x]" in done.stdout


def test_result_does_not_depend_on_blas_threads(tmp_path):
    """Byte for byte, with one BLAS thread or two around the command."""
    texts = set()
    for threads in ("1", "2"):
        options = [*CORE, "--set", "audit.trials=400", "--set", "audit.targets=1"]
        options += ["--set", "release.mechanism=noised", "--set", "release.prior_noise=0.1"]
        audit(tmp_path, *options, OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads)
        texts.add(without_timings(tmp_path / "audit.json"))
    assert len(texts) == 1


def test_output_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = audit(tmp_path / "file" / "out", *CORE, "--set", "audit.trials=50")
    assert done.returncode == 2
    assert "cannot be made" in done.stderr


def test_an_outsiders_mechanism_is_audited_by_name(tmp_path):
    small = [*CORE, "--set", "audit.trials=4000", "--set", "audit.targets=1", "--allow-code"]
    tests = str(Path(__file__).parent)
    aucs = {}
    for name in ("posterior", "outside:ByScikitLearn", "outside:WrongScale"):
        done = audit(tmp_path, *small, "--fresh", "--set", f"release.mechanism={name}", PYTHONPATH=tests)
        assert done.returncode in (0, 1), done.stderr
        aucs[name] = json.loads((tmp_path / "audit.json").read_text())["attacks"][0]["auc"]
    # Standard error of an AUC from 4,000 a side: below 0.0065.
    assert aucs["outside:ByScikitLearn"] == pytest.approx(aucs["posterior"], abs=0.05)
    assert aucs["outside:WrongScale"] > aucs["posterior"] + 0.05


def test_unexpected_failures_show_no_traceback_and_no_values(tmp_path):
    (tmp_path / "bursts.py").write_text(
        "class Bursts:\n    def __init__(self, release):\n        raise RuntimeError('secret 51.5074')\n"
    )
    done = audit(tmp_path, "--allow-code", "--set", "release.mechanism=bursts:Bursts", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == "gpleak: error: failed with an unexpected RuntimeError: set GPLEAK_DEBUG=1 to see where\n"


def test_nothing_private_is_written(default):
    """No covariate or response of the data stands in what a run writes, at full or printed precision."""
    done, out = default
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 5  # kept chunks among them
    written = done.stdout + done.stderr + "".join(path.read_bytes().decode("latin-1") for path in files)
    cells = [line.split(",") for line in (EXAMPLE / "king_county.csv").read_text().splitlines()[1:]]
    assert "log_price_ratio" not in written
    for east, north, _ in cells:
        assert f"{east},{north}" not in written
    responses = {response for *_, response in cells if len(response.lstrip("-")) >= 8}
    assert len(responses) > 250
    assert [response for response in responses if response in written] == []


def test_version():
    done = run("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_progress_bar_on_a_terminal(tmp_path):
    parent, child = os.openpty()
    command = [sys.executable, "-m", "gpleak", "audit", str(EXAMPLE / "audit.toml"), "--out", str(tmp_path)]
    with subprocess.Popen(
        [*command, *CORE, "--set", "audit.targets=30", "--set", "audit.trials=200000"],
        stderr=child,
        stdout=subprocess.DEVNULL,
    ) as process:
        os.close(child)
        shown = b""
        while True:
            try:
                piece = os.read(parent, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        process.wait(timeout=120)
    os.close(parent)
    assert process.returncode == 0
    assert "attacks" in shown.decode()
    assert re.search(r"\d+/\d+.*/s", shown.decode())


def test_stress_test_without_data(tmp_path):
    """`examples/jump`: no private records, so no exposure; the verdict rests on the attack."""
    options = ["--set", "audit.shadows=500", "--set", "audit.trials=2000", "--set", "audit.claimed_epsilon=0.1"]
    options += ["--set", "release.ridge=0.1", "--set", "release.scale=0.5", "--set", "release.paths=10", *FAST]
    done = run("audit", ROOT / "examples" / "jump" / "audit.toml", "--out", tmp_path, *options)
    assert done.returncode == 1, done.stderr
    record = json.loads((tmp_path / "audit.json").read_text())
    assert record["data"] is None
    assert record["worst_exact"] is None
    assert record["records"] == []
    assert record["population"] == "jump"
    assert record["attacks"][0]["record"] is None
    assert "the population attack on the target" in record["reason"]
    assert "the target" in (tmp_path / "report.html").read_text()


def test_public_pool_from_a_file(tmp_path):
    """The population adversary may know a public table in place of the private one."""
    folder = tmp_path / "mine"
    folder.mkdir()
    lines = (EXAMPLE / "king_county.csv").read_text().splitlines()
    (folder / "king_county.csv").write_text("\n".join(lines[:101]) + "\n")
    (folder / "pool.csv").write_text("\n".join([lines[0], *lines[90:300]]) + "\n")
    (folder / "audit.toml").write_text((EXAMPLE / "audit.toml").read_text() + '\n[population]\nfile = "pool.csv"\n')
    small = ["--set", "audit.shadows=50", "--set", "audit.trials=100", "--set", "audit.targets=2", *FAST]
    done = run("audit", folder / "audit.toml", "--out", tmp_path / "out", *small, "--set", "compute.workers=serial")
    assert done.returncode in (0, 1), done.stderr
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["population"] == "file"
    (folder / "pool.csv").write_text("east_km,north_km,log_price_ratio\n1,2,0\n1,200,0\n")
    done = run("audit", folder / "audit.toml", "--out", tmp_path / "out", *small)
    assert done.returncode == 2
    assert "pool.csv, line 3: lies outside the public domain" in done.stderr


def test_worst_prints_a_pair_that_anyone_can_check():
    """`gpleak worst` of the stress test's release, no data needed: its JSON alone gives the epsilon back."""
    from gpleak.audit import build_stated, load_config
    from gpleak.mechanisms import Dataset, Record, exact_epsilon

    jump = ROOT / "examples" / "jump" / "audit.toml"
    done = run("worst", jump, "--json", "--set", "release.ridge=1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found["epsilon"] > 7.52  # two clusters give 7.52, one 7.48 (THEORY section 3)
    rows = [(one["covariates"], one["response"]) for one in found["core"] for _ in range(one["copies"])]
    rows.insert(found["row"], (found["record"]["covariates"], found["record"]["response"]))
    assert len(rows) == 10
    mechanism, _ = build_stated(load_config(jump, ["release.ridge=1"]))
    data = Dataset([place for place, _ in rows], [response for _, response in rows])
    other = Record(np.array(found["replacement"]["covariates"]), found["replacement"]["response"])
    law = mechanism.contrast(data, found["row"], other).law
    assert float(exact_epsilon(law, found["delta"])) == pytest.approx(found["epsilon"], rel=1e-6)
    shown = run("worst", jump, "--set", "release.mechanism=gaussian")
    assert shown.returncode == 0
    assert "D' only" in shown.stdout
    tests = str(Path(__file__).parent)
    foreign = run("worst", jump, "--allow-code", "--set", "release.mechanism=outside:ByScikitLearn", PYTHONPATH=tests)
    assert foreign.returncode == 2
    assert "gpleak's own mechanisms only" in foreign.stderr


def test_a_log_says_where_the_run_is_once_a_minute():
    """Nothing of a short run; then one line a minute with rate, remaining time and workers. --quiet: nothing."""
    import io

    from rich.console import Console

    from gpleak.reports.console import _Lines, progress_bar

    clock, shown = [0.0], io.StringIO()
    lines = _Lines(Console(file=shown), now=lambda: clock[0])
    for second in range(0, 200, 5):
        clock[0] = float(second)
        lines.advance(second, 1000, 2)
    assert shown.getvalue().splitlines() == [
        "gpleak: attacks: 60 of 1000 chunks, 1/s on 2 worker(s), about 16 minutes left",
        "gpleak: attacks: 120 of 1000 chunks, 1/s on 2 worker(s), about 15 minutes left",
        "gpleak: attacks: 180 of 1000 chunks, 1/s on 2 worker(s), about 14 minutes left",
    ]
    with progress_bar(Console(file=shown, quiet=True, force_terminal=True)) as progress:
        progress(1, 2, 1)
    assert len(shown.getvalue().splitlines()) == 3


def test_only_the_record_is_printed_when_json_is_asked_for(tmp_path):
    done = audit(tmp_path, *CORE, "--set", "audit.trials=2000", "--json", "--verbose")
    assert json.loads(done.stdout) == json.loads((tmp_path / "audit.json").read_text())
    assert all(line.startswith("gpleak: ") for line in done.stderr.splitlines())
