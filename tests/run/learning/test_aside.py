"""A few rows that lie far from all others: nothing is learned from them, and they are labelled."""

import numpy as np
import pytest

from distsvc.errors import DataError
from distsvc.published.predict import predict_table
from distsvc.run.job import run_job
from tests.published_files import read_labels
from tests.small_runs import MODELS, small_job, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

N = 420
X = three_clusters(N)
LEVELS = MODELS["level tree"]
PLACES = [0, 137, 138, 420]


def done(folder, rows, model=LEVELS, name="t", **sections):
    """Run a job on rows, or again; return its report and what it published."""
    table = folder / f"{name}.parquet"
    if not table.exists():
        write_table(table, rows)
    output = {"path": str(folder / name)} | sections.pop("output", {})
    return run_job(small_job(table, model, output=output, **sections)), read_labels(folder / name)


def with_far_rows(value=1e9):
    """Return the rows with four more, of which each is far in one column or in both."""
    far = np.array([[value, 9.0], [9.0, -value], [value, value], [8.0, value]])
    return np.insert(X, PLACES, far, axis=0)


def is_far(n=N + 4):
    return np.isin(np.arange(n), np.array(PLACES) + np.arange(4))


def notes(report):
    return [text for text in report.warnings if "extreme rows" in text]


@pytest.mark.parametrize("name", ["level tree", "boundary", "hyperplanes", "sampled"])
def test_the_others_have_the_answer_of_a_table_without_them(tmp_path, name):
    _, clean = done(tmp_path, X, MODELS[name], "clean")
    report, found = done(tmp_path, with_far_rows(), MODELS[name])
    others = found.filter(~is_far())
    for column in set(clean.column_names) - {"row"}:
        assert others[column].equals(clean[column]), column
    assert found.num_rows == report.input.n_rows == N + 4
    assert notes(report)


def test_the_table_is_read_again_only_if_it_has_extreme_values(tmp_path):
    found, _ = done(tmp_path, with_far_rows())
    clean, _ = done(tmp_path, X, name="clean")
    phases = [{phase.name for phase in report.phases} for report in (found, clean)]
    assert phases[0] - phases[1] == {"far-rows", "survey-again"}


def test_they_are_labelled_outside_and_told_of(tmp_path):
    report, found = done(tmp_path, with_far_rows(), output={"reasons": 1})
    far = found.filter(is_far())
    assert far["outlier"].to_pylist() == [True] * 4
    assert max(far["score"].to_pylist()) < min(found.filter(~is_far())["score"].to_pylist())
    assert {row.row for row in report.reasons.farthest[:4]} == set(np.flatnonzero(is_far()))
    assert notes(report) == [
        "extreme rows: row 0 (x0 = 1e+09), row 138 (x1 = -1e+09), row 140 (x1 = 1e+09), "
        "row 423 (x1 = 1e+09); ignored while learning, and labelled like any other"
    ]


def test_the_rows_that_the_page_names_are_the_tables(tmp_path):
    rows = X.copy()
    rows[40] += 6.0
    report, _ = done(tmp_path, np.insert(rows, 0, 1e9, axis=0), output={"reasons": 1})
    assert [row.row for row in report.reasons.farthest[:2]] == [0, 41]


def test_they_may_be_longer_than_a_rule_can_take(tmp_path):
    _, clean = done(tmp_path, X, name="clean")
    _, found = done(tmp_path, with_far_rows(1e120))
    assert found.filter(~is_far())["label"].equals(clean["label"])
    assert found.filter(is_far())["outlier"].to_pylist() == [True] * 4
    with pytest.raises(DataError, match=r"row 0: expected a row of a length of at most"):
        predict_table(tmp_path / "clean", str(tmp_path / "t.parquet"), str(tmp_path / "again"))


def test_where_rows_with_missing_values_are_left_out(tmp_path):
    given = {"preprocess": {"missing": "drop"}}
    holes = np.insert(X, [3, 300], np.nan, axis=0)
    _, clean = done(tmp_path, holes, name="clean", **given)
    _, found = done(tmp_path, np.insert(holes, 100, 1e9, axis=0), **given)
    others = found.filter(np.array(found["row"]) != 100)
    assert others["score"].equals(clean["score"])


@pytest.mark.parametrize(
    ("model", "scale"), [(MODELS["linear"], "standard"), (LEVELS, "unit")], ids=["linear", "unit"]
)
def test_where_every_row_counts(tmp_path, model, scale):
    report, _ = done(tmp_path, with_far_rows(), model, preprocess={"scale": scale})
    assert not notes(report)
