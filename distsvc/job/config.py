"""The job's typed configuration; `distsvc.job.file` reads it.

Every default of a job lives here, but for the parameters of an algorithm: those have one home, the
signature of its estimator, where users of scikit-learn look for them. A ``[model]`` key that is
not given is ``None`` here, which means the estimator's own default, but for the few of `of_job`.
Which keys there are, and what they may be, is read from the table of `distsvc.job.parameters`.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    create_model,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import (
    CoreSchema,
    no_info_before_validator_function,
    tagged_union_schema,
)

from distsvc.errors.forms import Form
from distsvc.errors.urls import shown_url, shown_urls, without_user
from distsvc.job.constraints import LAST_SEED, MOST
from distsvc.job.parameters import PARAMETERS, check_together, of_job


def _usable_path(path: str) -> str:
    """Return a path or URL that a file system can take; ValueError for any other."""
    if "\0" in path:
        raise ValueError(f"must be a path without NUL, found {path!r}")
    if "://" not in path:
        longest = max(len(os.fsencode(part)) for part in path.split("/"))
        if longest > 255 or len(os.fsencode(path)) > 4095:
            raise ValueError(
                f"must be a path of at most 4095 bytes, each part of at most 255, found {path!r}"
            )
    return path


class _Section(Form, extra="forbid"):
    """Numbers are numbers: no text, and true and false are none."""


Text = Annotated[str, Field(min_length=1)]
PathOrUrl = Annotated[Text, AfterValidator(_usable_path)]


def _several(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


def _one_or_all(paths: tuple[str, ...]) -> str | tuple[str, ...]:
    return paths[0] if len(paths) == 1 else paths


Several = Annotated[
    tuple[PathOrUrl, ...], Field(min_length=1, strict=False), BeforeValidator(_several)
]
OneOrSeveral = GetPydanticSchema(
    lambda _, schema: schema(Annotated[Several, AfterValidator(_one_or_all)])
)
"""A text that may be a list of texts; a list of one is that one."""


def _relative(name: str) -> str:
    """Return the name of a file below a folder; ValueError for any other text."""
    parts = name.split("/")
    if "://" in name or "\0" in name or {"", ".", ".."} & set(parts):
        raise ValueError(
            f"must be the name of a file below the path, such as '_SUCCESS', found {name!r}"
        )
    return name


class InputConfig(_Section):
    """``[input]``: the table to read, from one path or several."""

    path: Annotated[str | tuple[str, ...], OneOrSeveral, Field(repr=False)]
    columns: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] | None = None
    id: Text | None = None
    label: Text | None = None
    where: str | None = None
    ready: Annotated[Text, AfterValidator(_relative)] | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The path, or all of them in their order."""
        return (self.path,) if isinstance(self.path, str) else self.path

    @property
    def shown(self) -> str:
        """The path as messages show it; of several the first one."""
        return shown_urls(self.paths)

    @field_serializer("path")
    def _shown_path(self, path: str | tuple[str, ...]) -> str | list[str]:
        # What is written of a job holds no secrets.
        return shown_url(path) if isinstance(path, str) else [shown_url(one) for one in path]


class JobConfig(_Section):
    """``[job]``: what the job is called by those who watch it, and the day that a run is for."""

    name: Text = "job"
    run_date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")] | None = None


Finite = Annotated[float, Field(allow_inf_nan=False)]


class PreprocessConfig(_Section):
    """``[preprocess]``: what happens to a value before a learner sees it.

    The numbers `missing_values` are missing values, of which `missing` says what becomes of them.
    """

    scale: Literal["standard", "minmax", "robust", "unit", "none"] = "standard"
    missing: Literal["error", "drop", "median"] = "error"
    missing_values: Annotated[tuple[Finite, ...], Field(strict=False)] = ()
    log: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    encode: dict[Text, Literal["onehot", "frequency"]] = Field(default_factory=dict)


Rows = Annotated[int, Field(ge=1, le=MOST)]


