"""The typed configuration of a job, which `distsvc.job.file` reads.

The keys of ``[model]`` are the estimators' parameters, listed in `distsvc.job.parameters`. A key of
``[model]`` that the job file lacks is None here; its default is filled in when the job runs.
"""

import hashlib
import json
import os
import shlex
from typing import Annotated, Any, Generic, Literal, Self, TypeAlias, TypeVar, Union

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetPydanticSchema,
    PrivateAttr,
    create_model,
    field_serializer,
    model_validator,
)

from distsvc.errors import JobFileError
from distsvc.errors.forms import Form
from distsvc.errors.urls import checked_url, shown_urls
from distsvc.job.dates import parse_day
from distsvc.job.parameters import (
    CLUSTER_KEYS,
    LAST_SEED,
    MAX_COUNT,
    NU_OF_JOBS,
    PARAMETERS,
    PUBLISHED,
    Settings,
    check_together,
    of_job,
)


def _usable_path(path: str) -> str:
    """Check a path or URL, and return it.

    ValueError if it contains credentials or a NUL, or if a name in it is too long for a file.
    """
    if "\0" in path:
        raise ValueError(f"must be a path without zero bytes (NUL), found {path!r}")
    if "://" in path:
        try:
            checked_url(path)
        except JobFileError as error:
            raise ValueError(str(error)) from None
    else:
        longest = max(len(os.fsencode(part)) for part in path.split("/"))
        if longest > 255 or len(os.fsencode(path)) > 4095:
            raise ValueError(
                f"must be a path of at most 4095 bytes, each part of at most 255, found {path!r}"
            )
    return path


Section: TypeAlias = dict[str, Any]
"""The keys and values of one section of a job file."""

Sections: TypeAlias = dict[str, Any]
"""The sections of a job file by name, not yet validated."""


class _Section(Form, extra="forbid"):
    """Base of a job file's sections; unknown keys and values of a wrong type are errors."""


Text = Annotated[str, Field(min_length=1)]
PathOrUrl = Annotated[Text, AfterValidator(_usable_path)]


def _several(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


Several = Annotated[
    tuple[PathOrUrl, ...], Field(min_length=1, strict=False), BeforeValidator(_several)
]
"""A path or a list of paths."""


def _relative(name: str) -> str:
    """Return the name of a file below a folder, such as "_SUCCESS".

    ValueError for a URL, an absolute path, or a path with "..".
    """
    parts = name.split("/")
    if "://" in name or "\0" in name or {"", ".", ".."} & set(parts):
        raise ValueError(
            f"must be the name of a file below input.path, such as '_SUCCESS', found {name!r}"
        )
    return name


CLASSES_KEY = "input.classes"


class InputConfig(_Section):
    """``[input]``: the table to read, from one path or several."""

    path: Annotated[Several, Field(repr=False)]
    """A file, folder or glob, or a list of them; local, or a URL. `delta://` and `iceberg://`
    name tables of Delta Lake and Iceberg."""
    columns: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] | None = None
    """The features. Default: numeric columns; also boolean columns and text columns with few
    values if the algorithm takes categories."""
    exclude: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Columns that are not features. Default: none."""
    id: Text | None = None
    """A column that is copied to the output. Default: the row's number."""
    classes: Text | None = None
    """A column of known classes, used only to score the result. `label` is the old name of this
    key."""
    where: str | None = None
    """A condition on columns: the rows to use. Default: all."""
    ready: Annotated[Text, AfterValidator(_relative)] | None = None
    """A file below the path that exists once the input is complete. Default: wait for no file."""

    _classes_key: str = PrivateAttr(CLASSES_KEY)

    @property
    def classes_key(self) -> str:
        """The name of the key `classes` in the job file, which may be the old name."""
        return self._classes_key

    @property
    def shown(self) -> str:
        """The input in words for a message, such as "a.parquet and 2 more"."""
        return shown_urls(self.path)

    @field_serializer("path")
    def _written_path(self, path: tuple[str, ...]) -> str | list[str]:
        return path[0] if len(path) == 1 else list(path)


Command = Annotated[
    tuple[Text, ...],
    BeforeValidator(lambda value: shlex.split(value) if isinstance(value, str) else value),
    Field(strict=False, min_length=1, max_length=1000, exclude=True),
]
"""A command with arguments; it may contain secrets, so it is not published."""


