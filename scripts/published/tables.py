"""What the figures need, each thing computed once, and the tidy tables that come of it."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from gpleak.attacks import Engine

from .attacked import Sizes, Success, attacked, attacked_without_noise
from .certified import (
    Certified,
    allowed_excess,
    certified,
    certified_by_search,
    paths_within,
    worst_epsilon,
)
from .stress import DELTA, Setting

CENTRED = math.inf  # the scale in whose limit the release is centred
_ONE, _SOME, _MANY, _LIMIT = (
    Sizes(20_000, 100_000),
    Sizes(10_000, 20_000),
    Sizes(30_000, 20_000),
    Sizes(50_000, 100_000),
)


@dataclass(frozen=True)
class Plan:
    """What is computed; the defaults are what is published.

    Attributes:
        ridges: Of the figure against the ridge.
        scales: Its curves, with the centred release.
        fine_scales: Of the figure against the scale.
        few_ridges: Its curves.
        paths: Of the figure against the number of paths.
        pairs: Its curves: ridge and scale.
        searched_ridges: Where structured certificate and worst pair are searched for in the first figure: both take
            seconds a point.
        searched_scales: In the second; the centred release is searched, too.
        searched_paths: In the third.
        budget_ridges: Of the figure of most paths, against the ridge at each of `scales`.
        budget_scales: Against the scale at each of `budget_few_ridges`.
        budget_few_ridges: Its curves.
        budgets: Epsilons.
        one: Sizes of attacks on one path.
        some: On several paths, where the cost is shadows times trials.
        many: On `many_paths` and more: the more paths, the finer the mixture has to be.
        many_paths: See `many`.
        limit: Of the attack on mean and variance themselves.
    """

    ridges: tuple[float, ...] = (0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5)
    scales: tuple[float, ...] = (0.5, 1, 2, 5)
    fine_scales: tuple[float, ...] = (0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 3, 5, 7, 10, 14, 20)
    few_ridges: tuple[float, ...] = (0.1, 0.5, 1, 2)
    paths: tuple[int, ...] = (1, 3, 10, 30, 100)
    pairs: tuple[tuple[float, float], ...] = ((0.1, 0.5), (0.5, 1), (1, 1))
    searched_ridges: tuple[float, ...] = (0.1, 0.2, 0.5, 1, 2, 5)
    searched_scales: tuple[float, ...] = (0.5, 1, 2, 5, 20)
    searched_paths: tuple[int, ...] = (1, 10, 100)
    budget_ridges: tuple[float, ...] = tuple(float(f"{0.5 * 40 ** (i / 16):.4g}") for i in range(17))
    budget_scales: tuple[float, ...] = (0.25, 0.5, 0.7, 1, 1.4, 2, 3, 5, 10, 20)
    budget_few_ridges: tuple[float, ...] = (2, 5, 10, 20)
    budgets: tuple[float, ...] = (1, 3, 9)
    one: Sizes = _ONE
    some: Sizes = _SOME
    many: Sizes = _MANY
    many_paths: int = 30
    limit: Sizes = _LIMIT

    @property
    def by_ridge(self) -> list[Setting]:
        """Settings of the first figure."""
        return [Setting(ridge, scale) for scale in (*self.scales, CENTRED) for ridge in self.ridges]

    @property
    def by_scale(self) -> list[Setting]:
        """Of the second."""
        return [Setting(ridge, scale) for ridge in self.few_ridges for scale in (*self.fine_scales, CENTRED)]

    @property
    def by_paths(self) -> list[Setting]:
        """Of the third."""
        return [Setting(*pair, paths) for pair in self.pairs for paths in self.paths]

    @property
    def by_budget(self) -> list[Setting]:
        """Of the fourth."""
        found = [Setting(ridge, scale) for scale in (*self.scales, CENTRED) for ridge in self.budget_ridges]
        found += [Setting(ridge, s) for ridge in self.budget_few_ridges for s in (*self.budget_scales, CENTRED)]
        return _once(found)

    @property
    def searched(self) -> list[Setting]:
        """Where structured certificate and worst pair are searched for."""
        found = [s for s in self.by_ridge if s.ridge in self.searched_ridges]
        found += [s for s in self.by_scale if s.scale in (*self.searched_scales, CENTRED)]
        return _once(found + [s for s in self.by_paths if s.paths in self.searched_paths])

    def sizes(self, setting: Setting) -> Sizes:
        """Of the attack at a setting."""
        if setting.paths == 1:
            return self.one
        return self.many if setting.paths >= self.many_paths else self.some


def _once(settings: Sequence[Setting]) -> list[Setting]:
    return list(dict.fromkeys(settings))


@dataclass(frozen=True)
class Tables:
    """Tidy tables, one row a point, with `COLUMNS`; in the last one row a setting and budget, with its most paths.

    An empty place was not computed, and for infinitely many paths there is no certificate. Scale and paths may be
    `inf`.
    """

    by_ridge: pd.DataFrame
    by_scale: pd.DataFrame
    by_paths: pd.DataFrame
    most_paths: pd.DataFrame


COLUMNS = (
    "ridge",
    "scale",
    "paths",
    "mechanism",
    "attack",
    "shadows",
    "trials",
    "fpr",
    "tpr",
    "excess_tpr",
    "standard_error",
    "delta",
    "certified_renyi",  # upper bound on epsilon
    "certified_sharper",  # upper bound on epsilon, by:
    "sharper_method",
    "worst_pair",  # exact epsilon of one pair: a lower bound
    "allowed_excess_tpr",  # upper bound that the smallest certificate of this row puts on excess_tpr
)

_Task = Callable[[], Any]


def compute(plan: Plan, engine: Engine, told: Callable[[int, int], None]) -> Tables:
    """Compute everything on an engine; `told` hears how many of how many pieces are done."""
    searched = plan.searched
    attacks = _once([*plan.by_ridge, *plan.by_scale, *plan.by_paths])
    limits = [Setting(*pair) for pair in plan.pairs]
    # The longest first, so that the cores end together.
    work: dict[tuple[Any, ...], _Task] = {}
    for s in searched:
        if s.scale != CENTRED:
            work[certified, s] = partial(certified_by_search, s)
    work.update({(worst_epsilon, s): partial(worst_epsilon, s) for s in searched})
    for s in sorted(attacks, key=lambda s: -s.paths):
        work[attacked, s] = partial(attacked, s, plan.sizes(s))
        work.setdefault((certified, s), partial(certified, s))
    work.update({(attacked_without_noise, s): partial(attacked_without_noise, s, plan.limit) for s in limits})
    work.update({(paths_within, s): partial(paths_within, s, plan.budgets) for s in plan.by_budget})
    found = dict(zip(work, _run(list(work.values()), engine, told), strict=True))
    return Tables(
        _table(row for s in plan.by_ridge for row in _rows(s, plan, found)),
        _table(row for s in plan.by_scale for row in _rows(s, plan, found)),
        _table(
            itertools.chain(
                (row for s in plan.by_paths for row in _rows(s, plan, found)),
                (row for s in limits for row in _limit_rows(s, plan, found[attacked_without_noise, s])),
            )
        ),
        pd.DataFrame(
            [
                {**_public(s, "mechanism"), "delta": DELTA, "budget": budget, "most_paths": most}
                for s in plan.by_budget
                for budget, most in zip(plan.budgets, found[paths_within, s], strict=True)
            ]
        ),
    )


def _run(tasks: list[_Task], engine: Engine, told: Callable[[int, int], None]) -> list[Any]:
    done = itertools.count(1)
    told(0, len(tasks))
    chunks = [range(i, i + 1) for i in range(len(tasks))]
    return list(engine.map(_call, tasks, chunks, lambda: told(next(done), len(tasks))))


def _call(tasks: list[_Task], chunk: range) -> Any:
    (index,) = chunk
    return tasks[index]()


def _public(setting: Setting, *also: str) -> dict[str, Any]:
    names = {"mechanism": setting.mechanism.name, "paths": setting.paths}
    return {"ridge": setting.ridge, "scale": setting.scale, **{name: names[name] for name in also}}


def _rows(setting: Setting, plan: Plan, found: Mapping[tuple[Any, ...], Any]) -> Iterator[dict[str, Any]]:
    bound: Certified = found[certified, setting]
    worst = found.get((worst_epsilon, setting))
    for success in found[attacked, setting]:
        yield {
            **_public(setting, "paths", "mechanism"),
            **_shown(success, plan.sizes(setting), "optimal mixture"),
            "certified_renyi": bound.renyi,
            "certified_sharper": bound.sharper,
            "sharper_method": bound.method,
            "worst_pair": worst,
            "allowed_excess_tpr": allowed_excess(bound.best, success.fpr),
        }


def _limit_rows(setting: Setting, plan: Plan, found: Sequence[Success]) -> Iterator[dict[str, Any]]:
    public = _public(replace(setting, paths=1), "mechanism")
    for success in found:
        yield {**public, "paths": math.inf, **_shown(success, plan.limit, "boosted trees on mean and variance")}


def _shown(success: Success, sizes: Sizes, attack: str) -> dict[str, Any]:
    return {
        "attack": attack,
        "shadows": sizes.shadows,
        "trials": sizes.trials,
        "fpr": success.fpr,
        "tpr": success.tpr,
        "excess_tpr": success.excess,
        "standard_error": success.error,
        "delta": DELTA,
    }


def _table(rows: Iterator[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(COLUMNS))
