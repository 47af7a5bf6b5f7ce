"""Jobs on columns of categories, alone and night after night."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import CheckFailedError, DataError
from distsvc.job.config import PreprocessConfig
from distsvc.models.rows.scaling import Scaling
from distsvc.published.predict import predict_table
from distsvc.run.job import run_job
from distsvc.run.model.files import checked_model, read_model
from distsvc.run.preparing import make_scaling
from distsvc.run.work import plan
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.manifest import read_manifest
from tests.published_files import labels_of
from tests.small_runs import small_job, surveyed

pytestmark = pytest.mark.usefixtures("quick_page")

ENCODE = {"kind": "onehot", "city": "frequency", "new": "onehot"}


def rows(n=300, seed=0, kinds=("red", "green", "blue")) -> dict:
    """Return columns of three kinds of rows, which x tells in part."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    return {
        "x": np.array([0.0, 0.0, 6.0])[kind] + rng.normal(size=n),
        "kind": pa.array([kinds[k] for k in kind]).dictionary_encode(),
        "city": rng.zipf(2.0, n),
        "new": rng.random(n) < 0.3,
    }


CENTRES = {"algorithm": "bico", "n_clusters": 3}


def job(path, out, model=CENTRES, encode=ENCODE, **sections):
    preprocess, output = {"encode": encode}, {"path": str(out)}
    return small_job(path, model, preprocess=preprocess, output=output, **sections)


def write(path, columns) -> str:
    pq.write_table(pa.table(columns), path, row_group_size=50)
    return str(path)


def test_labels_are_the_same_by_the_saved_model(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet", rows())
    report = run_job(job(path, tmp_path / "one"))
    found = labels_of(tmp_path / "one")
    predict_table(tmp_path / "one", path, str(tmp_path / "labels"))
    assert np.array_equal(found, labels_of(tmp_path / "labels"))
    assert [note.partition(":")[0] for note in report.warnings] == [
        "Clusters 0 and 2 differ only in new. To ignore it"
    ]
    told = [column for one in report.profiles.clusters for column in one.columns]
    assert ("kind=blue", True) in [(column.column, column.present) for column in told]
    published = read_manifest(store_of(tmp_path / "one")).run_id
    with monkeypatch.context() as patch:  # nothing is counted for that
        patch.setattr(plan, "add_counts", None)
        run_job(job(path, tmp_path / "one"))
    assert read_manifest(store_of(tmp_path / "one")).run_id == published

    strange = rows(40, seed=1, kinds=("red", "grey", "white"))
    other = write(tmp_path / "other.parquet", strange)
    predict_table(tmp_path / "one", other, str(tmp_path / "unseen"))
    assert len(labels_of(tmp_path / "unseen")) == 40
    del strange["kind"]
    lacking = write(tmp_path / "lacking.parquet", strange)
    with pytest.raises(DataError, match="has no column 'kind'"):
        predict_table(tmp_path / "one", lacking, str(tmp_path / "none"))


def test_nights_keep_the_columns_of_the_first(tmp_path):
    first = write(tmp_path / "1.parquet", rows())
    run_job(job(first, tmp_path / "1"))
    night = write(tmp_path / "2.parquet", rows(seed=1, kinds=("red", "green", "white")))
    goes_on = {"continuity": {"previous": str(tmp_path / "1")}}
    report = run_job(job(night, tmp_path / "2", **goes_on))
    nights = [read_model(checked_model(store_of(tmp_path / name))) for name in "12"]
    features = [model.features for model in nights]
    assert features[0] == features[1]
    [warning] = [text for text in report.warnings if "'kind'" in text]
    assert "when the categories were chosen) are new or rare" in warning
    drift = {column.column: column.index for column in report.drift.columns}
    assert drift["kind=other"] > 1.0 > drift["kind=green"]
    assigned = CENTRES | {"mode": "assign"}
    strange = write(tmp_path / "strange-t.parquet", rows(seed=2, kinds=("a", "b", "c")))
    with pytest.raises(CheckFailedError, match="column 'kind=other'"):  # as every night is checked
        run_job(job(strange, tmp_path / "strange", assigned, **goes_on))
    unchecked = {"checks": {"max_drift": False}}
    report = run_job(job(strange, tmp_path / "strange", assigned, **goes_on, **unchecked))
    note = "of the values of 'kind' in the first 300 rows are new to the model"
    assert any(note in text for text in report.warnings)
    assert report.lineage.rows == 300
    with pytest.raises(DataError, match="needs the columns 'kind=blue'"):
        run_job(job(night, tmp_path / "3", encode={"city": "frequency"}, **goes_on))
    run_job(job(night, tmp_path / "4", assigned, encode={}, **goes_on))


def test_the_digest_covers_the_encoding_and_not_its_order():
    turned = dict(reversed(ENCODE.items()))
    digests = [job("t", "o", encode=one).digest() for one in (ENCODE, turned, {})]
    assert digests[0] == digests[1] != digests[2]


def scaling_of(X, kind, group) -> Scaling:
    sums = surveyed(X).sums
    return Scaling.from_sums(sums, kind, np.zeros(X.shape[1])).together(sums, [group])


def one_hot(n=1000) -> np.ndarray:
    codes = np.random.default_rng(0).choice(4, n, p=[0.7, 0.2, 0.1, 0.0])
    return np.c_[np.random.default_rng(1).normal(size=n) * 9.0, np.eye(4)[codes]]


def test_one_hot_columns_weigh_as_one():
    X, group = one_hot(), slice(1, 5)
    Z = scaling_of(X, "standard", group).apply(X)
    np.testing.assert_allclose(Z[:, group].var(axis=0).sum(), 1.0)
    np.testing.assert_allclose(Z[:, 0].var(), 1.0)
    Z = scaling_of(X, "minmax", group).apply(X)
    i, j = X[:, 1].argmax(), X[:, 2].argmax()
    np.testing.assert_allclose(np.linalg.norm(Z[i, group] - Z[j, group]), 1.0)
    np.testing.assert_array_equal(scaling_of(X, "none", group).apply(X), X)


def test_rare_values_are_no_constant_columns_and_gaps_no_halves():
    X = one_hot()
    X[500:, 1:] = np.nan
    X[:250, 1:], X[250:500, 1:] = np.eye(4)[0], np.eye(4)[1]
    config = PreprocessConfig(missing="median")
    scaling, notes = make_scaling(config, surveyed(X), list("xabcd"), [slice(1, 5)])
    assert scaling.fill[1:].tolist() == [0.0] * 4
    assert notes == ["500 missing values replaced by medians of the columns"]