def _day(text: str) -> str:
    try:
        parse_day(text)
    except ValueError:
        raise ValueError(f"must be a date such as 2026-11-20, found {text!r}") from None
    return text


Day = Annotated[str, AfterValidator(_day)]


class JobConfig(_Section):
    """``[job]``: the job's name, commands after a run, and the day of a run."""

    name: Text = "job"
    """The job's name in metrics and lineage events. Default: the name of its file."""
    on_published: Command = ()
    """A command that is called once a run has published a new result."""
    on_held: Command = ()
    """A command that is called once a check has held a result back."""
    on_failed: Command = ()
    """A command that is called once a run has ended with an error."""
    run_date: Day | None = None
    """The day that `{run_date}` stands for, as `2026-11-20`. Default: today."""


Finite = Annotated[float, Field(allow_inf_nan=False)]


class PreprocessConfig(_Section):
    """``[preprocess]``: scaling, missing values, logarithms and encodings.

    The scale "auto" means "standard" or "unit", depending on the table. See also `Job.missing`.
    """

    scale: Literal["standard", "minmax", "robust", "unit", "none", "auto"] | None = None
    """Scaling of the columns; `unit` divides each row by its length. The default is `standard`. The
    algorithms `auto` and `mixture` do not scale by default, but model each column."""
    missing: Literal["auto", "error", "drop", "median"] = "auto"
    """Policy for missing values. With `error`, the run fails. With `drop`, a row with a missing
    value gets no label. With `median`, the column's median replaces the value. Default: missing
    values stay missing if the algorithm takes them, and are an error otherwise."""
    missing_values: Annotated[tuple[Finite, ...], Field(strict=False)] = ()
    """Numbers that stand for a missing value."""
    log: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Columns whose logarithm is taken, sign(x) log(1 + |x|)."""
    encode: dict[Text, Literal["onehot", "frequency"]] = Field(default_factory=dict)
    """Columns that are categories, and how each is encoded."""


IGNORE = "ignore"
BINARY, CATEGORY = "binary", "category"
_SCALED = ("continuous", "rounded", "count", "share", "zero-inflated")


class ColumnKind(_Section):
    """The kind and the scale of one column, from its key in ``[columns]``."""

    kind: Literal[
        "continuous", "rounded", "count", "share", "zero-inflated", "ordinal", "binary",
        "category", "ignore",
    ]  # fmt: skip
    """Kind of the values; `ignore` leaves the column out."""
    scale: Literal["identity", "root", "log", "logit"] | None = None
    """The scale on which the values are modelled, such as `log`. Default: chosen from the values.
    The kinds `ordinal`, `binary` and `category` have no scale."""

    @model_validator(mode="after")
    def _scale_of_amounts(self) -> Self:
        if self.scale is not None and self.kind not in _SCALED:
            raise ValueError(
                f"expected no scale for kind = {self.kind!r}, found {self.scale!r}; only the kinds "
                f"{', '.join(_SCALED)} have a scale"
            )
        return self


Kinds = dict[
    Text,
    Annotated[
        ColumnKind, BeforeValidator(lambda kind: {"kind": kind} if isinstance(kind, str) else kind)
    ],
]

Rows = Annotated[int, Field(ge=1, le=MAX_COUNT)]


class ModelConfig(_Section):
    """``[model]``: the algorithm that finds the clusters, its seed and its parameters."""

    algorithm: str
    """The algorithm, which determines the other keys."""
    mode: Literal["refit", "assign", "auto"] = "refit"
    """Learn a new model, label with the previous run's model, or decide by drift."""
    seed: Annotated[int, Field(ge=0, le=LAST_SEED)] = 0
    """The seed of every random choice."""
    max_clusters: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None
    """The maximum number of clusters; the smallest are merged into the nearest clusters."""
    min_cluster_rows: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None
    """The approximate minimum number of rows in a cluster. A smaller cluster is merged into the
    cluster nearest to it."""

    def parameters(self) -> Section:
        """Return the keyword arguments with which the job creates its estimator.

        The key `seed` becomes the argument `random_state`.
        """
        given = self.model_dump(exclude=self._own_keys(), exclude_none=True)
        settings = given.pop("settings", None)
        takes_seed = "random_state" in PARAMETERS[self.algorithm]
        seed = {"random_state": self.seed} if takes_seed else {}
        return of_job(self.algorithm, given, settings) | seed

    def _own_keys(self) -> set[str]:
        """Return the keys of `ModelConfig` that are not parameters of the estimator."""
        return ModelConfig.model_fields.keys() - PARAMETERS[self.algorithm].keys()

    @property
    def most_clusters(self) -> int | None:
        """The number of clusters down to which the job merges clusters, or None.

        It is None, too, if `max_clusters` is a parameter of the estimator, which then merges.
        """
        return self.max_clusters if "max_clusters" in self._own_keys() else None

    @model_validator(mode="after")
    def _parameters_that_do_not_go_together(self) -> Self:
        check_together(self.algorithm, dict(self) | self.parameters())
        joins = {"max_clusters": self.max_clusters, "min_cluster_rows": self.min_cluster_rows}
        key = next((name for name, value in joins.items() if value is not None), None)
        if key is not None and self.algorithm in NU_OF_JOBS:
            raise ValueError(
                f"algorithm = {self.algorithm!r} finds only outliers, no clusters: remove {key}"
            )
        if self.most_clusters is not None and getattr(self, "n_clusters", None) is not None:
            raise ValueError("n_clusters and max_clusters are both given: expected one of them")
        return self


