"""The commands beside `audit`: what is certified, the worst pair, power, sweeps, and what is installed."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..audit import build_stated, build_subject, certification, curves, load_config, plan_power, solve, worst_pair
from ..audit.installed import installed
from ..audit.sweep import plan_sweep
from ..mechanisms import InputError
from .application import AllowCode, ConfigPath, Interrupt, OutFolder, Overrides, app, make_folder
from .certified import certification_record, print_certification, write_curves
from .console import PlainConsole, print_installed, print_plan, print_worst_pair
from .record import strict_json, worst_pair_record
from .sweep import print_sweep, run_sweep


@app.command()
def certify(
    config: ConfigPath,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print strict JSON and nothing else.")] = False,
    parameter: Annotated[
        str | None,
        typer.Option("--solve", metavar="PARAMETER", help="ridge, scale or prior_noise: smallest value for --epsilon."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option("--epsilon", help="Budget for --solve and for the number of paths.")
    ] = None,
    allow_code: AllowCode = False,
) -> None:
    """Certify a release. No data are needed when release.records is given. Exit status 1: no value is feasible."""
    loaded = load_config(config, overrides)
    if budget is not None and not 0.0 <= budget < np.inf:
        raise InputError(f"--epsilon {budget:g}: a budget must be a number of at least 0")
    mechanism, regime = build_stated(loaded, allow_code=allow_code)
    delta = loaded.audit.delta
    solved = None
    if parameter is not None:
        if parameter not in ("ridge", "scale", "prior_noise"):
            raise InputError(f"--solve {parameter}: must be ridge, scale or prior_noise")
        if budget is None:
            raise InputError("--solve needs a budget: add --epsilon, such as --epsilon 3")
        solved = solve(mechanism, regime, delta, parameter=parameter, budget=budget)  # type: ignore[arg-type]
    claim = budget if budget is not None else loaded.audit.claimed_epsilon
    found = certification(mechanism, regime, delta, budget=claim)
    if as_json:
        print(strict_json(certification_record(found, solved)), end="")
    else:
        print_certification(found, solved, PlainConsole(highlight=False, soft_wrap=True))
    if solved is not None and solved.value is None:
        raise typer.Exit(1)


@app.command()
def curve(
    config: ConfigPath,
    out: OutFolder = Path("gpleak-out"),
    overrides: Overrides = None,
    allow_code: AllowCode = False,
) -> None:
    """Write epsilon against ridge, scale and paths: curve.png and curve.csv."""
    loaded = load_config(config, overrides)
    mechanism, regime = build_stated(loaded, allow_code=allow_code)
    found = curves(mechanism, regime, loaded.audit.delta)
    make_folder(out)
    write_curves(found, mechanism.release, loaded.audit.delta, out)
    print(f"{out / 'curve.png'} and {out / 'curve.csv'}")


@app.command()
def worst(
    config: ConfigPath,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print strict JSON and nothing else.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Search for the two neighbouring datasets that leak most. No data are needed when release.records is given."""
    loaded = load_config(config, overrides)
    mechanism, regime = build_stated(loaded, allow_code=allow_code)
    found = worst_pair(mechanism, regime, loaded.audit.delta)
    if found is None:
        raise InputError(
            f"there is no search for the worst pair of mechanism {mechanism.name} under regime {regime.name}: it knows "
            "gpleak's own mechanisms only, and separated data only where they fit"
        )
    if as_json:
        print(strict_json(worst_pair_record(found)), end="")
    else:
        print_worst_pair(found, PlainConsole(highlight=False, soft_wrap=True))


@app.command()
def plan(
    config: ConfigPath,
    factor: Annotated[float, typer.Option("--detect", help="How many times too small the claim is.")],
    power: Annotated[float, typer.Option("--power", help="Wanted probability of refuting it.")] = 0.9,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print strict JSON and nothing else.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Say how many trials an attack needs to refute a claim that is too small. Nothing is simulated or written."""
    loaded = load_config(config, overrides)
    found = plan_power(build_subject(loaded, allow_code=allow_code), loaded.audit, factor=factor, power=power)
    if as_json:
        print(strict_json(asdict(found)), end="")
    else:
        print_plan(found, PlainConsole(highlight=False, soft_wrap=True))


@app.command()
def sweep(
    config: ConfigPath,
    vary: Annotated[
        list[str],
        typer.Option("--vary", metavar="SECTION.KEY=VALUE,VALUE", help="Values of one key. Repeatable: a grid."),
    ],
    out: OutFolder = Path("gpleak-out/sweep"),
    overrides: Overrides = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what an earlier sweep wrote there first.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Audit every combination of values: sweep.csv, figures, a record each. The same command goes on where it was."""
    planned = plan_sweep(config, vary, overrides, allow_code=allow_code)
    Interrupt.kept, Interrupt.fresh = True, fresh
    make_folder(out)

    def tell(*_: object, **__: object) -> None:
        if Interrupt.seen:
            raise KeyboardInterrupt

    finished = run_sweep(planned, out, fresh=fresh, allow_code=allow_code, progress=tell)
    print_sweep(finished, planned, out)
    raise typer.Exit(finished.status)


@app.command(name="list")
def list_installed(
    as_json: Annotated[bool, typer.Option("--json", help="Print strict JSON and nothing else.")] = False,
) -> None:
    """Show what an audit can name: mechanisms, adapters, attacks, populations; also those of installed packages."""
    found = installed()
    if as_json:
        print(strict_json([asdict(item) for item in found]), end="")
    else:
        print_installed(found, PlainConsole(highlight=False, soft_wrap=True))
