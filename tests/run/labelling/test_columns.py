"""Published columns through whole jobs: memberships, next clusters, and files of parts."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import JobFileError
from distsvc.run.job import run_job
from distsvc.run.labelling.columns import parts_place
from distsvc.run.labelling.phase import LABEL_ROWS, _forget_lost
from tests.published_files import labels_of, read_labels
from tests.small_runs import (
    FORMS,
    MODELS,
    digests,
    fit,
    forget,
    small_job,
    table_of,
    three_clusters,
    write_table,
)

pytestmark = pytest.mark.usefixtures("quick_page")

N = 700
X = three_clusters(N)
BOTH = {"membership": True, "top": 2}
CLUSTERED = [form for form in FORMS if not form.startswith("linear")]

table = table_of(X)


def job_for(table, out, form, output, **sections):
    forget()
    return small_job(table, FORMS[form], output={"path": str(out)} | output, **sections)


@pytest.mark.parametrize("form", CLUSTERED)
def test_optional_columns_do_not_change_the_others(form, table, tmp_path):
    run_job(job_for(table, tmp_path / "plain", form, {}))
    report = run_job(job_for(table, tmp_path / "out", form, BOTH))
    plain, found = read_labels(tmp_path / "plain"), read_labels(tmp_path / "out")
    assert found.select(plain.column_names).equals(plain)
    assert found.column_names[4:] == ["membership", "next", "next_share"]
    own, k = found["membership"].to_numpy(), len(report.clusters)
    assert own.dtype == np.float32
    assert ((own >= 0.0) & (own <= 1.0)).all()
    others = np.array(found["next"].to_pylist()).reshape(N, -1)
    shares = np.array(found["next_share"].to_pylist()).reshape(N, -1)
    assert others.shape == (N, min(2, k - 1))
    assert (np.diff(shares, axis=1) <= 0.0).all()
    assert not (others == found["label"].to_numpy()[:, None]).any()
    if 1 < k <= 3:
        np.testing.assert_allclose(own + shares.sum(axis=1), 1.0, rtol=1e-5)
        assert sum(report.membership.counts) == N
        assert report.membership.above(0.5) == np.mean(own >= 0.5)


def test_next_clusters_are_given_by_their_ids(table, tmp_path):
    """The second run continues the first one's ids, with its clusters in another order."""
    first = tmp_path / "first"
    run_job(job_for(table, first, "centres", BOTH))
    label = labels_of(first)
    kept = (label != 0) | (np.arange(N) % 3 == 0)
    some = write_table(tmp_path / "some.parquet", X[kept])
    again = {"continuity": {"previous": str(first)}}
    run_job(job_for(some, tmp_path / "second", "centres", BOTH, **again))
    found = read_labels(tmp_path / "second")
    ids = np.column_stack([found["label"].to_numpy(), np.array(found["next"].to_pylist())])
    assert (np.sort(ids, axis=1) == [0, 1, 2]).all()
    Z = X / X[kept].std(axis=0)
    centres = np.array([Z[label == c].mean(axis=0) for c in range(3)])
    near = np.argsort(((centres - Z[:, None]) ** 2).sum(axis=2), axis=1)
    assert (ids == near[kept]).mean() > 0.9


@pytest.mark.parametrize(("key", "value"), [("membership", True), ("top", 3)])
@pytest.mark.parametrize("form", ["linear-svdd", "linear-one-class"])
def test_shares_need_an_algorithm_with_clusters(form, key, value, table, tmp_path):
    message = rf"^output\.{key} needs an algorithm with clusters, found one that only finds"
    with pytest.raises(JobFileError, match=message):
        run_job(job_for(table, tmp_path / "out", form, {key: value}))


def test_shares_need_a_previous_model_with_clusters(table, tmp_path):
    """The job names an algorithm with clusters, but labels with a model that has none."""
    run_job(job_for(table, tmp_path / "first", "linear-svdd", {}))
    job = small_job(
        table,
        FORMS["centres"] | {"mode": "assign"},
        output={"path": str(tmp_path / "out"), "membership": True},
        continuity={"previous": str(tmp_path / "first")},
    )
    with pytest.raises(JobFileError, match=r"output\.membership needs an algorithm with clusters"):
        run_job(job)


N_PARTS = 500


def labelled(folder):
    """Label a table of 75 partitions; return run, result, and digests and folder of its files."""
    X = three_clusters(N_PARTS, d=3)
    X[200:230, 1] = np.nan  # some partitions lose all their rows
    X[np.random.default_rng(0).random(N_PARTS) < 0.2, 2] = np.nan
    folder.mkdir()
    names = pa.array([f"row {k % 350}" for k in range(N_PARTS)])
    table = write_table(folder / "t.parquet", X, name=names)
    given = {
        "input": {"columns": ["x0", "x1", "x2"], "id": "name"},
        "preprocess": {"missing": "drop"},
        "cluster": {"partition_rows": 7, "block_rows": 4},
        "output": {"reasons": 2, "membership": True, "top": 1},
    }
    job = small_job(table, MODELS["level tree"], **given)
    found = fit(job, folder / "run")
    done = found.label()
    place = Path(found.run.place("labels").address)
    return found.run, done, digests(place), place


def test_files_have_the_rows_of_their_entries_and_may_be_empty(tmp_path):
    _, done, found, place = labelled(tmp_path / "run")
    assert [*done.counts.parts] == [*found]
    assert len(found) == 75
    lengths = [pq.read_metadata(place / name).num_rows for name in found]
    assert lengths == [part["rows"] for part in done.counts.parts.values()]
    assert 0 in lengths
    assert done.ids.shared


def test_files_that_have_changed_are_written_again(tmp_path):
    run, _, expected, place = labelled(tmp_path / "run")
    before = run.names("label")
    (place / "part-00003.parquet").write_bytes(b"spoiled")
    _forget_lost(run, parts_place(run), before)
    assert set(before) - set(run.names("label")) == {"label/00003"}
    LABEL_ROWS.do(run.address, 3)
    assert digests(place) == expected
