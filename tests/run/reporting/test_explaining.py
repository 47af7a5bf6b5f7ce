"""Parts of the report that explain an answer, and the picture of the pilot."""

import numpy as np
import pytest

from distsvc.models.baselines.rules import Centres
from distsvc.models.linear.rule import BallRule
from distsvc.models.rows.principal_components import MOST_COVARIANCES
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.run.job import run_job
from distsvc.run.reporting.explaining import components, labelled_pilot, plane
from tests.models.rules.test_profiles import three_that_matter
from tests.models.rules.test_rule import RULES
from tests.published_files import labels_of, read_labels
from tests.small_runs import FORMS, fit, forget, small_job, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

MATTER = ["x7", "x19", "x31"]
FAR = np.arange(30)
"""Rows with an extreme value in one of these columns."""

PLAIN = {"preprocess": {"scale": "none"}}
MODELLED = {"scale": None}

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


@pytest.mark.parametrize("name", WITH_OUTLIERS)
def test_the_extreme_column_is_the_first_reason(name, far_table, tmp_path):
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
    """Typical rows are rows of the table that belong to the cluster."""
    model = {"algorithm": "bico", "n_clusters": 4}
    report = run_job(job_for(table, tmp_path / "out", model, **PLAIN))
    found = labels_of(tmp_path / "out")
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
    """Also for very wide vectors, which have far more covariances than rows."""
    rows = np.random.default_rng(width).normal(size=(40, width)) * np.linspace(3.0, 1.0, width)
    found = components(rows.astype(np.float32))
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ axes[: found.shape[1]].T
    assert found.shape == (40, min(width, PAGE_LIMITS.vector_components))
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-3, atol=1e-3)


OUTLYING = BallRule(np.zeros(2), np.zeros(2), -1.0)
BORDERS = Centres(np.eye(2))


def drawn(X, scores, rule=OUTLYING, raw=None):
    columns = [f"c{k}" for k in range(X.shape[1])]
    labels = np.arange(len(X), dtype=np.int32) % 3
    return plane(rule, columns, X if raw is None else raw, X, labels, np.asarray(scores))


def test_two_columns_are_drawn_as_they_are():
    raw = np.array([[1.0, 200.0], [1.1, 180.0], [1.123456789, 300.0]])
    found = drawn((raw - 1.0) / 7.0, [1.0, -0.5, 0.0], raw=raw)
    assert (found.kind, found.axes, found.explained) == ("columns", ["c0", "c1"], None)
    assert found.beyond == 0
    assert (found.x, found.y) == ([1.0, 1.1, 1.123457], [200.0, 180.0, 300.0])
    assert found.label == [0, 1, 2]
    assert found.outlier == [False, True, False]


@pytest.mark.parametrize(("rule", "axis"), [(OUTLYING, "score"), (BORDERS, "distance")])
def test_one_column_is_drawn_with_the_score(rule, axis):
    raw = np.array([[3.0], [4.0], [5.0]])
    found = drawn(raw, [0.5, np.inf, 0.25], rule)
    assert (found.kind, found.axes) == ("single", ["c0", axis])
    assert (found.x, found.y) == ([3.0, 4.0, 5.0], [0.5, 0.0, 0.25])


def test_columns_that_rank_rows_equally_are_drawn_with_the_score(tmp_path):
    """Copies are left out, so the rule uses only one direction."""
    items = np.random.default_rng(0).poisson(3.0, 300)
    table = write_table(tmp_path / "t.parquet", np.column_stack([items, 2 * items, 4.5 * items]))
    report = run_job(job_for(table, tmp_path / "out", {"algorithm": "auto"}, preprocess=MODELLED))
    assert len(report.clusters) == 1
    assert (report.sample.kind, report.sample.explained) == ("single", None)
    assert report.sample.axes == ["only direction: x0", "score"]


def test_more_columns_are_drawn_by_the_components_of_the_rows_inside():
    random = np.random.default_rng(0)
    Q = np.linalg.qr(random.normal(size=(4, 4)))[0]
    spread = np.array([10.0, 3.0, 0.1, 0.1])
    Z = random.normal(size=(500, 4)) * spread
    Z[:20, 3] += 200.0
    scores = np.where(np.arange(500) < 20, -1.0, 1.0)
    found = drawn(Z @ Q.T, scores, raw=np.full((500, 4), np.nan))
    assert found.kind == "pca"
    assert found.axes == ["first component", "second component"]
    assert found.explained == pytest.approx(spread[:2] ** 2 / (spread**2).sum(), abs=0.03)
    for ours, k in ((found.x, 0), (found.y, 1)):
        shown = np.array(ours)[np.flatnonzero(~np.array(found.outlier))]
        assert abs(np.corrcoef(shown, Z[20:, k])[0, 1]) > 0.99


