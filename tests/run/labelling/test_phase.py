"""The label pass: a file for each partition, and counts that add up."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.job.config import OutputConfig
from distsvc.kernels.scaling import count_between
from distsvc.models.baselines.rules import Centres
from distsvc.models.hyperplanes.tree import TreeRule
from distsvc.models.linear.rule import OneClassRule
from distsvc.models.support_vector.boundary.rule import BoundaryRule
from distsvc.models.support_vector.level_tree.rule import LevelRule
from distsvc.run.labelling.columns import published_names
from distsvc.run.labelling.counts import Counts
from distsvc.run.labelling.labeller import HISTOGRAM_BINS, Labeller, score_edges
from distsvc.run.labelling.phase import label_partition
from distsvc.run.learning.preparation import Preparation
from distsvc.storage.publishing.formats import part_file
from distsvc.storage.rows.blocks import Block
from tests.small_runs import FORMS, digests, fit, small_job, three_clusters, write_table

N = 700
X = three_clusters(N)
EDGES = np.linspace(-2.0, 2.0, HISTOGRAM_BINS + 1)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    ids = np.random.default_rng(1).permutation(N) + 10_000
    y = pa.array([None if i % 50 == 0 else "ab"[i % 2] for i in range(N)])
    path = tmp_path_factory.mktemp("data") / "t.parquet"
    return write_table(path, X, event=pa.array(ids), kind=y)


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


@pytest.mark.parametrize("rule", [LevelRule, BoundaryRule, TreeRule, Centres, OneClassRule])
def test_names_of_published_columns(rule):
    columns = ["label", "score", "outlier"]
    assert published_names(rule, asked()) == columns
    assert published_names(rule, asked(reasons=2)) == [*columns, "reasons"]
    assert published_names(rule, asked(membership=True)) == [*columns, "membership"]
    more = ["reasons", "membership", "next", "next_share"]
    assert published_names(rule, asked(reasons=1, top=2)) == [*columns, *more]


def asked(**keys):
    return OutputConfig(path="out", **keys)


@pytest.mark.parametrize("form", FORMS)
def test_labels_of_a_partition_are_those_of_the_rule(form, table, tmp_path):
    columns = {"columns": ["x0", "x1"], "id": "event", "label": "kind"}
    run = fit(small_job(table, FORMS[form], input=columns), tmp_path / "run").run
    first = label_partition(run, 1)
    files = digests(Path(run.place("labels").address))
    assert list(files) == ["part-00001.parquet"]
    again = label_partition(run, 1)
    assert digests(Path(run.place("labels").address)) == files
    assert again.facts == first.facts
    [(name, part)] = first.facts["files"].items()
    assert (name, part["sha256"]) == ("part-00001.parquet", files["part-00001.parquet"])
    assert first.rows == part["rows"] == 300
    start, stop = run.plan.partitions[1]
    found = pq.read_table(Path(run.place("labels").address) / part_file(1))
    expected = Labeller.read(run).rule.label(Preparation.read(run)(X[start:stop]))
    assert found.column_names == ["event", *expected]
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name].to_numpy(), values)
    ids = pq.read_table(table)["event"].to_numpy()[start:stop]
    np.testing.assert_array_equal(found["event"].to_numpy(), ids)
    assert set(json.loads(first.arrays["class_names"].tobytes())) == {"a", "b", "null"}


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
