"""The manifest is the commit: after any failure, all files that it lists exist."""

import errno
import json
import os
import re
import shutil
import stat
from contextlib import suppress

import pytest

from distsvc.errors import (
    DataError,
    DistsvcError,
    InputNotFoundError,
    JobFileError,
    OutputPermissionError,
    TemporaryError,
)
from distsvc.storage.publishing.publication import Output, collect
from tests.storage.written_runs import (
    Crash,
    check_tidy,
    crashing,
    digest_of,
    errors_of_lock,
    name_of,
    names,
    run,
    seen,
    work_of,
    write_run,
)


def test_listed_files_are_on_the_disk_before_the_swap(tmp_path, monkeypatch):
    out, steps, replace = tmp_path / "out", [], os.replace

    def flushed(descriptor):
        steps.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def replaced(source, target):
        if target == out / "manifest.json":
            assert str(source) in steps
        steps.append(f"swap {target}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", replaced)
    run(out, "a")
    swap = steps.index(f"swap {out / 'manifest.json'}")
    files = [
        out / file["file"] for file in json.loads((out / "manifest.json").read_text())["files"]
    ]
    needed = {*files, *(path.parent for path in files), out / "labels"}
    assert {str(path) for path in needed} <= set(steps[:swap])
    assert str(out) in steps[swap:]


def test_a_replaced_run_stays_if_an_earlier_swap_was_killed(tmp_path, monkeypatch):
    """A reader may have read the old manifest just before the swap that succeeded."""
    out = tmp_path / "out"
    run(out, "a")
    manifest = json.loads((out / "manifest.json").read_text())
    replace = os.replace

    def killed(source, target):
        if str(target) == str(out / "manifest.json"):
            raise Crash
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(Crash):
            run(out, "b")
    assert seen(out) == "a"
    run(out, "b")
    assert seen(out) == "b"
    for file in manifest["files"]:
        assert (out / file["stored"]).read_text().startswith("a ")


NO_SPACE = OSError(errno.ENOSPC, "No space left on device")
CRASHES = [
    pytest.param(Crash(), False, None, id="killed-first"),
    pytest.param(Crash(), False, "old", id="killed"),
    pytest.param(NO_SPACE, False, "old", id="disk-full"),
    pytest.param(NO_SPACE, True, None, id="one-error-first"),
    pytest.param(NO_SPACE, True, "old", id="one-error"),
    pytest.param(KeyboardInterrupt(), True, "old", id="interrupted"),
]


@pytest.mark.parametrize(("error", "once", "before"), CRASHES)
def test_a_crash_at_every_step_leaves_old_or_new(tmp_path, monkeypatch, error, once, before):
    """And the next start succeeds, and leaves nothing else."""
    steps, start = [], tmp_path / "start"
    if before:
        run(start, before)
    # Kills come at every step of a replacement, other failures at every third.
    stride = 1 if isinstance(error, Crash) and before else 3
    for after in range(0, 1000, stride):
        out = tmp_path / f"out-{after}"
        if before:
            shutil.copytree(start, out)
        failing = crashing(monkeypatch, after, error, once)
        with failing as changes, suppress(type(error), DistsvcError):
            run(out, "new")
        steps.append(len(changes))
        assert seen(out) in (before, "new")
        run(out, "new")
        assert seen(out) == "new"
        collect(str(out))
        check_tidy(out, "new")
        if len(changes) <= after:
            break
    assert len(steps) > 40 / stride, "the crashes came too late to tell"


@pytest.mark.parametrize("collected", [False, True])
def test_files_of_a_killed_run_stay_until_discarded_or_collected(tmp_path, collected):
    out, dead = tmp_path / "out", f"{'0' * 12}-{'a' * 8}"
    left = [f".runs/{dead}/results/file", f"labels/{dead}/file"]
    for name in left:
        (out / name).parent.mkdir(parents=True)
        (out / name).write_text("half")
    if collected:
        assert collect(str(out)) == left
    else:
        output = Output(out)
        with output.locked():
            assert output.kept_works() == [dead]
            assert len(names(out)) == 4
            output.discard(dead)
    assert names(out) == [".runs/lock"]
    assert [path.name for path in out.iterdir()] == [".runs"]


