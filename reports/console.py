"""What the terminal shows: a summary on stdout, a progress bar on stderr."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from ..audit import AuditResult, PowerPlan, WorstPair
from ..audit.installed import Installed
from ..audit.run import Progress as ProgressCallback
from .figures import record_name
from .html import fidelity_text, number
from .implementation import implementation_text, notes_of
from .released import print_released

_MINUTE = 60.0
_COLOURS = {"VIOLATED": "bold red", "NOT_REFUTED": "bold blue", "INCONCLUSIVE": "bold yellow"}


class PlainConsole(Console):
    """A console that reports a closed pipe; rich would end the process with status 1, which here means VIOLATED."""

    def on_broken_pipe(self) -> None:
        """Let the caller decide."""
        raise BrokenPipeError


@contextmanager
def unread() -> Iterator[None]:
    """A reader of stdout who has gone away changes nothing: not the exit status either."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        forget_reader()


def forget_reader() -> None:
    """What is still to be printed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_summary(result: AuditResult, console: Console) -> None:
    """The sandwich and the verdict."""
    best = max(result.attacks, key=lambda attack: attack.epsilon_lower.value)
    table = Table(box=box.SIMPLE, title=f"epsilon at delta = {result.delta:g}", title_justify="left")
    for heading in ("", "epsilon", ""):
        table.add_column(heading, justify="right" if heading else "left")
    share = best.epsilon_lower.significance
    by = f"{best.adversary} attack, {record_name(best.record)}, significance {share:.3g}"
    table.add_row("shown by attack", number(best.epsilon_lower.value), by)
    if result.worst_record is not None:
        worst = f"{record_name(result.worst_record)}, no sampling"
        points, name = result.mechanism.release.points, "worst record, exact"
        if result.worst_everywhere is None or points is None:
            table.add_row(name, number(result.worst_epsilon), worst)
        else:
            table.add_row(f"{name}, on these {len(points)} points", number(result.worst_epsilon), worst)
            table.add_row(f"{name}, of the whole function", number(result.worst_everywhere), "were it released")
    if result.worst_pair is not None:
        table.add_row("worst pair found", number(result.worst_pair.epsilon), "of any data, no sampling")
    method = result.certificate.method
    certified = "nothing is certified of a black box" if method == "none" else f"{method}, {result.regime}"
    table.add_row("certified", number(result.certificate.epsilon), certified)
    table.add_row("claimed", number(result.claimed_epsilon), "")
    console.print(table)

    title = "most revealing attacks, TPR at 1 % FPR, epsilon shown, exact and provable"
    attacks = Table(box=box.SIMPLE, title=title, title_justify="left")
    for heading in ("attack on", "by"):
        attacks.add_column(heading, no_wrap=True)
    for heading in ("AUC", "TPR", "shown", "exact", "provable"):
        attacks.add_column(heading, justify="right", no_wrap=True)
    for attack in sorted(result.attacks, key=lambda item: -item.epsilon_lower.value)[:10]:
        attacks.add_row(
            record_name(attack.record),
            attack.adversary,
            f"{attack.auc:.4f}",
            f"{100 * attack.tpr_at_fpr[2].tpr:.2f} %",
            number(attack.epsilon_lower.value),
            number(attack.epsilon_exact),
            number(attack.largest_provable_epsilon),
        )
    console.print(attacks)
    print_released(result, console)
    if (said := implementation_text(result)) is not None:
        console.print(Text(f"{said}."))
        for note in notes_of(result):
            console.print(Text(f"  - {note}"))
    console.print(Text(f"fidelity: {fidelity_text(result)}."))
    console.print(Text(str(result.verdict), style=_COLOURS[result.verdict]))
    console.print(Text(f"{result.reason}."))


def print_worst_pair(pair: WorstPair, console: Console) -> None:
    """The two datasets, so that anyone can check."""
    title = f"exact epsilon {number(pair.epsilon)} at delta = {pair.delta:g}, {pair.paths} path(s), {pair.direction}"
    table = Table(box=box.SIMPLE, title=title, title_justify="left")
    for heading in ("", "copies", "covariates", "response"):
        table.add_column(heading, justify="left" if heading == "" else "right")
    rows = [("both", int(copies), pair.core.record(index)) for index, copies in enumerate(pair.copies)]
    for name, copies, record in [*rows, ("D only", 1, pair.record), ("D' only", 1, pair.replacement)]:
        place = ", ".join(f"{value:.8g}" for value in record.covariates)
        table.add_row(name, str(copies), place, f"{record.response:.8g}")
    console.print(table)
    console.print(Text(f"The worst of {pair.evaluations:,} pairs looked at: the mechanism's epsilon is at least this."))


def print_installed(found: Sequence[Installed], console: Console) -> None:
    """What a configuration can name, kind by kind."""
    table = Table(box=box.SIMPLE)
    for title in ("kind", "name", "from"):
        table.add_column(title)
    for index, item in enumerate(found):
        first = index == 0 or found[index - 1].kind != item.kind
        style = None if item.usable else "dim"
        table.add_row(item.kind if first else "", Text(item.name), Text(item.source), style=style)
    console.print(table)
    console.print(
        Text("Besides, module:Class names code of your own (docs/adapters.md); it runs only with --allow-code.")
    )


def print_plan(plan: PowerPlan, console: Console) -> None:
    """How many trials a refutation takes, and what the planned ones can do."""
    table = Table(box=box.SIMPLE, title=f"epsilon at delta = {plan.delta:g}", title_justify="left", show_header=False)
    for side in ("left", "right", "left"):
        table.add_column(justify=side)
    table.add_row("exact", number(plan.exact), f"{record_name(plan.record)}, the most exposed target")
    table.add_row("claim", number(plan.claimed), f"too small by a factor of {plan.factor:g}")
    needed = "more than 10^12" if plan.trials is None else f"{plan.trials:,}"
    time = "" if plan.seconds is None else f", roughly {_duration(plan.seconds)} of one processor"
    chance = f"with probability {plan.power:g}, at significance {plan.significance:.3g}"
    table.add_row("trials to refute it", needed, f"{chance}{time}")
    console.print(table)
    console.print(Text("This is for one look at all trials; audit.batch looks more often and needs more of them."))
    share = f"{100 * plan.planned_power:.2g} %" if plan.planned_power < 0.995 else "more than 99 %"
    console.print(
        Text(f"The {plan.planned_trials:,} trials of the configuration refute this claim with probability {share}.")
    )
    if plan.planned_factor is None:
        console.print(Text(f"They refute no claim with probability {plan.power:g}."))
    else:
        console.print(
            Text(
                f"With probability {plan.power:g} they refute claims that are too small by {plan.planned_factor:.3g}; "
                f"nothing above epsilon {number(plan.planned_provable)} can be shown with them."
            )
        )


def _duration(seconds: float) -> str:
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 2 else "a second"


class _Rate(ProgressColumn):
    """Chunks of work a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.2g}/s" if task.speed else "-/s")


@contextmanager
def progress_bar(console: Console) -> Iterator[ProgressCallback]:
    """A bar with rate, remaining time and workers; a line a minute where `console` is no terminal."""
    if console.quiet:
        yield lambda _done, _total, _workers: None
        return
    if not console.is_terminal:
        yield _Lines(console).advance
        return
    workers = TextColumn("on {task.fields[workers]} worker(s)")
    columns = (TextColumn("attacks"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn(), workers)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("attacks", total=None, workers="?")

        def advance(done: int, total: int, workers: int) -> None:
            bar.update(task, completed=done, total=total, workers=workers)

        yield advance


class _Lines:
    """What a log shows: nothing of a short run, then a line a minute."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self.console, self.now = console, now
        self.begun = self.last = now()

    def advance(self, done: int, total: int, workers: int) -> None:
        """Say where the run is, if a minute has passed."""
        time = self.now()
        if time - self.last < _MINUTE or not done:
            return
        self.last = time
        rate = done / (time - self.begun)
        left = _duration((total - done) / rate)
        text = f"gpleak: attacks: {done} of {total} chunks, {rate:.2g}/s on {workers} worker(s), about {left} left"
        self.console.print(Text(text), soft_wrap=True)
