"""The first configuration for a file of private records: public parameters are stated, or left open for a person.

The domain, the bound and the hyperparameters are premises of every certificate. Read off private records they would
give away the most extreme ones, and what is certified would hold for no one; so nothing here looks at a record unless
the publisher states that the data are public.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
from pydantic import ValidationError

from ..mechanisms import Array, InputError
from .build import KERNELS, MECHANISMS
from .columns import Columns
from .config import ADVERSARIES, AuditConfig

OPEN = "TODO"
_COLUMN = 34  # where comments begin
_PATHS = 1
_NOT_ASKED = {"gaussian": ("length_scale", "ridge")}  # a mechanism in which they play no part
_MEANING = {
    "domain": "a box that every record lies in, [low, high] a covariate, known without the data",
    "response_bound": "no response is larger in size; known without the data",
    "length_scale": "over what distance the function changes, in units of the covariates",
    "ridge": "standard deviation of the noise over that of the function",
    "scale": "standard deviation of the function, in units of the response",
    "prior_noise": "standard deviation of the path of pure noise that is added",
}


@dataclass(frozen=True, kw_only=True)
class Publics:
    """The public parameters of a release as far as they are known; None is still open.

    Attributes:
        mechanism: One of gpleak's own.
        kernel: Its name.
        domain: ``[low, high]`` of each covariate.
        response_bound: No response is larger in size.
        length_scale: In units of the covariates.
        ridge: Standard deviation of the noise over the kernel's.
        scale: Standard deviation of the prior, in units of the response.
        prior_noise: Of the path that is added, for mechanism noised only.
        from_data: Which of domain and response_bound were taken from data that were stated to be public.

    Raises:
        InputError: A value is out of range, or names nothing.
    """

    mechanism: str = "posterior"
    kernel: str = "matern32"
    domain: tuple[tuple[float, float], ...] | None = None
    response_bound: float | None = None
    length_scale: float | None = None
    ridge: float | None = None
    scale: float | None = None
    prior_noise: float | None = None
    from_data: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise InputError(
                f"mechanism {self.mechanism!r}: must be {', '.join(MECHANISMS)}; for a deployed model write the "
                "configuration as docs/adapters.md shows"
            )
        if self.kernel not in KERNELS:
            raise InputError(f"kernel {self.kernel!r}: must be {', '.join(KERNELS)}")
        for key in ("response_bound", "length_scale", "ridge", "scale", "prior_noise"):
            value = getattr(self, key)
            if value is not None and not 0.0 < value < math.inf:
                raise InputError(f"{key} must be a positive number, got {value:g}")
        if self.prior_noise is not None and self.mechanism != "noised":
            raise InputError(f"prior_noise is for mechanism noised, got {self.mechanism}: leave it out")
        for low, high in self.domain or ():
            if not -math.inf < low < high < math.inf:
                raise InputError(f"a side of the domain must be two numbers, the lower first, got [{low:g}, {high:g}]")

    @property
    def asked(self) -> tuple[str, ...]:
        """The keys that somebody must state, in the order of the file."""
        keys = [key for key in _MEANING if key not in _NOT_ASKED.get(self.mechanism, ())]
        return tuple(key for key in keys if key != "prior_noise" or self.mechanism == "noised")

    @property
    def open(self) -> tuple[str, ...]:
        """Those that nobody has stated yet, and what a mechanism needs besides."""
        points = ("points",) if self.mechanism == "predictive" else ()
        return (*(key for key in self.asked if getattr(self, key) is None), *points)

    @property
    def made_up(self) -> str:
        """The premises of the certificate that have a value although perhaps nobody stated it, in words."""
        paths = f"{_PATHS} path{'s' * (_PATHS != 1)}"
        if self.mechanism in _NOT_ASKED:
            return f"mechanism {self.mechanism}, in which no kernel plays a part, and {paths}"
        return f"mechanism {self.mechanism}, kernel {self.kernel} and {paths}"


def meaning(key: str) -> str:
    """What a public parameter is, in a few words."""
    return _MEANING[key]


def taken_from_data(publics: Publics, columns: Columns) -> Publics:
    """Domain and bound from the data, rounded outwards to two digits, where they are open: for public data only."""
    values = columns.table.values
    taken = {key for key in ("domain", "response_bound") if getattr(publics, key) is None}
    box = tuple(outwards(values[:, place]) for place in range(len(columns.covariates)))
    most = float(np.abs(values[:, -1]).max())
    bound = outwards(np.array([0.0, most]))[1] if most > 0 else 1.0
    return replace(
        publics,
        domain=box if "domain" in taken else publics.domain,
        response_bound=bound if "response_bound" in taken else publics.response_bound,
        from_data=frozenset(taken),
    )


_SMALLEST_STEP = Decimal("1e-300")  # a smaller one would be lost in a float


def outwards(values: Array) -> tuple[float, float]:
    """An interval that holds all values; its ends have two digits of its length, or of the value if that is single."""
    low, high = Decimal(repr(float(values.min()))), Decimal(repr(float(values.max())))
    size = (high - low) or abs(low) or Decimal(1)
    step = Decimal(1).scaleb(size.adjusted() - 1)
    if low == high:
        step = max(step, _SMALLEST_STEP)
        low, high = low - step, high + step
    return (
        float((low / step).to_integral_value(ROUND_FLOOR) * step),
        float((high / step).to_integral_value(ROUND_CEILING) * step),
    )


def configuration(columns: Columns, publics: Publics, *, file: str) -> str:
    """The text of a commented configuration; what is open says TODO, and no audit accepts that.

    Args:
        columns: Which columns of the data are what.
        publics: The public parameters.
        file: The data's path as seen from the configuration.

    Raises:
        InputError: The domain has another number of sides than there are covariates, or the configuration breaks
            another rule.
    """
    dimension = len(columns.covariates)
    if publics.domain is not None and len(publics.domain) != dimension:
        raise InputError(
            f"the domain has {len(publics.domain)} side(s) and there are {dimension} covariate(s): give one "
            "[low, high] pair a covariate"
        )
    text = "\n".join([*_head(publics), *_data(columns, file), *_release(columns, publics), *_audit(columns), ""])
    if not publics.open:
        try:
            AuditConfig(**tomllib.loads(text))
        except ValidationError as error:
            raise InputError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None
    return text


def quoted(name: str) -> str:
    """A text as TOML writes it, on one line; it is safe in a comment and on a terminal, too."""
    special = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(special.get(c, c if c.isprintable() else f"\\U{ord(c):08X}") for c in name) + '"'


def _head(publics: Publics) -> list[str]:
    lines = ["# Written by gpleak init. One key can be changed for one run: gpleak audit FILE --set section.key=value"]
    if publics.open:
        lines.append(f"# {OPEN} marks what only you can say; gpleak audit refuses this file until each is replaced.")
    return [*lines, ""]


def _data(columns: Columns, file: str) -> list[str]:
    form = columns.file_format
    guess = {
        "covariates": "guessed from names: where, or when" if "covariates" in columns.guessed else "where, or when",
        "response": "guessed from names: what was measured" if "response" in columns.guessed else "what was measured",
    }
    lines = [
        "[data]  # the private records",
        _line("file", quoted(file), "from this file's folder"),
        _line("covariates", f"[{', '.join(map(quoted, columns.covariates))}]", guess["covariates"]),
        _line("response", quoted(columns.response), guess["response"]),
    ]
    if isinstance(form.header, tuple):
        lines.append(_line("header", f"[{', '.join(map(quoted, form.header))}]", "names: the first line is a record"))
    if form.separator != "," or form.decimal != ".":
        lines.append(_line("separator", quoted(form.separator or ","), "between columns"))
    if form.decimal != ".":
        lines.append(_line("decimal", quoted(form.decimal), "the decimal mark"))
    if form.thousands is not None:
        lines.append(_line("thousands", quoted(form.thousands), "the thousands separator"))
    lines.append(
        "# clip_responses = true           # clip larger responses to response_bound; without it they are errors"
    )
    lines += [f"# left out: column {quoted(name)}, {why}" for name, why in columns.left_out]
    return [*lines, ""]


def _release(columns: Columns, publics: Publics) -> list[str]:
    dimension, idle = len(columns.covariates), _NOT_ASKED.get(publics.mechanism, ())
    kernel = "diagonal" if idle else publics.kernel
    other_mechanisms = [name for name in MECHANISMS if name != publics.mechanism]
    lines = ["[release]  # what is released: all of it public, and chosen without looking at the private records"]
    if publics.from_data:
        lines += [
            f"# {' and '.join(sorted(publics.from_data))}: taken from the data and rounded outwards, as you stated",
            "# that these are public (--not-private). What is certified is then a function of the data: it protects",
            "# none of these records, and others only as far as they lie within the same limits.",
        ]
    lines += [
        _line("mechanism", quoted(publics.mechanism), f"or {', '.join(other_mechanisms)}"),
        _line("kernel", quoted(kernel), "plays no part" if idle else _kernels(publics.kernel)),
    ]
    values: dict[str, object] = {**_open_values(publics), **dict.fromkeys(idle, 1.0)}
    for key in ("length_scale", "ridge", "scale", "prior_noise"):
        if key in values:
            lines.append(_line(key, _value(values[key]), "plays no part" if key in idle else _MEANING[key]))
    lines.append(_line("paths", str(_PATHS), "must be that of your release: independent paths, each costs more"))
    if publics.mechanism == "predictive":
        shape = ", ".join(["20"] * dimension)
        lines.append(f"# {OPEN} points = {{shape = [{shape}]}}  # where it is released: a grid, a list or a CSV file")
    else:
        lines.append(
            _line("# points", '"points.csv"', "where it is released, if not everywhere: a CSV file, list or grid")
        )
    lines += [
        _line("domain", _value(values["domain"]), _premise("domain", publics)),
        _line("response_bound", _value(values["response_bound"]), _premise("response_bound", publics)),
        _line("regime", quoted(_regime(publics, kernel, dimension)), "what the certificate rests on"),
        _line("# records", "100", "the public number of records: with it gpleak certify needs no data"),
    ]
    if columns.degrees:
        lines.append("# A degree of longitude is shorter than one of latitude: columns in km give a better map.")
    return [*lines, ""]


def _audit(columns: Columns) -> list[str]:
    # The largest power of ten below one over the (public) number of records.
    digits = max(3, len(str(len(columns.table.values))))
    return [
        "[audit]",
        _line("# claimed_epsilon", "3.0", "what you claim; left out, the certified epsilon is put to the test"),
        _line("delta", f"1e-{digits}", "probability that epsilon may fail with: below one over the number of records"),
        _line("significance", "0.05", "total probability of a wrong VIOLATED"),
        _line("adversaries", '["core"]', f"who knows all other records; also {', '.join(ADVERSARIES[1:])}"),
        _line("targets", "5", 'the most exposed records are attacked; or row numbers, or "all"'),
        _line("replacements", "31", "public records that take their place"),
        _line("trials", "20000", "simulated releases; gpleak plan says what they can show"),
        _line("seed", "0", "all randomness comes from it"),
    ]


def _open_values(publics: Publics) -> Mapping[str, object]:
    return {key: OPEN if (value := getattr(publics, key)) is None else value for key in publics.asked}


def _premise(key: str, publics: Publics) -> str:
    return "TAKEN FROM THE DATA, see above" if key in publics.from_data else _MEANING[key]


def _kernels(chosen: str) -> str:
    rough = "rough exponential, matern32, matern52, smooth rbf"
    return f"must be that of your release: {rough}" if chosen != "diagonal" else f"or {rough}"


def _regime(publics: Publics, kernel: str, dimension: int) -> str:
    if publics.mechanism in ("thompson", "gaussian"):
        return "bounded"
    if kernel == "exponential" and dimension == 1:
        return "exponential_1d"
    return "diagonal" if kernel == "diagonal" else "bounded"


def _line(key: str, value: str, comment: str) -> str:
    return f"{key} = {value}".ljust(_COLUMN - 1) + f" # {comment}"


def _value(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(float(value))  # type: ignore[arg-type]
