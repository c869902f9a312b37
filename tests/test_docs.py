"""docs/*.md executed as they are printed: files are written, Python and commands run in order, outputs compared.

What a fenced block may be:

    python          run; the blocks of a document share their names
    python NAME     written to a file, like `toml NAME` and `csv NAME`
    sh              one command of gpleak a line, run in this process; each must exit with 0, unless `echo $?` follows
    text            directly below one of these that printed something: what it printed

In expected output spaces and rules are not compared, a number with a decimal point may be off by two in its last
digit, `...` at the end of a line leaves out the rest of it and a line `...` any number of lines.
`docs/adapters.md` is run by `test_plugins.py`.
"""

import contextlib
import dataclasses
import importlib
import io
import json
import logging
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from gpleak.reports.cli import main

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
RUN = [path for path in DOCS if path.name != "adapters.md"]
WRITTEN = ("python", "toml", "csv")
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block; `below` is true when only empty lines lie between it and the block before."""

    line: int
    kind: str
    name: str
    text: str
    below: bool


def blocks(text):
    """All fenced blocks of a document, in order."""
    found, opened, body, clear = [], None, [], False
    for number, line in enumerate(text.splitlines(), 1):
        if opened is None and line.startswith("```"):
            opened, body = (number, *[*line[3:].strip().split(maxsplit=1), "", ""][:2]), []
        elif opened is not None and line == "```":
            found.append(Block(*opened, "".join(part + "\n" for part in body), clear))
            opened, clear = None, True
        elif opened is not None:
            body.append(line)
        elif line.strip():
            clear = False
    assert opened is None, f"the block in line {opened[0]} has no end"
    return found


def agrees(expected, printed):
    """Whether a printed text is what a document says; see the top of this file."""
    want = [line for line in expected.splitlines() if line.strip()]
    have = [line for line in printed.splitlines() if line.strip()]
    return _lines_agree(want, have)


def _lines_agree(want, have):
    if not want:
        return not have
    if want[0].strip() == "...":
        return any(_lines_agree(want[1:], have[skip:]) for skip in range(len(have) + 1))
    return bool(have) and _line_agrees(want[0], have[0]) and _lines_agree(want[1:], have[1:])


def _line_agrees(want, have):
    open_end = want.rstrip().endswith("...")
    want = want.rstrip().removesuffix("...")
    words, other = _words(want), _words(have)
    if open_end:
        other = other[: len(words)]
    return words == other and all(
        _number_agrees(one, two) for one, two in zip(NUMBER.findall(want), NUMBER.findall(have), strict=False)
    )


def _words(line):
    return re.sub("─+", "─", NUMBER.sub("#", line)).split()


def _number_agrees(want, have):
    want, have = want.replace(",", ""), have.replace(",", "")
    if "." not in want and "e" not in want:
        return want == have
    mantissa, _, exponent = want.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(float(want) - float(have)) <= 2.0 * unit * (1.0 + 1e-9)


def run_command(words):
    """A command line of gpleak as its main function runs it: what it printed, and its exit status."""
    printed, handler, argv, level = io.StringIO(), signal.getsignal(signal.SIGINT), sys.argv, logging.getLogger().level
    try:
        sys.argv = words
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main()
        status = 0
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv = argv
        signal.signal(signal.SIGINT, handler)
        logging.getLogger().setLevel(level)
    return printed.getvalue(), status


def run_shell(text):
    """Commands one after the other."""
    printed, status = [], 0
    commands = [shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines()]
    for words in filter(None, commands):
        if words == ["echo", "$?"]:
            printed.append(f"{status}\n")
            status = 0
            continue
        assert status == 0, f"exit status {status} before {words}: {''.join(printed)}"
        assert words[0] == "gpleak", f"only gpleak is run here, got {words[0]}"
        output, status = run_command(words)
        printed.append(output)
    assert status == 0, f"exit status {status}: {''.join(printed)}"
    return "".join(printed)


def run_python(text, names):
    """Python in the document's own names: what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, "<document>", "exec"), names)
    return printed.getvalue()


def run_document(text):
    """Every block in order, in the present folder; yields each `text` block with what was printed above it."""
    names, printed = {"__name__": "document"}, ""
    for block in blocks(text):
        where = f"line {block.line}: "
        if block.kind in WRITTEN and block.name:
            Path(block.name).write_text(block.text)
            printed = ""
        elif block.kind == "python":
            printed = run_python(block.text, names)
        elif block.kind == "sh" and not block.name:
            printed = run_shell(block.text)
        elif block.kind == "text" and not block.name:
            assert block.below, where + "expected output stands below nothing that printed it"
            yield block, printed
            printed = ""
        else:
            pytest.fail(f"{where}a block of kind '{block.kind} {block.name}'")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.name)
