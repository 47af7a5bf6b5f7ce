"""Every field of the job file, and the one sentence that each fault earns."""

import datetime
import re

import pytest

from distsvc.config import MODELS, Job, load_job, parse_job
from distsvc.errors import InputNotFoundError, JobFileError
from distsvc.parameters import IN_MEMORY, PARAMETERS
from distsvc.run.job import ESTIMATORS

FULL = {
    "input": {
        "path": "in.parquet",
        "columns": ["a", "b"],
        "id": "row_id",
        "label": "label",
        "where": "split == 0",
    },
    "preprocess": {"scale": "minmax", "missing": "median"},
    "model": {
        "algorithm": "support-vector",
        "seed": 7,
        "gamma": 2.0,
        "nu": 0.2,
        "solver": "sgd",
        "budget": 50,
        "maintenance": "removal",
        "projection_size": 3,
        "stopping": "step-norm",
        "tol": 0.01,
        "theta": 0.1,
        "max_iter": 1000,
        "average": True,
        "bridging": False,
        "labelling": "level-tree",
        "effort": "thorough",
        "granularity": "fine",
        "assignment": "nearest",
        "epsilon": 0.2,
        "segment_samples": 10,
        "boundary_size": 100,
    },
    "cluster": {"workers": 2, "threads": 3, "partition_rows": 1000, "block_rows": 10},
    "output": {"path": "out", "format": "zarr", "reasons": 0},
}
LINEAR = {
    "algorithm": "linear-svdd",
    "seed": 7,
    "nu": 0.1,
    "solver": "cyclic-2cd",
    "tol": 0.001,
    "max_iter": 10,
    "compute_gap": True,
    "memory_rows": 2000,
}
IMDH = {
    "algorithm": "imdh",
    "seed": 7,
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
}
BASELINES = (
    {"algorithm": "bico", "seed": 7, "n_clusters": 9, "size": 50, "n_init": 3},
    {
        "algorithm": "spdc",
        "seed": 7,
        "window": 50,
        "valley": 0.0,
        "bandwidth": 0.5,
        "amnesia": 0.0,
        "max_clusters": 1,
    },
    {
        "algorithm": "depddp",
        "seed": 7,
        "n_clusters": 9,
        "bandwidth": 0.5,
        "trim": 0.5,
        "min_samples": 1,
        "grid_size": 16,
    },
    {
        "algorithm": "fuzzy-c-means",
        "seed": 7,
        "n_clusters": 9,
        "m": 1.01,
        "tol": 0.0,
        "max_iter": 10,
        "n_init": 1,
    },
)


def job(**sections) -> Job:
    small = {"input": {"path": "in.parquet"}, "output": {"path": "out"}}
    return parse_job({k: small.get(k, {}) | v for k, v in (small | sections).items()})


def refused(message: str, **sections) -> None:
    with pytest.raises(JobFileError, match=re.escape(message) + "$"):
        job(**sections)


def test_every_field_is_taken_as_given():
    for model in (FULL["model"], IMDH, LINEAR, *BASELINES):
        content = FULL | {"model": model}
        assert parse_job(content).model_dump(mode="json", exclude_none=True) == content


def test_defaults():
    given = job()
    assert given.preprocess.scale == "standard"
    assert given.preprocess.missing == "error"
    assert given.model.algorithm == "support-vector"
    assert given.model.parameters() == {"random_state": 0}
    assert (given.cluster.workers, given.cluster.threads) == (None, 1)
    assert given.output.format == "parquet"


@pytest.mark.parametrize("algorithm", PARAMETERS)
def test_model_fields_are_those_of_the_table_that_a_job_may_give(algorithm):
    types = {name: one.job_type() for name, one in PARAMETERS[algorithm].items()}
    fields = {name for name, of in types.items() if of is not None}
    assert set(MODELS[algorithm].model_fields) == fields | {"algorithm", "seed"}


@pytest.mark.parametrize("model", BASELINES, ids=lambda model: model["algorithm"])
def test_a_baseline_takes_the_least_values_of_its_section(model):
    given = job(model=model).model.parameters()
    estimator = ESTIMATORS[model["algorithm"]](**given)
    estimator.check_parameters()
    assert {"seed": given.pop("random_state", 7)} | given == {
        key: value for key, value in model.items() if key != "algorithm"
    }
    assert hasattr(estimator, "random_state") == (model["algorithm"] != "depddp")


