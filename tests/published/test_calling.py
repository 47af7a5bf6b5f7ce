"""Runs and published models from Python give the bytes of the command line."""

import datetime
import inspect
import json
import multiprocessing
import pickle
import shutil
import sys
from pathlib import Path

import dask.array
import dask.dataframe
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import distsvc
from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.published.predict import predict_table
from distsvc.run.job import run_job
from tests.jobs.blob_jobs import copied
from tests.small_runs import MODELS, small_job, table_of, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

N, COLUMNS = 600, ("x0", "x1", "x2")
HERE = {"cluster.workers": 0}


def rows(seed=0, n=N):
    return three_clusters(n, 3, seed)


table = table_of(rows(), ident=np.arange(N) * 7)


def sections(table, out, **more):
    return {
        "input": {"path": table, "id": "ident", **more.pop("input", {})},
        "model": MODELS["boundary"],
        "cluster": {"workers": 0, "partition_rows": 300, "block_rows": 70},
        "output": {"path": out, **more.pop("output", {})},
        **more,
    }


@pytest.fixture(scope="module")
def published(table, tmp_path_factory):
    """A run with ids and reasons, in two files."""
    out = tmp_path_factory.mktemp("out") / "run"
    return distsvc.run(sections(table, out, output={"reasons": 2}))


# --- the function


def test_the_function_has_the_name_of_the_package():
    assert inspect.isfunction(distsvc.run)
    assert sys.modules["distsvc.run.job"].run_job is run_job
    assert pickle.loads(pickle.dumps(run_job)) is run_job
    assert {"run", "load", "Run"} <= set(dir(distsvc)) & set(distsvc.__all__)


# --- running


def test_a_job_file_with_overrides(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(
        f'[input]\npath = "{table}"\n[output]\npath = "out/{{run_date}}"\n'
    )
    values = HERE | {"model.algorithm": "imdh", "model.seed": 3, "output.path": "out/{run_date}"}
    run = distsvc.run("job.toml", run_date=datetime.date(2026, 11, 20), overrides=values)
    assert run.path == "out/2026-11-20"
    assert run.manifest["job"]["model"]["seed"] == 3
    assert run.report.model.algorithm == "imdh"
    assert "distsvc.run('job.toml', run_date='2026-11-20', overrides={" in run.report.command
    again = distsvc.run(tmp_path / "job.toml", run_date="2026-11-20", overrides=values)
    assert again.manifest == run.manifest  # nothing was computed


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"model.sed": 1}, "unknown key 'model.sed'"),
        ({"seed": 1}, "overrides expects section.key, found 'seed'"),
        ({"model.seed": "one"}, "model.seed must be"),
    ],
)
def test_wrong_overrides_are_refused(table, overrides, message):
    with pytest.raises(JobFileError, match=message):
        distsvc.run(table, overrides=overrides)


