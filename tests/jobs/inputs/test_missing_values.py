"""Jobs on tables in which a number such as -9999 stands for a missing value."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.datasets import dump_svmlight_file

from distsvc.errors import DataError
from distsvc.run.job import run_job
from tests.jobs.shop import FIRST, SECOND, rows
from tests.published_files import read_labels
from tests.small_runs import small_job, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

N = 600
CENTRES = {"algorithm": "bico", "n_clusters": 3}
GIVEN = {"missing_values": [-9999, 1e20], "missing": "median"}
X = three_clusters(N, 3)
MASK = np.random.default_rng(5).random(X.shape) < 0.05
HOLES, MARKED = np.where(MASK, np.nan, X), np.where(MASK, -9999.0, X)
MARKED[:, 2] = np.where(MASK[:, 2], 1e20, X[:, 2])


def done(path, out, model=CENTRES, **preprocess):
    report = run_job(small_job(path, model, preprocess=preprocess, output={"path": str(out)}))
    return report, read_labels(out)


def notes(report):
    return [text for text in report.warnings if "stand for missing values" in text]


def test_a_column_says_so_and_how_it_is_mended(tmp_path):
    path = write_table(tmp_path / "t.parquet", MARKED)
    report, _ = done(path, tmp_path / "out")
    (note,) = notes(report)
    share = f"{MASK[:, 0].mean():.1%}"
    assert note.startswith(f"numbers that may stand for missing values: -9999 in 'x0' ({share} of ")
    assert "1e+20 in 'x2'" in note
    assert note.endswith(
        "give missing_values = [-9999, 1e+20] and missing = 'median' (or 'drop') in [preprocess]"
    )
    report, found = done(path, tmp_path / "mended", **GIVEN)
    assert not notes(report)
    holes = write_table(tmp_path / "holes.parquet", HOLES)
    assert found.equals(done(holes, tmp_path / "holes", missing="median")[1])


def test_what_is_given_already_is_named_again(tmp_path):
    path = write_table(tmp_path / "t.parquet", MARKED)
    (note,) = notes(done(path, tmp_path / "out", missing_values=[-9999], missing="drop")[0])
    assert note.endswith("if they do, give missing_values = [-9999, 1e+20] in [preprocess]")


def test_of_a_logarithm_and_of_a_vector(tmp_path):
    amounts = np.random.default_rng(0).lognormal(3.0, 1.0, N)
    amounts[MASK[:, 0]] = -999.0
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(MARKED[:, :2].ravel()), 2)
    path = write_table(tmp_path / "t.parquet", X[:, :1], amount=amounts, v=vectors)
    (note,) = notes(done(path, tmp_path / "out", log=["amount"])[0])
    assert "-999 in 'log(amount)' (" in note
    assert "-9999 in 'v[0]' (" in note
    assert "-9999 in 'v[1]' (" in note
    assert "'x0'" not in note


def test_the_value_of_a_category_is_missing(tmp_path):
    codes = np.random.default_rng(0).integers(1, 4, N)
    codes[:100] = -9999
    path = write_table(tmp_path / "t.parquet", X, code=codes)
    given = {"encode": {"code": "onehot"}, "missing": "drop"}
    report, found = done(path, tmp_path / "out", missing_values=[-9999], **given)
    assert report.input.n_rows == N - 100 == len(found)
    assert sorted(report.input.columns[-4:]) == ["code=1", "code=2", "code=3", "code=other"]


def test_they_are_refused_where_missing_values_are(tmp_path):
    path = write_table(tmp_path / "t.parquet", np.where(np.arange(N)[:, None] == 7, -9999.0, X))
    with pytest.raises(DataError, match=r"'x0' has 1 missing value in .*\(first at row 7\)"):
        done(path, tmp_path / "out", missing_values=[-9999])


def test_of_a_table_without_arrow(tmp_path):
    path = tmp_path / "t.svm"
    dump_svmlight_file(MARKED, np.zeros(N), str(path), zero_based=False)
    report, found = done(path, tmp_path / "out", **GIVEN)
    assert f"{MASK.sum()} missing values replaced by medians of the columns" in report.warnings
    holes = write_table(tmp_path / "holes.parquet", HOLES)
    expected = done(holes, tmp_path / "holes", missing="median")[1]
    assert found["label"].equals(expected["label"])


def test_a_night_that_is_assigned_has_those_of_the_model(shop):
    for date, seed in ((FIRST, 0), (SECOND, 1)):
        values = rows(100, 100, 100, seed=seed)[0]
        values[5] = -9999.0
        shop.table(date, values)
    shop.run(FIRST, preprocess={"missing": "drop", "missing_values": [-9999]})
    report = shop.run(SECOND, model={"algorithm": "bico", "n_clusters": 3, "mode": "assign"})
    assert report.input.n_rows == 299


def test_a_sensor_that_is_stuck_is_named(tmp_path):
    stuck = X.copy()
    stuck[: N // 4, 1] = 9.9
    report, _ = done(write_table(tmp_path / "t.parquet", stuck), tmp_path / "out")
    share = f"{np.mean(stuck[:, 1] == 9.9):.1%}"
    [note] = [text for text in report.warnings if "unusually frequent" in text]
    words = "numbers that are unusually frequent: 9.9 in 'x1'"
    assert note.startswith(f"{words} ({share} of the known values, ")
