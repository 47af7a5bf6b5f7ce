"""A write that fails, whichever it is, ends a run with one line; the next start goes on."""

import errno
import os
import re
import resource
import shutil
import sys
from pathlib import Path

import pytest
import tomli_w
from click.testing import CliRunner

from distsvc.cli.main import main
from tests.jobs.blob_jobs import check_manifest
from tests.small_runs import forget, three_clusters, write_table

WRITING = os.O_WRONLY | os.O_RDWR
HOLDERS = "/.runs/holders/"
"""What is removed goes to a holder's own folder, as do the folders of holders before it."""
CODES = {errno.ENOSPC: 75, errno.EIO: 75, errno.EACCES: 77, errno.EROFS: 77}


class Writes:
    """Counts what is written below a folder, and lets one of the writes fail."""

    def __init__(self):
        self.folder, self.seen, self.failing, self.number = None, [], None, errno.ENOSPC

    def __call__(self, event, arguments):
        if self.folder is None or event not in ("open", "os.mkdir", "os.rename"):
            return
        path = arguments[1] if event == "os.rename" else arguments[0]
        reads = event == "open" and not (arguments[2] or 0) & WRITING
        if reads or not isinstance(path, str | os.PathLike):
            return
        if event == "os.mkdir" and Path(path).exists():
            return  # as `exist_ok` allows
        path = os.path.abspath(path)
        removes = event == "os.rename" and HOLDERS in path
        if removes and HOLDERS not in os.path.abspath(arguments[0]):
            return  # which may fail: the next start removes what is left
        if path.startswith(self.folder):
            self.seen.append(path)
            if len(self.seen) == self.failing:
                raise OSError(self.number, os.strerror(self.number), path)

    def below(self, folder, failing=None, number=errno.ENOSPC):
        self.folder, self.seen = str(folder), []
        self.failing, self.number = failing, number
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder = None


WRITES = Writes()
sys.addaudithook(WRITES)  # never removed, and does nothing outside of a test's `with`

SAMPLED, PASSES = {"algorithm": "depddp"}, {"algorithm": "linear-svdd", "nu": 0.1}
JOBS = {
    "parquet": (SAMPLED, {}, "", 6),
    "zarr": (SAMPLED, {"format": "zarr"}, "zarr", 11),
    "csv": (SAMPLED, {}, "staging", 2),
    "passes": (
        PASSES | {"memory_rows": 1000, "max_iter": 3},
        {},
        "threshold|begin|descent|pass-",
        6,
    ),
}
"""Model and output of a job, the paths of the writes that the other jobs have not, and a step.

With ``EVERY_WRITE=1`` in the environment every one of these writes fails, else one of each step.
"""


@pytest.fixture(params=JOBS)
def job(request, tmp_path):
    """A job file, its output, which of its writes are to fail, and how many are passed over."""
    model, output, paths, step = JOBS[request.param]
    table = write_table(tmp_path / "t.parquet", three_clusters(1200))
    if request.param == "csv":
        rows = "\n".join(f"{x},{y}" for x, y in three_clusters(1200))
        table = tmp_path / "t.csv"
        table.write_text(f"x0,x1\n{rows}\n")
    content = {
        "input": {"path": str(table)},
        "model": model,
        "cluster": {"workers": 0, "partition_rows": 700},
        "output": {"path": str(tmp_path / "out")} | output,
    }
    path = tmp_path / "job.toml"
    path.write_text(tomli_w.dumps(content))
    return path, tmp_path / "out", paths, 1 if os.environ.get("EVERY_WRITE") else step


def run(path):
    forget()
    return CliRunner().invoke(main, ["run", str(path)])


def one_line(found):
    [line] = [line for line in found.stderr.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in found.stderr
    return line


def files(out):
    return [path for path in out.rglob("*") if path.is_file() and path.name != "lock"]


@pytest.mark.usefixtures("quick_page")
def test_every_write_may_fail(job):
    path, out, paths, step = job
    assert run(path).exit_code == 0  # what is kept in memory from now on is not written again
    shutil.rmtree(out)
    with WRITES.below(out):
        assert run(path).exit_code == 0
    writes = [(n, where) for n, where in enumerate(WRITES.seen, 1) if re.search(paths, where)]
    assert len(writes) > 1
    for n, where in writes[::step]:
        shutil.rmtree(out, ignore_errors=True)
        number = list(CODES)[n // step % len(CODES)]
        with WRITES.below(out, n, number):
            found = run(path)
        at = f"write {n}, {where}, {os.strerror(number)}: {found.stderr}"
        assert found.exit_code == CODES[number], at
        assert str(out) in one_line(found), at
        if (out / "manifest.json").exists():  # the run was committed, and the next start mends it
            assert "the run is published in" in found.stderr, at
            assert run(path).exit_code == 0
            check_manifest(out)
        else:
            folders = {path.relative_to(out).parts[0] for path in files(out)}
            assert folders <= {".runs", "labels", "model", "report"}, at
            assert run(path).exit_code == 0
            check_manifest(out)


@pytest.mark.parametrize("most", [0, 300, 3000])
def test_files_that_may_not_grow(job, most):
    path, out, *_ = job
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        found = run(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert found.exit_code == 75, found.stderr
    assert one_line(found).startswith(f"error: no space left to write {out}/"), found.stderr
    assert files(out) == []
