"""Wide tables: rows kept as the level tree sees them, read as float32, few of them kept raw."""

import numpy as np
import pytest

from distsvc.models.hyperplanes.engine import TreeEngine
from distsvc.models.rows import sampling
from distsvc.run.algorithms import level_tree
from distsvc.run.job import run_job
from distsvc.run.learning import survey
from tests.published_files import read_labels
from tests.small_runs import small_job, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

N, D = 500, 50
MODEL = {"effort": "fast", "max_iter": 300}


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    centres = random.normal(0.0, 2.0, (3, D))
    return (centres[random.integers(0, 3, N)] + random.normal(size=(N, D))).astype(np.float32)


def published(tmp_path, name, X, **cluster):
    """Run a job; return the names of its phases, and its labels, scores and flags."""
    folder = tmp_path / name
    folder.mkdir()
    report = run_job(small_job(write_table(folder / "in.parquet", X), MODEL, cluster=cluster))
    return [phase.name for phase in report.phases], read_labels(folder / "out")


@pytest.mark.parametrize("partition_rows", [100, 1000])
@pytest.mark.parametrize("most", [2, 200])
def test_kept_views_change_no_answer(tmp_path, monkeypatch, rows, partition_rows, most):
    monkeypatch.setattr(survey, "MAX_SAMPLE_PARTS", most)
    phases, kept = published(tmp_path, "kept", rows, partition_rows=partition_rows)
    assert "views" in phases
    assert ("gather-views" in phases) == (most == 2 and partition_rows == 100)
    monkeypatch.setattr(level_tree, "WIDE", D)
    phases, read = published(tmp_path, "read", rows)
    assert "views" not in phases
    assert kept.equals(read)


def test_float32_and_float64_give_one_answer(tmp_path, rows):
    _, narrow = published(tmp_path, "narrow", rows)
    _, wide = published(tmp_path, "wide", rows.astype(float))
    assert narrow.equals(wide)


@pytest.mark.parametrize("max_samples", [None, 2_000_000])
def test_rows_that_are_asked_for_are_kept_however_wide(max_samples):
    engine = TreeEngine({"max_samples": max_samples}, 0)
    engine.set_width(10_000)
    assert engine.key_ranges(10**6)[-1][1] == 2**64


def test_only_rows_that_are_wanted_are_kept():
    engine = TreeEngine({"max_samples": 1_000_000}, 0)
    assert engine.key_ranges(10**6)[-1][1] == 2**64
    engine.set_width(1000)
    share = engine.key_ranges(10**6)[-1][1] / 2**64
    assert share == pytest.approx(sampling.SAMPLE_BYTES / 4e9, rel=1e-3)
    assert sampling.most_rows(10**6) == sampling.FEWEST_SAMPLED
