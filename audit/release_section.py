"""The section ``[release]`` of the configuration, and what all sections are made of."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

ADAPTERS = ("sklearn", "gpytorch", "gstools", "callable")
_NO_SCHEDULE = ("posterior", "noised", "predictive", "centred", "gaussian", *ADAPTERS)
_PARAMETERS = ("kernel", "length_scale", "ridge")  # which our own mechanisms need, and an adapter may read off a model

Number = Annotated[float, Strict()]
Whole = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]
Positive = Annotated[Number, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[Number, Field(gt=0, lt=1)]


class Section(BaseModel):
    """A section of the configuration: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class GridConfig(Section):
    """``points = {shape = [60, 60]}``: a regular grid over the domain."""

    shape: list[Annotated[Whole, Field(ge=1)]] = Field(min_length=1, description="points a side of the domain")


class ReleaseConfig(Section):
    """``[release]``: the mechanism and its public parameters, some of which an adapter reads off a deployed model."""

    mechanism: str = Field(
        description="posterior, noised, predictive, centred, thompson, gaussian, sklearn, gpytorch, gstools, callable "
        "or module:Class"
    )
    model: str | None = Field(
        default=None, description='what is deployed, "module:object" or a file that joblib wrote, for an adapter'
    )
    stated: Literal["posterior", "noised", "predictive", "centred"] | None = Field(
        default=None, description="posterior, noised, predictive or centred: what a model is stated to be"
    )
    draws: Literal["latent", "predictive"] | None = Field(
        default=None, description="latent or predictive: what a model releases"
    )
    public: list[Literal["hyperparameters", "noise"]] = Field(
        default=[], description="a list of hyperparameters, noise: what was chosen without the private data"
    )
    kernel: Literal["exponential", "matern32", "matern52", "rbf", "diagonal"] | None = Field(
        default=None, description="exponential, matern32, matern52, rbf or diagonal"
    )
    length_scale: Positive | None = Field(default=None, description="a positive number, in units of the covariates")
    ridge: Positive | None = Field(
        default=None, description="a positive number: the noise's standard deviation over the kernel's"
    )
    scale: Positive | None = Field(
        default=None, description="a positive number: the standard deviation of the prior, 1 if left out"
    )
    released: Path | None = Field(
        default=None, description="the path of a file of released values: CSV, npz or Parquet"
    )
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

    @model_validator(mode="before")
    @classmethod
    def _scale_is_one(cls, values: Any) -> Any:
        """Unless it is read off a model."""
        if isinstance(values, dict) and "scale" not in values and values.get("mechanism") not in ADAPTERS:
            return {**values, "scale": 1.0}
        return values

    @model_validator(mode="after")
    def _complete(self) -> "ReleaseConfig":
        if self.mechanism in ADAPTERS:
            if not self.model:
                raise ValueError(
                    f"release.model is missing: mechanism {self.mechanism!r} audits what is deployed; set it to "
                    "'module:object'"
                )
        else:
            missing = [key for key in _PARAMETERS if getattr(self, key) is None]
            if missing:
                remedy = type(self).model_fields[missing[0]].description
                more = f" (and {len(missing) - 1} more problem(s))" if missing[1:] else ""
                raise ValueError(f"release.{missing[0]} is missing: set it to {remedy}{more}")
            given = [key for key in ("model", "stated", "draws", "public") if getattr(self, key)]
            if given:
                raise ValueError(
                    f"release.{given[0]} is for mechanisms {', '.join(ADAPTERS)}, got {self.mechanism!r}: leave it out"
                )
        if self.released is not None and self.points is not None:
            raise ValueError("release.released brings its own points: leave release.points out")
        return self

    @model_validator(mode="after")
    def _regime_has_its_number(self) -> "ReleaseConfig":
        for regime, key in (("rkhs", "rkhs_norm"), ("separated", "separation")):
            given = getattr(self, key) is not None
            if self.regime == regime and not given:
                raise ValueError(f"release.regime = {regime!r} needs release.{key}")
            if given and self.regime != regime:
                raise ValueError(f"release.{key} is for regime {regime!r} only: leave it out")
        if self.schedule is not None and self.mechanism in _NO_SCHEDULE:
            raise ValueError(f"release.schedule is for mechanism 'thompson', got {self.mechanism!r}: leave it out")
        return self
