"""The public names: few, documented, typed; and what a stranger's type checker and ten lines make of them."""

import ast
import inspect
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support import audit_plan

import gpleak
from gpleak.audit import build_subject, load_config
from gpleak.mechanisms.foreign import BlackBox, Deployed

ROOT = Path(__file__).parent.parent
FOLDERS = ("mechanisms", "attacks", "audit", "reports")


def test_every_list_of_names_says_the_same():
    """``__all__``, the table of modules, and what a type checker sees; no name lives in two modules."""
    tree = ast.parse((ROOT / "__init__.py").read_text())
    seen = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                assert statement.level == 1
                seen |= {alias.asname or alias.name: statement.module for alias in statement.names}
    assert seen == gpleak._MODULE_OF
    assert sorted(gpleak.__all__) == sorted(seen)
    assert len(" ".join(gpleak._HOME.values()).split()) == len(seen) == len(set(gpleak.__all__))
    assert len(seen) <= 32  # few


def public_parts(thing):
    """A class and what a user calls of it, or a function: name and object."""
    yield thing.__name__, thing
    if not inspect.isclass(thing):
        return
    for name, part in vars(thing).items():
        if not name.startswith("_") and callable(getattr(part, "fget", getattr(part, "__func__", part))):
            part = getattr(part, "fget", getattr(part, "__func__", part))
            if inspect.isfunction(part):
                yield f"{thing.__name__}.{name}", part


@pytest.mark.parametrize("name", gpleak.__all__)
def test_every_public_name_is_documented(name):
    for where, part in public_parts(getattr(gpleak, name)):
        text = inspect.getdoc(part) if where != name else part.__doc__  # not one that is inherited
        assert text, where
        assert not text.startswith(f"{name}("), f"{where}: a signature is no documentation"  # what dataclass writes


@pytest.mark.parametrize("name", gpleak.__all__)
def test_every_public_callable_is_annotated(name):
    for where, part in public_parts(getattr(gpleak, name)):
        if not inspect.isfunction(part):
            continue
        signature = inspect.signature(part)
        assert signature.return_annotation is not inspect.Signature.empty, where
        for parameter in signature.parameters.values():
            if parameter.name != "self":
                assert parameter.annotation is not inspect.Parameter.empty, f"{where}: {parameter.name}"


@pytest.mark.parametrize(
    "name", [n for n in gpleak.__all__ if inspect.isfunction(getattr(gpleak, n)) and n not in ("exponential", "rbf")]
)
def test_functions_with_parameters_say_what_they_raise(name):
    function = getattr(gpleak, name)
    if name.startswith("matern"):
        return  # one length scale, checked by the kernel that they make
    assert "Raises:" in inspect.getdoc(function)


@pytest.mark.parametrize("folder", ["", *(f".{folder}" for folder in FOLDERS)])
def test_every_star_import_works(folder):
    module = __import__(f"gpleak{folder}", fromlist=["__all__"])
    assert len(module.__all__) == len(set(module.__all__))
    for name in module.__all__:
        assert getattr(module, name) is not None


def readme_examples():
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


OTHER_USES = """
from pathlib import Path
from typing import Any

import numpy as np
import gpleak


def release(x: Any, y: Any, points: Any, paths: int, rng: np.random.Generator) -> Any:
    return rng.standard_normal((paths, len(points)))


data = gpleak.Dataset(np.zeros((3, 1)), [0.0, 0.5, 1.0])
subject = gpleak.deployed_subject(
    release, data, domain=gpleak.Domain([[0, 1]]), response_bound=1.0, kernel=gpleak.rbf(0.3), ridge=1.0
)
result: gpleak.AuditResult = gpleak.run_audit(subject, gpleak.AuditPlan(claimed_epsilon=1.0))
if result.verdict is gpleak.Verdict.VIOLATED:
    record: dict[str, Any] = gpleak.write_report(result, Path("out"))
seen = gpleak.Released(np.zeros((2, 1)), np.zeros((1, 2)))
reveal_type(gpleak.load_record(Path("out/audit.json")))
"""


