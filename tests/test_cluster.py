"""A real local Ray and a real cluster of two nodes: killed workers, lost nodes, and what a cluster may not see.

Workers import this file, but not its neighbours: those are imported where they are used.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gpleak.attacks import Serial, chunks_of, open_engine
from gpleak.audit import ComputeConfig, Subject, run_audit
from gpleak.mechanisms import Bounded, ExactPosterior, InputError
from gpleak.reports.record import as_record

CHUNKS = chunks_of(24, seconds_each=0.1)
LONG = 60.0  # seconds after which a state that was waited for counts as missing


def until(state):
    """Wait for a state, and return it."""
    deadline = time.monotonic() + LONG
    while not (found := state()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def work(shared, chunk):
    """Numbers of a chunk. Whoever is meant and finds the trap tells its process and waits to be killed."""
    trap = Path(shared["trap"])
    process = trap.with_suffix(".process")
    # The trap is for one chunk, or for the first one of the workers of certain nodes.
    meant = os.getppid() in shared["raylets"] if "raylets" in shared else chunk.start == 4
    if meant and trap.exists() and not process.exists():
        process.write_text(f"{os.getpid()} {os.getppid()}")
        while trap.exists():
            time.sleep(0.01)
    rng = np.random.default_rng(np.random.SeedSequence(shared["seed"], spawn_key=(chunk.start,)))
    return {"numbers": rng.random((len(chunk), 3))}


def numbers(engine, shared, finished=lambda: None):
    return np.concatenate([part["numbers"] for part in engine.map(work, shared, CHUNKS, finished)])


@pytest.fixture
def shared(tmp_path):
    return {"trap": str(tmp_path / "trap"), "seed": 5}


def killed_in_the_middle(engine, shared, victim):
    """Results and number of finished chunks, when the process that does the second chunk dies while it does."""
    import threading

    trap = Path(shared["trap"])
    trap.touch()
    finished, killed = [], []

    def kill():
        process = trap.with_suffix(".process")
        pids = until(lambda: process.exists() and process.read_text().split())
        until(lambda: len(process.read_text().split()) == 2)
        killed.append(victim([int(pid) for pid in pids]))
        trap.unlink()

    killer = threading.Thread(target=kill)
    killer.start()
    found = numbers(engine, shared, lambda: finished.append(1))
    killer.join()
    assert len(killed) == 1
    return found, len(finished)


def test_a_worker_killed_in_the_middle_changes_nothing(shared):
    """Its chunk is done again, by another process, and counts once."""
    expected = numbers(Serial(), shared)
    with open_engine(2, seconds=0.0) as engine:
        found, finished = killed_in_the_middle(engine, shared, lambda pids: os.kill(pids[0], signal.SIGKILL))
    assert np.array_equal(found, expected)
    assert finished == len(CHUNKS)


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one processor each, with token authentication, as somebody else would run them."""
    # Ray reads its token once a process: a local cluster may have set one before.
    for name, value in (("MODE", "token"), ("TOKEN", "a" * 64)):
        os.environ.setdefault(f"RAY_AUTH_{name}", value)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.add_node(num_cpus=1)
    yield nodes
    nodes.shutdown()


def test_the_whole_audit_on_a_cluster(cluster):
    """Joined by its address, left running, and the same result bit for bit."""
    from support import audit_plan, random_data, release

    subject = Subject(random_data(np.random.default_rng(94), 25, 1), ExactPosterior(release(25)), Bounded())
    plan = audit_plan(adversaries=["core", "population", "lira"], shadows=400, trials=2000, targets=2)
    records = []
    for compute in (ComputeConfig(workers="serial"), ComputeConfig(address=cluster.address)):
        result = run_audit(subject, plan, compute=compute)
        assert result.engine == (("serial", 1) if compute.address is None else ("ray", 2))
        records.append({key: value for key, value in as_record(result).items() if key != "timings"})
    assert records[0] == records[1]
    with open_engine(None, seconds=0.0, address=cluster.address) as engine:  # it is still there
        assert engine.workers == 2


