"""The configuration file: every key, its type and its rule."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from ..attacks import Lira
from ..mechanisms import InputError
from .bounds.sequential import looks
from .plugins import is_outside
from .release_section import Flag, Number, Probability, ReleaseConfig, Section, Whole

ADVERSARIES = ("core", "population", "lira", "path")
ATTACK_GROUP, POPULATION_GROUP = "gpleak.attacks", "gpleak.populations"  # entry points
POPULATIONS = ("data", "file", "jump")


class DataConfig(Section):
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


class PopulationConfig(Section):
    """``[population]``: what the population adversary knows in place of the other records."""

    source: str | None = Field(
        default=None, description="data, file, jump or module:Class; left out, file if there is one, else data"
    )
    file: Path | None = Field(default=None, description="a CSV file with the columns of the data")
    label_noise: Number = Field(default=0.0, ge=0, le=1, description="a number from 0 to 1, for source jump")

    @model_validator(mode="after")
    def _consistent(self) -> "PopulationConfig":
        if self.source == "file" and self.file is None:
            raise ValueError("population.source = 'file' needs population.file: name a CSV file")
        if self.source not in (None, *POPULATIONS) and not is_outside(self.source, POPULATION_GROUP):
            raise ValueError(
                f"population.source = {self.source!r} is no population: set it to {', '.join(POPULATIONS)} or "
                "module:Class"
            )
        if self.source not in (None, "file") and self.file is not None:
            raise ValueError(f"population.file is not used with source = {self.source!r}: leave one of them out")
        if self.label_noise and self.source != "jump":
            raise ValueError("population.label_noise is for source = 'jump' only: leave it out")
        return self

    @property
    def kind(self) -> str:
        """data, file, jump or the name of one from outside."""
        return self.source or ("file" if self.file is not None else "data")


class ComputeConfig(Section):
    """``[compute]``: where the work is done. It never changes a result."""

    address: str | None = Field(
        default=None, description='the address of a Ray cluster, "auto" or "ray://host:port"; leave it out for none'
    )
    workers: Literal["auto", "serial"] | Annotated[Whole, Field(ge=1)] = Field(
        default="auto", description='"auto", "serial" or a number of worker processes'
    )

    @field_validator("address")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is not None and value != "auto" and not value.startswith("ray://") and ":" not in value:
            raise ValueError("is no address")
        return value

    @property
    def ray_workers(self) -> int | None:
        """Number of Ray workers, 0 for none, None to choose."""
        return {"auto": None, "serial": 0}[self.workers] if isinstance(self.workers, str) else self.workers


class LiraConfig(Section):
    """``[audit.lira]``: the published attack; one configuration for all targets."""

    density: Literal["gaussian", "mixture", "kernel"] = Field(
        default=Lira.density, description="gaussian, mixture or kernel"
    )
    pooled: Flag = Field(default=Lira.pooled, description="true for one variance with and without the record, or false")
    mode: Literal["online", "offline", "offline_tail"] = Field(
        default=Lira.mode, description="online, offline or offline_tail"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "LiraConfig":
        try:
            Lira(self.density, self.pooled, self.mode)
        except InputError as error:
            raise ValueError(str(error)) from None
        return self


class AuditPlan(Section):
    """``[audit]``: who attacks whom, with how much effort, and what is claimed."""

    adversaries: list[str] = Field(
        default=["core"], min_length=1, description=f"a list of {', '.join(ADVERSARIES)} or module:Class"
    )
    lira: LiraConfig = Field(default_factory=LiraConfig, description="a section with the options of the attack")
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
    def _known_and_each_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("names an adversary twice")
        for name in value:
            if name not in ADVERSARIES and not is_outside(name, ATTACK_GROUP):
                raise ValueError(f"names {name!r}, which is none")
        return value

    @field_validator("targets")
    @classmethod
    def _not_empty(cls, value: object) -> object:
        if isinstance(value, list) and not value:
            raise ValueError("is an empty list; there would be nobody to attack")
        if isinstance(value, list) and len(set(value)) != len(value):
            raise ValueError("names a record twice")
        return value


class AuditConfig(Section):
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
    if "core" in config.audit.adversaries:
        raise InputError(
            "population.source = 'jump' has no private records for a core adversary: set audit.adversaries = "
            "['population'], or others who train shadows"
        )
    if config.release.records is None:
        raise InputError("release.records is missing: set it to the public number of records")
