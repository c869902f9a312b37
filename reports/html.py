"""The report as one HTML file: no script, no network, figures inline."""

import platform
from collections.abc import Sequence
from importlib.metadata import version

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from .. import __version__
from ..audit import SPLIT, AttackResult, AuditResult
from .figures import exposure_figure, record_name, roc_figure, sandwich_figure

_LIBRARIES = ("numpy", "scipy", "scikit-learn")


def render_report(result: AuditResult) -> str:
    """The whole report as HTML text."""
    environment = Environment(
        loader=PackageLoader("gpleak.reports", "templates"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    return environment.get_template("report.html").render(
        result=result,
        attacks=side_by_side(result.attacks),
        release=result.mechanism.release,
        sandwich=sandwich_figure(result),
        roc=roc_figure(result.attacks),
        histogram=None if result.exposure is None else exposure_figure(result.epsilon_exact, result.claimed_epsilon),
        name=record_name,
        split=SPLIT.fraction,
        versions={
            "gpleak": __version__,
            "Python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
    )


def side_by_side(attacks: Sequence[AttackResult]) -> list[AttackResult]:
    """Attacks on one record next to each other, records in their order of exposure."""
    place = {record: index for index, record in enumerate(dict.fromkeys(attack.record for attack in attacks))}
    return sorted(attacks, key=lambda attack: (place[attack.record], attack.adversary))


def number(value: float | None) -> str:
    """Four significant digits; a dash for what does not exist."""
    if value is None:
        return "–"
    return "infinite" if value == float("inf") else f"{value:.4g}"