def test_a_strict_type_checker_accepts_the_readme_and_refuses_a_mistake(tmp_path):
    """Against an installed package: mypy reads its types only because ``py.typed`` is there."""
    site = tmp_path / "site" / "gpleak"
    site.mkdir(parents=True)
    for name in ("__init__.py", "__main__.py", "py.typed"):
        shutil.copy(ROOT / name, site)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, site / folder, ignore=shutil.ignore_patterns("__pycache__"))
    examples = [code for code in readme_examples() if "import gpleak" in code]
    assert examples
    files = {f"readme{place}.py": code for place, code in enumerate(examples)}
    files |= {"other.py": OTHER_USES, "wrong.py": "import gpleak\n\ngpleak.AuditPlan().seed.nonsense\n"}
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", tmp_path / "cache"]
    done = subprocess.run(
        [*command, *files],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = sorted(done.stdout.splitlines())
    assert done.returncode == 1, done.stderr
    assert len(lines) == 2, done.stdout
    assert re.fullmatch(r'other\.py:\d+: note: Revealed type is ".*dict\[.*str, Any\]"', lines[0])
    assert re.fullmatch(r'wrong\.py:3: error: "int" has no attribute "nonsense"  \[attr-defined\]', lines[1])


def small(rows=12):
    rng = np.random.default_rng(3)
    return gpleak.Dataset(rng.random((rows, 1)), rng.uniform(-1, 1, rows))


DOMAIN = {"domain": gpleak.Domain([[0, 1]]), "response_bound": 1.0}
PLAN = audit_plan(claimed_epsilon=3.0, trials=300, targets=1, fidelity=100)


def regressor(**changes):
    kernel = ConstantKernel(0.25, "fixed") * Matern(0.3, "fixed", nu=1.5)
    return GaussianProcessRegressor(kernel, **{"alpha": 1.0, "optimizer": None, **changes})


def test_write_report_and_load_record(tmp_path):
    release = gpleak.Release(kernel=gpleak.rbf(0.3), ridge=2.0, records=12, **DOMAIN)
    result = gpleak.run_audit(gpleak.Subject(small(), gpleak.ExactPosterior(release), gpleak.Bounded()), PLAN)
    out = tmp_path / "new" / "folder"
    record = gpleak.write_report(result, out)
    assert {path.name for path in out.iterdir()} == {"audit.json", "report.html"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in out.iterdir())
    assert gpleak.load_record(out / "audit.json") == record
    assert record["verdict"] == str(result.verdict)
    (tmp_path / "file").write_text("")
    with pytest.raises(gpleak.InputError, match="cannot be made"):
        gpleak.write_report(result, tmp_path / "file")
    assert gpleak.write_report(result, str(out), public=True, figures=True) == record  # again, and a text will do
    assert (out / "report-public.html").exists()
    assert list((out / "figures").glob("*.csv"))


def test_a_model_in_memory_is_audited_as_the_configuration_does(tmp_path, monkeypatch):
    """The same record, timings apart, as ``mechanism = "sklearn"`` gives."""
    data = small()
    rows = "\n".join(
        f"{x!r},{y!r}" for x, y in zip(data.covariates[:, 0].tolist(), data.responses.tolist(), strict=True)
    )
    (tmp_path / "data.csv").write_text(f"x,y\n{rows}\n")
    (tmp_path / "deployed_here.py").write_text(
        "from sklearn.gaussian_process import GaussianProcessRegressor\n"
        "from sklearn.gaussian_process.kernels import ConstantKernel, Matern\n"
        "model = GaussianProcessRegressor(ConstantKernel(0.25, 'fixed') * Matern(0.3, 'fixed', nu=1.5), alpha=1.0, "
        "optimizer=None)\n"
    )
    (tmp_path / "audit.toml").write_text(
        '[data]\nfile = "data.csv"\ncovariates = ["x"]\nresponse = "y"\n[release]\nmechanism = "sklearn"\n'
        'model = "deployed_here:model"\ndomain = [[0, 1]]\nresponse_bound = 1.0\n'
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    by_file = build_subject(load_config(tmp_path / "audit.toml"), allow_code=True)
    in_memory = gpleak.deployed_subject(regressor(), data, **DOMAIN)
    assert isinstance(in_memory.mechanism, Deployed)
    found = [gpleak.run_audit(subject, PLAN) for subject in (by_file, in_memory)]
    release = found[1].mechanism.release
    assert (release.ridge, release.scale, release.kernel.name) == (2.0, 0.5, "matern32")
    records = [gpleak.write_report(result, tmp_path / "out") for result in found]
    for record in records:
        record["data"]["sha256"] = record["timings"] = None
    assert records[0] == records[1]


def constant(_x, y, points, paths, rng):
    return y.mean() + rng.standard_normal((paths, len(points)))


def test_a_function_is_a_black_box_unless_it_is_stated_to_be_something():
    taken_for = {"kernel": gpleak.rbf(0.3), "ridge": 2.0}
    with pytest.raises(gpleak.InputError, match="only be looked at where it is released"):
        gpleak.deployed_subject(constant, small(), **DOMAIN, **taken_for)
    taken_for["points"] = small().covariates[:9]
    subject = gpleak.deployed_subject(constant, small(), **DOMAIN, **taken_for)
    assert isinstance(subject.mechanism, BlackBox)
    result = gpleak.run_audit(subject, PLAN)
    assert np.isinf(result.certificate.epsilon)
    assert result.claimed_epsilon == 3.0
    # Stated to be what it is not, it is found out by the fidelity test.
    subject = gpleak.deployed_subject(constant, small(), **DOMAIN, **taken_for, stated="posterior")
    assert gpleak.run_audit(subject, PLAN).verdict is gpleak.Verdict.VIOLATED


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (constant, {}, "kernel is missing"),
        (regressor(normalize_y=True), {}, "the model has normalize_y = True"),
        (regressor(), {"ridge": 1.0}, "ridge = 1.0 but the model has 2"),
        (regressor(), {"draws": "predictive"}, "draws are latent"),
        (regressor(), {"domain": gpleak.Domain([[0, 0.1]])}, "outside the public domain"),
        (make_pipeline(StandardScaler(), regressor()), {}, "the model is a Pipeline"),
        (7, {}, "the model is a int"),
        (regressor().fit(np.zeros((2, 1)), np.ones(2)), {}, "are not those of"),
    ],
)
def test_models_that_are_refused(model, changes, message):
    with pytest.raises(gpleak.InputError, match=re.escape(message)):
        gpleak.deployed_subject(model, small(), **{**DOMAIN, **changes})