@pytest.mark.parametrize("name", ["ball_radius", "merge_radius", "noise", "random_state"])
def test_a_job_has_no_parameters_of_tables_in_memory(name):
    with pytest.raises(JobFileError, match=rf"unknown key 'model\.{name}'"):
        job(model={name: True})


@pytest.mark.parametrize("labelling", IN_MEMORY)
def test_a_job_has_no_labelling_of_tables_in_memory(labelling):
    with pytest.raises(JobFileError, match=r"model\.labelling.*level-tree"):
        job(model={"labelling": labelling})


def test_model_values_reach_the_estimator():
    assert job(model=FULL["model"]).model.parameters() == {
        **{k: v for k, v in FULL["model"].items() if k not in ("algorithm", "seed")},
        "random_state": 7,
    }
    given = {k: v for k, v in IMDH.items() if k not in ("algorithm", "seed")}
    assert job(model=IMDH).model.parameters() == given | {"random_state": 7}
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
        ("output", "zzz", "known keys: format, path, reasons"),
    ],
)
def test_unknown_key(section, key, hint):
    refused(f"unknown key '{section}.{key}'; {hint}", **{section: {key: 1}})


def test_unknown_section():
    with pytest.raises(JobFileError, match=r"unknown key 'modle'; did you mean 'model'\?"):
        job(modle={"nu": 0.1})


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


