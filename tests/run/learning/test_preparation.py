"""The preparation of rows: scaling, missing values, the origin, and its restoration."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from distsvc.errors import DataError
from distsvc.job.config import PreprocessConfig
from distsvc.models.rows.scaling import Scaling
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.learning.survey import survey_table
from distsvc.run.preparing import make_scaling, prepare
from distsvc.run.work.directory import Result
from tests.small_runs import begin, small_job, surveyed, three_clusters, write_table

X = three_clusters(500, d=3) * [1.0, 1e5, 1e-4]
COLUMNS = ("a", "b", "c")


def scaled(X, pilot=200, **given):
    scaling, notes = make_scaling(PreprocessConfig(**given), surveyed(X, pilot), COLUMNS)
    return scaling.apply(X), notes


@pytest.mark.parametrize(("scale", "value"), [("standard", 0.0), ("minmax", 0.0), ("none", 0.1)])
def test_a_constant_column_becomes_zero_if_scaled_and_is_named(scale, value):
    constant = X.copy()
    constant[:, 1] = 0.1
    found, notes = scaled(constant, scale=scale)
    assert (found[:, 1] == value).all()
    assert np.isfinite(found).all()
    assert notes == ["constant columns, which do not change the result: b"]


def test_a_column_without_values_is_named():
    empty = X.copy()
    empty[:, 2] = np.nan
    for missing in ("median", "drop"):
        with pytest.raises(DataError, match=r"^column 'c' has no value in any row;"):
            scaled(empty, missing=missing)


def test_medians_of_the_pilot_fill_missing_values():
    holes = X.copy()
    holes[::5, 0] = holes[3, 1] = np.nan
    medians = np.nanmedian(holes[:200], axis=0)
    filled = np.where(np.isnan(holes), medians, holes)
    found, notes = scaled(holes, missing="median")
    np.testing.assert_allclose(found, StandardScaler().fit_transform(filled), atol=1e-10)
    assert notes == ["101 missing values replaced by medians of the columns"]
    assert scaled(X, missing="median")[1] == []


@pytest.mark.parametrize("float64", [False, True])
def test_a_prepared_row_is_scaled_filled_and_centred(float64):
    scaling = Scaling(np.array([1.0, 2.0]), np.array([2.0, 4.0]), np.array([5.0, 10.0]))
    preparation = Preparation(scaling, np.array([0.5, -1.0]), float64)
    found = preparation(np.array([[3.0, 2.0], [np.nan, np.nan]]))
    assert found.tolist() == [[0.5, 1.0], [1.5, 3.0]]
    assert found.dtype == (np.float64 if float64 else np.float32)


@pytest.mark.parametrize("float64", [False, True])
def test_a_preparation_is_restored_from_among_other_arrays(float64):
    scaling, _ = make_scaling(PreprocessConfig(), surveyed(X), COLUMNS)
    saved = Preparation(scaling, np.array([0.1, 0.2, 0.3]), float64).result()
    more = Result(saved.facts | {"gamma": 1.0}, saved.arrays | {"S": np.zeros(2)})
    again = Preparation.restored(more)
    assert again.float64 is float64
    assert (
        again(X).tobytes() == Preparation(scaling, np.array([0.1, 0.2, 0.3]), float64)(X).tobytes()
    )


class Engine:
    """Remembers its pilot, whose mean is the centre."""

    def __init__(self):
        self.notes = ["an earlier note"]

    def set_pilot(self, pilot, n_rows):
        self.pilot, self.n_rows, self.centre = pilot, n_rows, pilot.mean(axis=0)


@pytest.mark.parametrize("float64", [False, True])
def test_the_pilot_decides_the_origin_of_all_rows(tmp_path, float64):
    holes = X.copy()
    holes[7, 0], holes[:, 2] = np.nan, 4.0
    job = small_job(
        write_table(tmp_path / "t.parquet", holes), {}, preprocess={"missing": "median"}
    )
    steps = begin(job, tmp_path / "run").steps
    survey = survey_table(steps, lambda n: [(0, 2**64)])
    algorithm = SimpleNamespace(engine=Engine(), rules=[SimpleNamespace(float64=float64)])
    pilot = prepare(steps, job.preprocess, algorithm, survey)
    assert algorithm.engine.n_rows == 500
    np.testing.assert_allclose(algorithm.engine.pilot.std(axis=0), [1.0, 1.0, 0.0], rtol=1e-12)
    assert algorithm.engine.notes == [
        "an earlier note",
        "1 missing value replaced by medians of the columns",
        "constant columns, which do not change the result: x2",
    ]
    assert steps.run.has(PREPARATION)
    assert pilot.dtype == (np.float64 if float64 else np.float32)
    assert Preparation.read(steps.run)(survey.pilot).tobytes() == pilot.tobytes()
    np.testing.assert_allclose(pilot.mean(axis=0), 0.0, atol=1e-6)