def _model_section(algorithm: str) -> type[ModelConfig]:
    types = {name: one.job_type for name, one in PARAMETERS[algorithm].items()}
    keys: Section = {name: (of | None, None) for name, of in types.items() if of}
    if algorithm in CLUSTER_KEYS:
        keys["n_clusters"] = keys[CLUSTER_KEYS[algorithm]]
    if algorithm in PUBLISHED:
        keys["settings"] = (Settings | None, None)
    keys["algorithm"] = (Literal[algorithm], algorithm)
    return create_model(f"ModelConfig[{algorithm}]", __base__=ModelConfig, **keys)


MODEL_SECTIONS = {algorithm: _model_section(algorithm) for algorithm in PARAMETERS}
"""The ``[model]`` section of every algorithm."""

DEFAULT_MODEL = MODEL_SECTIONS["auto"].model_validate({})

MIXED = ("auto", "mixture")
"""Algorithms that take categories and missing values."""


def _with_algorithm(model: object) -> object:
    """Return a ``[model]`` section whose algorithm is chosen by its keys if missing or "auto"."""
    # Keys that the default algorithm lacks mean support vector clustering.
    default = DEFAULT_MODEL.algorithm
    if not isinstance(model, dict) or model.get("algorithm", default) != default:
        return model
    given = {name: value for name, value in model.items() if (name, value) != ("gamma", "auto")}
    if given.keys() - type(DEFAULT_MODEL).model_fields.keys():
        return model | {"algorithm": "support-vector"}
    return given | {"algorithm": default}


_ANY_MODEL = GetPydanticSchema(
    lambda _, schema: schema(
        Annotated[
            Union[tuple(MODEL_SECTIONS.values())],  # noqa: UP007
            Field(discriminator="algorithm"),
            BeforeValidator(_with_algorithm),
        ]
    )
)
"""The ``[model]`` section of any algorithm."""


class ContinuityConfig(_Section):
    """``[continuity]``: the previous run, whose cluster ids continue, and the reference for drift.

    The previous run is the first entry of `previous` with a published run. In a job file, a text
    with a range of dates becomes an entry for each day.
    """

    previous: Annotated[tuple[PathOrUrl, ...], Field(strict=False), BeforeValidator(_several)] = ()
    """Folders of earlier runs, such as `out/{run_date-1d}`. The new run continues the cluster ids
    of the first folder with a published run."""
    min_overlap: Annotated[float, Field(gt=0.0, le=1.0)] = 0.3
    """The minimum overlap of an old and a new cluster for the new one to get the old id. It is the
    Jaccard index of their rows. `match` is the old name of this key."""
    memory: Annotated[int, Field(ge=0, le=366)] = 7
    """Maximum number of nights that a cluster may be absent and still get its id back."""
    prefer_previous: bool = True
    """Keep the clusters of the previous run, unless others are clearly better."""
    reference: PathOrUrl | None = None
    """A published run. Every night's report shows how far the columns have drifted since the table
    of this run."""


