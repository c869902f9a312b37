"""``gpleak compare``: two audits side by side."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..mechanisms import InputError
from .application import app
from .comparison import Comparison, compare_records, comparison_record
from .console import PlainConsole, unread
from .html import number
from .record import load_record, strict_json

_SHOWN_ATTACKS = 12


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

    Exit status: 0 nothing got worse, 1 something did, 2 bad input, 3 not comparable (another delta or other data).
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
        console.print(Text(f"NOT COMPARABLE: {obstacle}", style="bold red"))
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for heading in ("then", "now"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("verdict", *found.verdict)
    for name, values in found.epsilons.items():
        table.add_row(f"epsilon, {name}", *map(number, values))
    table.add_row("fidelity, p-value", *("–" if p is None else f"{p:.4g}" for p in found.fidelity))
    console.print(table)
    _print_attacks(found, console)
    for name, attacks in (("only then", found.only_then), ("only now", found.only_now)):
        if attacks:
            more = f" and {len(attacks) - _SHOWN_ATTACKS} more" if len(attacks) > _SHOWN_ATTACKS else ""
            console.print(Text(f"{name}: {', '.join(attacks[:_SHOWN_ATTACKS])}{more}"))
    console.print(Text("what differs:" if found.changed else "no parameter differs"))
    for phrase in found.changed:
        console.print(Text(f"  {phrase}"))
    for note in found.notes:
        console.print(Text(f"{note}."))
    if found.worse:
        console.print(Text("WORSE:", style="bold red"))
        for phrase in found.worse:
            console.print(Text(f"  {phrase}"))
    elif found.obstacles:
        console.print(Text("nothing can be said about what got worse"))
    else:
        console.print(Text("nothing got worse"))


def _print_attacks(found: Comparison, console: Console) -> None:
    if not found.attacks:
        return
    title = "attacks in both, then and now: AUC, TPR at 1 % FPR, epsilon shown and exact"
    table = Table(box=box.SIMPLE, title=title, title_justify="left")
    table.add_column("attack", no_wrap=True)
    for heading in ("AUC", "TPR", "shown", "exact"):
        table.add_column(heading, justify="right", no_wrap=True)
    order = sorted(found.attacks, key=lambda attack: -max(attack.shown))
    for attack in order[:_SHOWN_ATTACKS]:
        rates = ("–" if rate is None else f"{100 * rate:.2f} %" for rate in attack.tpr)
        cells = (
            [f"{area:.4f}" for area in attack.auc],
            rates,
            map(number, attack.shown),
            map(number, attack.exact),
        )
        table.add_row(Text(attack.name), *(", ".join(pair) for pair in cells))
    console.print(table)
    if len(order) > _SHOWN_ATTACKS:
        console.print(Text(f"and {len(order) - _SHOWN_ATTACKS} more attacks: --json lists all"))