ALGORITHMS = " or ".join(map(repr, MODELS))
WRONG = {
    "input.path": [(3, "must be a valid string"), ("", "must have at least 1 character")],
    "input.columns": [
        ("a", "must be a valid tuple"),
        ([], "must have at least 1 item"),
        ([1, 2], "must be a valid string, found 1"),
    ],
    "input.id": [(3, "must be a valid string, found 3")],
    "input.label": [(3, "must be a valid string, found 3")],
    "input.where": [(True, "must be a valid string, found True")],
    "preprocess.scale": [("log", "must be 'standard', 'minmax' or 'none', found 'log'")],
    "preprocess.missing": [("mean", "must be 'error', 'drop' or 'median', found 'mean'")],
    "model.algorithm": [
        ("kmeans", f"must be {ALGORITHMS}, found 'kmeans'"),
        (3, f"must be {ALGORITHMS}, found '3'"),
    ],
    "model.seed": [(-1, "must be greater than or equal to 0, found -1"), ("x", "valid integer")],
    "model.gamma": [
        (-2.0, "must be 'auto' or be greater than 0, found -2.0"),
        (0, "must be 'auto' or be greater than 0, found 0"),
        (float("nan"), "must be 'auto' or be"),
        ("wide", "must be 'auto' or be a valid number"),
        ([], "must have at least 1 item after validation, not 0, found []"),
        ([1.0, 0.0], "must be greater than 0, found 0.0"),
        ([2.0, float("inf")], "must be a finite number, found inf"),
        ([1.0, "auto"], "must be a valid number, unable to parse string as a number, found 'auto'"),
    ],
    "model.nu": [
        (0.0, "must be greater than 0, found 0.0"),
        (-0.5, "must be greater than 0, found -0.5"),
        (1.5, "must be less than or equal to 1, found 1.5"),
        ("x", "must be a valid number"),
    ],
    "model.C": [(0, "must be greater than 0"), (float("inf"), "must be a finite number")],
    "model.solver": [("smo", "must be 'bsgd', 'sgd' or 'exact', found 'smo'")],
    "model.budget": [(0, "must be greater than or equal to 1"), (2.5, "valid integer")],
    "model.maintenance": [("drop", "must be 'merge', 'project-nearest', 'project-random' or")],
    "model.projection_size": [(0, "must be greater than or equal to 1, found 0")],
    "model.stopping": [("never", "must be 'held-out' or 'step-norm', found 'never'")],
    "model.tol": [(0, "must be greater than 0, found 0")],
    "model.theta": [(-1, "must be greater than 0, found -1")],
    "model.max_iter": [(0, "must be greater than or equal to 1, found 0")],
    "model.average": [("maybe", "must be a valid boolean")],
    "model.bridging": [("maybe", "must be a valid boolean")],
    "model.labelling": [("x", "must be 'auto', 'equilibria' or 'level-tree', found 'x'")],
    "model.effort": [("slow", "must be 'fast', 'default' or 'thorough', found 'slow'")],
    "model.granularity": [("fast", "must be 'coarse', 'default' or 'fine', found 'fast'")],
    "model.assignment": [("best", "must be 'vote' or 'nearest', found 'best'")],
    "model.epsilon": [(0, "must be greater than 0, found 0")],
    "model.segment_samples": [(0, "must be greater than or equal to 1, found 0")],
    "model.boundary_size": [(0, "must be greater than or equal to 1, found 0")],
    "model.depth": [
        (0, "must be greater than or equal to 1, found 0"),
        (17, "must be less than or equal to 16, found 17"),
    ],
    "model.n_clusters": [(0, "must be greater than or equal to 1, found 0")],
    "model.alpha": [(-0.1, "must be greater than or equal to 0, found -0.1")],
    "model.penalty": [
        (-1, "must be greater than or equal to 0, found -1"),
        (101, "must be less than or equal to 100, found 101"),
    ],
    "model.bandwidth": [(0, "must be greater than 0, found 0")],
    "model.clip": [(-1, "must be greater than or equal to 0, found -1")],
    "model.passes": [(0, "must be greater than or equal to 1, found 0")],
    "model.max_effective_samples": [(0, "must be greater than or equal to 1, found 0")],
    "model.n_init": [(0, "must be greater than or equal to 1, found 0")],
    "model.growth": [("down", "must be 'prune' or 'forward', found 'down'")],
    "model.elbow": [("knee", "must be 'weighted' or 'angle', found 'knee'")],
    "model.valley": [(-1, "must be greater than or equal to 0, found -1")],
    "model.max_samples": [(99, "must be greater than or equal to 100, found 99")],
    "model.size": [(0, "must be greater than or equal to 1, found 0")],
    "model.window": [(49, "must be greater than or equal to 50, found 49")],
    "model.amnesia": [(-1, "must be greater than or equal to 0, found -1")],
    "model.max_clusters": [(0, "must be greater than or equal to 1, found 0")],
    "model.trim": [
        (-0.1, "must be greater than or equal to 0, found -0.1"),
        (0.6, "must be less than or equal to 0.5, found 0.6"),
    ],
    "model.min_samples": [(0, "must be greater than or equal to 1, found 0")],
    "model.grid_size": [(15, "must be greater than or equal to 16, found 15")],
    "model.m": [
        (1, "must be greater than 1, found 1"),
        (float("inf"), "must be a finite number, found inf"),
    ],
    "cluster.workers": [(-1, "must be greater than or equal to 0, found -1")],
    "cluster.threads": [(0, "must be greater than or equal to 1, found 0")],
    "cluster.partition_rows": [(0, "must be greater than or equal to 1, found 0")],
    "cluster.block_rows": [(0, "must be greater than or equal to 1, found 0")],
    "output.path": [("", "must have at least 1 character, found ''")],
    "model.compute_gap": [("maybe", "must be a valid boolean")],
    "model.memory_rows": [(999, "must be greater than or equal to 1000, found 999")],
    "output.reasons": [
        (-1, "must be greater than or equal to 0, found -1"),
        (21, "must be less than or equal to 20, found 21"),
    ],
    "output.format": [("csv", "must be 'parquet' or 'zarr', found 'csv'")],
}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [(field, *fault) for field, faults in WRONG.items() for fault in faults],
)
def test_a_value_that_is_not_allowed(field, value, message):
    section, key = field.split(".")
    tag = next((t for t, m in MODELS.items() if key in m.model_fields), "support-vector")
    given = {"algorithm": tag} if section == "model" else {}
    with pytest.raises(JobFileError) as caught:
        job(**{section: given | {key: value}})
    text = str(caught.value)
    assert message in text
    assert text.count(field) == 1
    assert text.count("found") == 1


def test_every_field_has_a_wrong_value():
    fields = {
        f"{section}.{key}"
        for section, field in Job.model_fields.items()
        for part in (MODELS.values() if section == "model" else [field.annotation])
        for key in part.model_fields
    }
    assert fields == set(WRONG)


