"""Every field of the job file, and the sentence for each wrong value."""

import datetime
import re

import pytest

from distsvc.errors import JobFileError
from distsvc.job.config import MODEL_SECTIONS, ChecksConfig, Job
from distsvc.job.file import parse_job
from distsvc.job.parameters import CLUSTER_KEYS, PARAMETERS, PUBLISHED
from tests.full_job import FULL, job

MODELS = {
    "linear-svdd": {
        "nu": 0.1,
        "solver": "cyclic-2cd",
        "tol": 0.001,
        "max_iter": 10,
        "compute_gap": True,
        "memory_rows": 2000,
    },
    "imdh": {
        "depth": 6,
        "n_clusters": 9,
        "alpha": 0.1,
        "penalty": 5.0,
        "bandwidth": 2.0,
        "clip": 3.0,
        "passes": 4,
        "max_effective_samples": 1000,
        "n_init": 3,
        "growth": "forward",
        "elbow": "angle",
        "valley": 0.0,
        "max_samples": 100,
    },
    "bico": {"n_clusters": 9, "size": 50, "n_init": 3},
    "spdc": {"window": 50, "valley": 0.0, "bandwidth": 0.5, "amnesia": 0.0, "max_clusters": 1},
    "depddp": {"n_clusters": 9, "bandwidth": 0.5, "trim": 0.5, "min_samples": 1, "grid_size": 16},
    "fuzzy-c-means": {"n_clusters": 9, "m": 1.01, "tol": 0.0, "max_iter": 10, "n_init": 1},
    "kmeans": {"n_clusters": 9, "init": "random", "n_init": 1, "max_iter": 1, "tol": 0.0},
}


def refused(message: str, **sections) -> None:
    with pytest.raises(JobFileError, match=re.escape(message) + "$"):
        job(**sections)


def test_every_field_is_taken_as_given():
    models = [{"algorithm": name, "seed": 7} | given for name, given in MODELS.items()]
    for model in (FULL["model"], *models):
        content = FULL | {"model": {"mode": "refit"} | model}
        assert parse_job(content).model_dump(mode="json", exclude_none=True) == content


def test_defaults():
    given = job()
    assert given.preprocess.scale is None
    assert given.preprocess.missing == "auto"
    assert given.model.algorithm == "auto"
    assert given.model.parameters() == {"random_state": 0}
    assert (given.cluster.workers, given.cluster.threads) == (None, 1)
    assert given.output.format == "parquet"
    assert (given.job.name, given.model.mode) == ("job", "refit")
    assert (given.continuity.previous, given.continuity.min_overlap) == ((), 0.3)
    assert given.checks.model_dump(exclude_none=True) == {}


def test_a_check_is_a_limit_or_a_limit_and_a_level():
    checks = {"max_drift": 0.1, "clusters": [2, 9], "min_rows": {"limit": 5, "level": "warn"}}
    found = job(checks=checks).checks
    assert (found.max_drift.limit, found.max_drift.level) == (0.1, "error")
    assert (found.clusters.limit, found.clusters.level) == ((2, 9), "error")
    assert (found.min_rows.limit, found.min_rows.level) == (5.0, "warn")


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ({"max_drift": {"limit": 0.2, "warn": 0.3}},
         "max_drift: expected warn to be reached before limit, found warn = 0.3 and limit = 0.2"),
        ({"min_rows": {"limit": 20, "warn": 10}},
         "min_rows: expected warn to be reached before limit, found warn = 10 and limit = 20"),
        ({"max_drift": {"limit": 0.2, "warn": 0.1, "level": "warn"}},
         "level = 'warn' and warn are both given: expected one of them"),
        ({"max_outlier_share": 20}, "checks.max_outlier_share must be at most 1, found 20"),
        ({"min_agreement": {"limit": 30}}, "checks.min_agreement must be at most 1, found 30"),
    ],
)  # fmt: skip
def test_limits_that_can_not_hold(checks, message):
    with pytest.raises(JobFileError) as caught:
        job(checks=checks)
    assert message in str(caught.value)


