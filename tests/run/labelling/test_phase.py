"""The label pass: a file for each partition, and counts that add up."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.kernels.scaling import count_between
from distsvc.run.labelling.counts import Counts
from distsvc.run.labelling.labeller import HISTOGRAM_BINS, Labeller, score_edges
from distsvc.storage.rows.blocks import Block
from tests.small_runs import FORMS, fit, small_job, table_of, three_clusters

N = 700
X = three_clusters(N)
EDGES = np.linspace(-2.0, 2.0, HISTOGRAM_BINS + 1)


table = table_of(X)


def random_columns(n, seed):
    random = np.random.default_rng(seed)
    score = random.normal(size=n).astype(np.float32)
    label = random.integers(0, 4, n).astype(np.int32)
    return {"label": label, "score": score, "outlier": score < -1.0}


VALUES = np.random.default_rng(3).normal(size=(N, 3))
COLUMN_EDGES = {"": np.linspace(-1.0, 1.0, 18).reshape(2, 9), "previous-": np.zeros((1, 9))}
PLACES = {"": [2, 0], "previous-": [1]}


def counted(columns, classes, parts):
    """Count blocks, and merge the arrays of the parts."""
    whole = Counts.empty(4, EDGES, COLUMN_EDGES, PLACES)
    for places in parts:
        part = Counts.empty(4, EDGES, COLUMN_EDGES, PLACES)
        for rows in np.array_split(places, 3):
            own = {name: values[rows] for name, values in columns.items()}
            known = None if classes is None else classes.take(pa.array(rows))
            assert part.add(Block(rows, VALUES[rows], None, known), VALUES[rows], own) == {}
        assert part.n_rows == len(places)
        whole.merge(part.arrays())
    return whole


@pytest.mark.parametrize("n_parts", [1, 3, 10])
def test_counts_add_up_over_partitions(n_parts):
    columns = random_columns(600, 0)
    classes = pa.array(np.random.default_rng(2).choice(["x", "y", "z"], 600))
    parts = np.array_split(np.arange(600), n_parts)
    found = counted(columns, classes, parts)
    label, outlier = columns["label"], columns["outlier"]
    inside = np.bincount(label[~outlier], minlength=4)
    outside = np.bincount(label[outlier], minlength=4)
    np.testing.assert_array_equal(found.sizes, np.column_stack([inside, outside]))
    assert found.n_rows == 600
    clipped = np.clip(columns["score"], -2.0, 2.0)
    np.testing.assert_array_equal(found.histogram, np.histogram(clipped, EDGES)[0])
    assert found.histogram.sum() == 600
    for name, edges in COLUMN_EDGES.items():
        expected = np.zeros((len(edges), 11), np.int64)
        count_between(np.ascontiguousarray(VALUES[:600, PLACES[name]]), edges, expected)
        np.testing.assert_array_equal(found.columns[name].counts, expected)
    assert set(found.classes) == {"x", "y", "z"}
    for name, rows in found.classes.items():
        own = label[(classes.to_numpy(zero_copy_only=False) == name)]
        np.testing.assert_array_equal(rows, np.bincount(own, minlength=4))


@pytest.mark.parametrize(
    "scores", [[-5.0, -4.0, -9.0], [1.0, 1.0, 1.0, 1.0, 1.0, -50.0], [2.0, 2.0]]
)
def test_outliers_have_bins_of_their_own(scores):
    """No bin has scores on both sides of 0, even if all rows lie outside or share one score."""
    edges = score_edges(np.array(scores), 0.0)
    assert (np.diff(edges) > 0.0).all()
    assert edges[-1] >= max(scores)
    if min(scores) < 0.0:
        assert edges[1] <= 0.0


@pytest.mark.parametrize("form", FORMS)
def test_reasons_are_written_and_counted(form, table, tmp_path):
    """Outliers have reasons; without outliers, the rows with the lowest scores."""
    given = {"input": {"columns": ["x0", "x1"]}, "output": {"reasons": 1}}
    share = {"nu": 0.05} if form == "level-tree" else {}
    run = fit(small_job(table, FORMS[form] | share, **given), tmp_path)
    labelled = run.label()
    found = pq.read_table(sorted(Path(run.run.place("labels").address).iterdir()))
    least = Labeller.read(run.run).typical.least
    far = found["score"].to_numpy() < least
    assert 0 < far.sum() < 0.3 * N
    if run.rule.words.has_outliers:
        assert far.tolist() == found["outlier"].to_pylist()
    reasons = found["reasons"].to_pylist()
    assert [text is not None for text in reasons] == far.tolist()
    leading = [sum(text.startswith(name) for text in reasons if text) for name in ("x0", "x1")]
    assert labelled.optional[0].leading.tolist() == leading
    assert sum(leading) > 0
