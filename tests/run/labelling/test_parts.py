"""A partition of several parts writes the files that each would have alone."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.run.labelling.columns import parts_place
from distsvc.run.labelling.phase import LABEL_ROWS, _forget_lost
from distsvc.run.work import plan
from tests.small_runs import MODELS, digests, fit, small_job, three_clusters, write_table

N = 500


def labelled(folder, fewest, monkeypatch):
    """Label a table of 75 parts; return the run and the entries and digests of its files."""
    X = three_clusters(N, d=3)
    X[200:230, 1] = np.nan  # some parts lose all their rows
    X[np.random.default_rng(0).random(N) < 0.2, 2] = np.nan
    folder.mkdir()
    names = pa.array([f"row {k % 350}" for k in range(N)])
    table = write_table(folder / "t.parquet", X, name=names)
    monkeypatch.setattr(plan, "MIN_PARTITIONS", fewest)
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


@pytest.fixture(scope="module")
def parts_alone(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return labelled(tmp_path_factory.mktemp("parts") / "alone", 10**9, patch)


@pytest.mark.parametrize("fewest", [32, 15, 1])
def test_files_and_counts_are_those_of_parts_alone(tmp_path, monkeypatch, parts_alone, fewest):
    alone, one, expected, _ = parts_alone
    joined, several, found, place = labelled(tmp_path / "joined", fewest, monkeypatch)
    assert alone.plan.parts == joined.plan.parts == alone.plan.partitions
    assert len(joined.plan.partitions) < len(alone.plan.partitions) == len(expected) == 75
    assert found == expected
    assert several.counts.parts == one.counts.parts
    assert several.counts.sizes.tolist() == one.counts.sizes.tolist()
    assert several.ids == one.ids
    assert several.ids.shared
    lengths = [pq.read_metadata(place / part["file"]).num_rows for part in several.counts.parts]
    assert lengths == [part["rows"] for part in several.counts.parts]
    assert 0 in lengths


def test_files_that_have_changed_are_written_again(tmp_path, monkeypatch):
    run, _, expected, place = labelled(tmp_path / "run", 32, monkeypatch)
    before = run.names("label")
    (place / "part-00003.parquet").write_bytes(b"spoiled")
    _forget_lost(run, LABEL_ROWS, parts_place(run))
    [gone] = set(before) - set(run.names("label"))
    number = int(gone.rpartition("/")[2])
    assert 3 in run.plan.parts_of(number)
    LABEL_ROWS.do(run.address, number)
    assert digests(place) == expected
