"""Estimators on tables that are read block by block: dask, Zarr, and tables of Arrow."""

import datetime
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import duckdb
import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
import zarr
from sklearn.datasets import make_blobs

from distsvc import (
    AutoClustering,
    IncrementalMDH,
    LinearOneClassSVM,
    LinearSVDD,
    SupportVectorClustering,
)
from distsvc.baselines import BICO, SPDC
from distsvc.errors import UnusableRowsError
from distsvc.inputs import rows as input_rows
from distsvc.inputs.given import opened
from distsvc.inputs.rows import Spool, readable_again
from distsvc.models.bases import passes
from distsvc.models.rows import sampling
from distsvc.models.support_vector.level_tree import ensemble

N, D = 10_500, 4
NAMES = [f"f{k}" for k in range(D)]

ESTIMATORS = {
    "level tree": SupportVectorClustering(gamma=[0.1, 0.3], max_iter=1000, random_state=0),
    "noise": SupportVectorClustering(
        effort="fast", max_iter=500, noise=True, nu=0.2, random_state=1
    ),
    "boundary": SupportVectorClustering(gamma=0.1, nu=0.1, max_iter=2000, random_state=0),
    "trees": IncrementalMDH(depth=4, n_init=2, passes=1, max_samples=1000, random_state=0),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Let fits use a part of the rows, as of a large table; dask computes in this thread."""
    monkeypatch.setattr(ensemble, "SIGNIFICANCE_ROWS", 2000)
    with dask.config.set(scheduler="synchronous"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def rows(dtype="float64", n=N):
    return make_blobs(n, D, centers=4, cluster_std=1.5, random_state=0)[0].astype(dtype)


def table(X):
    return pa.table(dict(zip(NAMES, X.T, strict=True)))


def frame(X):
    return pd.DataFrame(X, columns=NAMES, index=np.arange(len(X))[::-1])


def fresh(name):
    return ESTIMATORS[name].__class__(**ESTIMATORS[name].get_params())


def same(found, expected):
    """Return True if values, lazy or not, equal the expected ones to the bit."""
    found = np.asarray(found)
    return found.dtype == expected.dtype and np.array_equal(found, expected)


_OF_THE_ARRAY = {}


def of_the_array(name, dtype="float64"):
    """Return an array's labels from `fit` and `predict`, and its scores."""
    if (name, dtype) not in _OF_THE_ARRAY:
        X = rows(dtype)
        model = fresh(name).fit(X)
        assert model.n_clusters_ > 1
        _OF_THE_ARRAY[name, dtype] = model.labels_, model.predict(X[:500]), model.score_samples(X)
    return _OF_THE_ARRAY[name, dtype]


LARGE = {
    "dask, long chunks": lambda X: da.from_array(X, chunks=(6000, D)),
    "dask, short and narrow chunks": lambda X: da.from_array(X, chunks=(170, 3)),
    "zarr": lambda X: zarr.array(X, chunks=(611, 2)),
    "reader": lambda X: table(X).to_reader(max_chunksize=77),
}


OFTEN = [(kind, dtype) for kind in LARGE for dtype in ("float32", "float64")]


@pytest.mark.parametrize(
    ("name", "kind", "dtype"),
    [
        *[("trees", *each) for each in OFTEN],
        *[("boundary", *each) for each in OFTEN[::3]],
        *[("level tree", *each) for each in OFTEN[::2]],
        ("noise", "zarr", "float32"),
    ],
)
def test_labels_and_scores_are_those_of_the_array_to_the_bit(name, kind, dtype, monkeypatch):
    labels, predicted, scores = of_the_array(name, dtype)
    X, make = rows(dtype), LARGE[kind]
    monkeypatch.setattr(input_rows, "BLOCK_VALUES", 9001 if kind == "zarr" else 2**20)
    model = fresh(name).fit(make(X))
    assert same(model.labels_, labels)
    assert same(model.predict(make(X[:500])), predicted)
    assert same(model.score_samples(make(X)), scores)


KINDS = {
    "dask dataframe": lambda X: dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3),
    "pandas": frame,
    "polars": lambda X: pl.from_arrow(table(X)),
    "LazyFrame": lambda X: pl.from_arrow(table(X)).lazy().filter(pl.col("f0") > -1e9),
    "narwhals": lambda X: narwhals.from_native(pl.from_arrow(table(X))),
    "narwhals, lazy": lambda X: narwhals.from_native(pl.from_arrow(table(X)).lazy()),
    "Arrow table": table,
    "Arrow dataset": lambda X: pyarrow.dataset.dataset(table(X)),
    "DuckDB": lambda X: duckdb.connect().from_arrow(table(X)),
    "reader": lambda X: table(X).to_reader(),
    "dictionary": lambda X: dict(zip(NAMES, X.T, strict=True)),
    "batches": lambda X: table(X).to_batches(max_chunksize=777),
    "frames, one after another": lambda X: map(frame, np.split(X, [100])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_queries_and_streams_keep_their_names(kind):
    X, make = rows(), KINDS[kind]
    labels, predicted, _ = of_the_array("trees")
    model = fresh("trees").fit(make(X))
    assert model.feature_names_in_.tolist() == NAMES
    assert same(model.labels_, labels)
    assert same(model.predict(make(X[:500])), predicted)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table(X).rename_columns(NAMES[::-1]))


def test_dask_in_is_dask_out_and_nothing_is_computed_before_it_is_asked_for():
    read = []

    def noted(block):
        read.append(len(block))
        return block

    X = rows()
    lazy = da.from_array(X, chunks=(6000, D)).map_blocks(noted, meta=np.empty((0, 0)))
    model = fresh("trees")
    labels = model.fit_predict(lazy)
    assert sorted(read) == [4500, 6000]
    assert (labels.dtype, labels.chunks) == (np.int32, ((6000, 4500),))
    assert same(labels[-10:], of_the_array("trees")[0][-10:])
    assert sorted(read) == [4500, 4500, 6000]


def test_a_dask_dataframe_gets_a_series_with_its_index():
    X = rows()
    read = []

    def noted(part):
        read.append(len(part))
        return part

    parts = dd.from_pandas(frame(X).sort_index(), npartitions=3)
    parts = parts.map_partitions(noted, meta=frame(X[:0]))
    model = fresh("trees").fit(X)
    labels, scores = model.predict(parts), model.score_samples(parts)
    assert read == []
    assert (labels.name, labels.dtype, scores.name) == ("label", np.int32, "score")
    assert labels.divisions == parts.divisions
    assert same(labels.compute().sort_index(ascending=False), model.labels_)


@pytest.mark.parametrize("name", ["level tree", "boundary", "trees"])
def test_shares_of_clusters_are_as_lazy_as_the_rows(name):
    X = rows()
    model = fresh(name).fit(X)
    shares, k = model.predict_proba(X), model.n_clusters_
    lazy = model.predict_proba(da.from_array(X, chunks=(6000, 2)))
    assert (lazy.dtype, lazy.chunks) == (np.float32, ((6000, 4500), (k,)))
    parts = dd.from_pandas(frame(X).sort_index(), npartitions=3)
    of_parts = model.predict_proba(parts)
    assert of_parts.columns.tolist() == list(range(k))
    assert of_parts.divisions == parts.divisions
    for found in (
        lazy,
        of_parts.compute().sort_index(ascending=False),
        model.predict_proba(table(X)),
    ):
        assert same(found, shares)


def with_value(value, row):
    X = rows(n=500)
    X[row, 2] = value
    return X


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [*LARGE, "DuckDB", "dask dataframe", "LazyFrame"])
def test_an_error_names_the_row_of_a_missing_value(kind, value):
    named = "2" if kind.startswith(("dask,", "zarr")) else "'f2'"
    make = (LARGE | KINDS)[kind]
    with pytest.raises(UnusableRowsError, match=f"column {named}, row 321: .* found {value}"):
        fresh("trees").fit(make(with_value(value, 321)))