def test_case_23_more_processors_than_there_are(cluster):
    """At once, with what is there and what is asked for; the tool of the case waited for ever."""
    start = time.monotonic()
    with (
        pytest.raises(InputError, match=r"compute\.workers = 8 but the cluster at '.*' has 2 processor\(s\)"),
        open_engine(8, seconds=0.0, address=cluster.address),
    ):
        pass
    assert time.monotonic() - start < 30


def test_a_cluster_that_is_not_there(cluster):
    """A refused address, and a wrong token, in one line without Ray's own text."""
    code = (
        "import sys\nfrom gpleak.attacks import open_engine\nfrom gpleak.mechanisms import InputError\n"
        "try:\n    with open_engine(1, seconds=0.0, address=sys.argv[1]): pass\n"
        "except InputError as error: print(error)\n"
    )
    environment = {**os.environ, "RAY_AUTH_TOKEN": "b" * 64}
    command = [sys.executable, "-c", code, cluster.address]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert re.fullmatch(r"compute\.address = '.*': cannot be joined \(\w+\): is the cluster up, and .*\n", done.stdout)


def test_a_lost_node_changes_nothing(cluster, shared):
    """The node that does a chunk loses its raylet, as when a machine is switched off."""
    expected = numbers(Serial(), shared)

    def lose(pids):
        node = next(node for node in cluster.worker_nodes if node_of(node) == pids[1])
        cluster.remove_node(node, allow_graceful=False)

    # On a quiet machine the head would take the trapped chunk every time.
    trapped = {**shared, "raylets": [node_of(node) for node in cluster.worker_nodes]}
    with open_engine(2, seconds=0.0, address=cluster.address) as engine:
        found, finished = killed_in_the_middle(engine, trapped, lose)
    assert np.array_equal(found, expected)
    assert finished == len(CHUNKS)


def node_of(node):
    """Process of a node's raylet, whose children its workers are."""
    from ray._private import ray_constants

    return node.all_processes[ray_constants.PROCESS_TYPE_RAYLET][0].process.pid


def scan(shared, chunk):
    """Work that looks at the data and fails on one chunk."""
    if chunk.start == 20:
        raise RuntimeError(f"chunk {chunk.start} failed")
    return {"sum": np.array([float(np.sum(shared["data"])) + len(chunk)])}


def test_no_private_value_reaches_a_file_of_ray():
    """Session folder and logs are scanned while the cluster still runs, after work and after a failure."""
    from support import random_data
    from test_resume import private_forms

    data = random_data(np.random.default_rng(95), 40, 2)
    forms = private_forms(data)
    private = {"data": np.concatenate([data.covariates.ravel(), data.responses])}
    with open_engine(2, seconds=0.0) as engine:
        import ray

        folder = Path(ray._private.worker._global_node.get_session_dir_path()).resolve()
        with pytest.raises(RuntimeError, match="chunk 20 failed"):
            list(engine.map(scan, private, CHUNKS, lambda: None))
        root = next(
            path for path in folder.parents if path.name.startswith("gpleak-")
        )  # closed to others, with all below
        assert root.stat().st_mode & 0o777 == 0o700
        files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
        assert any("raylet" in path.name for path in files)
        for path in files:
            content = path.read_bytes()
            assert not [form for form in forms if form in content], path
    assert not root.exists()


class Unpicklable:
    """Holds private values and cannot be sent."""

    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        raise TypeError(f"cannot pickle {self.data}")


def test_what_cannot_be_sent_is_not_quoted(capfd):
    secret = 0.7312345678
    with (
        open_engine(1, seconds=0.0) as engine,
        pytest.raises(InputError, match=r"cannot be sent to workers \(TypeError\)") as error,
    ):
        list(engine.map(work, {"object": Unpicklable([secret])}, CHUNKS, lambda: None))
    shown = capfd.readouterr()
    assert str(secret) not in str(error.value) + shown.out + shown.err
    assert error.value.__cause__ is None
