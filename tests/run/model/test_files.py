"""The files of a published model: their content, and errors for damaged ones."""

import json
from pathlib import Path

import numpy as np
import pytest

from distsvc.errors import DataError, JobFileError
from distsvc.run.model.files import (
    MODEL_VERSION,
    model_digest,
    read_model,
    restore_model,
    with_previous,
    write_model,
)
from distsvc.run.work.directory import RunDirectory
from tests.small_runs import FORMS, fit, small_job, three_clusters, write_table

N = 600
X = three_clusters(N)
OTHERS = three_clusters(200, seed=9)


@pytest.fixture(scope="module", params=FORMS)
def published(request, tmp_path_factory):
    """For each form of rule, a run with a written model, which tests must not change."""
    folder = tmp_path_factory.mktemp("data")
    table = write_table(folder / "t.parquet", X, event=np.arange(N), kind=np.arange(N) % 2)
    given = {"id": "event", "label": "kind", "where": "event < 500"}
    job = small_job(table, FORMS[request.param], input=given, output={"reasons": 2})
    found = fit(job, folder / "run")
    write_model(found.run, job, found.algorithm.learned(), found.label())
    return request.param, Path(found.run.place("model").address), found


@pytest.fixture
def simple(tmp_path):
    """A model that a test may damage."""
    table = write_table(tmp_path / "t.parquet", X)
    job = small_job(table, FORMS["splits"])
    found = fit(job, tmp_path / "run")
    write_model(found.run, job, found.algorithm.learned(), found.label())
    return Path(found.run.place("model").address)


def test_the_content_of_a_model(published):
    form, folder, fitted = published
    content = json.loads((folder / "model.json").read_text())
    assert list(content) == [
        "format",
        "algorithm",
        "form",
        "parameters",
        "features",
        "chosen_columns",
        "input",
        "preprocess",
        "facts",
    ]
    assert content["format"] == MODEL_VERSION
    assert content["algorithm"] == fitted.job.model.algorithm
    assert (content["features"], content["chosen_columns"]) == (["x0", "x1"], False)
    assert content["input"] == {"id": "event", "label": "kind", "where": "event < 500"}
    assert content["parameters"].keys() == fitted.algorithm.parameters.keys()
    assert content["preprocess"]["scale"] == ("minmax" if "one-class" in form else "standard")


def test_the_job_of_a_prediction(published, tmp_path):
    _, folder, _ = published
    job = read_model(folder).job("new.parquet", str(tmp_path / "new"), {"workers": 3})
    assert job.input.model_dump(exclude_none=True) == {
        "path": "new.parquet",
        "columns": ("x0", "x1"),
        "exclude": (),
        "id": "event",
    }
    assert job.output.reasons == 2
    fitted = published[2].job
    assert job.preprocess == fitted.preprocess.model_copy(update={"missing": fitted.missing})
    assert job.missing == fitted.missing
    assert job.cluster.workers == 3


def test_the_digest_of_a_prediction_depends_on_the_model(simple):
    def digest(output, workers=0):
        job = read_model(simple).job("new.parquet", output, {"workers": workers})
        return with_previous(job.digest(), model_digest(simple))

    before = digest("new")
    assert before == digest("old", workers=2)
    with open((simple / "arrays.npz"), "ab") as file:
        file.write(b"x")
    assert digest("new") != before
    job = read_model(simple).job("new.parquet", "new", {})
    assert with_previous(job.digest(), "") == job.digest() != digest("new")


def restored(folder, tmp_path):
    restore_model(read_model(folder), folder, RunDirectory(tmp_path / "new"))


@pytest.mark.parametrize("version", [MODEL_VERSION + 1, None])
def test_another_version(simple, tmp_path, version):
    path = simple / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": version}))
    message = rf"model\.json has format {version}, expected {MODEL_VERSION}: another version"
    with pytest.raises(JobFileError, match=message):
        restored(simple, tmp_path)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["model.json", "arrays.npz"])
def test_a_damaged_model(simple, tmp_path, name):
    path = simple / name
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=rf"{name} can't be read"):
        restored(simple, tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=rf"{name} can't be read"):
        restored(simple, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"typical": np.full((3, 2), 1e30)},
            r"array typical: expected rows with a length of at most",
        ),
        ({"typical": np.zeros((2, 2))}, r"array typical: expected the shape \(3, 2\), found"),
        ({"reasons": 21}, r"output\.reasons must be at most 20, found 21"),
        ({"least_score": None}, r"fact least_score: expected a valid number, found None"),
    ],
)
def test_typical_rows_are_checked(simple, tmp_path, change, message):
    content = json.loads((simple / "model.json").read_text())
    with np.load(simple / "arrays.npz") as saved:
        arrays = dict(saved)
    assert arrays["typical"].shape == (3, 2)
    facts = {name: value for name, value in change.items() if name not in arrays}
    content["facts"] |= facts
    (simple / "model.json").write_text(json.dumps(content))
    np.savez(simple / "arrays.npz", **arrays | {n: v for n, v in change.items() if n in arrays})
    with pytest.raises(DataError, match=message):
        restored(simple, tmp_path)
