"""The pytest plugin: ``leakage.check`` fails a test when a mechanism betrays more than is claimed of it.

Only pytest and the standard library are imported before a check is made: a test run without checks pays nothing.
"""

import hashlib
import inspect
import re
import shlex
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pytest

if TYPE_CHECKING:
    from ..attacks import Attack, Population
    from ..audit import AuditResult
    from ..mechanisms import Dataset, Mechanism, Regime

_WIDTH, _LABEL = 110, 11
_PROPERTY = "leakage"  # of a test report; it reaches the terminal from other processes, too
_ASKED = pytest.StashKey["Leakage"]()  # of a test that has the fixture, in whatever way it asked for it


@dataclass(frozen=True)
class Budget:
    """How much effort a check takes, where it does not say so itself.

    Attributes:
        trials: Simulated releases under each hypothesis.
        targets: How many of the most exposed records are attacked.
        fidelity: Released paths to hold against the stated law.
        shadows: Shadow datasets, for adversaries who train them.
        search: Whether the structured certificate and the worst pair are searched for, which takes seconds.
    """

    trials: int
    targets: int
    fidelity: int
    shadows: int
    search: bool


BUDGETS = {
    "quick": Budget(trials=5_000, targets=3, fidelity=5_000, shadows=500, search=False),
    "nightly": Budget(trials=100_000, targets=10, fidelity=50_000, shadows=5_000, search=True),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line."""
    group = parser.getgroup("gpleak", "what a released Gaussian-process sample betrays about a record")
    group.addoption(
        "--leakage-report", metavar="DIR", help="write an audit.json for each leakage.check into this folder"
    )
    group.addoption(
        "--leakage-budget",
        choices=list(BUDGETS),
        help="effort of every leakage.check, in place of the tests' markers; what a check says itself stays",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and make the folder absolute for all processes."""
    config.addinivalue_line(
        "markers", f"leakage(budget): effort of leakage.check in this test, one of {', '.join(BUDGETS)}"
    )
    wanted = config.option.leakage_report
    if wanted is None:
        return
    folder = config.invocation_params.dir / wanted
    try:
        if not wanted:
            raise NotADirectoryError("no name")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"--leakage-report={wanted}: is no folder and cannot be made one ({error})") from None
    config.option.leakage_report = str(folder)