PREVIOUS = "needs continuity.previous, the run whose model labels the rows"


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"checks": {"unique_id": True}},
         "checks.unique_id needs input.id, the column whose values it compares"),
        ({"checks": {"max_reference_drift": 1.0}},
         "checks.max_reference_drift needs continuity.reference, the run that it compares with"),
        ({"model": {"mode": "assign"}}, f"model.mode = 'assign' {PREVIOUS}"),
        ({"model": {"mode": "auto"}}, f"model.mode = 'auto' {PREVIOUS}"),
    ],
)  # fmt: skip
def test_a_key_that_needs_another(sections, message):
    refused(f"job: {message}", **sections)


@pytest.mark.parametrize("algorithm", PARAMETERS)
def test_model_fields_are_those_of_the_table_that_a_job_may_give(algorithm):
    types = {name: one.job_type for name, one in PARAMETERS[algorithm].items()}
    fields = {name for name, of in types.items() if of is not None}
    settings = {"settings"} if algorithm in PUBLISHED else set()
    names = {"n_clusters"} if algorithm in CLUSTER_KEYS else set()
    joins = {"max_clusters", "min_cluster_rows"}
    known = fields | settings | names | joins | {"algorithm", "mode", "seed"}
    assert set(MODEL_SECTIONS[algorithm].model_fields) == known


@pytest.mark.parametrize("algorithm", PUBLISHED)
def test_settings_of_the_paper(algorithm):
    more = {"gamma": 2.0, "C": 8.0} if algorithm == "support-vector" else {"tol": 1e-3}
    more = {"depth": 5} if algorithm == "imdh" else more
    plain = {"algorithm": algorithm, "settings": "default"} | more
    scale = {"scale": "none"}  # a one-class SVM does not take centred columns
    given = job(model=plain | {"settings": "published"}, preprocess=scale).model.parameters()
    assert given.pop("random_state") == 0
    given.pop("nu", None)  # a job's own default
    assert given == PUBLISHED[algorithm] | more
    keys = job(model=plain, preprocess=scale).model.parameters().keys()
    assert keys <= {"random_state", "nu"} | more.keys()


def test_model_values_reach_the_estimator():
    given = job(model=FULL["model"], continuity=FULL["continuity"])
    assert given.model.parameters() == {
        **{k: v for k, v in FULL["model"].items() if k not in ("algorithm", "mode", "seed")},
        "random_state": 7,
    }
    imdh = job(model={"algorithm": "imdh", "seed": 7} | MODELS["imdh"]).model.parameters()
    assert imdh == MODELS["imdh"] | {"random_state": 7}
    with_c = job(model={"C": 3, "gamma": "auto"}).model.parameters()
    assert with_c == {"C": 3.0, "gamma": "auto", "random_state": 0}
    sweep = job(model={"gamma": [2, 0.5], "granularity": "fine"}).model.parameters()
    assert sweep == {"gamma": [2.0, 0.5], "granularity": "fine", "random_state": 0}


@pytest.mark.parametrize(
    ("section", "key", "hint"),
    [
        ("input", "colums", "did you mean 'columns'?"),
        ("preprocess", "scaling", "did you mean 'scale'?"),
        ("model", "epsilom", "did you mean 'epsilon'?"),
        ("model", "depth", "it belongs to algorithm = 'imdh'"),
        ("cluster", "worker", "did you mean 'workers'?"),
        ("output", "fromat", "did you mean 'format'?"),
        ("output", "zzz", "known keys: format, membership, missing, path, reasons, top"),
    ],
)
def test_unknown_key(section, key, hint):
    refused(f"unknown key '{section}.{key}'; {hint}", **{section: {key: 1}})


def test_a_column_with_a_scale_needs_a_kind():
    refused("columns.spent.kind is required", columns={"spent": {"scale": "log"}})
    refused("checks.clusters.limit is required", checks={"clusters": {"warn": [1, 2]}})


@pytest.mark.parametrize("field", ["input.path", "output.path"])
def test_required(field):
    content = {"input": {"path": "a"}, "output": {"path": "b"}}
    section, key = field.split(".")
    del content[section][key]
    with pytest.raises(JobFileError, match=f"^job: {field} is required$"):
        parse_job(content)
    del content[section]
    with pytest.raises(JobFileError, match=f"^job: {section} is required$"):
        parse_job(content)