def test_strays_of_a_published_run_are_removed(tmp_path):
    """Such as the file of a worker that was killed while writing a part."""
    out = tmp_path / "out"
    output = Output(out)
    with output.locked(), work_of(output, digest_of("a")) as work:
        output.publish(write_run(output, name_of(work), "a"))
        (out / "labels" / name_of(work) / ".part-00000.parquet.1234").write_text("half")
    check_tidy(out, "a")


def test_foreign_files_are_left_alone(tmp_path):
    out = tmp_path / "out"
    theirs = ["notes.txt", "labels/mine.parquet", "model/my-model/model.json", ".runs/tmp/x"]
    for name in theirs:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("mine")
    for mark in ("a", "b", "c"):
        run(out, mark)
    collect(str(out))
    assert set(theirs) < set(names(out))


def test_an_output_of_another_version_is_refused(tmp_path):
    run(tmp_path, "a")
    before = names(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text()) | {"format": 1}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    message = r"manifest\.json has format 1, expected 2: .* give another output"
    for attempt in (lambda: run(tmp_path, "a"), lambda: Output(tmp_path).file("model.json")):
        with pytest.raises(JobFileError, match=message):
            attempt()
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("b", "was already published by a different configuration; give --out .*-2, or --over"),
        ("a", "was already published from an input that has changed since"),
    ],
)
def test_a_published_run_is_not_replaced_unasked(tmp_path, job, message):
    run(tmp_path / "out", "a")
    output = Output(tmp_path / "out")
    with pytest.raises(JobFileError, match=message):
        output.check_free(digest_of(job), overwrite=False)
    output.check_free(digest_of(job), overwrite=True)
    check_tidy(tmp_path / "out", "a")


