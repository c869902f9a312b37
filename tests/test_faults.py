"""Planted faults: each wrong mechanism of examples/faults is found by a default audit, each right twin passes."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpleak.reports.cli import app

EXAMPLE = Path(__file__).parent.parent / "examples" / "faults"
sys.path.insert(0, str(EXAMPLE))

from faults import FAULTS  # noqa: E402 - it lies beside its configuration

sys.path.remove(str(EXAMPLE))
TWINS = {twin.__name__ for twin in FAULTS.values()}


def audit(out, name, *changes):
    arguments = ["audit", str(EXAMPLE / "audit.toml"), "--allow-code", "--out", str(out)]
    for change in (f"release.mechanism=faults:{name}", "compute.workers=serial", *changes):
        arguments += ["--set", change]
    done = CliRunner().invoke(app, arguments)
    return done, json.loads((out / "audit.json").read_text())


def test_every_fault_is_there():
    assert len(FAULTS) == 14
    assert not TWINS & {fault.__name__ for fault in FAULTS}


@pytest.mark.parametrize("name", [fault.__name__ for fault in FAULTS])
def test_a_fault_is_found_with_default_settings(tmp_path, name):
    """By a p-value below 1e-9; the largest in `scripts/bench faults --seeds 10` was 3e-23, ten standard errors."""
    done, record = audit(tmp_path, name)
    assert done.exit_code == 1
    assert "VIOLATED" in done.stdout
    assert record["reason"].startswith("not the stated mechanism: ")
    assert record["decided_by"] == {"test": "fidelity test", "significance": pytest.approx(0.01)}
    assert record["fidelity"]["passed"] is False
    assert record["fidelity"]["p_value"] < 1e-9


@pytest.mark.parametrize("name", sorted(TWINS))
def test_a_right_twin_passes(tmp_path, name):
    """At significance 1e-6 for the whole audit: that is its false-failure rate. All else is default."""
    done, record = audit(tmp_path, name, "audit.significance=1e-6")
    assert done.exit_code == 0
    assert record["verdict"] == "NOT_REFUTED"
    assert record["decided_by"] is None
    assert record["fidelity"]["passed"] is True


def test_what_each_fault_looks_like(tmp_path):
    """The reason names what is odd and on which data."""
    reasons = {name: audit(tmp_path / name, name)[1]["reason"] for name in ("SameNoiseInEveryPath", "NeighbourKept")}
    assert "independence of paths" in reasons["SameNoiseInEveryPath"]
    assert "from the neighbouring data" in reasons["NeighbourKept"]
