"""Serial and Ray give the same answers, bit for bit; and Ray leaves no trace in this process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpleak.attacks import Serial, chunks_of, open_engine

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "examples" / "king_county" / "audit.toml"


def squares(shared, chunk):
    return [shared[index] ** 2 for index in chunk]


def fails_at_seven(_, chunk):
    if 7 in chunk:
        raise ValueError("shadow 7 is at fault")
    return list(chunk)


def draws(shared, chunk):
    """CASES 17: what a shadow draws, from its index alone."""
    return [np.random.default_rng(np.random.SeedSequence(shared, spawn_key=(index,))).random(3) for index in chunk]


def clips(shared, chunk):
    """CASES 23: a task may work on a copy of what is shared, which itself is read-only or its own."""
    return float(np.clip(shared, -1.0, 1.0).sum()) + 0 * len(chunk)


def test_chunks_cover_all_indices_once_and_do_not_depend_on_workers():
    chunks = chunks_of(1003, seconds_each=0.004)
    assert [index for chunk in chunks for index in chunk] == list(range(1003))
    assert {len(chunk) for chunk in chunks[:-1]} == {50}
    assert chunks_of(3, seconds_each=100.0) == [range(0, 1), range(1, 2), range(2, 3)]
    assert chunks_of(0, seconds_each=1.0) == []


def test_little_work_stays_in_this_process():
    code = (
        "import sys\nfrom gpleak.attacks import open_engine\n"
        "with open_engine(None, seconds=0.5) as engine: print(engine.name, engine.workers, 'ray' in sys.modules)\n"
        "with open_engine(0, seconds=1e9) as engine: print(engine.name, engine.workers, 'ray' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "serial 1 False\nserial 1 False\n"


def test_serial_engine():
    finished = []
    result = Serial().map(squares, list(range(10)), chunks_of(10, seconds_each=0.1), lambda: finished.append(1))
    assert [value for part in result for value in part] == [index**2 for index in range(10)]
    assert len(finished) == 5


@pytest.fixture(scope="module", params=[1, 2])
def engine(request):
    with open_engine(request.param, seconds=0.0) as opened:
        assert opened.workers == request.param
        yield opened


def test_ray_results_are_in_order_and_counted_once(engine):
    finished = []
    chunks = chunks_of(40, seconds_each=0.1)
    result = engine.map(squares, np.arange(40), chunks, lambda: finished.append(1))
    assert [value for part in result for value in part] == [index**2 for index in range(40)]
    assert len(finished) == len(chunks)


def test_case_17_draws_do_not_depend_on_who_draws(engine):
    chunks = chunks_of(64, seconds_each=0.05)
    flat = [value for part in engine.map(draws, 123, chunks, lambda: None) for value in part]
    serial = [value for part in Serial().map(draws, 123, chunks, lambda: None) for value in part]
    assert np.array_equal(flat, serial)
    assert len({value.tobytes() for value in flat}) == 64


def test_case_23_shared_arrays_are_not_changed(engine):
    shared = np.linspace(-3, 3, 7)
    assert list(engine.map(clips, shared, [range(1)], lambda: None)) == [0.0]
    assert np.array_equal(shared, np.linspace(-3, 3, 7))


def test_a_failing_chunk_ends_the_run_with_its_own_error(engine):
    with pytest.raises(ValueError, match="shadow 7 is at fault"):
        list(engine.map(fails_at_seven, None, chunks_of(20, seconds_each=0.1), lambda: None))
    # And the engine goes on working.
    assert list(engine.map(squares, [3], [range(1)], lambda: None)) == [[9]]


def test_ray_disturbs_nothing():
    """CASES 17: starting Ray moves the global generator of `random`; here it does not. Nothing is left running."""
    code = (
        "import random\nfrom gpleak.attacks import open_engine\n"
        "random.seed(5); expected = random.random(); random.seed(5)\n"
        "with open_engine(1, seconds=0.0) as engine: print(engine.name)\n"
        "import ray\nprint(random.random() == expected, ray.is_initialized())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "ray\nTrue False\n"


def test_cluster_is_closed_to_strangers():
    """Token authentication is on, no dashboard, no usage report."""
    code = (
        "import os\nfrom gpleak.attacks import open_engine\n"
        "with open_engine(1, seconds=0.0):\n"
        "    import ray\n"
        "    print(os.environ['RAY_AUTH_MODE'], len(os.environ['RAY_AUTH_TOKEN']), "
        "os.environ['RAY_USAGE_STATS_ENABLED'], repr(ray._private.worker._global_node.webui_url))\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout in ("token 64 0 ''\n", "token 64 0 None\n")


def test_same_audit_on_serial_1_2_and_4_workers(tmp_path):
    """Identical ``audit.json`` but for the timings, both adversaries."""
    options = ["audit.adversaries=['core', 'population']", "audit.shadows=120", "audit.trials=400", "audit.targets=3"]
    options += ["audit.search=false"]
    texts = {}
    for workers in ("serial", "1", "2", "4"):
        out = tmp_path / workers
        changes = [part for change in [*options, f"compute.workers={workers}"] for part in ("--set", change)]
        command = [sys.executable, "-m", "gpleak", "audit", str(CONFIG), "--out", str(out), *changes]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        record = json.loads((out / "audit.json").read_text())
        assert record["timings"]["engine"] == ("serial" if workers == "serial" else "ray")
        assert record["timings"]["workers"] == (1 if workers == "serial" else int(workers))
        texts[workers] = re.sub(r'"timings": \{[^}]*\}', "", (out / "audit.json").read_text())
    assert len(set(texts.values())) == 1