def test_nu_at_its_borders():
    assert job(model={"nu": 1}).model.nu == 1.0
    assert job(model={"nu": 1e-9}).model.nu == 1e-9


@pytest.mark.parametrize("algorithm", ["support-vector", "linear-svdd"])
def test_both_nu_and_c(algorithm):
    model = {"algorithm": algorithm, "nu": 0.1, "C": 2}
    refused("model: give nu or C, not both (found nu = 0.1 and C = 2.0)", model=model)


def test_a_one_class_svm_of_centred_columns():
    message = (
        "job: preprocess.scale = 'standard' (the default) centres the columns, and a linear "
        "one-class SVM separates rows from the origin: give scale = 'none' or 'minmax', or "
        "algorithm = 'linear-svdd', which does not depend on the origin"
    )
    refused(message, model={"algorithm": "linear-one-class"})
    minmax = job(model={"algorithm": "linear-one-class"}, preprocess={"scale": "minmax"})
    assert minmax.model.parameters() == {"random_state": 0}


def test_reasons_where_there_are_none():
    message = "output.reasons needs a linear algorithm, found algorithm = 'imdh'"
    refused(message, model={"algorithm": "imdh"}, output={"path": "out", "reasons": 2})
    output = {"path": "out", "reasons": 2, "format": "zarr"}
    message = "output.reasons needs output.format = 'parquet', found 'zarr'"
    refused(message, model={"algorithm": "linear-svdd"}, output=output)


@pytest.mark.parametrize("solver", [{}, {"solver": "bsgd"}, {"solver": "exact"}])
def test_an_average_without_its_solver(solver):
    found = f"average = true needs solver = 'sgd' (found solver = {solver.get('solver')!r})"
    refused(f"model: {found}", model={"average": True} | solver)


def test_a_section_that_is_none():
    with pytest.raises(JobFileError, match="model must be a section, found 3"):
        parse_job({"input": {"path": "a"}, "output": {"path": "b"}, "model": 3})


