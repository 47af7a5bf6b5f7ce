"""Reasons and profiles of a table of 40 columns of which three matter, through whole jobs."""

import importlib

import numpy as np
import pytest

from distsvc.models.support_vector.level_tree.directions import MOST_COVARIANCES
from distsvc.published.predict import predict_table
from distsvc.run.job import run_job
from distsvc.run.reporting.explaining import MAX_VECTOR_COMPONENTS, components
from tests.models.rules.test_profiles import three_that_matter
from tests.published_files import labels_folder, read_labels
from tests.small_runs import digests, forget, small_job, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

MATTER = ["x7", "x19", "x31"]
FAR = np.arange(30)
"""Rows that are far off in one of these columns."""

PLAIN = {"preprocess": {"scale": "none"}}

WITH_OUTLIERS = {
    "level tree": {"effort": "fast", "max_iter": 2000},
    "boundary": {"gamma": 0.02, "nu": 0.1, "max_iter": 2000, "budget": 40},
}


@pytest.fixture(scope="module")
def rows():
    X, labels = three_that_matter(1500)
    X[:, 3] = np.log(X[:, 3])
    return X, labels


@pytest.fixture(scope="module")
def far_table(rows, tmp_path_factory):
    X = rows[0].copy()
    X[FAR, np.array([7, 19, 31])[FAR % 3]] += (20.0 + 2.0 * FAR) * (-1.0) ** (FAR // 3)
    return write_table(tmp_path_factory.mktemp("data") / "far.parquet", X)


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("data") / "t.parquet", rows[0])


def job_for(table, out, model, **sections):
    cluster = {"workers": 0, "partition_rows": 500, "block_rows": 140} | sections.pop("cluster", {})
    output = {"path": str(out)} | sections.pop("output", {})
    forget()
    return small_job(table, model, output=output, cluster=cluster, **sections)


@pytest.fixture(scope="module")
def asked(table, tmp_path_factory):
    """A run with reasons that tests may read, and its report."""
    out = tmp_path_factory.mktemp("asked") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            importlib.import_module("distsvc.run.reporting.files"),
            "page_of",
            lambda _: "a page",
        )
        job = job_for(table, out, WITH_OUTLIERS["boundary"], output={"reasons": 3})
        return out, run_job(job)


@pytest.mark.parametrize("name", WITH_OUTLIERS)
def test_the_column_that_is_far_off_is_the_first_reason(name, far_table, tmp_path):
    job = job_for(far_table, tmp_path / "out", WITH_OUTLIERS[name], output={"reasons": 2})
    report = run_job(job)
    found = read_labels(tmp_path / "out")
    reasons, outlier = found["reasons"].to_pylist(), found["outlier"].to_pylist()
    assert [text is not None for text in reasons] == outlier
    named = [reasons[i].startswith(f"{MATTER[i % 3]} (") for i in FAR if outlier[i]]
    assert len(named) >= 20
    assert np.mean(named) > 0.8
    counts = {entry.column: entry.rows for entry in report.reasons.leading}
    assert sum(counts.values()) <= sum(outlier)
    assert len(counts) > 2


def test_profiles_name_the_columns_that_matter(table, rows, tmp_path):
    """And typical rows are rows of the table, of the cluster, by their numbers."""
    model = {"algorithm": "bico", "n_clusters": 4}
    report = run_job(job_for(table, tmp_path / "out", model, **PLAIN))
    found = read_labels(tmp_path / "out")["label"].to_numpy()
    assert report.profiles.rows == 1500
    assert len(report.profiles.clusters) == 4
    told = set()
    for profile in report.profiles.clusters:
        told |= {column.column for column in profile.columns}
        for row in profile.typical:
            assert found[row.row] == profile.label
            expected = [rows[0][row.row, int(c.column[1:])] for c in profile.columns]
            assert row.values == expected
    assert told == set(MATTER)
    part = report.columns
    own = next(column for column in part.columns if column.column == "x19")
    for label, leaning, quartiles in zip(part.label, own.leaning, own.quartiles, strict=True):
        inside, others = (rows[0][found == label, 19], rows[0][found != label, 19])
        assert quartiles[1] == pytest.approx(np.median(inside), rel=1e-3)
        above = np.sign(inside[:, None] - others).mean()
        assert leaning == pytest.approx(above, abs=6e-4)
    explained = {column.column: column.explained for column in part.columns}
    assert {name for name, share in explained.items() if share > 0.1} == set(MATTER)


def test_neither_partitions_nor_a_saved_model_change_a_reason(asked, table, tmp_path):
    (out, first), model, reasons = asked, WITH_OUTLIERS["boundary"], {"reasons": 3}
    cut = {"partition_rows": 211, "block_rows": 50}
    again = run_job(job_for(table, tmp_path / "b", model, output=reasons, cluster=cut))
    assert read_labels(tmp_path / "b").equals(read_labels(out))
    assert (again.reasons, again.profiles) == (first.reasons, first.profiles)
    assert again.columns == first.columns
    forget()
    predict_table(out, str(table), str(tmp_path / "c"), settings={"workers": 0})
    assert read_labels(tmp_path / "c").equals(read_labels(out))
    continued = {"continuity": {"previous": str(out)}}
    job = job_for(table, tmp_path / "d", model | {"mode": "assign"}, output=reasons, **continued)
    assigned = run_job(job)
    assert digests(labels_folder(tmp_path / "d")) == digests(labels_folder(out))
    assert (assigned.reasons, assigned.profiles) == (first.reasons, first.profiles)


def test_unasked_the_farthest_rows_have_the_same_reasons(asked, table, tmp_path):
    unasked = run_job(job_for(table, tmp_path / "b", WITH_OUTLIERS["boundary"]))
    assert "reasons" not in read_labels(tmp_path / "b").column_names
    assert unasked.reasons.farthest == asked[1].reasons.farthest
    assert unasked.reasons.counted > 0
    assert asked[1].reasons.counted is None


def test_trees_of_hyperplanes_explain_the_rows_nearest_to_a_border(table, tmp_path):
    model = {"algorithm": "imdh", "n_init": 2, "n_clusters": 4}
    report = run_job(job_for(table, tmp_path / "out", model, output={"reasons": 1}, **PLAIN))
    found = read_labels(tmp_path / "out")
    known = [text is not None for text in found["reasons"].to_pylist()]
    scores = found["score"].to_numpy()
    assert 0 < sum(known) <= 0.02 * len(scores)
    assert scores[known].max() < scores[~np.array(known)].min()
    assert [row.score for row in report.reasons.farthest] == np.sort(scores)[:10].tolist()


@pytest.mark.parametrize("width", [3, 30, MOST_COVARIANCES + 1])
def test_components_are_those_of_the_singular_vectors(width):
    """Of very wide vectors, too, whose covariances are far more than their rows."""
    rows = np.random.default_rng(width).normal(size=(40, width)) * np.linspace(3.0, 1.0, width)
    found = components(rows.astype(np.float32))
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ axes[: found.shape[1]].T
    assert found.shape == (40, min(width, MAX_VECTOR_COMPONENTS))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-3, atol=1e-3)
