"""The last runs in a folder of outputs stay, and so do their previous runs."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.cli.main import main
from distsvc.errors import DistsvcError, InputNotFoundError, JobFileError, TemporaryError
from distsvc.published import republish
from distsvc.storage.publishing.manifest import ContinuedRun, Manifest
from distsvc.storage.publishing.publication import Output, collect
from distsvc.storage.publishing.retention import (
    DatedRun,
    OutputRuns,
    check_folder,
    reasons_to_keep,
    retain,
)
from tests.storage.written_runs import (
    Crash,
    crashing,
    digest_of,
    name_of,
    names,
    seen,
    work_of,
    write_run,
)


def publish(out, day, previous=None, hold=False, created=None, job=None):
    """Publish the run of a day, or hold it back; return its entry as a previous run."""
    output = Output(out)
    with output.locked(), work_of(output, digest_of(day)) as work:
        output.check_free("", overwrite=True)
        manifest = write_run(output, name_of(work), day)
        said = {"created": created or f"{day}T03:00:00+00:00"}
        said["job"] = {} if created else {"job": {"run_date": day}}
        said["job"] |= job or {}
        if previous is not None:
            said["previous"] = previous
        manifest = Manifest.model_validate(manifest.dumped() | said)
        if hold:
            output.hold(manifest)
        else:
            output.publish(manifest)
    return {"run_id": manifest.run_id, "path": str(out), "model_sha256": digest_of("m")}


def begin(out, day, previous=None, begun=b"{}"):
    """Leave an unfinished run, whose previous run `publish` returned; return its name."""
    output = Output(out)
    if previous is not None:
        address = str(Path(previous["path"]).absolute())
        previous = ContinuedRun(**previous, address=address)
    work = output.new_work(digest_of(day), previous=previous)
    work.put("begun.json", begun)
    return name_of(work)


def nights(folder, n, previous=None):
    for day in range(1, n + 1):
        previous = publish(folder / f"2026-11-{day:02}", f"2026-11-{day:02}", previous)
    return previous


def said(found):
    return {
        key: {one["path"].rpartition("/")[2]: one.get("because", "") for one in found[key]}
        for key in ("removed", "kept")
    }


def test_the_last_runs_stay_and_the_one_that_they_continue(tmp_path):
    nights(tmp_path / "out", 6)
    found = said(retain(str(tmp_path / "out"), 2))
    assert list(found["removed"]) == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert list(found["kept"]) == ["2026-11-04", "2026-11-05", "2026-11-06"]
    assert "2026-11-05 continues from this run" in found["kept"]["2026-11-04"]
    assert found["kept"]["2026-11-06"] == "one of the last 2 runs"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == list(found["kept"])
    assert [seen(tmp_path / "out" / day) for day in found["kept"]] == list(found["kept"])
    assert said(retain(str(tmp_path / "out"), 2))["removed"] == {}


def test_foreign_files_stay_and_outputs_may_be_deep(tmp_path):
    for day in "01", "02", "03":
        publish(tmp_path / f"out/2026/{day}", f"2026-11-{day}")
    (tmp_path / "out/2026/01/notes.txt").write_text("mine")
    (tmp_path / "out/raw/2026").mkdir(parents=True)
    (tmp_path / "out/raw/2026/t.parquet").write_text("mine")
    assert list(said(retain(f"{tmp_path}/out/", 1))["removed"]) == ["01", "02"]
    assert names(tmp_path / "out/2026/01") == ["notes.txt"]
    assert not (tmp_path / "out/2026/02").exists()
    assert names(tmp_path / "out/raw") == ["2026/t.parquet"]


def test_the_date_of_a_run_decides_else_when_it_was_made(tmp_path):
    """A night that is repeated is not a new night."""
    publish(tmp_path / "a", "2026-11-01")
    publish(tmp_path / "b", "2026-11-03")
    publish(tmp_path / "c", "x", created="2026-11-02T09:00:00+00:00")
    assert list(said(retain(str(tmp_path), 2))["removed"]) == ["a"]
    assert list(said(retain(str(tmp_path), 1))["removed"]) == ["c"]


def test_a_previous_run_is_found_by_its_path(tmp_path):
    """The previous run has been replaced by another one."""
    first = publish(tmp_path / "1", "2026-11-01")
    publish(tmp_path / "2", "2026-11-02", first | {"run_id": "gone"})
    assert said(retain(str(tmp_path), 1))["removed"] == {}


def test_candidates_and_unfinished_runs_stay(tmp_path):
    before = nights(tmp_path, 4)
    publish(tmp_path / "2026-11-05", "2026-11-05", before, hold=True)
    publish(tmp_path / "2026-11-06", "2026-11-06")
    interrupted = Output(tmp_path / "2026-11-07")
    interrupted.new_work(digest_of("i")).put("begun.json", b"{}")
    publish(tmp_path / "2026-11-08", "2026-11-08")
    (tmp_path / "2026-11-03/manifest.json").write_text("{")
    with Output(tmp_path / "2026-11-02").locked():
        found = said(retain(str(tmp_path), 1))
    assert list(found["removed"]) == ["2026-11-01", "2026-11-06"]
    for day, because in {
        "2026-11-02": "another run is writing to",
        "2026-11-03": "manifest.json",
        "2026-11-04": "2026-11-05 continues from this run",
        "2026-11-05": "is held back",
        "2026-11-07": "is unfinished, and can be resumed",
        "2026-11-08": "the last run",
    }.items():
        assert because in found["kept"][day]


def test_the_previous_run_of_an_unfinished_run_stays(tmp_path):
    nights(tmp_path, 2)
    third = publish(tmp_path / "2026-11-03", "2026-11-03")
    nightly = publish(tmp_path / "2026-11-05", "2026-11-05")
    begun = begin(tmp_path / "2026-11-04", "2026-11-04", third)
    again = begin(tmp_path / "2026-11-01", "2026-11-01", begun=b"")
    publish(tmp_path / "2026-11-06", "2026-11-06", nightly)
    found = said(retain(str(tmp_path), 1))
    assert list(found["removed"]) == ["2026-11-02"]
    assert (
        found["kept"]["2026-11-03"]
        == f"run {begun} at {tmp_path}/2026-11-04 continues from this run"
    )
    assert found["kept"]["2026-11-01"] == f"run {again} is unfinished, and can be resumed"
    assert Output(tmp_path / "2026-11-01").kept_works() == [again], "and what it has done stays"
    (tmp_path / "2026-11-04/.runs" / begun / "previous.json").write_text('{"run_')
    publish(tmp_path / "2026-11-07", "2026-11-07")
    publish(tmp_path / "2026-11-08", "2026-11-08")
    found = said(retain(str(tmp_path), 1))
    assert found["removed"] == {}
    damaged = "may continue from this run: the record of the previous run is damaged"
    assert damaged in found["kept"]["2026-11-03"]
    Output(tmp_path / "2026-11-04").discard(begun)
    assert "2026-11-03" in said(retain(str(tmp_path), 1))["removed"]


def test_a_published_run_does_not_stay_as_an_unfinished_one(tmp_path):
    """The run was killed after its commit."""
    for day in "2026-11-01", "2026-11-02":
        publish(tmp_path / day, day)
    run_id = Output(tmp_path / "2026-11-01").run_id
    Output(tmp_path / "2026-11-01").work(run_id).put("begun.json", b"{}")
    assert list(said(retain(str(tmp_path), 1))["removed"]) == ["2026-11-01"]


def test_runs_are_counted_for_each_job(tmp_path):
    named = [{"job": {"name": name}} for name in ("shop", "mail")]
    unnamed = [
        {"job": {"name": "job"}, "output": {"path": f"out/{place}"}} for place in ("x/{}", "y/{}")
    ]
    for number, job in enumerate([*named, *unnamed]):
        for day in "2026-11-01", "2026-11-02", "2026-11-03":
            told = json.loads(json.dumps(job).replace("{}", day))
            publish(tmp_path / f"job{number}-{day}", day, job=told)
    found = said(retain(str(tmp_path), 2))
    assert list(found["removed"]) == [f"job{number}-2026-11-01" for number in range(4)]
    assert found["kept"]["job0-2026-11-02"] == "one of the last 2 runs of shop"
    assert found["kept"]["job3-2026-11-02"] == "one of the last 2 runs"


def test_a_dry_run_has_the_same_result_and_changes_nothing(tmp_path):
    nights(tmp_path, 4)
    (tmp_path / "empty/.runs").mkdir(parents=True)
    (tmp_path / "empty/.runs/lock").touch()
    Output(tmp_path / "2026-11-04").runs.put("0123456789ab-01234567/plan.json", b"{}")
    before = names(tmp_path)
    with Output(tmp_path / "2026-11-01").locked():
        found = said(retain(str(tmp_path), 1, dry_run=True))
    assert "another run is writing to" in found["kept"]["2026-11-01"]
    found = retain(str(tmp_path), 1, dry_run=True)
    left = collect(str(tmp_path / "2026-11-04"), dry_run=True)
    assert left == [".runs/0123456789ab-01234567/plan.json"]
    assert names(tmp_path) == before
    assert [one["path"].rpartition("/")[2] for one in found["removed"]] == [
        "empty", "2026-11-01", "2026-11-02",
    ]  # fmt: skip
    assert retain(str(tmp_path), 1) == found
    assert collect(str(tmp_path / "2026-11-04")) == left


@pytest.mark.parametrize("path", ["", " ", "/", "//", "~", "~/..", "/.."])
def test_folders_that_nobody_means(path, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home/me"))
    publish(tmp_path / "home/me/out", "2026-11-01")
    monkeypatch.chdir(tmp_path)
    given = path.replace("~", str(tmp_path / "home/me"))
    result = CliRunner().invoke(main, ["gc", given, "--keep", "1"])
    assert result.exit_code == 78, result.output
    assert "expected" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    check_folder(str(tmp_path / "home/me/out"))


def test_outputs_are_looked_for_four_folders_deep(tmp_path):
    publish(tmp_path / "out/shop/2026/11/20", "2026-11-20")
    publish(tmp_path / "out/shop/2026/11/19/too/deep", "2026-11-19")
    assert len(retain(str(tmp_path / "out"), 1)["kept"]) == 1
    with pytest.raises(InputNotFoundError):
        retain(str(tmp_path), 1)


def test_the_record_of_a_holder_says_that_it_removes(tmp_path):
    nights(tmp_path, 1)
    output = Output(tmp_path / "2026-11-01")
    with output.locked(removes=True):
        output._lease.renew({})
        assert json.loads((tmp_path / "2026-11-01/.runs/holder.json").read_text())["removes"]
    with output.locked():
        assert "removes" not in (tmp_path / "2026-11-01/.runs/holder.json").read_text()
        with pytest.raises(TemporaryError):
            collect(str(tmp_path / "2026-11-01"), dry_run=True)


def test_a_removal_that_is_killed_leaves_a_whole_run_or_none(tmp_path, monkeypatch):
    nights(tmp_path / "start", 2)
    publish(tmp_path / "start/2026-11-01", "2026-11-01", hold=True)
    path = tmp_path / "start/2026-11-02/manifest.json"
    path.write_text(path.read_text().replace('"previous"', '"before"'))
    for after in range(200):
        folder = tmp_path / str(after)
        shutil.copytree(tmp_path / "start", folder)
        with crashing(monkeypatch, after, Crash(), once=False) as changes, suppress(Crash):
            retain(str(folder), 1)
        assert seen(folder / "2026-11-01") in ("2026-11-01", None)
        with suppress(DistsvcError):
            retain(str(folder), 1)
        assert names(folder / "2026-11-01") == []
        assert seen(folder / "2026-11-02") == "2026-11-02"
        if len(changes) <= after:
            break
    assert after > 10


def test_a_bucket_is_a_folder_of_outputs_too(monkeypatch):
    for name in "obstore", "moto":
        pytest.importorskip(name)
    from tests.s3_server import BUCKET, content, keys, s3_server

    overridden = {name: f"new {name}" for name in ("report.html", "report.json")}
    monkeypatch.setattr(republish, "_overridden", lambda output, manifest: overridden)
    with s3_server():
        folder, previous = f"s3://{BUCKET}/out", None
        for day in "2026-11-01", "2026-11-02", "2026-11-03":
            previous = publish(f"{folder}/{day}", day, previous)
        run_id = publish(f"{folder}/2026-11-04", "2026-11-04", previous, hold=True)["run_id"]
        manifest = republish.publish_held(f"{folder}/2026-11-04", run_id)
        assert manifest.run_id == run_id
        assert Output(f"{folder}/2026-11-04").file("report.html").read_text() == "new report.html"
        assert Output(f"{folder}/2026-11-04").candidates() == {}
        found = said(retain(folder, 1))
        assert list(found["removed"]) == ["2026-11-01", "2026-11-02"]
        assert list(found["kept"]) == ["2026-11-03", "2026-11-04"]
        left = {key for key in keys("out/") if content(f"out/{key}") != b"{}\n"}
        assert {key.split("/")[0] for key in left} == {"2026-11-03", "2026-11-04"}
        assert list(said(retain(folder, 1))["removed"]) == []
        with pytest.raises(JobFileError, match=f"{BUCKET} is a whole bucket, and .*/out is not"):
            retain(f"s3://{BUCKET}/", 1)


def test_the_command(tmp_path):
    nights(tmp_path / "out", 3)
    runner = CliRunner()
    assert runner.invoke(main, ["gc", f"{tmp_path}/out", "--keep", "0"]).exit_code == 2
    assert runner.invoke(main, ["gc", f"{tmp_path}/none", "--keep", "1"]).exit_code == 66
    assert runner.invoke(main, ["gc", f"{tmp_path}/out"]).exit_code == 66
    one = runner.invoke(main, ["gc", f"{tmp_path}/out/2026-11-01", "--keep", "1", "--json"])
    assert json.loads(one.output) == {"removed": []}
    shown = runner.invoke(main, ["gc", f"{tmp_path}/out", "--keep", "1"]).output.splitlines()
    assert shown[0].startswith(f"removed: {tmp_path}/out/2026-11-01, run ")
    assert shown[1].endswith("continues from this run")
    options = ["--keep", "1", "--dry-run"]
    shown = runner.invoke(main, ["gc", f"{tmp_path}/out", *options]).output.splitlines()
    assert {line.partition(":")[0] for line in shown} == {"kept"}
    (tmp_path / "out/2026-11-03/.runs/0123456789ab-01234567").mkdir()
    (tmp_path / "out/2026-11-03/.runs/0123456789ab-01234567/plan.json").write_text("{}")
    shown = runner.invoke(main, ["gc", f"{tmp_path}/out/2026-11-03", "--dry-run"]).output
    assert shown.splitlines() == [
        "would be removed: .runs/0123456789ab-01234567/plan.json", "1 file would be removed",
    ]  # fmt: skip
    runner.invoke(main, ["gc", f"{tmp_path}/out/2026-11-03"])
    again = runner.invoke(main, ["gc", f"{tmp_path}/out", "--keep", "1", "--json"])
    found = json.loads(again.output)
    assert found["removed"] == []
    assert [one["date"] for one in found["kept"]] == ["2026-11-02", "2026-11-03"]


@settings(max_examples=200, deadline=None)
@given(
    history=st.lists(
        st.tuples(st.integers(1, 9), st.none() | st.integers(0, 11)), min_size=1, max_size=12
    ),
    keep=st.integers(1, 12),
)
def test_any_history(history, keep):
    """Each run has a day, and may continue any other; days may be the same."""
    runs = [
        DatedRun(
            path=f"out/{number}",
            address=f"/out/{number}",
            run_id=f"run-{number}",
            date=f"2026-11-0{day}",
            created=f"2026-11-0{day}T00:00:{number:02}",
            before=frozenset() if before is None else frozenset({f"run-{before}", "/elsewhere"}),
        )
        for number, (day, before) in enumerate(history)
    ]
    kept = reasons_to_keep([OutputRuns(None, one) for one in runs], keep)
    beginnings = "one of the last", "the last run"
    latest = [one for one in runs if kept.get(one.address, "").startswith(beginnings)]
    assert len(latest) == min(keep, len(runs))
    others = [one for one in runs if one not in latest]
    assert not others or max(o.date for o in others) <= min(one.date for one in latest)
    needed = {name for one in latest for name in one.before}
    for one in others:
        assert (one.address in kept) == (one.run_id in needed)