ALGORITHMS = " or ".join(", ".join(map(repr, MODEL_SECTIONS)).rsplit(", ", 1))
NO_TEXT = (3, "must be text, found 3")
EMPTY = ("", "must not be empty, found ''")
NEGATIVE = (-1, "must be at least 0, found -1")
OVER_20 = (21, "must be at most 20, found 21")
LIMITS = [
    NEGATIVE,
    (float("nan"), "must be a finite number, found nan"),
    ("x", "must be a number, found 'x'"),
    ({"limit": 1, "level": "info"}, "must be 'error' or 'warn', found 'info'"),
]
WRONG = {
    "job.name": [EMPTY, NO_TEXT],
    "job.on_published": [([], "must not be empty"), ([""], "must not be empty")],
    "job.on_held": [(3, "must be a list, found 3")],
    "job.on_failed": [([3], "must be text, found 3")],
    "job.run_date": [
        ("20260228", "must be a date such as 2026-11-20"),
        ("2026-02-31", "must be a date such as 2026-11-20, found '2026-02-31'"),
        (20260228, "must be text"),
        (datetime.date(2026, 2, 28), "must be text in quotes, found 2026-02-28"),
    ],
    "continuity.previous": [NO_TEXT, EMPTY],
    "continuity.min_overlap": [
        (0, "must be greater than 0, found 0"),
        (1.1, "must be at most 1, found 1.1"),
    ],
    "continuity.memory": [NEGATIVE, (2.5, "must be a whole number, found 2.5")],
    "continuity.prefer_previous": [("yes", "must be true or false, found 'yes'")],
    "continuity.reference": [NO_TEXT],
    **{f"checks.{name}": LIMITS for name in ChecksConfig.model_fields},
    "checks.clusters": [
        ([9, 2], "must be [minimum, maximum], found [9, 2]"),
        ([-1, 2], "must be at least 0, found -1"),
        ([1], "must be [minimum, maximum], found [1]"),
        ([1, 2, 3], "must be [minimum, maximum], found"),
        (3, "must be [minimum, maximum], found 3"),
        ({"limit": [1, 2], "level": "info"}, "must be 'error' or 'warn', found 'info'"),
    ],
    "checks.rows_against_last": [
        ([2.0, 0.5], "must be [minimum, maximum], found [2.0, 0.5]"),
        ({"limit": [0.5, 2.0], "nights": 0}, "must be at least 1, found 0"),
    ],
    "input.path": [NO_TEXT, EMPTY],
    "input.columns": [
        ("a", "must be a list"),
        ([], "must not be empty"),
        ([1, 2], "must be text, found 1"),
    ],
    "input.id": [NO_TEXT],
    "input.classes": [NO_TEXT],
    "input.ready": [("../a", "must be the name of a file below input.path")],
    "input.where": [(True, "must be text, found True")],
    "preprocess.scale": [
        ("log", "must be 'standard', 'minmax', 'robust', 'unit', 'none' or 'auto', found 'log'")
    ],
    "preprocess.encode": [({"k": "ordinal"}, "must be 'onehot' or 'frequency', found 'ordinal'")],
    "preprocess.log": [
        ("bytes", "must be a list, such as ['bytes'], found 'bytes'"),
        ([3], "must be text, found 3"),
        ([""], "must not be empty, found ''"),
    ],
    "input.exclude": [("c", "must be a list, such as ['c'], found 'c'")],
    "preprocess.missing": [("mean", "must be 'auto', 'error', 'drop' or 'median', found 'mean'")],
    "preprocess.missing_values": [
        (-9999, "must be a list, found -9999"),
        (["NA"], "must be a number, found 'NA'"),
        ([float("nan")], "must be a finite number, found nan"),
    ],
    "model.algorithm": [
        ("dbscan", f"must be {ALGORITHMS}, found 'dbscan'"),
        (3, f"must be {ALGORITHMS}, found '3'"),
    ],
    "model.mode": [("again", "must be 'refit', 'assign' or 'auto', found 'again'")],
    "model.seed": [NEGATIVE, ("x", "must be a whole number")],
    "model.gamma": [
        (-2.0, "must be 'auto' or greater than 0, found -2.0"),
        (0, "must be 'auto' or greater than 0, found 0"),
        (1e308, "must be 'auto' or lie in [1e-30, 1e+30], found 1e+308"),
        (5e-324, "must be 'auto' or lie in [1e-30, 1e+30], found 5e-324"),
        ([1.0, 1e31], "must lie in [1e-30, 1e+30], found 1e+31"),
        (float("nan"), "must be 'auto' or"),
        ("wide", "must be 'auto' or a number"),
        ([], "must not be empty, found []"),
        ([1.0, 0.0], "must be greater than 0, found 0.0"),
        ([2.0, float("inf")], "must be a finite number, found inf"),
        ([1.0, "auto"], "must be a number, found 'auto'"),
    ],
    "model.nu": [
        (0.0, "must be greater than 0, found 0.0"),
        (-0.5, "must be greater than 0, found -0.5"),
        (1.5, "must be at most 1, found 1.5"),
        ("x", "must be a number"),
    ],
    "model.settings": [("paper", "must be 'default' or 'published', found 'paper'")],
    "output.missing": [("maybe", "must be true or false")],
    "model.min_cluster_rows": [(0, "must be at least 1, found 0")],
    "model.max_clusters": [(0, "must be at least 1, found 0")],
    "cluster.workers": [NEGATIVE],
    "cluster.threads": [(0, "must be at least 1, found 0")],
    "cluster.partition_rows": [(0, "must be at least 1, found 0")],
    "cluster.workdir": [EMPTY],
    "cluster.block_rows": [(0, "must be at least 1, found 0")],
    "output.path": [EMPTY],
    "output.reasons": [NEGATIVE, OVER_20],
    "output.membership": [(1, "must be true or false, found 1")],
    "output.top": [OVER_20, NEGATIVE],
    "output.format": [("orc", "must be 'parquet' or 'zarr', found 'orc'")],
}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [(field, *fault) for field, faults in WRONG.items() for fault in faults],
)
def test_a_value_that_is_not_allowed(field, value, message):
    section, key = field.split(".")
    tag = next((t for t, m in MODEL_SECTIONS.items() if key in m.model_fields), "support-vector")
    given = {"algorithm": tag} if section == "model" else {}
    with pytest.raises(JobFileError) as caught:
        job(**{section: given | {key: value}})
    text = str(caught.value)
    assert message in text
    assert text.count(field) == 1
    assert text.count("found") == 1