class ModelConfig(_Section):
    """``[model]``: an algorithm of `distsvc.job.parameters`, its seed and its parameters."""

    algorithm: str
    mode: Literal["refit", "assign", "auto"] = "refit"
    seed: Annotated[int, Field(ge=0, le=LAST_SEED)] = 0

    def parameters(self) -> Section:
        """Return the estimator's parameters that the job has, and the seed where it takes one."""
        given = self.model_dump(exclude={"algorithm", "mode", "seed"}, exclude_none=True)
        takes_seed = "random_state" in PARAMETERS[self.algorithm]
        return of_job(self.algorithm, given) | ({"random_state": self.seed} if takes_seed else {})

    @model_validator(mode="after")
    def _parameters_that_do_not_go_together(self) -> ModelConfig:
        check_together(self.algorithm, dict(self))
        return self


def _model_section(algorithm: str) -> type[ModelConfig]:
    """Make the ``[model]`` section of an algorithm: every key may be left out."""
    types = {name: one.job_type for name, one in PARAMETERS[algorithm].items()}
    keys: Section = {name: (of | None, None) for name, of in types.items() if of}
    keys["algorithm"] = (Literal[algorithm], algorithm)
    return create_model(f"ModelConfig[{algorithm}]", __base__=ModelConfig, **keys)


Section: TypeAlias = dict[str, Any]
"""The keys of a section, of any type."""

Sections: TypeAlias = dict[str, Any]
"""A job as its file or its caller gives it: sections by name, which are not checked yet."""

MODELS = {algorithm: _model_section(algorithm) for algorithm in PARAMETERS}
"""The ``[model]`` section of every algorithm."""

DEFAULT_MODEL = MODELS["auto"].model_validate({})


def _algorithm(model: Any) -> Any:
    """Return the algorithm of a ``[model]`` section, given as a dictionary or validated."""
    if isinstance(model, dict):
        return model.get("algorithm", DEFAULT_MODEL.algorithm)
    return getattr(model, "algorithm", DEFAULT_MODEL.algorithm)


def _meant(model: Any) -> Any:
    """Return a ``[model]`` section with the algorithm that its keys are of.

    Where it is "auto" or not named, a key that this does not have names support vector clustering.
    """
    if not isinstance(model, dict) or _algorithm(model) != DEFAULT_MODEL.algorithm:
        return model
    by_default = {"gamma": "auto"}
    given = {name: v for name, v in model.items() if by_default.get(name) != v}
    others = given.keys() - MODELS[DEFAULT_MODEL.algorithm].model_fields.keys()
    return model | {"algorithm": "support-vector"} if others else given


def _any_model(_: Any, schema: GetCoreSchemaHandler) -> CoreSchema:
    """Return the schema of ``[model]``: that of the algorithm which it names."""
    choices = {algorithm: schema(section) for algorithm, section in MODELS.items()}
    return no_info_before_validator_function(_meant, tagged_union_schema(choices, _algorithm))


class ContinuityConfig(_Section):
    """``[continuity]``: the run whose cluster ids go on; the first of `previous` that is published.

    In a job file it is one text; the days that it may stand for are filled in.
    """

    previous: Annotated[tuple[PathOrUrl, ...], Field(strict=False), BeforeValidator(_several)] = ()
    match: Annotated[float, Field(gt=0.0, le=1.0)] = 0.3


def _limit(value: Any) -> Any:
    return value if isinstance(value, dict) else {"limit": value}


class _Check(_Section):
    level: Literal["error", "warn"] = "error"


class LimitCheck(_Check):
    """A limit, and whether passing it holds a run back or is a warning."""

    limit: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class RangeCheck(_Check):
    """A least and a most number."""

    limit: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=2, max_length=2)
    ]

    @field_validator("limit")
    @classmethod
    def _rises(cls, limit: tuple[int, ...]) -> tuple[int, ...]:
        if limit[0] > limit[1]:
            raise ValueError(f"must be the least and the most number, found {list(limit)}")
        return limit


def _none(value: Any) -> Any:
    """Return a limit of 0 for true, as such or with a level, and nothing for false."""
    given = _limit(value)
    limit = given.get("limit")
    if value is None or limit is False:
        return None
    return given | {"limit": 0.0} if limit is True else given


Limit = Annotated[LimitCheck, BeforeValidator(_limit)]
Range = Annotated[RangeCheck, BeforeValidator(_limit)]
Never = Annotated[LimitCheck | None, BeforeValidator(_none)]
"""A check that true asks for: what it counts must not come up."""


class ChecksConfig(_Section):
    """``[checks]``: what a result has to be before it is published."""

    min_rows: Limit | None = None
    max_outlier_share: Limit | None = None
    clusters: Range | None = None
    max_rows_moved: Limit | None = None
    max_drift: Limit | None = None
    min_agreement: Limit | None = None
    unique_id: Never = None


