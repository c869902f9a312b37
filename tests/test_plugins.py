"""Entry points, `gpleak list`, and docs/adapters.md executed as it is printed."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gpleak.attacks import Jump
from gpleak.audit import build_subject, load_config, run_audit
from gpleak.audit.installed import installed
from gpleak.mechanisms import InputError
from gpleak.mechanisms.foreign import Deployed
from gpleak.reports.cli import app

DOCS = Path(__file__).parent.parent / "docs"
PACKAGE = '''
import numpy as np
from gpleak.attacks import Draw, FeatureAttack


class Census:
    """Uniform places, responses near 0: everything but the table itself."""

    name = "census"

    def __init__(self, release):
        self.release = release

    def draw(self, rng, count, *, core):
        low, high = self.release.domain.sides.T
        places = low + (high - low) * rng.random((count, core + 1, len(low)))
        responses = 0.1 * rng.uniform(-1, 1, (count, core + 1))
        return Draw(places[:, :-1], responses[:, :-1], places[:, -1], responses[:, -1], None)


class Nobody:
    def __init__(self, release):
        pass


class Plain:
    notes = ()

    def score(self, features):
        return features[:, 0]


class Largest(FeatureAttack):
    name, sees = "largest", "values"

    def __init__(self, release):
        pass

    def features(self, releases):
        return releases.values.max(axis=-1, keepdims=True)

    def fit(self, member, nonmember):
        return Plain()
'''
POINTS = """[gpleak.mechanisms]
mine = adapter:mechanism
[gpleak.populations]
census = installed_elsewhere:Census
nobody = installed_elsewhere:Nobody
[gpleak.attacks]
largest = installed_elsewhere:Largest
"""


def blocks():
    """Files of docs/adapters.md by the names that their fences give them."""
    found = re.findall(r"```(?:python|toml) (\S+)\n(.*?)```", (DOCS / "adapters.md").read_text(), flags=re.DOTALL)
    assert len(found) == len(dict(found)) == 7
    return dict(found)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder, with a package installed beside it that registers things."""
    rng = np.random.default_rng(4)
    place = rng.random((40, 2))
    response = np.clip(np.sin(4 * place[:, 0]) + 0.3 * rng.standard_normal(40), -2, 2)
    pd.DataFrame({"east": place[:, 0], "north": place[:, 1], "y": response}).to_csv(
        tmp_path / "private.csv", index=False
    )
    for name, text in blocks().items():
        (tmp_path / name).write_text(text)
    site = tmp_path / "site"
    (site / "installed_elsewhere-1.0.dist-info").mkdir(parents=True)
    (site / "installed_elsewhere-1.0.dist-info" / "METADATA").write_text("Name: installed_elsewhere\nVersion: 1.0\n")
    (site / "installed_elsewhere-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
    (site / "installed_elsewhere.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("deployed", "function", "adapter", "installed_elsewhere"):
        sys.modules.pop(name, None)


QUICK = ("audit.trials=200", "audit.fidelity=400", "audit.search=false", "audit.targets=1", "compute.workers=serial")


def audited(folder, name, *overrides):
    config = load_config(folder / name, [*QUICK, *overrides])
    return run_audit(build_subject(config, allow_code=True), config.audit, compute=config.compute)


def test_the_adapter_of_the_docs_is_thirty_lines_and_passes(folder):
    code = blocks()["adapter.py"]
    body = [line for line in code.splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(body) <= 30
    result = audited(folder, "adapter.toml")
    assert isinstance(result.mechanism, Deployed)
    assert result.fidelity.passed  # by chance it fails with probability 0.01; this seed does not
    named = audited(folder, "adapter.toml", "release.mechanism=mine")
    assert named.worst_epsilon == result.worst_epsilon


def test_an_adapter_that_reports_something_else_is_stopped(folder):
    wrong = (folder / "adapter.py").read_text().replace("self.release.ridge**2", "self.release.ridge")
    (folder / "adapter.py").write_text(wrong)
    with pytest.raises(InputError, match=r"mine: the posterior mean at point \d+ of the check is .* by the model and"):
        audited(folder, "adapter.toml")


@pytest.mark.parametrize("name", ["sklearn.toml", "function.toml"])
def test_the_configurations_of_the_docs_run(folder, name):
    options = [item for override in QUICK for item in ("--set", override)]
    done = CliRunner().invoke(app, ["audit", str(folder / name), "--allow-code", "--out", str(folder / "o"), *options])
    assert done.exit_code in (0, 1), done.output
    record = json.loads((folder / "o" / "audit.json").read_text())
    expected = {"sklearn.toml": ("sklearn", 1.5, 2.0), "function.toml": ("callable", 3.0, 1.0)}[name]
    assert (record["release"]["mechanism"], record["release"]["ridge"], record["release"]["scale"]) == expected


def test_list_shows_what_is_registered_without_running_it(folder):
    (folder / "site" / "installed_elsewhere.py").write_text("raise RuntimeError('it was run')")
    found = {(item.kind, item.name): item for item in installed()}
    assert found["mechanism", "mine"].source == "adapter:mechanism"
    assert found["population", "census"].source == "installed_elsewhere:Census"
    assert found["attack", "largest"].source == "installed_elsewhere:Largest"
    assert found["adapter", "sklearn"].usable
    for kind, name in (("mechanism", "predictive"), ("kernel", "rbf"), ("regime", "bounded"), ("population", "jump")):
        assert found[kind, name].source == "gpleak"
    shown = CliRunner().invoke(app, ["list"])
    assert shown.exit_code == 0
    assert "installed_elsewhere:Census" in shown.output
    listed = json.loads(CliRunner().invoke(app, ["list", "--json"]).output)
    assert {"kind": "attack", "name": "largest", "source": "installed_elsewhere:Largest", "usable": True} in listed


def test_a_missing_package_is_named(monkeypatch):
    from gpleak.audit import installed as module

    monkeypatch.setattr(module, "_PACKAGES", {"gpytorch": "no-such-package"})
    found = {item.name: item for item in installed() if item.kind == "adapter"}
    assert not found["gpytorch"].usable
    assert found["gpytorch"].source == "needs no-such-package: pip install 'gpleak[gpytorch]'"


def test_registered_populations_and_attacks_take_part(folder):
    options = ("audit.adversaries=['population', 'largest']", "audit.shadows=60", "population.source=census")
    result = audited(folder, "adapter.toml", *options)
    assert result.population == "census"
    assert {attack.adversary for attack in result.attacks} == {"population", "largest"}
    by_module = audited(folder, "adapter.toml", *options[:2], "population.source=installed_elsewhere:Census")
    assert [attack.auc for attack in by_module.attacks] == [attack.auc for attack in result.attacks]


def test_populations_that_are_none(folder):
    with pytest.raises(InputError, match=r"population\.source = 'nobody': is not a population, it lacks name, draw"):
        audited(folder, "adapter.toml", "population.source=nobody")
    with pytest.raises(
        InputError, match=r"population\.source = 'nothing' is no population: set it to data, file, jump"
    ):
        audited(folder, "adapter.toml", "population.source=nothing")
    config = load_config(folder / "sklearn.toml", ["population.source=census"])
    with pytest.raises(InputError, match="pass --allow-code"):
        build_subject(config)
    assert Jump().name == "jump"