def _limit(value: object) -> Section:
    """Return a check as a dict, such as {"limit": 0.3} for ``max_drift = 0.3``.

    A check that is false in the job file is disabled: its limit becomes None.
    """
    given = value if isinstance(value, dict) else {"limit": value}
    return given | {"limit": None} if given.get("limit") is False else given


def _never(value: object) -> Section:
    """Return a boolean check as a dict: the limit is 0 for true, and None for false."""
    given = _limit(value)
    return given | {"limit": 0.0} if given.get("limit") is True else given


Amount = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


def _two(limits: Any) -> Any:
    if not isinstance(limits, (list, tuple)) or len(limits) != 2:
        raise ValueError(f"must be [minimum, maximum], found {limits!r}")
    return limits


def _rising(limits: tuple[float, ...]) -> tuple[float, ...]:
    if limits[0] > limits[1]:
        raise ValueError(f"must be [minimum, maximum], found {list(limits)}")
    return limits


_TWO = Field(strict=False)
Counts = Annotated[tuple[Count, ...], _TWO, BeforeValidator(_two), AfterValidator(_rising)]
Amounts = Annotated[tuple[Amount, ...], _TWO, BeforeValidator(_two), AfterValidator(_rising)]


Bound = TypeVar("Bound")


class CheckConfig(_Section, Generic[Bound]):
    """A check of ``[checks]``: the limits of one number about a result.

    Beyond `limit`, the result is held back, or published with a warning if `level` is "warn".
    Beyond `warn`, it is published with a warning. If `limit` is None, the check is disabled.
    """

    level: Literal["error", "warn"] = "error"
    limit: Bound | None
    warn: Bound | None = None

    @model_validator(mode="after")
    def _one_that_warns(self) -> Self:
        if self.warn is not None and self.level == "warn":
            raise ValueError("level = 'warn' and warn are both given: expected one of them")
        return self


class NightsCheck(CheckConfig[Amounts]):
    """A check of a number relative to the median of this number in the last `nights` runs."""

    nights: Annotated[int, Field(ge=1, le=365)] = 1


Limit = Annotated[CheckConfig[Amount], BeforeValidator(_limit)]
ShareLimit = Annotated[CheckConfig[Share], BeforeValidator(_limit)]
Range = Annotated[CheckConfig[Counts], BeforeValidator(_limit)]
Nights = Annotated[NightsCheck, BeforeValidator(_limit)]
Never = Annotated[CheckConfig[Amount], BeforeValidator(_never)]
"""Boolean check: the count must be 0."""


class ChecksConfig(_Section):
    """``[checks]``: conditions for publishing a result.

    `GUARDS` are the defaults of a job that names a previous run.
    """

    same_units: Never | None = None
    """Whether to hold back a result if a column's unit seems to have changed. All its values are
    then about the same multiple of the previous run's values."""
    min_rows: Limit | None = None
    """The least number of rows with a label."""
    max_rows: Limit | None = None
    """The largest number of rows with a label."""
    rows_against_last: Nights | None = None
    """The minimum and maximum number of rows, relative to the median of earlier runs."""
    max_null_share: ShareLimit | None = None
    """The largest share of a column's values that is missing."""
    max_outlier_share: ShareLimit | None = None
    """The largest share of the rows outside every cluster."""
    clusters: Range | None = None
    """The least and the largest number of clusters."""
    min_cluster_rows: Limit | None = None
    """The least number of rows of any cluster."""
    max_rows_moved: ShareLimit | None = None
    """The largest share of the rows to which the previous model gives another cluster than the
    new model."""
    max_ids_moved: ShareLimit | None = None
    """The largest share of the rows in both runs (by `id`) that changed their cluster."""
    max_new_share: ShareLimit | None = None
    """The largest share of the clusters with new ids."""
    max_gone_share: ShareLimit | None = None
    """The largest share of the previous run's clusters that have ended."""
    max_drift: Limit | None = None
    """The largest population stability index of any column against the previous run."""
    max_reference_drift: Limit | None = None
    """The largest population stability index of any column against the table of
    `continuity.reference`."""
    same_columns: Never | None = None
    """Whether a result with columns that the previous run did not have is held back."""
    min_agreement: ShareLimit | None = None
    """The least chance that another sample of the table gives the same answer."""
    unique_id: Never | None = None
    """Whether to hold back a result if rows share an id or lack one."""

    @model_validator(mode="after")
    def _warns_before_it_holds_back(self) -> Self:
        for name in type(self).model_fields:
            given = getattr(self, name)
            first, last = (given.warn, given.limit) if given else (None, None)
            if not (isinstance(first, float) and isinstance(last, float)):
                continue
            if first < last if name.startswith("min_") else first > last:
                raise ValueError(
                    f"{name}: expected warn to be reached before limit, found warn = {first:g} "
                    f"and limit = {last:g}"
                )
        return self

    @property
    def given(self) -> dict[str, CheckConfig[Any]]:
        """The checks in the job file, including disabled checks."""
        every = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: check for name, check in every.items() if check is not None}