class ClusterConfig(_Section):
    """``[cluster]``: where the work is done and how it is cut; labels never depend on it."""

    workers: Annotated[int, Field(ge=0, le=10_000)] | None = None
    threads: Annotated[int, Field(ge=1, le=1_000)] = 1
    partition_rows: Rows = 1_000_000
    block_rows: Rows | None = None
    workdir: PathOrUrl | None = None


class OutputConfig(_Section):
    """``[output]``: where the run is published, how, and which more columns are asked for."""

    path: PathOrUrl
    format: str = "parquet"
    reasons: Annotated[int, Field(ge=0, le=20)] = 0
    membership: bool = False
    top: Annotated[int, Field(ge=0, le=20)] = 0

    @property
    def shares(self) -> bool:
        """Whether shares of clusters are published; with those of the next comes a row's own."""
        return self.membership or self.top > 0

    def asked(self) -> Section:
        """Return the keys that ask for more columns, as a model keeps them."""
        return self.model_dump(include=ASKING) | {"membership": self.shares}


ASKING = OutputConfig.model_fields.keys() - {"path", "format"}
"""The keys of ``[output]`` that ask for more columns."""


UNDECIDING: Any = {
    "job": True,
    "input": {"ready"},
    "checks": True,
    "cluster": True,
    "output": {"path"},
    "continuity": {"previous"},
}
"""Keys that do not affect labels. (The previous run enters through its model's digest.)"""


class Job(_Section):
    """A whole job file."""

    input: InputConfig
    output: OutputConfig
    job: JobConfig = JobConfig()
    preprocess: PreprocessConfig = PreprocessConfig()
    model: Annotated[ModelConfig, GetPydanticSchema(_any_model)] = DEFAULT_MODEL
    continuity: ContinuityConfig = ContinuityConfig()
    checks: ChecksConfig = ChecksConfig()
    cluster: ClusterConfig = ClusterConfig()

    @model_validator(mode="after")
    def _sections_that_do_not_go_together(self) -> Job:
        algorithm, label = self.model.algorithm, self.input.label
        if label is not None and label in (self.input.columns or ()):
            raise ValueError(
                f"input.columns names {label!r}, the input.label: a label only scores clusters"
            )
        self._check_categories()
        scale = self.preprocess.scale
        if algorithm == "linear-one-class" and scale in ("standard", "robust"):
            default = " (the default)" if scale == "standard" else ""
            raise ValueError(
                f"preprocess.scale = {scale!r}{default} centres the columns, and a linear "
                "one-class SVM separates rows from the origin: give scale = 'none' or 'minmax', or "
                "algorithm = 'linear-svdd', which does not depend on the origin"
            )
        if self.checks.unique_id is not None and self.input.id is None:
            raise ValueError("checks.unique_id needs input.id, the column whose values it compares")
        if self.model.mode != "refit" and not self.continuity.previous:
            raise ValueError(
                f"model.mode = {self.model.mode!r} needs continuity.previous, the run whose model "
                "labels the rows"
            )
        return self

    def _check_categories(self) -> None:
        columns, log = self.input.columns, self.preprocess.log
        apart = {self.input.label: "input.label", self.input.id: "input.id"}
        for name in self.preprocess.encode:
            if name in apart:
                raise ValueError(f"preprocess.encode names {name!r}, the {apart[name]}")
            if name in log:
                raise ValueError(f"preprocess.encode and preprocess.log both name {name!r}")
            if columns is not None and name not in columns:
                raise ValueError(
                    f"preprocess.encode names {name!r}, which is not among input.columns"
                )

    def digest(self) -> str:
        """Return a SHA-256 of what decides the result, but for the table and the previous run.

        The input's password is not in it, since it is published and could be guessed from it.
        """
        content = self.model_dump(mode="json", exclude=UNDECIDING)
        bare = [without_user(path) for path in self.input.paths]
        content["input"]["path"] = bare[0] if len(bare) == 1 else bare
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def with_key(job: Job, section: str, key: str, value: Any) -> Job:
    """Return a job with another value, which is not checked, of a key of a section."""
    part = getattr(job, section).model_copy(update={key: value})
    return job.model_copy(update={section: part})
