"""The papers' boundary as a job: its climbs are cut into tasks."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_moons

from distsvc.errors import JobFileError
from distsvc.run.algorithms import boundary
from distsvc.run.job import run_job
from distsvc.run.work import directory
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.run.work.workers.cluster import Workers
from tests.published_files import listed, published_file
from tests.small_runs import small_job, table_of

pytestmark = pytest.mark.usefixtures("quick_page")

SEED = 3
PAPER = {"algorithm": "support-vector", "settings": "published", "gamma": 8.0, "C": 32.0}
ROWS = make_moons(700, noise=0.08, random_state=1)[0] * [1.0, 40.0]


table = table_of(ROWS)


def run(table, out, model):
    return run_job(small_job(table, {"seed": SEED} | model, output={"path": str(out)}))


def test_an_empty_boundary_ends_the_job(table, tmp_path):
    with pytest.raises(
        JobFileError, match=r"model: no row lies within epsilon = 1e-09 of the boundary"
    ):
        run(table, tmp_path / "out", PAPER | {"epsilon": 1e-9})


@pytest.mark.parametrize("n_threads", [1, 4, 16])
def test_each_thread_gets_several_climbs(n_threads):
    assert boundary.climb_tasks(2048, n_threads) >= 2 * n_threads
    assert boundary.climb_tasks(50, n_threads) >= 2 * n_threads
    assert boundary.climb_tasks(3, n_threads) == 3
    assert boundary.climb_tasks(10**6, n_threads) * boundary.MAX_CLIMB_ROWS >= 10**6


def test_labels_do_not_depend_on_the_number_of_climbing_tasks(table, tmp_path, monkeypatch):
    """With 1, 4 and 16 threads, tasks have different rows, and the published bytes are equal."""
    cuts, published, map_phase = [], [], Steps.map

    def counted(steps, phase, n=None):
        if phase is boundary.CLIMB:
            cuts.append(n)
        return map_phase(steps, phase, n)

    monkeypatch.setattr(Steps, "map", counted)
    for n_threads in (1, 4, 16):
        workers = Workers(((1, 0),) * n_threads)
        monkeypatch.setattr(Steps, "workers", property(lambda steps, found=workers: found))
        run(table, tmp_path / str(n_threads), PAPER | {"epsilon": 0.9})
        paths = listed(tmp_path / str(n_threads), "labels/")
        paths.append(published_file(tmp_path / str(n_threads), "arrays.npz"))
        published.append([path.read_bytes() for path in paths])
    assert cuts == [4, 16, 64]
    assert published[0] == published[1] == published[2]


def test_climbs_are_repeated_if_their_cut_is_lost(tmp_path):
    def steps_with(n_threads):
        return SimpleNamespace(run=run_dir, workers=Workers(((n_threads, 0),)))

    run_dir, X = RunDirectory(tmp_path), np.zeros((100, 2), np.float32)
    assert boundary.cut_climbs(steps_with(1), X) == 4
    run_dir.write("climb/00000", Result())
    assert boundary.cut_climbs(steps_with(16), X) == 4  # a resumed run keeps its cut
    assert run_dir.names("climb") == ["climb/00000"]
    run_dir.remove(boundary.CLIMB_STARTS)
    directory._result.cache_clear()
    assert boundary.cut_climbs(steps_with(16), X) == 64
    assert run_dir.names("climb") == []