def test_a_worker_that_imports_the_script_does_not_run_it_again(table, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(RuntimeError, match="below if __name__ == '__main__':"):
        distsvc.run(table)


# --- what is published


def test_labels_of_all_or_selected_rows_and_columns(published, table):
    labels = published.labels()
    assert labels.schema.names == ["ident", "label", "score", "outlier", "reasons"]
    assert labels["ident"].equals(pq.read_table(table)["ident"])
    outside = published.labels(["score", "ident"], "outlier == true and ident >= 70")
    expected = labels.filter((pc.field("outlier")) & (pc.field("ident") >= 70))
    assert 0 < outside.num_rows < N
    assert outside.equals(expected.select(["score", "ident"]))
    by_expression = published.labels(["ident"], pc.field("score") < 0)
    assert published.labels("ident").equals(labels.select(["ident"]))
    assert by_expression.equals(labels.filter(pc.field("outlier")).select(["ident"]))


@pytest.mark.parametrize(
    ("columns", "filter", "error", "message"),
    [
        (["cluster"], None, DataError, r"expected published columns \(ident, .*found 'cluster'"),
        (None, "score <", JobFileError, "^filter: expected a number"),
        (None, "score == 'a'", DataError, "^filter compares column 'score'"),
        (None, "x0 > 1", DataError, "found 'x0'"),
        (None, pc.field("x0") > 1, DataError, "does not suit the labels: .*x0"),
    ],
)
def test_wrong_columns_and_filters_are_refused(published, columns, filter, error, message):
    with pytest.raises(error, match=message):
        published.labels(columns, filter)


def test_a_run_has_a_text_and_an_html_form_and_a_model_a_text(published, tmp_path):
    k = published.manifest["clusters"]
    assert repr(published) == f"<distsvc run {published.path}: {k} clusters in 600 rows>"
    assert repr(published.model) == f"<distsvc model: support-vector, {k} clusters, 3 columns>"
    page = published._repr_html_()
    assert page.count("<tr>") == 1 + k
    assert "% outside" in page
    odd = distsvc.load(copied(Path(published.path), tmp_path))
    odd.path = "<b>"
    assert "&lt;b&gt;" in odd._repr_html_()


def test_labels_by_another_runs_model(published, table, tmp_path):
    predict_table(published.path, str(table), str(tmp_path / "out"))
    run = distsvc.load(tmp_path / "out")
    assert run.labels().equals(published.labels())
    assert "600 rows" in run._repr_html_()
    for name in "model", "report":
        with pytest.raises(DataError, match=f"has no {name}.json: the run labelled rows with"):
            getattr(run, name)


# --- the model


@pytest.mark.parametrize("algorithm", MODELS)
def test_raw_rows_get_the_labels_of_predict(algorithm, tmp_path):
    path = write_table(tmp_path / "t.parquet", rows())
    run_job(
        small_job(path, MODELS[algorithm], output={"path": str(tmp_path / "out"), "reasons": 1})
    )
    new = write_table(tmp_path / "new.parquet", rows(1))
    predict_table(tmp_path / "out", str(new), str(tmp_path / "labels"))
    expected = distsvc.load(tmp_path / "labels").labels()
    model = distsvc.load(tmp_path / "out").model
    assert model.predict(rows(1)).tobytes() == expected["label"].to_numpy().tobytes()
    assert model.score_samples(rows(1)).tobytes() == expected["score"].to_numpy().tobytes()
    batches = list(model.predict_batches(pq.read_table(new).to_batches(max_chunksize=37)))
    assert [batch.num_rows for batch in batches[:3]] == [37, 37, 26]  # row groups have 100 rows
    assert pa.Table.from_batches(batches).equals(expected.drop_columns("row").combine_chunks())


def as_reader(X):
    table = pa.table(dict(zip(COLUMNS, X.T, strict=True)))
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(100))


def frame(X):
    return dict(zip(("x2", "y", "x0", "x1"), (X[:, 2], X[:, 0], X[:, 0], X[:, 1]), strict=True))