def unusable(**columns):
    return pa.table({"a": np.arange(9.0)} | columns)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (unusable(b=["x"] * 9), "column 'b' is text, expected numbers"),
        (unusable(b=[datetime.date(2026, 1, 1)] * 9), "column 'b' is a date"),
        (unusable(b=[[1.0, 2.0]] * 9), "column 'b' is list"),
        (pl.LazyFrame({"a": ["x", "y"]}), "column 'a' is text"),
        (
            pd.DataFrame({"a": [1.0, "x"]}),
            "X: column 'a', row 1: expected a number, as in the earlier rows, found 'x'",
        ),
        (
            pd.DataFrame({"a": [1.0, 2.0], "b": pd.Series([7, 10**20], dtype=object)}),
            r"X: column 'b', row 1: expected a whole number from .* found 10{20}: convert",
        ),
        ({"a": [1.0, 2.0], "b": [7, 10**20]}, r"column 'b', row 1: expected a whole number"),
        (
            pd.DataFrame([[1.0, 2.0, 3.0]] * 9, columns=[*"bab"]),
            "X has two columns named 'b'",
        ),
        (pa.Table.from_arrays([pa.array([1.0])] * 2, ["a", "a"]), "two columns named 'a'"),
        (pa.table({}), "X has no columns"),
        (da.zeros(9, chunks=3), "Expected 2D array, got 1D array"),
        (da.zeros((9, 2, 2), chunks=3), "Expected 2D array, got 3D array"),
        (da.zeros((9, 0), chunks=3), "X has 0 columns"),
        (da.zeros((9, 2), chunks=3, dtype=complex), "array of numbers, found dtype complex128"),
        (zarr.array(np.zeros(9)), "Expected 2D array, got 1D array"),
        (zarr.array(np.zeros((9, 2), complex)), "array of numbers, found dtype complex128"),
        (da.zeros((1, 2), chunks=3), "minimum of 2 is required"),
        (unusable().slice(0, 1).to_reader(), "minimum of 2 is required"),
        (da.full((9, 2), 1e300), "scale the features"),
        (dd.from_pandas(pd.Series(np.zeros(9)), npartitions=1), "expected an array .*Series"),
        ([unusable(), unusable(b=np.zeros(9))], "equal columns in all tables, found .*'b'"),
        ([unusable(), unusable().cast(pa.schema({"a": pa.string()}))], "column 'a' is text"),
    ],
)
def test_inputs_that_are_no_table_of_numbers(X, message):
    for model in (IncrementalMDH(), SupportVectorClustering()):
        with pytest.raises(ValueError, match=message):
            model.fit(X)


