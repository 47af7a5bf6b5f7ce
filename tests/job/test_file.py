"""Job files: reading, overridden keys, dates, and known keys."""

import datetime
import re
import tomllib

import pytest

from distsvc.errors import JobFileError
from distsvc.job.config import MODEL_SECTIONS, Job
from distsvc.job.file import (
    job_text,
    keys_like,
    known_keys,
    load_job,
    override,
    parse_job,
)
from tests.full_job import FULL, job


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('[input]\npath = "in"\n[model]\nbudget = 7\n[output]\npath = "out"\n')
    return path


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
        ("model.bridging=false", "model", "bridging", False),
        ('input.columns=["x", "y"]', "input", "columns", ("x", "y")),
        ("input.where=a == 1 and b < 2", "input", "where", "a == 1 and b < 2"),
        ("output.path=s3://bucket/a=b", "output", "path", "s3://bucket/a=b"),
        ("cluster.workers=0", "cluster", "workers", 0),
    ],
)
def test_set(file, setting, section, key, value):
    assert getattr(getattr(load_job(file, (setting,)), section), key) == value


@pytest.mark.parametrize("setting", ["model.nu", "nu=1", ".nu=1", "model.=1", "=1", ""])
def test_set_that_can_not_be_read(file, setting):
    with pytest.raises(JobFileError, match=r"--set expects section\.key=value, found '"):
        load_job(file, (setting,))


def test_set_with_a_value_in_place_of_the_section(file):
    file.write_text("model = 3\n" + file.read_text().replace("[model]\nbudget = 7\n", ""))
    with pytest.raises(JobFileError, match=r"--set model\.nu: model is not a section"):
        load_job(file, ("model.nu=1",))


def test_run_date(file):
    settings = ("input.path=in/date={run_date}", "output.path=out/{run_date}")
    dated = load_job(file, settings, run_date="2026-02-28")
    assert (*dated.input.path, dated.output.path) == ("in/date=2026-02-28", "out/2026-02-28")
    before = datetime.date.today()
    today = load_job(file, settings).output.path.removeprefix("out/")
    assert before <= datetime.date.fromisoformat(today) <= datetime.date.today()


@pytest.mark.parametrize("date", ["2026-02-30", "yesterday"])
def test_run_date_that_is_no_date(file, date):
    with pytest.raises(JobFileError, match=f"--run-date expects YYYY-MM-DD, found '{date}'"):
        load_job(file, run_date=date)


OTHER = {
    "input": {"path": "x", "columns": ["b"], "id": "x", "classes": "x", "where": "x == 1"},
    "preprocess": {"scale": "none", "missing": "drop", "encode": {}},
    "model": {
        "mode": "refit",
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
        "iterate": "average",
        "labelling": "equilibria",
        "effort": "fast",
        "granularity": "coarse",
        "assignment": "vote",
        "epsilon": 0.3,
        "segment_samples": 11,
        "boundary_size": 101,
    },
    "output": {"format": "parquet"},
    "continuity": {"min_overlap": 0.6},
}


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [(section, key, value) for section, keys in OTHER.items() for key, value in keys.items()],
)
def test_digest_depends_on_what_decides_the_result(section, key, value):
    base = FULL | {"model": FULL["model"] | {"iterate": "last"}}
    changed = base | {section: base[section] | {key: value}}
    assert parse_job(changed).digest() != parse_job(base).digest()


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("cluster", "workers", 0),
        ("cluster", "threads", 1),
        ("cluster", "partition_rows", 5),
        ("cluster", "block_rows", 6),
        ("output", "path", "elsewhere"),
        ("job", "name", "other"),
        ("job", "run_date", "2026-02-27"),
        ("checks", "max_drift", 0.1),
        ("continuity", "previous", ["elsewhere"]),
    ],
)
def test_digest_does_not_depend_on_where_and_how(section, key, value):
    changed = FULL | {section: FULL[section] | {key: value}}
    assert parse_job(changed).digest() == parse_job(FULL).digest()


def test_digest_does_not_tell_a_default_from_the_same_value_given():
    assert job().digest() == job(model={"algorithm": "auto"}, cluster={}).digest()
    assert re.fullmatch("[0-9a-f]{64}", job().digest())