def test_a_rule_may_have_a_plane_of_its_own():
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    rule = next(rule for rule in RULES if rule.form == "landmarks")
    found = drawn(X[:, :3], np.ones(50), rule)
    assert (found.kind, found.explained) == ("clusters", None)
    assert all(name.startswith(("first direction", "second direction")) for name in found.axes)
    expected = rule.plane(X[:, :3].copy())
    assert np.column_stack([found.x, found.y]) == pytest.approx(expected, abs=1e-5)


def apart_in_thin_columns(n=600, d=9):
    """Return rows whose two clusters differ in a column of small variance."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, d)) * np.linspace(9.0, 3.0, d)
    labels = np.arange(n) % 2
    X[:, d - 1] = 2.0 * labels + random.normal(size=n) * 0.2
    middles = np.array([X[labels == k].mean(axis=0) for k in (0, 1)])
    return X, Centres(middles * (np.arange(d) == d - 1)), labels


def test_clusters_are_drawn_in_the_plane_that_separates_them():
    X, rule, labels = apart_in_thin_columns()
    columns = [f"c{k}" for k in range(X.shape[1])]
    found = plane(rule, columns, X, X, labels, np.ones(len(X)))
    assert (found.kind, found.explained) == ("clusters", None)
    x = np.array(found.x)

    low, high = sorted((x[labels == k] for k in (0, 1)), key=np.mean)
    assert low.max() < high.min()
    assert found.axes[0] in ("first direction: c8", "first direction: −c8")
    assert plane(rule, columns, X, X, np.zeros(len(X), int), np.ones(len(X))).kind == "pca"
    assert plane(rule, columns, X, X, labels, -np.ones(len(X))).kind == "pca"


def test_overlapping_clusters_do_not_look_separated_in_many_columns():
    random = np.random.default_rng(0)
    X, labels = random.normal(size=(300, 250)), np.arange(300) % 2
    columns = [f"c{k}" for k in range(250)]
    found = plane(BORDERS, columns, X, X, labels, np.ones(300))
    x = np.array(found.x)
    assert abs(x[labels == 0].mean() - x[labels == 1].mean()) < 1.5 * x[labels == 0].std()


def test_outliers_far_beyond_the_others_are_counted_and_not_drawn():
    X = np.array([[0.0, 0.0], [1.0, 2.0], [1.4, 0.0], [1.6, 0.0], [0.5, 9.0], [0.5, -0.9]])
    found = drawn(X, [1.0, 1.0, -1.0, -1.0, -1.0, -1.0])
    assert found.beyond == 2
    assert list(zip(found.x, found.y, strict=True)) == [tuple(X[i]) for i in (0, 1, 2, 5)]
    assert found.label == [0, 1, 2, 2]
    assert found.outlier == [False, False, True, True]


def test_the_pilot_is_labelled_and_its_missing_values_are_filled(tmp_path):
    X = three_clusters(300)
    X[4, 0] = np.nan
    job = small_job(
        write_table(tmp_path / "t.parquet", X),
        FORMS["support-vector"],
        preprocess={"missing": "median"},
    )
    run = fit(job, tmp_path / "run")
    rows = labelled_pilot(run.run, run.rule, run.survey.lowest)
    assert np.isnan(rows.raw).sum() == 1
    assert rows.X.tobytes() == run.pilot.tobytes()
    expected = run.rule.label(run.pilot)
    np.testing.assert_array_equal(rows.labels, expected["label"])
    np.testing.assert_array_equal(rows.scores, expected["score"])
    hole = int(np.flatnonzero(np.isnan(rows.raw[:, 0]))[0])
    assert rows.sample.x[hole] == pytest.approx(np.nanmedian(X[:, 0]), abs=1e-6)
    assert rows.sample.filled == 1
    assert rows.sample.axes == ["x0", "x1"]
    assert rows.sample.label == rows.labels.tolist()
