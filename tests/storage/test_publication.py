"""The manifest is the commit: what it lists is there, whatever went wrong."""

import os
import re
import threading
from pathlib import Path

import pytest

from distsvc.errors import DataError, JobFileError, OutputPermissionError, TemporaryError
from distsvc.storage import publication
from distsvc.storage.arrays import write_json
from distsvc.storage.publication import PUBLISHED, Output

MANIFEST = {"job_sha256": "j", "input_sha256": "i", "files": []}


def run_folder_with_results(folder: Path, mark: str = "new") -> None:
    (folder / "labels").mkdir()
    (folder / "labels" / "part-00000.parquet").write_text(mark)
    (folder / "report.json").write_text(mark)
    (folder / "plan.json").write_text("not published")


def published(path: Path, mark: str = "new", manifest=MANIFEST) -> Output:
    output = Output(str(path))
    with output.locked(), output.run_folder("run") as folder:
        run_folder_with_results(folder, mark)
        output.publish(folder, manifest)
    return output


def names(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


WHOLE = ["_SUCCESS", "labels", "labels/part-00000.parquet", "manifest.json", "report.json"]


def test_publish(tmp_path):
    output = published(tmp_path / "out")
    assert names(tmp_path / "out") == WHOLE
    assert output.manifest() == MANIFEST
    assert output.check_free("j", "i", overwrite=False) is True


def test_the_manifest_comes_last(tmp_path, monkeypatch):
    seen = []

    def look(path, content):
        seen.extend(names(path.parent))
        write_json(path, content)

    monkeypatch.setattr(publication, "write_json", look)
    published(tmp_path / "out")
    assert "labels/part-00000.parquet" in seen
    assert "report.json" in seen
    assert "manifest.json" not in seen
    assert "_SUCCESS" not in seen


class Crash(BaseException):
    pass


@pytest.mark.parametrize("moved_before", [0, 1])
def test_a_crash_while_results_are_moved_leaves_nothing(tmp_path, monkeypatch, moved_before):
    published(tmp_path / "out", "old")
    moved = []
    replace = os.replace

    def crash(source, target):
        if len(moved) == moved_before:
            raise Crash
        moved.append(target)
        replace(source, target)

    monkeypatch.setattr(publication.os, "replace", crash)
    with pytest.raises(Crash):
        published(tmp_path / "out")
    assert names(tmp_path / "out") == []


def test_a_crash_before_the_manifest_leaves_nothing(tmp_path, monkeypatch):
    def crash(path, content):
        raise Crash

    monkeypatch.setattr(publication, "write_json", crash)
    with pytest.raises(Crash):
        published(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_killed_publish_leaves_no_manifest(tmp_path, monkeypatch):
    """As after SIGKILL: nothing is tidied up, and what was there before is withdrawn already."""
    published(tmp_path / "out", "old")

    def crash(path, content):
        raise Crash

    monkeypatch.setattr(publication, "write_json", crash)
    real = Output._withdraw
    monkeypatch.setattr(Output, "_withdraw", lambda self: None if names_moved(self) else real(self))
    with pytest.raises(Crash):
        published(tmp_path / "out")
    assert names(tmp_path / "out") == ["labels", "labels/part-00000.parquet", "report.json"]
    with pytest.raises(JobFileError, match=r"holds labels, report\.json without a manifest"):
        Output(str(tmp_path / "out")).check_free("j", "i", overwrite=False)
    assert Output(str(tmp_path / "out")).check_free("j", "i", overwrite=True) is False


def names_moved(output: Output) -> bool:
    found = output.path / "report.json"
    return found.exists() and found.read_text() == "new"


def test_publishing_again_replaces_everything(tmp_path):
    out = tmp_path / "out"
    published(out, "old")
    (out / "labels" / "part-00001.parquet").write_text("of a run with more partitions")
    (out / "report.html").write_text("old page")
    (out / "score").mkdir()
    published(out)
    assert names(out) == WHOLE
    assert (out / "labels" / "part-00000.parquet").read_text() == "new"


def test_what_others_put_there_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    published(tmp_path / "out")
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("job", "inputs", "message"),
    [
        ("other", "i", "was already published by a different configuration; give --overwrite"),
        ("j", "other", "was already published from an input that has changed since"),
    ],
)
def test_a_published_run_is_not_replaced_unasked(tmp_path, job, inputs, message):
    output = published(tmp_path / "out")
    with pytest.raises(JobFileError, match=message):
        output.check_free(job, inputs, overwrite=False)
    assert output.check_free(job, inputs, overwrite=True) is False
    assert names(tmp_path / "out") == WHOLE


def test_an_empty_place_is_free(tmp_path):
    assert Output(str(tmp_path / "none")).check_free("j", "i", overwrite=False) is False
    assert Output(str(tmp_path)).check_free("j", "i", overwrite=False) is False


@pytest.mark.parametrize("content", ["[1]", '{"a": 1}', "{"])
def test_a_strange_manifest(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json (is not a manifest|can't be read)"):
        Output(str(tmp_path)).check_free("j", "i", overwrite=False)


def test_a_second_run_is_refused_while_the_first_goes_on(tmp_path):
    out = tmp_path / "out"
    errors = []

    def second():
        try:
            with Output(str(out)).locked():
                pass
        except TemporaryError as error:
            errors.append(str(error))

    with Output(str(out)).locked(), Output(str(out)).run_folder("first") as folder:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert errors == [f"another run is writing to {out}"]
        assert folder.exists(), "the second run removed the first one's folder"
    with Output(str(out)).locked():
        pass


def test_the_lock_is_released_after_an_error(tmp_path):
    for _ in range(2):
        with pytest.raises(ValueError, match="inside"), Output(str(tmp_path / "out")).locked():
            raise ValueError("inside")


def test_stale_run_folders_are_removed(tmp_path):
    stale = tmp_path / "out" / ".runs" / "0123"
    stale.mkdir(parents=True)
    (stale / "plan.json").write_text("{}")
    with Output(str(tmp_path / "out")).locked():
        assert not stale.exists()
    assert names(tmp_path) == ["out"]


def test_a_run_folder_is_removed_however_the_run_ends(tmp_path):
    def run(output):
        with output.locked(), output.run_folder("run") as folder:
            (folder / "file").write_text("half")
            raise Crash

    with pytest.raises(Crash):
        run(Output(str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_no_two_runs_have_the_same_folder(tmp_path):
    digest, names_of_runs = "0123456789abcdef", set()
    for _ in range(3):
        output = Output(str(tmp_path / "out"))
        with output.locked(), output.run_folder(digest) as folder:
            names_of_runs.add(folder.name)
    assert len(names_of_runs) == 3
    assert all(re.fullmatch(r"0123456789ab-[0-9a-f]{8}", name) for name in names_of_runs)


def test_what_is_published_comes_from_the_formats():
    arrays = ("row", "label", "score", "outlier")
    rest = ("model", "report.html", "report.json")
    assert ("labels", "zarr.json", *arrays, *rest) == PUBLISHED


def test_folders_made_for_a_failed_run_are_removed(tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(Crash), Output(str(tmp_path / "there" / "a" / "b")).locked():
        raise Crash
    assert names(tmp_path) == ["there"]


def test_a_folder_that_was_there_is_kept(tmp_path):
    with pytest.raises(Crash), Output(str(tmp_path)).locked():
        raise Crash
    assert tmp_path.exists()
    assert names(tmp_path) == []


@pytest.mark.parametrize("below", ["file/out", "file"])
def test_an_output_that_can_not_be_a_folder(tmp_path, below):
    (tmp_path / "file").write_text("a file")
    with (
        pytest.raises(OutputPermissionError, match=r"output\.path .*file.* can't be written"),
        Output(str(tmp_path / below)).locked(),
    ):
        pass
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("path", ["s3://bucket/out", "file:///tmp/out"])
def test_a_url_is_no_output(path):
    with pytest.raises(JobFileError, match=f"output.path must be a folder .*, found '{path}'"):
        Output(path)


def test_secrets_of_a_url_are_not_told():
    with pytest.raises(JobFileError) as error:
        Output("s3://KEY:SECRET@bucket/out")
    assert "SECRET" not in str(error.value)


def test_links_are_not_followed(tmp_path):
    """What a link in the place of the runs' folder points to is somebody else's."""
    (tmp_path / "theirs" / "folder").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".runs").symlink_to(tmp_path / "theirs")
    with (
        pytest.raises(OutputPermissionError, match=r"can't be written: .*runs is a link"),
        Output(str(tmp_path / "out")).locked(),
    ):
        pass
    (tmp_path / "out" / ".runs").unlink()
    (tmp_path / "out" / ".runs").mkdir()
    (tmp_path / "out" / ".runs" / "old").symlink_to(tmp_path / "theirs")
    with Output(str(tmp_path / "out")).locked():
        pass
    assert (tmp_path / "theirs" / "folder").exists()
