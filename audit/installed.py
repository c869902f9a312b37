"""What a configuration can name: gpleak's own mechanisms, adapters, attacks and populations, and registered ones."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from .build import KERNELS, MECHANISMS, REGIMES
from .config import ADVERSARIES, ATTACK_GROUP, POPULATION_GROUP, POPULATIONS
from .plugins import MECHANISM_GROUP, registered
from .release_section import ADAPTERS

_PACKAGES = {"sklearn": "scikit-learn", "gpytorch": "gpytorch", "gstools": "gstools"}
_GROUPS = {"mechanism": MECHANISM_GROUP, "attack": ATTACK_GROUP, "population": POPULATION_GROUP}


@dataclass(frozen=True)
class Installed:
    """Something that a configuration can name.

    Attributes:
        kind: "mechanism", "adapter", "kernel", "regime", "attack" or "population".
        name: What the configuration says.
        source: "gpleak", ``package version`` of an adapter, or ``module:name`` of a registered one.
        usable: Whether what it needs is installed.
    """

    kind: str
    name: str
    source: str
    usable: bool


def installed() -> list[Installed]:
    """Everything that can be named, kind by kind. No code from outside is run."""
    own = {
        "mechanism": tuple(MECHANISMS),
        "kernel": tuple(KERNELS),
        "regime": tuple(REGIMES),
        "attack": ADVERSARIES,
        "population": POPULATIONS,
    }
    found = [Installed(kind, name, "gpleak", True) for kind, names in own.items() for name in names]
    found += [_adapter(name) for name in ADAPTERS]
    for kind, group in _GROUPS.items():
        found += [Installed(kind, name, value, True) for name, value in sorted(registered(group).items())]
    order = ["mechanism", "adapter", "kernel", "regime", "attack", "population"]
    return sorted(found, key=lambda item: order.index(item.kind))


def _adapter(name: str) -> Installed:
    package = _PACKAGES.get(name)
    if package is None:
        return Installed("adapter", name, "gpleak", True)
    try:
        return Installed("adapter", name, f"{package} {version(package)}", True)
    except PackageNotFoundError:
        return Installed("adapter", name, f"needs {package}: pip install 'gpleak[{name}]'", False)