GUARDS = ChecksConfig.model_validate(
    dict.fromkeys(("max_outlier_share", "max_rows_moved", "max_ids_moved"), 0.5)
    | {"max_drift": 5.0, "same_units": True}
    | {"rows_against_last": {"limit": (0.5, 2.0), "level": "warn"}}
)
"""Default checks of a job that names a previous run.

A population stability index of 5 means that old and new values hardly overlap: the column has
another unit, or a single value.
"""


class ClusterConfig(_Section):
    """``[cluster]``: workers, and sizes of tasks and blocks. Labels never depend on these keys."""

    workers: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Worker processes on this machine; 0 uses this process. Default: one per core, or 0 for
    tables below 64 MiB."""
    threads: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Threads of each worker."""
    partition_rows: Rows = 1_000_000
    """Rows of a task and of an output file; fewer if the table has many columns."""
    block_rows: Rows | None = None
    """Rows in memory at a time. Default: chosen from the number of columns."""
    workdir: PathOrUrl | None = None
    """A folder or bucket for a run's intermediate files. Default: in the output."""


class OutputConfig(_Section):
    """``[output]``: path and format of the published run, and its optional columns."""

    path: PathOrUrl
    """The folder, or `s3://bucket/prefix`, where the run is published."""
    format: Literal["parquet", "zarr"] = "parquet"
    """The format of the labels."""
    reasons: Annotated[int, Field(ge=0, le=20)] = 0
    """Number of columns to name for each outlier."""
    membership: bool = False
    """Whether to publish each row's share of its cluster (0 to 1)."""
    top: Annotated[int, Field(ge=0, le=20)] = 0
    """Number of other clusters to list for each row, with their shares."""
    missing: bool = False
    """Whether to count the missing values of each row."""

    @property
    def shares(self) -> bool:
        """Whether each row's share of its cluster is published; `top` implies it."""
        return self.membership or self.top > 0

    def optional(self) -> Section:
        """Return the keys for optional columns of the labels, such as {"reasons": 3, ...}.

        A model stores them, so that it can compute the same columns later.
        """
        return self.model_dump(include=OPTIONAL_KEYS) | {"membership": self.shares}


OPTIONAL_KEYS = OutputConfig.model_fields.keys() - {"path", "format"}
"""The keys of ``[output]`` for optional columns."""


def _cluster_id(key: str) -> str:
    if not key.isdecimal() or key != str(int(key)) or int(key) >= 2**31:
        raise ValueError(f"must be the id of a cluster, such as '3', found {key!r}")
    return key


ClusterNames = dict[
    Annotated[str, AfterValidator(_cluster_id)],
    Annotated[str, Field(min_length=1, max_length=60)],
]
"""``[names]``: names of clusters by their ids."""


UNDECIDING: Any = {
    "job": True,
    "names": True,
    "input": {"ready"},
    "checks": True,
    "cluster": True,
    "output": {"path"},
    "continuity": {"previous", "reference"},
}
"""Keys that a job's digest excludes: the previous run, and keys that do not affect labels."""