KINDS = {
    "sparse": sparse.csr_array,
    "dictionary": frame,
    "batch": lambda X: pa.record_batch(frame(X)),
    "batches": lambda X: iter(as_reader(X)),
    "lazy polars": lambda X: pl.LazyFrame(frame(X)),
    "dask array": lambda X: dask.array.from_array(X, chunks=(130, 2)),
    "masked array": lambda X: np.ma.masked_array(X),
    "dictionary-encoded": lambda X: pa.table(
        {n: pa.array(v).dictionary_encode() for n, v in frame(X).items()}
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_any_kind(published, kind):
    X, model = rows(1), published.model
    assert (model.predict(KINDS[kind](X)) == model.predict(X)).all()
    assert len(model.predict(KINDS[kind](X[:0]))) == 0


def test_lazy_rows_give_lazy_results(published):
    read = []

    def noted(block):
        read.append(len(block))
        return block

    X, model = rows(1), published.model
    lazy = dask.array.from_array(X, chunks=(250, 2)).map_blocks(noted, meta=np.empty((0, 0)))
    functions = model.predict, model.score_samples, model.predict_proba
    labels, scores, shares = lazily = [each(lazy) for each in functions]
    assert read == []
    assert labels.chunks == scores.chunks == ((250, 250, 100),)
    assert shares.chunks == ((250, 250, 100), (len(model.ids),))
    for found, expected in zip(lazily, [each(X) for each in functions], strict=True):
        assert found.dtype == expected.dtype
        assert found.compute().tobytes() == expected.tobytes()


def test_wrong_lazy_rows_are_refused(published):
    X, model = rows(), published.model
    X[450, 2] = np.nan
    lazy = dask.array.from_array(X, chunks=(200, 3))
    with pytest.raises(DataError, match=r"found an array of shape \(600, 2\)"):
        model.predict(lazy[:, :2])
    with pytest.raises(DataError, match=r"the rows: column 'x2' has 1 missing .*at row 450\)"):
        model.predict(lazy).compute()
    parts = dask.dataframe.from_pandas(pd.DataFrame(frame(X)), npartitions=2)
    with pytest.raises(DataError, match=r"rows of a partition: column 'x2' has 1 .*at row 150\)"):
        model.predict(parts).compute()
    with pytest.raises(DataError, match=r"the rows of chunk 1: column 'x2' has 1 .*at row 150\)"):
        model.predict(parts[list(COLUMNS)].to_dask_array()).compute()
    with pytest.raises(DataError, match="each once; missing: x2; found"):
        model.predict(parts[["x0", "x1"]]).compute()


def test_shares_of_clusters(published, table, tmp_path):
    X, model = rows(1), published.model
    shares = model.predict_proba(X)
    assert (shares.shape, shares.dtype) == ((N, len(model.ids)), np.float32)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-5)
    assert (model.ids[shares.argmax(axis=1)] == model.predict(X)).all()
    assert model.predict_proba(X[:0]).shape == (0, len(model.ids))
    job = sections(table, tmp_path / "out") | {"model": MODELS["linear"]}
    with pytest.raises(DataError, match="predict_proba needs a model with clusters"):
        distsvc.run(job).model.predict_proba(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((4, 2)), r"expected an array of 3 columns \(x0, x1, x2\), .*shape \(4, 2\)"),
        (np.zeros(3), r"found an array of shape \(3,\)"),
        (np.full((2, 3), "1"), "expected an array of numbers, found dtype <U1"),
        ({"x0": [1.0], "x1": [1.0]}, "expected the model's 3 columns, .* x2; found: x0, x1"),
        (pl.DataFrame({"x0": ["a"], "x1": [1], "x2": [1]}), "column 'x0' is text, expected"),
        ({"x0": [1.0], "x1": [1.0, 2.0], "x2": [1.0]}, "can't be read"),
        ([[1.0, 2.0, 3.0]], "expected an array .* found builtins.list"),
        ("x.parquet", "found builtins.str 'x.parquet'"),
        (None, "found builtins.NoneType None"),
        (iter([[1.0, 2.0]]), r"found builtins.list \[1.0, 2.0\]"),
    ],
)
def test_objects_that_are_no_rows_are_refused(published, X, message):
    with pytest.raises(DataError, match=message):
        published.model.predict(X)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, None, 1e300])
def test_values_that_the_job_refuses(published, value):
    column = np.arange(9.0).tolist()
    column[7] = value
    X = pa.table({"x0": column, "x1": [1.0] * 9, "x2": [1.0] * 9})
    message = r"the rows: column 'x0'.* row 7(\)|: expected .*, found|: 1e\+300 is too large)"
    with pytest.raises(DataError, match=message):
        list(published.model.predict_batches(X.to_batches(max_chunksize=2)))


def with_gaps():
    X = rows(1, 50)
    X[3, 1] = X[49, 0] = np.nan
    return X