def test_several_faults_are_all_told():
    refused(
        "preprocess.scale must be 'standard', 'minmax' or 'none', found 'x'; "
        "unknown key 'model.nuu'; did you mean 'nu'?",
        preprocess={"scale": "x"},
        model={"nuu": 1},
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('[input]\npath = "in"\n[model]\nbudget = 7\n[output]\npath = "out"\n')
    return path


def test_load_job(file):
    assert load_job(file).model.budget == 7
    assert load_job(str(file)).output.path == "out"


def test_load_job_names_the_file(file):
    file.write_text(file.read_text() + "formatt = 1\n")
    with pytest.raises(
        JobFileError, match=rf"^{re.escape(str(file))}: unknown key 'output.formatt'"
    ):
        load_job(file)


def test_missing_job_file(tmp_path):
    with pytest.raises(InputNotFoundError, match=r"job file .*none\.toml does not exist"):
        load_job(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[input", "is not valid TOML: Expected"), (b"\xff\xfe", "can't be read: .*decode")],
)
def test_damaged_job_file(tmp_path, content, message):
    (tmp_path / "job.toml").write_bytes(content)
    with pytest.raises(JobFileError, match=message):
        load_job(tmp_path / "job.toml")


def test_job_file_that_is_a_folder(tmp_path):
    with pytest.raises(JobFileError, match=r"can't be read: .*directory"):
        load_job(tmp_path)


@pytest.mark.parametrize(
    ("setting", "section", "key", "value"),
    [
        ("model.budget=9", "model", "budget", 9),
        ("model.gamma=0.5", "model", "gamma", 0.5),
        ("model.gamma=auto", "model", "gamma", "auto"),
        ("model.gamma=[1, 0.5]", "model", "gamma", [1.0, 0.5]),
        ("model.effort=fast", "model", "effort", "fast"),
        ("model.granularity=coarse", "model", "granularity", "coarse"),
        (" model.nu = 0.5", "model", "nu", 0.5),
        ("model.average=false", "model", "average", False),
        ('input.columns=["x", "y"]', "input", "columns", ("x", "y")),
        ("input.where=a == 1 and b < 2", "input", "where", "a == 1 and b < 2"),
        ("output.path=s3://bucket/a=b", "output", "path", "s3://bucket/a=b"),
        ("cluster.workers=0", "cluster", "workers", 0),
    ],
)
def test_set(file, setting, section, key, value):
    assert getattr(getattr(load_job(file, (setting,)), section), key) == value


def test_the_last_set_wins(file):
    assert load_job(file, ("model.budget=1", "model.budget=2")).model.budget == 2


@pytest.mark.parametrize("setting", ["model.nu", "nu=1", ".nu=1", "model.=1", "=1", ""])
def test_set_that_can_not_be_read(file, setting):
    with pytest.raises(JobFileError, match=r"--set expects section\.key=value, found '"):
        load_job(file, (setting,))


def test_set_in_what_is_no_section(file):
    file.write_text("model = 3\n" + file.read_text().replace("[model]\nbudget = 7\n", ""))
    with pytest.raises(JobFileError, match=r"--set model\.nu: model is not a section"):
        load_job(file, ("model.nu=1",))


def test_set_is_checked_like_the_file(file):
    with pytest.raises(JobFileError, match=r"unknown key 'model\.bugdet'; did you mean 'budget'"):
        load_job(file, ("model.bugdet=1",))


def test_run_date(file):
    settings = ("input.path=in/date={run_date}", "output.path=out/{run_date}")
    dated = load_job(file, settings, run_date="2026-02-28")
    assert (dated.input.path, dated.output.path) == ("in/date=2026-02-28", "out/2026-02-28")
    before = datetime.date.today()
    today = load_job(file, settings).output.path.removeprefix("out/")
    assert before <= datetime.date.fromisoformat(today) <= datetime.date.today()


@pytest.mark.parametrize("date", ["2026-02-30", "yesterday"])
def test_run_date_that_is_no_date(file, date):
    with pytest.raises(JobFileError, match=f"--run-date expects YYYY-MM-DD, found '{date}'"):
        load_job(file, run_date=date)


OTHER = {
    "input": {"path": "x", "columns": ["a"], "id": "x", "label": "x", "where": "x == 1"},
    "preprocess": {"scale": "none", "missing": "drop"},
    "model": {
        "seed": 8,
        "gamma": 3.0,
        "nu": 0.3,
        "solver": "bsgd",
        "budget": 51,
        "maintenance": "merge",
        "projection_size": 4,
        "stopping": "held-out",
        "tol": 0.02,
        "theta": 0.2,
        "max_iter": 1001,
        "average": True,
        "labelling": "equilibria",
        "effort": "fast",
        "granularity": "coarse",
        "assignment": "vote",
        "epsilon": 0.3,
        "segment_samples": 11,
        "boundary_size": 101,
    },
    "output": {"format": "parquet"},
}


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [(section, key, value) for section, keys in OTHER.items() for key, value in keys.items()],
)
def test_digest_depends_on_what_decides_the_result(section, key, value):
    base = FULL | {"model": FULL["model"] | {"average": False}}
    changed = base | {section: base[section] | {key: value}}
    assert parse_job(changed).digest() != parse_job(base).digest()


def test_digest_depends_on_every_gamma():
    widths = (1.0, [1.0], [1.0, 2.0], [2.0, 1.0], "auto", None)
    assert len({job(model={"gamma": gamma}).digest() for gamma in widths}) == len(widths)


def test_digest_depends_on_c_too():
    digests = {job(model={"C": 1}).digest(), job(model={"C": 2}).digest(), job().digest()}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("cluster", "workers", 0),
        ("cluster", "threads", 1),
        ("cluster", "partition_rows", 5),
        ("cluster", "block_rows", 6),
        ("output", "path", "elsewhere"),
    ],
)
def test_digest_does_not_depend_on_where_and_how(section, key, value):
    changed = FULL | {section: FULL[section] | {key: value}}
    assert parse_job(changed).digest() == parse_job(FULL).digest()


def test_digest_does_not_tell_a_default_from_the_same_value_given():
    assert job().digest() == job(model={"algorithm": "support-vector"}, cluster={}).digest()
    assert re.fullmatch("[0-9a-f]{64}", job().digest())