def test_the_row_of_an_unreadable_value_is_that_of_the_table():
    values = [1.0] * 200_000 + ["n.d."] + [2.0] * 50_000
    with pytest.raises(UnusableRowsError, match=r"column 'a', row 200000: .* found 'n.d.'"):
        AutoClustering().fit(pd.DataFrame({"a": values}))
    series = pd.Series([1.0, 2.0, "n.d."], index=[5, 6, 2])
    with pytest.raises(UnusableRowsError, match=r"column 'a', row 2: .* found 'n.d.'"):
        AutoClustering().fit({"a": series})


def test_an_array_stored_without_chunks_is_read_by_slices():
    X = rows()
    read = []

    class Stored:  # as a dataset of h5py
        shape, dtype, chunks = X.shape, X.dtype, None

        def __getitem__(self, some):
            read.append(some.stop - some.start)
            return X[some]

    assert np.array_equal(np.concatenate(list(opened(Stored()).blocks())), X)
    assert max(read) <= input_rows.block_rows(D)


def test_the_number_of_columns_is_checked():
    model = fresh("trees").fit(rows())
    for X in (da.zeros((9, 3), chunks=3), table(rows(n=9)).select(NAMES[:3]).to_reader()):
        with pytest.raises(ValueError, match="X has 3 features, but IncrementalMDH is expecting 4"):
            model.predict(X)


def test_a_reader_can_be_read_once():
    reader = table(rows()).to_reader()
    model = fresh("trees").fit(reader)
    with pytest.raises(UnusableRowsError, match="a stream that has been read has no rows left"):
        model.predict(reader)
    source = opened(table(rows()).to_reader())
    list(source.blocks())
    with pytest.raises(UnusableRowsError, match="was already read, and can be read only once"):
        list(source.blocks())