def test_job_text_has_dates_as_written():
    content = {
        "input": {"path": "s3://b/in/{run_date}.csv", "where": "day = '{run_date}'"},
        "continuity": {"previous": ["out/{run_date-1d}"], "match": 0.5},
        "output": {"path": "out/{run_date}"},
        "checks": {"min_rows": 3},
    }
    job = parse_job(content, run_date="2026-03-01")
    assert len(job.continuity.previous) > 20
    told = tomllib.loads(job_text(job))
    assert told["input"]["path"] == "s3://b/in/{run_date}.csv"
    assert told["input"]["where"] == "day = '{run_date}'"
    assert told["continuity"] == {
        "previous": ["out/{run_date-1d}"], "min_overlap": 0.5, "memory": 7, "prefer_previous": True
    }  # fmt: skip
    assert told["output"]["path"] == "out/{run_date}"
    assert "run_date" not in told["job"]
    told["input"]["path"] = content["input"]["path"]
    assert parse_job(told, run_date="2026-03-01").digest() == job.digest()
    plain = parse_job({"input": {"path": "a"}, "output": {"path": "b"}}, run_date="2026-03-01")
    assert tomllib.loads(job_text(plain))["job"]["run_date"] == "2026-03-01"


def test_old_names_of_keys_are_their_present_ones():
    old = {"input": {"path": "a", "label": "y"}, "continuity": {"match": 0.5}}
    job = parse_job(old | {"output": {"path": "b"}})
    assert (job.input.classes, job.continuity.min_overlap) == ("y", 0.5)
    for name in ("classes", "label"):
        assert override(old, [f"input.{name}=z"])["input"] == {"path": "a", name: "z"}
    with pytest.raises(JobFileError, match=r"input\.classes and input\.label, its old name"):
        parse_job({"input": {"path": "a", "label": "y", "classes": "y"}})


@pytest.mark.parametrize("name", ["classes", "label"])
def test_an_error_about_the_classes_names_the_key_as_given(name):
    content = {"input": {"path": "a", "columns": ["y"], name: "y"}, "output": {"path": "b"}}
    message = rf"names 'y', which is input\.{name} and only scores"
    with pytest.raises(JobFileError, match=message):
        parse_job(content)
    del content["input"]["columns"]
    for sections in (content, override(content, [f"input.{name}=z"])):
        given = parse_job(sections).input
        assert given.classes_key == given.model_copy().classes_key == f"input.{name}"


def test_settings_of_one_list_or_table_add_up():
    job = {"input": {"path": "a"}, "output": {"path": "b"}}
    job |= {"preprocess": {"log": ["z"], "encode": {"a": "onehot"}}}
    settings = ['preprocess.log=["x"]', 'preprocess.log=["y", "x"]']
    settings += ["preprocess.encode.b=frequency", "model.seed=1", "model.seed=1"]
    settings += ["checks.max_drift.limit=0.3", "checks.max_drift.level=warn", "columns.a.b=count"]
    found = override(job, settings)
    assert found["preprocess"] == {"log": ["x", "y"], "encode": {"a": "onehot", "b": "frequency"}}
    assert found["checks"] == {"max_drift": {"limit": 0.3, "level": "warn"}}
    assert found["columns"] == {"a.b": "count"}
    parse_job(found | {"columns": {}})
    whole = override(job, ['preprocess.encode={c="onehot"}', "preprocess.encode.d=onehot"])
    assert whole["preprocess"]["encode"] == {"c": "onehot", "d": "onehot"}
    assert override(job, ["model.seed=1", "model.seed=2"])["model"] == {"seed": 2}


def test_every_key_is_known():
    sections = {
        section for section in Job.model_fields if section not in ("model", "columns", "names")
    }
    fields = {section: Job.model_fields[section].annotation.model_fields for section in sections}
    keys = {f"{section}.{key}" for section, of in fields.items() for key in of}
    keys |= {f"model.{key}" for model in MODEL_SECTIONS.values() for key in model.model_fields}
    assert set(known_keys()) == keys


def test_an_option_is_a_key_by_its_name():
    assert keys_like("--n-clusters", 1.0) == ["model.n_clusters"]
    assert keys_like("--model.seed", 1.0) == ["model.seed"]
    assert keys_like("path", 1.0) == ["input.path", "output.path"]
    assert keys_like("--gama", 1.0) == []
    assert keys_like("--gama") == ["model.gamma"]
    assert keys_like("--zzz") == []
