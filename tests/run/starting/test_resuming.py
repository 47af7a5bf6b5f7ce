"""A second start of a run does only the missing work, with the same result."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from distsvc.run.job import run_job
from distsvc.run.nights.comparison import compare_and_check
from distsvc.run.reporting.files import make_report
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.publishing import formats
from distsvc.storage.publishing.formats import part_file
from tests.small_runs import (
    MODELS,
    Killed,
    digests,
    fit,
    forget,
    small_job,
    table_of,
    three_clusters,
)

pytestmark = pytest.mark.usefixtures("quick_page")

N = 1500
EACH_ALGORITHM = pytest.mark.parametrize("algorithm", MODELS)

table = table_of(three_clusters(N))


def whole(job, folder):
    """Run all steps of a job; return the names of the driver's results, and the report."""
    run = fit(job, folder)
    labelled = run.label()
    night = compare_and_check(run.run, job, None, labelled, {})
    learned = run.algorithm.learned()
    report = make_report(run.run, job, learned, night, "").model_dump()
    worked_out = [cost.name for cost in run.steps.progress.phases if cost.name == "train"]
    return worked_out, report | {"finished": None}


def written(folder):
    """Return the digests of a run's files, of its work and of what it publishes."""
    return (
        digests(folder)
        | digests(Path(RunDirectory(folder).place("labels").address))
        | digests(Path(RunDirectory(folder).place("filled").address))
    )


@EACH_ALGORITHM
def test_only_lost_work_is_done_again(algorithm, table, tmp_path, tasks):
    job = small_job(table, MODELS[algorithm], output={"path": str(tmp_path / "out")})
    folder = tmp_path / "run"
    trained, report = whole(job, folder)
    files = written(folder)
    lost = [name for name in tasks if name.endswith("00001")]
    assert {"survey/00001", "label/00001"} <= set(lost)
    assert ("pass-00/00000" in tasks) == (algorithm == "linear")
    tasks.clear()
    for name in [*lost, "rule", "train"]:
        for path in (folder / "results").glob(f"{name}.*"):
            path.unlink()
    (Path(RunDirectory(folder).place("labels").address) / part_file(1)).unlink()
    assert whole(job, folder) == (trained, report)
    assert tasks == lost
    assert written(folder) == files


@pytest.mark.parametrize("after", ["label/00003", "score/c/1", "zarr.json", None])
def test_the_conversion_of_parts_resumes(after, table, tmp_path, tasks, monkeypatch):
    """The run is killed after a task, a chunk or the last file, or not at all."""
    monkeypatch.setattr(formats, "CHUNK_ROWS", 400)
    job = small_job(
        table, MODELS["sampled"], output={"format": "zarr", "path": str(tmp_path / "out")}
    )
    whole(job, tmp_path / "whole")
    files, order = written(tmp_path / "whole"), list(tasks)
    assert {"zarr.json", "label/zarr.json", "results/fill.npz"} < set(files)
    tasks.clear()
    tasks.most = order.index(after) + 1 if after in order else None
    put = formats._put

    def stopped_after(place, name, content):
        written = put(place, name, content)
        if name == after:
            raise Killed
        return written

    with monkeypatch.context() as patched, pytest.raises(Killed) if after else nullcontext():
        patched.setattr(formats, "_put", stopped_after)
        whole(job, tmp_path / "run")
    tasks.most = None
    whole(job, tmp_path / "run")
    assert tasks == order
    assert written(tmp_path / "run") == files


def test_a_published_run_whose_work_can_not_be_removed_ends_well(table, tmp_path, monkeypatch):
    """The next start removes its work."""
    job = small_job(table, MODELS["sampled"], output={"path": str(tmp_path / "out")})
    with monkeypatch.context() as patch:

        def away(path):
            if path.parent.name == ".runs" and "-" in path.name:  # that of a run
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return os.path.islink(path)

        patch.setattr(Path, "is_symlink", away)
        run_job(job)
    assert (tmp_path / "out" / "manifest.json").exists()
    assert list((tmp_path / "out" / ".runs").glob("*-*"))
    forget()
    run_job(job)
    assert not list((tmp_path / "out" / ".runs").glob("*-*"))