@pytest.fixture(scope="module", params=["drop", "median"])
def with_missing(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("missing")
    X = rows()
    X[5, 0] = np.nan
    path = write_table(folder / "t.parquet", X)
    job = sections(path, folder / "out", preprocess={"missing": request.param})
    return request.param, distsvc.run(job | {"input": {"path": path}})


def test_missing_values_are_treated_as_by_the_job(with_missing, tmp_path):
    kind, run = with_missing
    path = write_table(tmp_path / "new.parquet", with_gaps())
    predict_table(run.path, str(path), str(tmp_path / "out"))
    expected = distsvc.load(tmp_path / "out").labels()
    places = expected["row"].to_numpy()
    labels, scores = run.model.predict(with_gaps()), run.model.score_samples(with_gaps())
    assert labels[places].tolist() == expected["label"].to_pylist()
    assert scores[places].tolist() == expected["score"].to_pylist()
    found = pa.Table.from_batches(run.model.predict_batches(pq.read_table(path)))
    assert found["label"].take(places).combine_chunks().equals(expected["label"].combine_chunks())
    if kind == "drop":
        assert np.flatnonzero(labels == -1).tolist() == [3, 49]
        assert np.flatnonzero(np.isnan(scores)).tolist() == [3, 49]
        lazy = dask.array.from_array(with_gaps(), chunks=(10, 3))
        assert run.model.predict(lazy).compute().tolist() == labels.tolist()
        shares = run.model.predict_proba(lazy).compute()
        assert np.flatnonzero(np.isnan(shares).all(axis=1)).tolist() == [3, 49]
        assert [found[name].null_count for name in found.column_names] == [2, 2, 2]


def test_ids_are_passed_on(published, table):
    stored = pq.read_table(table)
    found = pa.Table.from_batches(published.model.predict_batches(stored))
    assert found.equals(published.labels().combine_chunks())
    by_index = stored.to_pandas().set_index("ident")
    assert pa.Table.from_batches(published.model.predict_batches(by_index)).equals(found)
    without = next(published.model.predict_batches(stored.drop_columns("ident")))
    assert without.schema.names == ["label", "score", "outlier", "reasons"]


def test_a_stream_is_read_lazily(published):
    read = []

    def batches():
        for k in range(5):
            read.append(k)
            yield pa.record_batch(frame(rows(k, 10)))

    found = published.model.predict_batches(batches())
    assert read == []
    assert next(found).num_rows == 10
    assert read == [0]


def test_labels_are_published_ids_not_indices(published, table, tmp_path):
    model = distsvc.load(copied(Path(published.path), tmp_path)).model
    model._labeller.ids[:] = model._labeller.ids[::-1] + 5
    assert (model.predict(rows()) == model.ids[published.model.predict(rows())]).all()


def test_a_path_without_a_run(tmp_path):
    with pytest.raises(InputNotFoundError, match="expected the output path of a run"):
        distsvc.load(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(JobFileError, match="format 99"):
        distsvc.load(tmp_path)


# --- columns other than plain numbers


@pytest.fixture(scope="module")
def with_features(tmp_path_factory):
    """A model of a vector, a logarithm, a duration and a number; rows have length 1."""
    folder = tmp_path_factory.mktemp("features")
    path = folder / "t.parquet"
    pq.write_table(stored(rows()), path)
    job = sections(path, folder / "out", preprocess={"scale": "unit", "log": ["b"]})
    return distsvc.run(job | {"input": {"path": path}, "model": MODELS["hyperplanes"]})


def stored(X):
    seconds = (X[:, 0] * 1000).astype("m8[s]")
    vectors = pa.FixedSizeListArray.from_arrays(X[:, :2].astype(np.float32).ravel(), 2)
    columns = {"took": seconds, "v": vectors, "b": np.exp(X[:, 1]), "x": X[:, 2]}
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def test_features_are_computed_as_in_the_job(with_features, tmp_path):
    model, given = with_features.model, stored(rows(1))
    pq.write_table(given, tmp_path / "t.parquet")
    predict_table(with_features.path, str(tmp_path / "t.parquet"), str(tmp_path / "out"))
    expected = distsvc.load(tmp_path / "out").labels(["label", "score", "outlier"])
    assert model.columns == ("took", "v", "b", "x")
    assert model.array_columns == ("took", "v[0]", "v[1]", "b", "x")
    for X in given, given.select(["x", "b", "v", "took"]), pl.DataFrame(given), given.to_pandas():
        assert model.label(X).combine_chunks().equals(expected.combine_chunks())


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("v", [[1.0, 2.0], [3.0]], "column 'v', row 1: expected a list of 2 numbers"),
        ("v", [1.0, 2.0], "column 'v' is a number, expected vectors of 2 numbers"),
        ("took", [1.0, 2.0], "column 'took' is a number, expected dates, times or durations"),
        ("took", ["1 s", "2 s"], "column 'took' is text, .*; convert it by pandas.to_datetime"),
        ("took", [None, None], r"column 'took' has 2 missing values .*first at row 0\)"),
        ("v", [None, None], r"column 'v\[0\]' has 2 missing values .*first at row 0\)"),
    ],
)
def test_values_that_do_not_suit_a_feature_are_refused(with_features, column, values, message):
    X = stored(rows(1, 2)).drop_columns(column).append_column(column, pa.array(values))
    with pytest.raises(DataError, match=message):
        with_features.model.predict(X)


def test_rows_of_length_zero_and_arrays_without_types_are_refused(with_features):
    X = stored(np.vstack([rows(1, 2), np.zeros((1, 3))]))
    X = X.set_column(2, "b", pa.array([1.0, 1.0, 0.0]))
    with pytest.raises(DataError, match="row 2: found only zeros, expected"):
        with_features.model.predict(X)
    with pytest.raises(DataError, match=r"column 'took' holds dates, times .*expected a table"):
        with_features.model.predict(np.ones((2, 5)))


# --- tables in memory

SMALL = {"model.algorithm": "bico", "model.n_clusters": 3, "cluster.workers": 0}