@pytest.mark.parametrize("name", ["report.html", "report.json", "_SUCCESS"])
def test_files_without_a_manifest_are_not_replaced_unasked(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(JobFileError, match=f"holds {name} without a manifest; give --overwrite"):
        run(tmp_path, "a", overwrite=False)
    assert (tmp_path / name).read_text() == "mine"
    run(tmp_path, "a")
    assert seen(tmp_path) == "a"


def test_an_empty_place_is_free(tmp_path):
    Output(tmp_path / "none").check_free("j", overwrite=False)
    Output(tmp_path).check_free("j", overwrite=False)
    assert not Output(tmp_path).holds("j")
    with pytest.raises(InputNotFoundError, match="no run is published in"):
        Output(tmp_path).file("model.json")
    with pytest.raises(InputNotFoundError, match=r"published in .+; for nights below it: distsvc"):
        collect(str(tmp_path))


@pytest.mark.parametrize("content", ["[1]", '{"a": 1}', "{"])
def test_a_strange_manifest(tmp_path, content):
    run(tmp_path, "a")
    before = names(tmp_path)
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(
        DataError, match=r"manifest\.json(: .*expected|: format is missing| can't be read)"
    ):
        run(tmp_path, "b")
    assert names(tmp_path) == before, "what was published is still there to be mended"


def test_another_content_of_a_file_is_published_like_a_run(tmp_path):
    out = tmp_path / "out"
    run(out, "a")
    files = json.loads((out / "manifest.json").read_text())["files"]
    [old] = [out / one["stored"] for one in files if one["file"].endswith("report.html")]
    with Output(out).locked():
        Output(out).revise({"report.html": "a page that is new"})
    assert old.read_text() == "a report.html"
    assert seen(out) == "a"
    assert (out / "report.html").read_text() == "a page that is new"
    assert collect(str(out)) == [old.relative_to(out).as_posix()]
    assert not old.exists()
    run(out, "b")
    collect(str(out))
    check_tidy(out, "b")


def refused(out, job="", overwrite=False):
    """Return the error of another thread that locks the output."""
    [error] = errors_of_lock(out, job, overwrite)
    return error


def test_a_second_run_gets_the_name_of_the_holder(tmp_path):
    out = tmp_path / "out"
    with Output(out).locked("mine"), work_of(Output(out), digest_of("a")) as work:
        with work.created("plan.json") as path:
            path.write_text("{}")
        for error in (refused(out, "mine"), refused(out, "theirs", overwrite=True), refused(out)):
            assert type(error) is TemporaryError
            who = rf"^another run is writing to {out}: process {os.getpid()} on \S+, since 20\S+$"
            assert re.match(who, str(error))
        error = refused(out, "theirs")
        assert type(error) is JobFileError
        assert re.search("that run has another job: give another output.path$", str(error))
        assert path.exists(), "the second run removed the first one's folder"
    with Output(out).locked():
        pass


def test_a_dead_holder_is_not_named(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with Output(out).locked("mine"):
        holder = json.loads((out / ".runs/holder.json").read_text())
        (out / ".runs/holder.json").write_text(json.dumps(holder | {"process": 2**22 + 1}))
        assert str(refused(out, "theirs")) == f"another run is writing to {out}"
        (out / ".runs/holder.json").write_text("{")
        assert str(refused(out, "theirs")) == f"another run is writing to {out}"
        (out / ".runs/holder.json").write_text(json.dumps(holder | {"host": "elsewhere"}))
        assert "on elsewhere" in str(refused(out, "mine"))


def test_the_lock_is_released_after_an_error_and_stays(tmp_path):
    inodes = set()
    for _ in range(2):
        with pytest.raises(ValueError, match="inside"), Output(tmp_path).locked():
            raise ValueError("inside")
        inodes.add((tmp_path / ".runs/lock").stat().st_ino)
    assert len(inodes) == 1
    assert names(tmp_path) == [".runs/lock"]
    assert not stat.S_IMODE((tmp_path / ".runs/lock").stat().st_mode) & stat.S_IRWXO


def test_no_two_runs_have_the_same_folder(tmp_path):
    names_of_runs = set()
    for _ in range(3):
        output = Output(tmp_path)
        with output.locked(), work_of(output, "0123456789abcdef") as work:
            names_of_runs.add(name_of(work))
    assert len(names_of_runs) == 3
    assert all(re.fullmatch(r"0123456789ab-[0-9a-f]{8}", name) for name in names_of_runs)


@pytest.mark.parametrize("below", ["file/out", "file"])
def test_an_output_that_can_not_be_a_folder(tmp_path, below):
    (tmp_path / "file").write_text("a file")
    with (
        pytest.raises(OutputPermissionError, match=r"output\.path .*file.* can't be written"),
        Output(tmp_path / below).locked(),
    ):
        pass
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("path", ["hdfs://host/out", "file:///tmp/out"])
def test_a_url_of_no_bucket_is_no_output(path):
    message = f"^output.path: expected a folder .*, or a URL of s3://, found '{path}'$"
    with pytest.raises(JobFileError, match=message):
        Output(path)


@pytest.mark.parametrize("name", [".runs", "labels", "model", "report"])
def test_links_are_not_followed(tmp_path, name):
    """The target of a link at the place of a folder belongs to somebody else."""
    theirs = tmp_path / "theirs" / f"{'0' * 12}-{'a' * 8}"
    theirs.mkdir(parents=True)
    (theirs / "file").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "theirs")
    with pytest.raises(OutputPermissionError, match=rf"can't be written: .*{name} is a link"):
        run(tmp_path / "out", "a")
    assert (theirs / "file").exists()


def test_links_below_our_folders_are_not_followed(tmp_path):
    out, run_id = tmp_path / "out", f"{'0' * 12}-{'a' * 8}"
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("mine")
    for folder in (".runs", "labels"):
        (out / folder).mkdir(parents=True)
        (out / folder / run_id).symlink_to(tmp_path / "theirs")
    run(out, "a")
    collect(str(out))
    assert (tmp_path / "theirs" / "file").exists()


def test_the_identical_run_needs_no_writable_folder(tmp_path, monkeypatch):
    out = tmp_path / "out"
    run(out, "a")
    error = PermissionError(errno.EROFS, "Read-only file system")
    with crashing(monkeypatch, 0, error, once=False):
        assert run(out, "a") is False