def test_a_document_does_what_it_says(path, folder):
    for block, printed in run_document(path.read_text()):
        assert agrees(block.text, printed), f"{path.name}, line {block.line}, printed\n{printed}"
    if path.name == "reading_a_report.md":
        told = set(re.findall(r"`([a-z_]\w*)`", path.read_text()))
        unexplained = keys(json.loads((folder / "gpleak-out" / "audit.json").read_text())) - told
        assert not unexplained, "keys of audit.json that the document does not explain"


def keys(record):
    """Every key of a record, however deep, but for the names of libraries and of steps that were timed."""
    if isinstance(record, list):
        return set().union(*map(keys, record))
    if not isinstance(record, dict):
        return set()
    return set(record).union(*(keys(value) for key, value in record.items() if key not in ("versions", "timings")))


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_and_tests_that_are_named_exist(path):
    text = path.read_text()
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        if "://" in target:
            continue
        to = path if not target else (path.parent / target).resolve()
        assert to.exists(), f"{path.name}: there is no {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", to.read_text(), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, anchor
    for file, test in re.findall(r"(tests/test_\w+\.py)(?:::(test_\w+))?", text):
        assert (ROOT / file).exists(), f"{path.name}: there is no {file}"
        assert f"def {test}" in (ROOT / file).read_text(), f"{path.name}: {file} has no {test}"


def test_every_document_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    assert all(f"({path.name})" in index for path in DOCS if path.name != "README.md")


def test_the_code_has_every_name_of_the_glossary():
    """The second column: a configuration key `section.key`, an attribute or a function of the package."""
    known = [importlib.import_module(f"gpleak.{name}") for name in ("audit", "mechanisms", "attacks")]
    sections = {"release": "ReleaseConfig", "audit": "AuditPlan", "population": "PopulationConfig"}
    rows = re.findall(r"^\|(?!-)(.*)\|$", (ROOT / "docs" / "glossary.md").read_text(), flags=re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([A-Za-z_][\w.]*)`", row.split("|")[1])]
    assert len(names) > 40
    for name in names:
        first, *rest = name.split(".")
        if first in sections:
            module = importlib.import_module("gpleak.audit.config")
            assert rest[0] in getattr(module, sections[first]).model_fields, name
            continue
        owner = next((getattr(place, first) for place in known if hasattr(place, first)), None)
        if owner is None:
            owner = importlib.import_module("gpleak" if first == "gpleak" else f"gpleak.{first}")
        for part in rest:
            fields = getattr(owner, "__dataclass_fields__", {})
            if part in fields:
                owner = fields[part]
            elif hasattr(owner, part):
                owner = getattr(owner, part)
            else:
                owner = importlib.import_module(f"{owner.__name__}.{part}")


@pytest.mark.parametrize(
    "text",
    [
        "```rust\nfn main() {}\n```\n",
        "```toml\n[release]\n```\n",
        "```text\nprinted by nobody\n```\n",
        "```python\nprint(1)\n```\nwords\n```text\n1\n```\n",
        "```sh\nrm -r /nothing\n```\n",
        "```sh\ngpleak certify nothing.toml\n```\n",
        "```sh\ngpleak certify nothing.toml\ngpleak list\n```\n",
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_document_with_a_block_that_cannot_be_checked_fails(text):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        list(run_document(text))


def test_a_block_without_an_end_is_noticed():
    with pytest.raises(AssertionError, match="has no end"):
        blocks("```python\nprint(1)\n")


@pytest.mark.usefixtures("folder")
def test_a_command_that_fails_is_shown_with_its_status():
    ((_, printed),) = run_document("```sh\ngpleak certify nothing.toml\necho $?\n```\n\n```text\n```\n")
    assert printed.splitlines()[0].startswith("gpleak: error: nothing.toml")
    assert printed.splitlines()[-1] == "2"


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("eps  0.949\n", "eps 0.949\n", True),
        ("eps 0.949\n", "eps 0.951\n", True),
        ("eps 0.949\n", "eps 0.952\n", False),
        ("eps 0.949\n", "delta 0.949\n", False),
        ("record 3\n", "record 4\n", False),
        ("───\n1,153,024 trials\n", "─────\n\n1,153,024 trials\n", True),
        ("first\n...\nlast\n", "first\na\nb\nlast\n", True),
        ("first\n...\n", "first\n", True),
        ("first\n...\nlast\n", "first\na\n", False),
        ("found after 12 ...\n", "found after 12 pairs and 13 hours\n", True),
        ("found after 12 ...\n", "found after 13 pairs\n", False),
        ("one\n", "one\ntwo\n", False),
        ("", "one\n", False),
        ("1.5e-05\n", "0.000016\n", True),
        ("1.5e-05\n", "0.00002\n", False),
    ],
)
def test_outputs_are_compared_as_stated(expected, printed, same):
    assert agrees(expected, printed) is same