@pytest.mark.parametrize("name", ["level tree", "boundary", "trees"])
def test_rows_that_change_between_two_readings_are_noticed(name):
    X = rows()

    class Query:
        shape = None

        def __init__(self, second):
            self.readings = iter([X, second, second])

        def __arrow_c_stream__(self, requested_schema=None):
            return table(next(self.readings)).__arrow_c_stream__(requested_schema)

    with pytest.raises(UnusableRowsError, match=r"row 1 that differs .* ORDER BY"):
        fresh(name).fit(Query(swapped(X)))
    with pytest.raises(UnusableRowsError, match="had 10500 rows at the first reading, 10499"):
        fresh(name).fit(Query(X[:-1]))
    with pytest.raises(UnusableRowsError, match="had 10500 rows at the first reading, 10501"):
        fresh(name).fit(Query(np.concatenate([X, X[:1]])))
    assert fresh(name).fit(Query(X)).n_clusters_ > 1


def swapped(X):
    """Return the rows with the second and the third exchanged."""
    X = X.copy()
    X[[1, 2]] = X[[2, 1]]
    return X


LAZY = da.zeros((100, D), chunks=(50, D))


@pytest.mark.parametrize(
    "call",
    [
        LinearSVDD(nu=0.1).fit,
        LinearOneClassSVM().fit,
        BICO(n_clusters=2).fit,
        SPDC().partial_fit,
        SupportVectorClustering(gamma=1.0).partial_fit,
        IncrementalMDH().partial_fit,
    ],
)
def test_fits_that_need_all_rows_refuse_blocks(call):
    name = type(call.__self__).__name__
    message = rf"{name} needs all rows in memory here, found a dask Array: give a NumPy array"
    with pytest.raises(TypeError, match=message):
        call(LAZY)


# What is held.


def test_the_sample_has_the_lowest_keys_and_few_more_rows_are_held(monkeypatch):
    monkeypatch.setattr(passes, "PILOT_ROWS", 100)
    monkeypatch.setattr(input_rows, "BLOCK_VALUES", D * 500)
    most = []
    held = passes._LowestKeys
    lower = held._lower
    monkeypatch.setattr(held, "_lower", lambda self: (most.append(self._n), lower(self))[1])
    X = rows()

    def key_ranges(n_rows):
        return sampling.key_blocks(n_rows, min(n_rows, 1000), 200)

    drawn = passes.Passes(opened(da.from_array(X, chunks=(300, D))), seed=3)
    sample, keys = drawn.draw(key_ranges)
    all_keys = sampling.row_keys(3, np.arange(N))
    order = np.argsort(all_keys)
    assert same(drawn.pilot, X[order[:100]])
    ranges = key_ranges(N)
    chosen = order[sampling.slice_by_key(all_keys[order], ranges[0][0], ranges[-1][1])]
    assert same(sample, X[chosen])
    assert same(keys, all_keys[chosen])
    assert max(most) < 2000  # of 10,500


def test_blocks_are_of_a_moderate_size_whatever_the_chunks(monkeypatch):
    monkeypatch.setattr(input_rows, "BLOCK_VALUES", D * 500)
    X = rows()
    for make in [*LARGE.values(), KINDS["DuckDB"], KINDS["pandas"], KINDS["dask dataframe"]]:
        blocks = list(opened(make(X)).blocks())
        assert max(map(len, blocks)) <= 500
        assert len(blocks) <= 2 * N / 500
        assert same(np.concatenate(blocks), X)
        assert all(block.flags.c_contiguous for block in blocks)


def test_rows_of_a_stream_are_kept_on_disk():
    X = rows("float32")
    with readable_again(opened(table(X).to_reader(max_chunksize=999))) as source:
        assert isinstance(source, Spool)
        for _ in range(3):
            blocks = list(source.blocks())
            assert same(np.concatenate(blocks), X)
            assert blocks[0].dtype == np.float32
    assert source._file.closed
    plain = opened(table(X))
    with readable_again(plain) as again:
        assert again is plain