def test_every_field_has_a_wrong_value():
    """The messages on parameters of estimators are in `test_parameters`."""
    fields = {
        f"{section}.{key}"
        for section, field in Job.model_fields.items()
        if section not in ("columns", "names")
        for part in (MODEL_SECTIONS.values() if section == "model" else [field.annotation])
        for key in part.model_fields
    }
    parameters = {f"model.{name}" for of in PARAMETERS.values() for name in of}
    assert fields - parameters <= set(WRONG) <= fields


def test_a_one_class_svm_of_centred_columns():
    message = (
        "job: preprocess.scale = 'standard' (the default) centres the columns, expected scale "
        "= 'none' or 'minmax', since a linear one-class SVM separates rows from the origin; or "
        "give algorithm = 'linear-svdd', which does not depend on the origin"
    )
    refused(message, model={"algorithm": "linear-one-class"})
    refused(
        message.replace("'standard' (the default) centres", "'auto' may centre"),
        model={"algorithm": "linear-one-class"},
        preprocess={"scale": "auto"},
    )
    minmax = job(model={"algorithm": "linear-one-class"}, preprocess={"scale": "minmax"})
    assert minmax.model.parameters() == {"nu": 0.05, "random_state": 0}


def test_a_number_in_place_of_a_section():
    with pytest.raises(JobFileError, match="model must be a section, found 3"):
        parse_job({"input": {"path": "a"}, "output": {"path": "b"}, "model": 3})