@pytest.mark.parametrize("kind", ["pandas", "duckdb"])
def test_a_table_in_memory_is_clustered(kind):
    columns = {f"x{k}": rows()[:, k] for k in range(3)} | {"tier": ["a", "b", "c"] * 200}
    table = pa.table(columns)
    given = {"pandas": lambda: pd.DataFrame(columns), "duckdb": lambda: duckdb.from_arrow(table)}[
        kind
    ]()
    run = distsvc.run(given, overrides=SMALL)
    assert run.report.input.n_rows == N
    joined = run.labels(join=True)
    assert joined.column_names == [*columns, "row", "label", "score", "outlier"]
    assert joined.select(["x0", "tier"]).to_pydict() == table.select(["x0", "tier"]).to_pydict()
    outliers = run.labels(filter="label == 1", join=True, columns="label")
    assert outliers.column_names == [*columns, "label"]
    assert set(outliers["label"].to_pylist()) == {1}
    folder = Path(run.path)
    assert folder.exists()
    del run
    assert not folder.exists(), "nothing is left in the temporary folder"


def test_a_table_in_memory_can_have_an_output_and_ids(tmp_path):
    index = pd.Index(np.arange(N) * 3, name="customer")
    frame = pd.DataFrame(rows(), columns=list(COLUMNS), index=index)
    asked = SMALL | {"output.path": str(tmp_path / "out")}
    first = distsvc.run(frame, overrides=asked)
    assert first.labels().column_names[0] == "customer"
    joined = first.labels(join=True, filter="label == 0")
    assert np.allclose(joined["x1"], frame.loc[joined["customer"].to_numpy(), "x1"])
    second = distsvc.run(frame[:400], overrides=asked)
    assert (second.report.input.n_rows, second.path) == (400, str(tmp_path / "out"))
    del first, second
    assert (tmp_path / "out/manifest.json").exists()
    distsvc.run(frame.reset_index(), overrides=asked | {"input.columns": ["x0"]})
    other = write_table(tmp_path / "t.parquet", rows())
    distsvc.run(other, overrides=asked, overwrite=True)
    with pytest.raises(JobFileError, match="already published by a different configuration"):
        distsvc.run(frame, overrides=asked)


def test_labels_are_joined_with_the_table_of_a_published_run(table, tmp_path):
    copy = tmp_path / "t.parquet"
    shutil.copy(table, copy)
    found = distsvc.run(sections(copy, tmp_path / "out", input={"where": "x0 > 9"}))
    joined = found.labels(join=True)
    whole = pq.read_table(copy).to_pydict()
    place = {one: k for k, one in enumerate(whole["ident"])}
    assert joined.column_names[:4] == ["x0", "x1", "x2", "ident"]
    assert joined["x2"].to_pylist() == [
        whole["x2"][place[one]] for one in joined["ident"].to_pylist()
    ]
    assert joined.num_rows == found.labels().num_rows < N
    write_table(copy, rows(1), ident=np.arange(N) * 7)
    with pytest.raises(DataError, match=r"t\.parquet has changed since the run"):
        found.labels(join=True)


def test_a_frame_that_arrow_can_not_read_is_refused():
    fault = (
        "the table: column 'a', row 1: expected a whole number, as in the earlier rows, found 'x'"
    )
    with pytest.raises(DataError, match=fault):
        distsvc.run(pd.DataFrame({"a": [1, "x", object()]}))
    frame = pd.DataFrame({"a": [1.0, 2.0], "n": pd.Series([10**20, 7], dtype=object)})
    with pytest.raises(
        DataError, match=r"the table: column 'n', row 0: .* 2\*\*63 - 1, found 10000"
    ):
        distsvc.run(frame)
    with pytest.raises(DataError, match="the table has two columns named 'a': rename one"):
        distsvc.run(pd.DataFrame(np.zeros((9, 3)), columns=[*"aba"]))


def test_an_error_of_a_frame_names_no_file_and_no_option():
    words = 'the table: column \'a\' has .*; add overrides={"preprocess.missing": "median"}, or "'
    with pytest.raises(DataError, match=f"^{words}"):
        distsvc.run(pd.DataFrame({"a": [1.0, None] * 60}), overrides={"model.algorithm": "kmeans"})
    with pytest.raises(JobFileError, match=r"^overrides: unknown key 'model\.clusters'"):
        distsvc.run(pd.DataFrame({"a": [1.0, 2.0] * 60}), overrides={"model.clusters": 3})
