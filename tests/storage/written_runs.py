"""Small publications, and checks of their files."""

import hashlib
import json
import os
import threading
from contextlib import contextmanager
from pathlib import Path

from distsvc.errors import DistsvcError
from distsvc.storage.places.arrays import file_facts
from distsvc.storage.publishing.manifest import FORMAT, Manifest
from distsvc.storage.publishing.publication import Output

CHANGES = ("replace", "mkdir", "rmdir", "unlink", "rename", "open", "fsync", "link", "symlink")
"""The functions of `os` that change files; `open` only for writing."""


class Crash(BaseException):
    """The process is killed; no code that could change a file runs afterwards."""


def digest_of(mark: str) -> str:
    return hashlib.sha256(mark.encode()).hexdigest()


def errors_of_lock(out, job="job", overwrite=False) -> list[DistsvcError]:
    """Return the errors, at most one, of another thread that locks the output."""
    errors = []

    def hold() -> None:
        try:
            with Output(out).locked(job, overwrite):
                pass
        except DistsvcError as error:
            errors.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    return errors


def write_run(output: Output, run_id: str, mark: str) -> Manifest:
    """Write the files of a run, each with the run's mark, and return the manifest."""
    names = [f"labels/{run_id}/part-0000{k}.parquet" for k in range(2)]
    names += [f"model/{run_id}/model.json"]
    names += [f"report/{run_id}/{name}" for name in ("report.html", "report.json")]
    files = []
    for name in names:
        stored = f".runs/files/{run_id}/{name}"
        with output.store.created(stored) as path:
            path.write_text(f"{mark} {Path(name).name}")
        listed = {"file": name, "stored": stored}
        files.append(listed | file_facts(output.store.local(stored)))
    job = digest_of(mark)
    known = {"format": FORMAT, "run_id": run_id, "job_sha256": job, "input_sha256": digest_of("i")}
    return Manifest.model_validate(known | {"rows": 2, "clusters": 1, "files": files})


def name_of(work) -> str:
    return Path(work.address).name


@contextmanager
def work_of(output: Output, job: str):
    """Remove the work of killed runs, and yield the store of a new run's work."""
    for name in output.kept_works():
        output.discard(name)
    work = output.new_work(job)
    try:
        yield work
    finally:
        output.discard(name_of(work))


def run(path, mark: str, overwrite: bool = True) -> bool:
    """Publish as a job does; return whether anything was done."""
    output, job = Output(path), digest_of(mark)
    if output.holds(job, digest_of("i")):
        output.mend()
        return False
    with output.locked(job, overwrite), work_of(output, job) as work:
        output.check_free(job, overwrite)
        with work.created("plan.json") as path:
            path.write_text("{}")
        output.publish(write_run(output, name_of(work), mark))
    return True


def seen(path) -> str | None:
    """Return the mark of the published run, or None; check that all files have it."""
    manifest = Path(path) / "manifest.json"
    if not manifest.exists():
        return None
    marks = set()
    for file in json.loads(manifest.read_text())["files"]:
        content = (Path(path) / file["file"]).read_bytes()
        assert len(content) == file["bytes"]
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
        marks.add(content.decode().split()[0])
    assert len(marks) == 1, f"a mix of {marks}"
    return marks.pop()


def names(path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in Path(path).rglob("*") if p.is_file())


def check_tidy(path, mark: str) -> None:
    """Check that an output holds one result, the copies of its page, and nothing else."""
    assert seen(path) == mark
    files = json.loads((path / "manifest.json").read_text())["files"]
    listed = [file[key] for file in files for key in ("file", "stored")]
    beside = ["manifest.json", "_SUCCESS", "report.html", "report.json", ".runs/lock"]
    assert names(path) == sorted([*listed, *beside])
    for name in ("report.html", "report.json"):
        assert (path / name).read_text() == f"{mark} {name}"


@contextmanager
def crashing(monkeypatch, after: int, error: BaseException, once: bool):
    """Let the first `after` changes of files succeed and fail the next, or all that follow.

    Yields a list of the changes.
    """
    changes: list[str] = []

    def disturbed(name, real):
        def change(*args, **kwargs):
            writing = name != "open" or args[1] & (os.O_WRONLY | os.O_RDWR)
            if writing:
                failing = len(changes) == after if once else len(changes) >= after
                changes.append(name)
                if failing:
                    raise error
            return real(*args, **kwargs)

        return change

    with monkeypatch.context() as patched:
        for name in CHANGES:
            patched.setattr(os, name, disturbed(name, getattr(os, name)))
        yield changes