class Job(_Section):
    """The validated content of a job file."""

    input: InputConfig
    output: OutputConfig
    job: JobConfig = JobConfig()
    preprocess: PreprocessConfig = PreprocessConfig()
    columns: Kinds = Field(default_factory=dict)
    model: Annotated[ModelConfig, _ANY_MODEL] = DEFAULT_MODEL
    continuity: ContinuityConfig = ContinuityConfig()
    names: ClusterNames = Field(default_factory=dict)
    checks: ChecksConfig = ChecksConfig()
    cluster: ClusterConfig = ClusterConfig()

    _as_written: dict[tuple[str, str], object] = PrivateAttr(default_factory=dict)

    @property
    def as_written(self) -> dict[tuple[str, str], object]:
        """The values that contain ``{run_date}`` in the job file, by section and key.

        They are the original values, such as "out/{run_date}"; the job itself has the dates.
        """
        return self._as_written

    @property
    def is_mixed(self) -> bool:
        """Whether the algorithm models each column, and takes categories and missing values."""
        return self.model.algorithm in MIXED and self.preprocess.scale is None

    @property
    def missing(self) -> str:
        """The policy for missing values; "auto" becomes "error" unless `is_mixed`."""
        given = self.preprocess.missing
        return "error" if given == "auto" and not self.is_mixed else given

    @model_validator(mode="after")
    def _sections_that_do_not_go_together(self) -> Self:
        algorithm, classes = self.model.algorithm, self.input.classes
        if classes is not None and classes in (self.input.columns or ()):
            raise ValueError(
                f"input.columns names {classes!r}, which is input.classes and only scores clusters"
            )
        self._check_columns()
        scale = self.preprocess.scale or "standard"
        if algorithm == "linear-one-class" and scale in ("standard", "robust", "auto"):
            default = " (the default)" if self.preprocess.scale is None else ""
            may = "may centre" if scale == "auto" else "centres"
            raise ValueError(
                f"preprocess.scale = {scale!r}{default} {may} the columns, expected scale = 'none' "
                "or 'minmax', since a linear one-class SVM separates rows from the origin; or give "
                "algorithm = 'linear-svdd', which does not depend on the origin"
            )
        ids = self.checks.unique_id
        if ids is not None and ids.limit is not None and self.input.id is None:
            raise ValueError("checks.unique_id needs input.id, the column whose values it compares")
        drift = self.checks.max_reference_drift
        if drift is not None and drift.limit is not None and self.continuity.reference is None:
            raise ValueError(
                "checks.max_reference_drift needs continuity.reference, the run that it compares "
                "with"
            )
        if self.model.mode != "refit" and not self.continuity.previous:
            raise ValueError(
                f"model.mode = {self.model.mode!r} needs continuity.previous, the run whose model "
                "labels the rows"
            )
        return self

    def _check_columns(self) -> None:
        """Raise ValueError if keys contradict each other about a column."""
        given, kinds, encode = self.input, self.columns, self.preprocess.encode
        ignored = dict.fromkeys(given.exclude, "input.exclude")
        ignored |= {name: f"columns.{name}" for name, of in kinds.items() if of.kind == IGNORE}
        if given.columns is not None and set(given.columns) <= ignored.keys():
            key = ignored[given.columns[0]]
            raise ValueError(f"input.columns names only columns that {key} leaves out")
        used = dict.fromkeys(self.preprocess.log, "preprocess.log")
        both = [name for name in encode if name in used]
        if both:
            raise ValueError(f"preprocess.encode and preprocess.log both name {both[0]!r}")
        features = dict.fromkeys(encode, "preprocess.encode")
        features |= {name: f"columns.{name}" for name, of in kinds.items() if of.kind != IGNORE}
        apart = {given.classes: "input.classes", given.id: "input.id"}
        for name, key in (used | features).items():
            if name in ignored:
                raise ValueError(f"{ignored[name]} leaves out {name!r}, which {key} uses")
        for name, key in features.items():
            if name in apart:
                raise ValueError(
                    f"{key} names {name!r}, which {apart[name]} leaves out of the features"
                )
            if given.columns is not None and name not in given.columns:
                raise ValueError(f"{key} names {name!r}, which is not among input.columns")

    def digest(self) -> str:
        """Return a SHA-256 digest of the keys that decide the labels, in hexadecimal digits.

        These are all keys except `UNDECIDING`.
        """
        content = self.model_dump(mode="json", exclude=UNDECIDING)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


RENAMED = {("input", "label"): "classes", ("continuity", "match"): "min_overlap"}
"""Present names of keys, by section and old name."""


def with_key(job: Job, section: str, key: str, value: object) -> Job:
    """Return a copy of a job with another value of a key, without validation."""
    part = getattr(job, section).model_copy(update={key: value})
    return job.model_copy(update={section: part})
