"""The level tree as a job: the same bytes however it is cut, and those of the estimator."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from distsvc import SupportVectorClustering
from distsvc.models.rows import sampling
from distsvc.models.support_vector.level_tree import ensemble
from distsvc.run.reporting import files as report_files
from tests.jobs.level_tree_jobs import MODEL, blobs, model_of, run
from tests.published_files import published_file, read_labels
from tests.small_runs import table_of

pytestmark = pytest.mark.usefixtures("quick_page")

CUTS = [(64, 250), (333, 450)]
GIVEN = {"columns": ["x0", "x1"], "label": "class"}


table = table_of(blobs(2)[0], **{"class": blobs(2)[1]})


@pytest.fixture(scope="module")
def published(table, tmp_path_factory):
    """One run, done in this process, that tests may read and not change."""
    out = tmp_path_factory.mktemp("out") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_files, "page_of", lambda _: "a page")
        return out, run(table, out, input=GIVEN)


def rows_of(table):
    data = pq.read_table(table, columns=GIVEN["columns"])
    return np.column_stack([column.to_numpy() for column in data.columns])


@pytest.mark.filterwarnings("ignore:Weak evidence")
@pytest.mark.parametrize(
    ("module", "name"), [(ensemble, "SIGNIFICANCE_ROWS"), (sampling, "BLOCK_ROWS")]
)
def test_a_large_sample_has_one_answer_however_it_is_cut(
    table, published, tmp_path, monkeypatch, module, name
):
    """Splits are tested on shares of it, and passes take its blocks in different orders."""
    monkeypatch.setattr(module, name, 100)
    outs = [tmp_path / "out-64", tmp_path / "out-333"]
    reports = [run(table, out, input=GIVEN, cut=cut) for out, cut in zip(outs, CUTS, strict=True)]
    assert reports[0].levels == reports[1].levels
    assert len({published_file(out, "arrays.npz").read_bytes() for out in outs}) == 1
    zs = [[one.z for one in report.levels.tree.branches] for report in (reports[0], published[1])]
    assert zs[0] != zs[1]
    arrays, found = model_of(outs[0]), read_labels(outs[0])
    X = (rows_of(table) - arrays["centre"]) / arrays["scale"]
    estimator = SupportVectorClustering(**MODEL, random_state=0).fit(X)
    np.testing.assert_array_equal(found["label"], estimator.labels_)
    np.testing.assert_array_equal(found["score"], estimator.decision_function(X))
    assert [one.model_dump() for one in reports[0].levels.candidates] == estimator.candidates_


# What the job asks for


def test_a_number_and_a_penalty(flat, tmp_path):
    """One model is trained, with C; rows are scored by their distances from near ones."""
    report = run(flat, tmp_path / "out", {"labelling": "level-tree", "gamma": 16.0, "C": 10.0})
    facts, arrays = report.model.fitted, model_of(tmp_path / "out")
    assert (facts["gamma"], facts["C"], facts["n_models"]) == (16.0, 10.0, 1)
    assert facts["n_support_vectors"] == len(arrays["a"])
    Z = (blobs(2)[0] - arrays["centre"]) / arrays["scale"] - arrays["origin"]
    squares = ((Z[:, :, None] - arrays["near_points"][None]) ** 2).sum(axis=1)
    squares.sort(axis=1)
    near = json.loads(published_file(tmp_path / "out", "model.json").read_text())["facts"]
    first = (squares[:, 0] < 1e-12).astype(int)  # a row is not near itself
    means = [own[a : a + 35].mean() for own, a in zip(squares, first, strict=True)]
    expected = -0.5 * np.log(np.maximum(means, near["near_least"]))
    expected = (expected - near["near_limit"]) / near["near_unit"]
    found = read_labels(tmp_path / "out")
    np.testing.assert_allclose(found["score"], expected, rtol=1e-3, atol=4e-3)
    np.testing.assert_array_equal(found["outlier"], found["score"].to_numpy() < 0.0)
    assert report.levels.why[0].startswith("The weakest split is ")
