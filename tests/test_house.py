"""The house keeps its plan: who imports whom, what is exported, that the wheel is complete and the README true."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gpleak

ROOT = Path(__file__).parent.parent
ORDER = ["mechanisms", "attacks", "audit", "reports"]


def imported_folders(path, depth=1):
    """Folders of the package that a module `depth` folders below its root imports, by relative or absolute name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth + 1:
            yield (node.module or "").split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("gpleak"):
            yield "absolute"
        elif isinstance(node, ast.Import):
            yield from ("absolute" for alias in node.names if alias.name.split(".")[0] == "gpleak")


@pytest.mark.parametrize("folder", ORDER)
def test_a_folder_imports_only_from_folders_to_its_left(folder):
    allowed = {"", *ORDER[: ORDER.index(folder)]}  # "" is the root, for the version
    modules = list((ROOT / folder).glob("**/*.py"))
    assert modules
    for path in modules:
        assert set(imported_folders(path, len(path.relative_to(ROOT).parts) - 1)) <= allowed, path


def test_the_import_check_sees_a_wrong_import(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from ..reports.html import number\nimport gpleak.audit\n")
    assert list(imported_folders(wrong)) == ["reports", "absolute"]
    wrong.write_text("from ...reports.html import number\nfrom ..roc import roc\n")
    assert list(imported_folders(wrong, 2)) == ["reports"]


def test_modules_stay_short_and_no_utils():
    for folder in ORDER:
        for path in (ROOT / folder).glob("**/*.py"):
            assert "util" not in path.stem
            assert len(path.read_text().splitlines()) <= 320, path


def test_public_names_are_all_there_and_loaded_late():
    for name in gpleak.__all__:
        assert getattr(gpleak, name) is not None
    assert set(gpleak.__all__) <= set(dir(gpleak))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        gpleak.nonsense  # noqa: B018
    code = "import sys, gpleak; print(sorted(m for m in sys.modules if m.split('.')[0] in ('numpy', 'ray', 'gpleak')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['gpleak']"


def test_ray_is_not_imported_by_an_audit_that_does_not_need_it():
    code = "import sys, gpleak.reports.cli; print('ray' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_version_is_stated_once_too_often():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == gpleak.__version__
    assert f"## {gpleak.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_has_a_lower_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
        assert re.fullmatch(r"[a-z0-9-]+>=[0-9.]+", requirement)


def test_readme_python_runs():
    """The ten lines, as printed, in an interpreter of their own; and what the README says they print."""
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```\s*(?:```text\n(.*?)```)?", readme, flags=re.DOTALL)
    assert blocks
    for code, printed in blocks:
        assert len([line for line in code.splitlines() if line.strip()]) <= 12
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if printed:
            assert done.stdout == printed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the checkout, unpacked by pip into a folder of its own."""
    base = tmp_path_factory.mktemp("wheel")
    source = base / "source"
    hidden = shutil.ignore_patterns(".*", "build", "*.egg-info", "gpleak-out", "__pycache__")
    shutil.copytree(ROOT, source, ignore=hidden)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", base, source], check=True, cwd=base)
    (built,) = base.glob("gpleak-*.whl")
    target = base / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", target, built], check=True, cwd=base)
    return target


def test_wheel_holds_what_is_needed_and_nothing_else(wheel):
    inside = {path.relative_to(wheel / "gpleak").as_posix() for path in (wheel / "gpleak").rglob("*") if path.is_file()}
    inside = {name for name in inside if "__pycache__" not in name}
    expected = {"__init__.py", "__main__.py", "py.typed"}
    expected |= {f"reports/templates/{name}.html" for name in ("page", "parts", "private", "public", "report", "style")}
    for folder in ORDER:
        expected |= {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py")}
    assert inside == expected
    assert not (wheel / "tests").exists()


def test_installed_wheel_audits_elsewhere(wheel, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    where = subprocess.run(
        [sys.executable, "-c", "import gpleak; print(gpleak.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    assert Path(where.stdout.strip()).is_relative_to(wheel)
    shutil.copytree(ROOT / "examples" / "king_county", tmp_path / "mine")
    command = [sys.executable, "-m", "gpleak", "audit", "mine/audit.toml", "--set", "audit.trials=500"]
    command += ["--set", "audit.adversaries=['core']", "--set", "audit.search=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "gpleak-out" / "audit.json").read_text())["verdict"] == "NOT_REFUTED"
    assert (tmp_path / "gpleak-out" / "report.html").exists()


@pytest.mark.skipif(not (ROOT / ".venv" / ".gpleak-test").exists(), reason="not set up by scripts/test")
def test_scripts_work_from_any_folder_and_pass_arguments_on(tmp_path):
    """Set up once, `scripts/audit` starts at once; a link to it and a foreign current folder change nothing."""
    done = subprocess.run(
        [
            ROOT / "scripts" / "audit",
            "--set",
            "audit.trials=400",
            "--set",
            "audit.targets=1",
            "--set",
            "audit.shadows=20",
            "--set",
            "audit.search=false",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "installing" not in done.stderr
    assert json.loads((tmp_path / "gpleak-out" / "audit.json").read_text())["attacks"][0]["trials"] == 400
    done = subprocess.run(
        [ROOT / "scripts" / "audit", "--out", "o", "none.toml"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "none.toml: cannot be read" in done.stderr
    config = tmp_path / "own.toml"
    config.write_text((ROOT / "examples" / "king_county" / "audit.toml").read_text())
    done = subprocess.run(
        [ROOT / "scripts" / "audit", "own.toml"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "king_county.csv: cannot be read" in done.stderr
