"""The configuration file: every key, its type and its rule."""

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, field_validator, model_validator

from ..mechanisms import InputError
from .bounds.sequential import looks

Number = Annotated[float, Strict()]
Whole = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]
Positive = Annotated[Number, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[Number, Field(gt=0, lt=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataConfig(_Section):
    """``[data]``: the private records."""

    file: Path = Field(description="the path of a CSV file, relative to the configuration")
    covariates: list[str] = Field(min_length=1, description="a list of column names")
    response: str = Field(description="a column name")
    clip_responses: Flag = Field(default=False, description="true to clip responses to +-response_bound, or false")
    decimal: str = Field(default=".", description='the decimal mark, "." or ","')
    thousands: str | None = Field(
        default=None, description='the thousands separator, such as "," (leave it out for none)'
    )
    header: Flag | list[str] = Field(default=True, description="true, false, or a list of column names")
    separator: str | None = Field(
        default=None, min_length=1, max_length=1, description="the column separator, one character"
    )

    @field_validator("file", mode="before")
    @classmethod
    def _no_address(cls, value: object) -> object:
        if isinstance(value, str) and "://" in value:
            raise ValueError("is an address, not a path; nothing is fetched")
        return value


class GridConfig(_Section):
    """``points = {shape = [60, 60]}``: a regular grid over the domain."""

    shape: list[Annotated[Whole, Field(ge=1)]] = Field(min_length=1, description="points a side of the domain")


class ReleaseConfig(_Section):
    """``[release]``: the mechanism and its public parameters."""

    mechanism: str = Field(description="posterior, noised, centred, thompson, gaussian or module:Class")
    kernel: Literal["exponential", "matern32", "matern52", "rbf", "diagonal"] = Field(
        description="exponential, matern32, matern52, rbf or diagonal"
    )
    length_scale: Positive = Field(description="a positive number, in units of the covariates")
    ridge: Positive = Field(description="a positive number: the noise's standard deviation over the kernel's")
    scale: Positive = Field(default=1.0, description="a positive number: the standard deviation of the prior")
    prior_noise: Number = Field(default=0.0, ge=0, description="0 or a positive number, for mechanism noised")
    paths: Whole = Field(default=1, ge=1, description="a whole number, at least 1")
    domain: list[tuple[Number, Number]] = Field(min_length=1, description="a list of [low, high], one a covariate")
    response_bound: Positive = Field(description="a positive number that no response exceeds in size")
    regime: Literal["bounded", "exponential_1d", "rkhs", "separated", "diagonal"] = Field(
        default="bounded", description="bounded, exponential_1d, rkhs, separated or diagonal"
    )
    schedule: list[Positive] | None = Field(
        default=None, min_length=1, description="a list of positive scales, one a round, for mechanism thompson"
    )
    rkhs_norm: Positive | None = Field(default=None, description="a positive number, for regime rkhs")
    separation: Positive | None = Field(
        default=None, description="a positive number in units of the covariates, for regime separated"
    )
    records: Whole | None = Field(default=None, ge=1, description="the public number of records")
    points: list[list[Number]] | GridConfig | Path | None = Field(
        default=None, description="a list of points, {shape = [60, 60]} or a CSV file; leave it out for everywhere"
    )

    @model_validator(mode="after")
    def _regime_has_its_number(self) -> "ReleaseConfig":
        for regime, key in (("rkhs", "rkhs_norm"), ("separated", "separation")):
            given = getattr(self, key) is not None
            if self.regime == regime and not given:
                raise ValueError(f"release.regime = {regime!r} needs release.{key}")
            if given and self.regime != regime:
                raise ValueError(f"release.{key} is for regime {regime!r} only: leave it out")
        if self.schedule is not None and self.mechanism in ("posterior", "noised", "centred", "gaussian"):
            raise ValueError(f"release.schedule is for mechanism 'thompson', got {self.mechanism!r}: leave it out")
        return self


class PopulationConfig(_Section):
    """``[population]``: what the population adversary knows in place of the other records."""

    source: Literal["data", "file", "jump"] | None = Field(
        default=None, description="data, file or jump; left out, file if there is one, else data"
    )
    file: Path | None = Field(default=None, description="a CSV file with the columns of the data")
    label_noise: Number = Field(default=0.0, ge=0, le=1, description="a number from 0 to 1, for source jump")

    @model_validator(mode="after")
    def _consistent(self) -> "PopulationConfig":
        if self.source == "file" and self.file is None:
            raise ValueError("population.source = 'file' needs population.file: name a CSV file")
        if self.source in ("data", "jump") and self.file is not None:
            raise ValueError(f"population.file is not used with source = {self.source!r}: leave one of them out")
        if self.label_noise and self.source != "jump":
            raise ValueError("population.label_noise is for source = 'jump' only: leave it out")
        return self

    @property
    def kind(self) -> str:
        """data, file or jump."""
        return self.source or ("file" if self.file is not None else "data")


class ComputeConfig(_Section):
    """``[compute]``: where the work is done. It never changes a result."""

    workers: Literal["auto", "serial"] | Annotated[Whole, Field(ge=1)] = Field(
        default="auto", description='"auto", "serial" or a number of worker processes'
    )

    @property
    def ray_workers(self) -> int | None:
        """Number of Ray workers, 0 for none, None to choose."""
        return {"auto": None, "serial": 0}[self.workers] if isinstance(self.workers, str) else self.workers


class AuditPlan(_Section):
    """``[audit]``: who attacks whom, with how much effort, and what is claimed."""

    adversaries: list[Literal["core", "population"]] = Field(
        default=["core"], min_length=1, description='a list of "core" and "population"'
    )
    shadows: Whole = Field(default=2000, ge=2, description="a whole number, at least 2")

    targets: Literal["all"] | Annotated[Whole, Field(ge=1)] | list[Annotated[Whole, Field(ge=0)]] = Field(
        default=5, description='a number of records, a list of row numbers (0-based), or "all"'
    )
    replacements: Whole = Field(default=31, ge=1, description="a whole number, at least 1")
    delta: Probability = Field(default=1e-3, description="a probability strictly between 0 and 1, not 1/delta")
    significance: Probability = Field(default=0.05, description="a probability strictly between 0 and 1")
    claimed_epsilon: Number | None = Field(default=None, ge=0, description="0 or a positive number")
    trials: Whole = Field(default=20_000, ge=2, description="a whole number, at least 2")
    batch: Whole | None = Field(
        default=None,
        ge=1,
        description="trials a look, to stop as soon as the claim is refuted; leave it out for one look at all",
    )
    search: Flag = Field(
        default=True, description="true, or false to leave out the structured certificate and the worst pair"
    )
    fidelity: Whole = Field(
        default=10_000, ge=0, description="released paths to hold against the stated law, 0 for none"
    )
    seed: Whole = Field(default=0, ge=0, description="a whole number, 0 or more")

    @model_validator(mode="after")
    def _two_batches(self) -> "AuditPlan":
        if self.batch is not None and self.trials < 2 * self.batch:
            raise ValueError(
                f"audit.batch = {self.batch} makes less than two batches of audit.trials = {self.trials}: the first "
                "only chooses the bets"
            )
        return self

    @property
    def looks(self) -> list[range]:
        """Trials of each look, in order; what is left over joins the last."""
        return looks(self.trials, self.batch or self.trials)

    @field_validator("adversaries")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("names an adversary twice")
        return value

    @field_validator("targets")
    @classmethod
    def _not_empty(cls, value: object) -> object:
        if isinstance(value, list) and not value:
            raise ValueError("is an empty list; there would be nobody to attack")
        if isinstance(value, list) and len(set(value)) != len(value):
            raise ValueError("names a record twice")
        return value


class AuditConfig(_Section):
    """A whole configuration file."""

    data: DataConfig | None = Field(default=None, description="a section with the private records")
    release: ReleaseConfig = Field(description="a section with the public parameters")
    population: PopulationConfig = Field(default_factory=PopulationConfig)
    compute: ComputeConfig = Field(default_factory=ComputeConfig)
    audit: AuditPlan = Field(default_factory=AuditPlan)
    folder: Path = Field(default=Path(), exclude=True)

    @model_validator(mode="after")
    def _fit_together(self) -> "AuditConfig":
        if self.data is None:
            return self  # enough for `certify`; `check_auditable` asks for more
        if self.population.kind == "jump":
            raise ValueError("population.source = 'jump' makes its own records: leave [data] out")
        if len({*self.data.covariates, self.data.response}) <= len(self.data.covariates):
            raise ValueError("data.covariates and data.response name a column twice: each may be used once")
        sides, covariates = len(self.release.domain), len(self.data.covariates)
        if sides != covariates:
            raise ValueError(
                f"release.domain has {sides} side(s) and data.covariates {covariates} column(s): give one "
                "[low, high] pair a covariate"
            )
        return self


def check_auditable(config: AuditConfig) -> None:
    """Raise `InputError` unless the configuration says what to attack."""
    if config.data is not None:
        return
    if config.population.kind != "jump":
        raise InputError("data is missing: add a section [data], or set population.source = 'jump'")
    if config.audit.adversaries != ["population"]:
        raise InputError(
            "population.source = 'jump' has no private records for a core adversary: set audit.adversaries = "
            "['population']"
        )
    if config.release.records is None:
        raise InputError("release.records is missing: set it to the public number of records")


def load_config(path: Path, overrides: list[str] | None = None) -> AuditConfig:
    """Read a TOML file and apply overrides of the form ``section.key=value``.

    Raises:
        InputError: The file cannot be read, is not TOML, or breaks a rule; one line says where and what to do.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): give the path of a configuration") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not valid TOML: {error}") from None
    for override in overrides or []:
        _override(table, override)
    if "folder" in table:
        raise InputError(f"{path}: unknown key 'folder'")
    try:
        return AuditConfig(**table, folder=path.parent)
    except ValidationError as error:
        raise InputError(f"{path}: {_explain(error)}") from None


def _override(table: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise InputError(f"--set {override}: write section.key=value, such as release.ridge=1")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    target = table.setdefault(section, {})
    if not isinstance(target, dict):
        raise InputError(f"--set {override}: {section!r} is not a section")
    target[key] = value


def _explain(error: ValidationError) -> str:
    """The first problem as one line: value, rule, remedy; and how many more there are."""
    problems = error.errors()
    # A union reports every branch it tried; the one for the value itself comes last and has the shortest path.
    # An unknown key is often a misspelt one that is then also missing: name it first.
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    model: Any = AuditConfig
    place: list[str] = []
    remedy = ""
    for step in first["loc"]:
        fields = getattr(model, "model_fields", {})
        if step in fields:
            place.append(str(step))
            remedy, model = fields[step].description or "", _section(fields[step].annotation)
    name = ".".join(place) or "configuration"
    more = {problem["loc"][:2] for problem in problems} - {first["loc"][:2]}  # section and key
    tail = f" (and {len(more)} more problem(s))" if more else ""
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        where = f" in [{name}]" if place else ""
        known = [k for k in getattr(model, "model_fields", {}) if k != "folder"]
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
        return f"unknown key {key!r}{where}: did you mean {near[0]!r}?" + tail
    if first["type"] == "missing" and len(place) == len(first["loc"]):
        return f"{name} is missing" + (f": set it to {remedy}" if remedy else "") + tail
    rule = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if not place or (first["type"] == "value_error" and len(place) == 1):
        return rule + tail  # a rule about several keys names them itself
    remedy = f"; set it to {remedy}" if remedy else ""
    if first["type"] == "missing":
        return f"{name} is incomplete{remedy}" + tail
    return f"{name} = {_brief(first['input'])}: {rule[0].lower()}{rule[1:]}{remedy}" + tail


def _section(annotation: Any) -> Any:
    """The section in ``Section | None``, or what it is."""
    sections = [kind for kind in get_args(annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return sections[0] if sections else annotation


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
