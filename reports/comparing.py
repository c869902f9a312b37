"""``gpleak compare``: two audits side by side."""

import textwrap
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..mechanisms import InputError
from .application import app
from .comparison import Comparison, compare_records, comparison_record
from .console import PlainConsole, unread
from .html import number
from .record import load_record, strict_json

_SHOWN_ATTACKS = 12
_WIDTH = 80  # of a terminal: what is longer is broken here, for a pipe too


@app.command()
def compare(
    then: Annotated[Path, typer.Argument(metavar="THEN.json", help="Record of the earlier audit.")],
    now: Annotated[Path, typer.Argument(metavar="NOW.json", help="Record of the later one.")],
    tolerance: Annotated[
        float, typer.Option(help="Share by which an epsilon that is known without sampling may rise.")
    ] = 0.01,
    as_json: Annotated[bool, typer.Option("--json", help="Print strict JSON and nothing else.")] = False,
) -> None:
    """Show two audits side by side and say what changed.

    Exit status: 0 nothing got worse, 1 something did, 2 bad input, 3 not comparable: another delta, other data,
    or something that was computed, tested or attacked then and is not now.
    """
    try:
        found = compare_records(load_record(then), load_record(now), tolerance=tolerance)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{then} or {now}: is not the whole record of an audit ({type(error).__name__})") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{then} or {now}: is not the record of an audit ({error})") from None
    if as_json:
        print(strict_json({"then": str(then), "now": str(now), **comparison_record(found)}), end="")
    else:
        with unread():
            print_comparison(found, PlainConsole(highlight=False, soft_wrap=True))
    raise typer.Exit(found.status)


def print_comparison(found: Comparison, console: Console) -> None:
    """What forbids a comparison first, then both audits side by side, what differs, and what got worse."""
    for obstacle in found.obstacles:
        _print(console, f"NOT COMPARABLE: {obstacle}", style="bold red")
    for note in found.notes:
        _print(console, f"NOTE: {note}.", style="bold yellow")
    rows = [("", ("then", "now")), ("verdict", found.verdict)]
    rows += [(f"epsilon, {name}", _both(values)) for name, values in found.epsilons.items()]
    rows.append(("fidelity, p-value", _both(found.fidelity)))
    console.print()
    for name, (old, new) in rows:
        console.print(Text(f"  {name:<30}{old:>14}{new:>14}"))
    console.print()
    _print_attacks(found, console)
    for name, attacks in (("only then", found.only_then), ("only now", found.only_now)):
        if attacks:
            more = f" and {len(attacks) - _SHOWN_ATTACKS} more" if len(attacks) > _SHOWN_ATTACKS else ""
            _print(console, f"{name}: {', '.join(attacks[:_SHOWN_ATTACKS])}{more}")
    console.print(Text("what differs:" if found.changed else "no parameter differs"))
    for phrase in found.changed:
        _print(console, phrase, indent=2)
    if not found.worse:
        _print(console, found.conclusion)
        return
    console.print(Text("WORSE:", style="bold red"))
    for phrase in found.worse:
        _print(console, phrase, indent=2)


def _print_attacks(found: Comparison, console: Console) -> None:
    """Each attack in three lines: its name, then and now."""
    if not found.attacks:
        return
    console.print(Text(f"{'attacks in both':<20}{'AUC':>10}{'TPR at 1 % FPR':>18}{'epsilon shown':>15}{'exact':>13}"))
    order = sorted(found.attacks, key=lambda attack: -max(attack.shown))
    for attack in order[:_SHOWN_ATTACKS]:
        _print(console, attack.name)
        for when, area, rate, shown, exact in zip(
            ("then", "now"), attack.auc, attack.tpr, map(number, attack.shown), map(number, attack.exact), strict=True
        ):
            hits = "–" if rate is None else f"{100 * rate:.2f} %"
            console.print(Text(f"  {when:<18}{area:>10.4f}{hits:>18}{shown:>15}{exact:>13}"))
    console.print()
    if len(order) > _SHOWN_ATTACKS:
        console.print(Text(f"and {len(order) - _SHOWN_ATTACKS} more attacks: --json lists all"))


def _both(values: tuple[float | None, float | None]) -> tuple[str, str]:
    return number(values[0]), number(values[1])


def _print(console: Console, text: str, *, indent: int = 0, style: str = "") -> None:
    """A text in lines of 80 characters at most; a word that is longer stays whole."""
    first, later = " " * indent, " " * (indent + 2)
    lines = textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
    for line in lines:
        console.print(Text(line, style=style))
