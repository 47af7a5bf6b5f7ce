"""A published model in MLflow's store and registry, without pickle."""

import os
import warnings

import numpy as np
import pandas as pd
import pytest

import distsvc
import distsvc.mlflow
from distsvc.errors import DataError
from distsvc.run.job import run_job
from tests.small_runs import small_job, three_clusters, write_table

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
with warnings.catch_warnings():  # from MLflow's own imports
    warnings.simplefilter("ignore")
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("mlflow.pyfunc")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    path = write_table(folder / "t.parquet", three_clusters(600, 3), ident=np.arange(600) * 7)
    model = {"algorithm": "imdh", "depth": 3, "n_init": 2}
    run_job(small_job(path, model, input={"path": str(path), "id": "ident"}))
    return distsvc.load(folder / "out")


@pytest.fixture
def store(mlflow_store, tmp_path, monkeypatch):
    """Return MLflow's store, for a test in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return mlflow_store


def rows(dtype=np.float64):
    X = np.round(three_clusters(50, 3, seed=1))
    table = pd.DataFrame(X.astype(dtype), columns=["x0", "x1", "x2"], index=range(100, 150))
    return table.assign(ident=np.arange(50) * 3, other="text")


def check(found, run, given):
    expected = run.model.label(given).to_pandas()
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected)


def test_a_model_in_the_registry_labels_raw_rows(run, store):
    with mlflow.start_run():
        info = distsvc.mlflow.log_model(run, "model", registered_model_name="moons")
    loaded = mlflow.pyfunc.load_model("models:/moons/1")
    for dtype in (np.float64, np.int64, np.float32):
        check(loaded.predict(rows(dtype)), run, rows(dtype))
    ours = distsvc.mlflow.load_model(info.model_uri)
    assert (ours.predict(rows()) == run.model.predict(rows())).all()
    assert info.flavors["distsvc"]["run_id"] == run.manifest["run_id"]
    assert info.flavors["python_function"]["loader_module"] == "distsvc.mlflow"
    kept = {path.name for path in store.rglob("artifacts/**/data/*/*")}
    assert kept == {"model.json", "arrays.npz"}


def test_a_saved_model_holds_two_files_and_its_signature(run, tmp_path):
    distsvc.mlflow.save_model(run.path, tmp_path / "saved")
    kept = {path.name for path in (tmp_path / "saved" / "data").rglob("*") if path.is_file()}
    assert kept == {"model.json", "arrays.npz"}
    needed = (tmp_path / "saved/requirements.txt").read_text().splitlines()
    assert f"distsvc[mlflow]=={distsvc.__version__}" in needed
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    assert loaded.metadata.signature.inputs.input_names() == ["x0", "x1", "x2", "ident"]
    assert loaded.metadata.signature.outputs.input_names() == ["label", "score", "outlier"]
    direct = distsvc.mlflow._load_pyfunc(str(tmp_path / "saved/data/data"))
    assert direct.predict(rows()).index.tolist() == list(range(100, 150))
    without = loaded.predict(rows().drop(columns="ident"))
    assert without.columns.tolist() == ["label", "score", "outlier"]
    with pytest.raises(mlflow.exceptions.MlflowException, match="x2"):
        loaded.predict(rows().drop(columns="x2"))
    with pytest.raises(DataError, match=r"column 'x0' has 47 missing values .*first at row 3\)"):
        loaded.predict(rows().assign(x0=[1.0] * 3 + [np.nan] * 47))