@pytest.fixture
def leakage(request: pytest.FixtureRequest) -> "Leakage":
    """Fails a test when a mechanism betrays too much: ``leakage.check(mechanism, data, claimed_epsilon=3)``."""
    request.node.stash[_ASKED] = asked = Leakage(request.node)
    return asked


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that asked for the fixture and then checked nothing does not pass."""
    yield
    asked = item.stash.get(_ASKED, None)
    if asked is not None and not asked.checks:
        pytest.fail(
            "leakage: NOTHING MEASURED: the test asked for the fixture leakage but never called leakage.check: call "
            "it, or do not ask for the fixture",
            pytrace=False,
        )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """How many checks there were, which of them failed or passed with a reservation, and where their reports lie."""
    found = list(_properties(terminalreporter.stats.values()))
    if not found:
        return
    failed = sum(text.startswith("failed") for _, text in found)
    where = config.option.leakage_report
    kept = (
        "no reports kept (--leakage-report=DIR keeps them)" if where is None else f"reports in {_near(where, config)}"
    )
    terminalreporter.write_line(f"leakage: {len(found)} check{'s' * (len(found) != 1)}, {failed} failed, {kept}")
    for node, text in found:
        if text.startswith("passed, but"):
            terminalreporter.write_line(f"leakage: {node} {text}")


def _properties(categories: Any) -> Iterator[tuple[str, str]]:
    """Of every check of the session: its test and what it came to."""
    for reports in categories:
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                for name, value in report.user_properties:
                    if name == _PROPERTY:
                        yield report.nodeid, value


class Leakage:
    """The fixture ``leakage`` of one test; `checks` counts what it was asked to check."""

    def __init__(self, node: pytest.Item) -> None:
        self._node, self.checks = node, 0

    def check(
        self,
        mechanism: "Mechanism",
        data: "Dataset",
        *,
        claimed_epsilon: float | Literal["certified"],
        delta: float = 1e-3,
        significance: float = 1e-3,
        trials: int | None = None,
        seed: int = 0,
        regime: "Regime | None" = None,
        adversaries: Sequence[str] = ("core",),
        targets: "int | Sequence[int] | Literal['all'] | None" = None,
        replacements: int = 31,
        shadows: int | None = None,
        fidelity: int | None = None,
        search: bool | None = None,
        batch: int | None = None,
        population: "Population | None" = None,
        outsiders: "Mapping[str, Attack] | None" = None,
        inconclusive_ok: bool = False,
    ) -> "AuditResult":
        """Audit `mechanism` on `data`; fail the test unless the claim withstands an audit that could have refuted it.

        The same arguments give the same result everywhere: in CI, at a desk, in any order and in any process. What is
        None is taken from the budget: `--leakage-budget`, else the marker ``leakage(budget)``, else ``quick``.

        Args:
            mechanism: What is released: any gpleak mechanism, or a model beside what it is stated to be, such as
                ``Deployed(FunctionModel(release), ExactPosterior(parameters))``.
            data: The records, private or in their place.
            claimed_epsilon: What is claimed, or "certified" for the epsilon of the mechanism's certificate.
            delta: The delta of the claim.
            significance: Probability with which a right mechanism fails. With a fixed seed it always fails or never.
            trials: Simulated releases under each hypothesis.
            seed: All randomness comes from it.
            regime: Premises of the certificate; None means `Bounded`.
            adversaries: Who attacks.
            targets: Whom to attack: a number of the most exposed records, a list of 0-based rows, or "all".
            replacements: Public records that may take a record's place.
            shadows: Shadow datasets under each hypothesis, for adversaries who train them.
            fidelity: Released paths to hold against the stated law, 0 for none.
            search: Whether the structured certificate and the worst pair are searched for; by default also when the
                certified epsilon is claimed, which must not depend on the budget.
            batch: Trials a look, to stop as soon as the claim is refuted.
            population: What the adversaries know who train shadows; None means the data without the targets.
            outsiders: Attacks from outside gpleak, by the names in `adversaries`.
            inconclusive_ok: Pass although no attack could have refuted the claim. The exact epsilon and the fidelity
                test still count; the terminal says that it passed with this reservation.

        Returns:
            The audit, for further assertions.
        """
        __tracebackhide__ = True
        self.checks += 1
        kept = self._file()
        with warnings.catch_warnings():  # of libraries while they load, not of the audit
            warnings.simplefilter("ignore")
            from ..audit import ComputeConfig, Subject, run_audit
            from ..audit.gate import checked, gate
            from ..mechanisms import Bounded, InputError, NumericalError
            from ..mechanisms.foreign import BlackBox, Deployed, check_moments
            from .check_plan import check_kinds, in_python, plan_of
            from .record import as_record, write_record
        numbers = {
            "claimed_epsilon": claimed_epsilon,
            "delta": delta,
            "significance": significance,
            "trials": trials,
            "seed": seed,
            "adversaries": adversaries,
            "targets": targets,
            "replacements": replacements,
            "shadows": shadows,
            "fidelity": fidelity,
            "search": search,
            "batch": batch,
        }
        called = _caller(inspect.currentframe())
        lines = [("test", f"{self._node.nodeid}, check {self.checks}, at {called}")]
        again = [("again", f"pytest {shlex.quote(self._node.nodeid)}{self._override()}")]
        try:
            budget, name = self._budget()
            plan = plan_of(numbers, asdict(budget))
            again.insert(0, ("seed", f"{plan.seed}, budget {name}: the same trials in CI and at a desk"))
            check_kinds(mechanism, data)
            chosen = Bounded() if regime is None else regime
            again.append(("or", in_python(plan, chosen)))
            if isinstance(mechanism, Deployed | BlackBox):
                check_moments(mechanism, data)
            subject = Subject(data, mechanism, chosen, population, outsiders=dict(outsiders or {}))
            result = run_audit(subject, plan, compute=ComputeConfig(workers="serial"))
        except (InputError, NumericalError) as error:
            if error.__cause__ is not None:  # other code failed below: its traceback says where
                self._note(f"failed: {type(error.__cause__).__name__} during the audit")
                raise
            self._fail("NOTHING MEASURED: the audit was refused, or broke off", [*lines, ("why", str(error)), *again])
        except Exception as error:
            self._note(f"failed: {type(error).__name__} during the audit")
            raise
        found = gate(checked(result), inconclusive_ok=inconclusive_ok)
        if kept is not None:
            write_record(as_record(result), kept)
        lines += [("why", found.reason), *found.lines, *again]
        lines.append(
            ("report", "not kept: --leakage-report=DIR keeps it" if kept is None else _near(kept, self._node.config))
        )
        if not found.passed:
            self._fail(f"{found.outcome}: {found.headline}", lines)
        self._note(f"passed, but {found.reason}" if found.reason else "passed")
        self._node.add_report_section("call", "leakage", _message(f"{found.outcome}: {found.headline}", lines))
        return result

    def _budget(self) -> tuple[Budget, str]:
        """How much effort, and its name."""
        from ..mechanisms import InputError

        name = self._node.config.option.leakage_budget
        marker = self._node.get_closest_marker("leakage")
        if name is None and marker is not None:
            given = [*marker.args, *marker.kwargs.values()]
            if len(given) != 1 or not set(marker.kwargs) <= {"budget"} or given[0] not in BUDGETS:
                raise InputError(
                    f"the marker leakage has the arguments {given}: it takes one budget, {' or '.join(BUDGETS)}"
                )
            name = given[0]
        return BUDGETS[name or "quick"], name or "quick"

    def _override(self) -> str:
        name = self._node.config.option.leakage_budget
        return "" if name is None else f" --leakage-budget={name}"

    def _file(self) -> Path | None:
        """Where the record of this check goes; what an earlier run left there is removed, not to stand for this one."""
        folder = self._node.config.option.leakage_report
        if folder is None:
            return None
        name = self._node.nodeid
        readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", name.replace("::", "--")).strip("-.")[:100]
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]  # other tests may read alike
        number = "" if self.checks == 1 else f".{self.checks}"
        path = Path(folder, f"{readable}-{digest}{number}.audit.json")
        path.unlink(missing_ok=True)
        return path

    def _note(self, text: str) -> None:
        self._node.user_properties.append((_PROPERTY, text))

    def _fail(self, headline: str, lines: Sequence[tuple[str, str]]) -> NoReturn:
        __tracebackhide__ = True
        self._note(f"failed: {headline}")
        raise pytest.fail.Exception(_message(headline, lines), pytrace=False) from None


def _caller(frame: FrameType | None) -> str:
    """File and line of the check."""
    caller = None if frame is None else frame.f_back
    return "an unknown line" if caller is None else f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"


def _message(headline: str, lines: Sequence[tuple[str, str]]) -> str:
    """What a failing log shows: a line that says it all, and what is behind it."""
    indent = " " * (_LABEL + 2)
    text = [f"leakage: {headline}"]
    for label, content in lines:
        if content:
            first = f"  {label:<{_LABEL}}"
            text.append(_wrapped(content, first, indent))
    return "\n".join(text)


def _wrapped(text: str, first: str, others: str) -> str:
    """Words stay whole: paths and code are copied from a log."""
    return textwrap.fill(
        text, _WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )


def _near(path: str | Path, config: pytest.Config) -> str:
    """A path as seen from where pytest was started."""
    here = config.invocation_params.dir
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)
