"""Candidates that a check held back: in the status, published, and whole after a crash."""

import html
import json
import re
import shutil
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import CheckFailedError, DataError, DistsvcError, InputNotFoundError
from distsvc.published import republish
from distsvc.published.republish import publish_held
from distsvc.published.status import status, status_lines
from distsvc.run.job import run_job
from distsvc.run.reporting.files import read_report
from distsvc.run.work.start import Start
from distsvc.storage.publishing.publication import Output, collect
from tests.small_runs import MODELS, small_job, three_clusters, write_table
from tests.storage.written_runs import (
    Crash,
    check_tidy,
    crashing,
    digest_of,
    name_of,
    names,
    run,
    seen,
    work_of,
    write_run,
)


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "t.parquet", three_clusters(600))


def held_back(table, **sections) -> str:
    job = small_job(table, MODELS["sampled"], checks={"min_rows": 1000}, **sections)
    with pytest.raises(CheckFailedError, match="min_rows: 600 rows, at least 1,000 expected"):
        run_job(job, start=Start(overwrite=True))
    [run_id] = Output(job.output.path).candidates()
    return run_id


def test_status_shows_a_candidate_and_publish_publishes_it(tmp_path, table):
    job = small_job(table, MODELS["sampled"])
    run_job(job)
    before = json.loads((tmp_path / "out/manifest.json").read_text())
    given = {"preprocess": {"scale": "none"}}
    run_id = held_back(table, **given)
    assert json.loads((tmp_path / "out/manifest.json").read_text()) == before

    found = status(job.output.path)
    [told] = found["held"]
    assert (told["run_id"], told["rows"]) == (run_id, 600)
    assert [check["name"] for check in told["failed"]] == ["min_rows"]
    page = Path(told["page"]).read_text()
    [query] = re.findall("<pre tabindex=.0.>(SELECT.*?)</pre>", html.unescape(page), re.DOTALL)
    assert duckdb.sql(query).fetchall()
    assert f"<code>distsvc publish {job.output.path} --held {run_id}</code>" in page
    assert f"held back: run {run_id} of 20" in status_lines(found)[1]
    assert "at least 1,000 expected; see " in status_lines(found)[1]

    said = CliRunner().invoke(main, ["publish", job.output.path, "--held", run_id])
    assert said.exit_code == 0, said.output
    assert "warning: min_rows: 600 rows" in said.output
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (manifest["run_id"], manifest["override"]) == (run_id, True)
    assert [check["state"] for check in manifest["checks"]] == ["failed"]
    report = read_report(Output(job.output.path))
    assert report.held is False
    assert [check.name for check in report.failed] == ["min_rows"]
    warning = "published although these checks failed: min_rows: 600 rows, at least 1,000 expected"
    assert report.warnings[0] == warning
    page = (tmp_path / "out/report.html").read_text()
    assert page == Output(job.output.path).file("report.html").read_text()
    assert warning in page
    assert "To publish it all the same" not in page
    assert "labels/*/*.parquet" in page
    assert status(job.output.path)["held"] == []
    run_job(small_job(table, MODELS["sampled"], **given))  # published already, so nothing is done
    again = CliRunner().invoke(main, ["publish", job.output.path, "--held", run_id, "--json"])
    assert json.loads(again.output)["run_id"] == run_id
    collect(job.output.path)
    assert status(job.output.path)["published"]["run_id"] == run_id


def hold(out, mark: str, created: str = "") -> str:
    """Hold back a candidate whose files contain a mark; return its run."""
    output = Output(out)
    with output.locked(), work_of(output, digest_of(mark)) as work:
        run_id = name_of(work)
        output.hold(write_run(output, run_id, mark).model_copy(update={"created": created}))
    return run_id


@pytest.fixture
def quick(monkeypatch):
    """Draw no page: page and report of a candidate are its mark."""

    def overridden(output, manifest):
        mark = (output.store.root / manifest.files[0].stored).read_text().split()[0]
        return {name: f"{mark} {name}" for name in ("report.html", "report.json")}

    monkeypatch.setattr(republish, "_overridden", overridden)


def test_an_unknown_candidate(tmp_path, quick):
    out = tmp_path / "out"
    with pytest.raises(InputNotFoundError, match=r"no candidate x .*: none is held back there"):
        publish_held(str(out), "x")
    assert not out.exists()
    run_id = hold(out, "a")
    with pytest.raises(InputNotFoundError, match=f"held back are {run_id}$"):
        publish_held(str(out), "x")
    assert CliRunner().invoke(main, ["publish", str(out), "--held", "x"]).exit_code == 66


@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_a_damaged_candidate_is_not_published(tmp_path, quick, damage):
    out = tmp_path / "out"
    run(out, "old")
    run_id = hold(out, "new")
    path = out / f".runs/files/{run_id}/labels/{run_id}/part-00001.parquet"
    content = path.read_text()
    path.write_text({"gone": "", "cut": content[:-1], "other": content.upper()}[damage])
    if damage == "gone":
        path.unlink()
    before = names(out)
    with pytest.raises(DataError, match=r"part-00001\.parquet"):
        publish_held(str(out), run_id)
    assert (seen(out), names(out)) == ("old", before)


@pytest.mark.parametrize(("error", "stride"), [(Crash(), 1), (OSError(28, "No space"), 3)])
def test_a_crash_at_every_step_leaves_old_or_new(tmp_path, quick, monkeypatch, error, stride):
    start = tmp_path / "start"
    run(start, "old")
    run_id = hold(start, "new")
    for after in range(0, 1000, stride):
        out = tmp_path / f"out-{after}"
        shutil.copytree(start, out)
        failing = crashing(monkeypatch, after, error, once=isinstance(error, OSError))
        with failing as changes, suppress(type(error), DistsvcError):
            publish_held(str(out), run_id)
        assert seen(out) in ("old", "new")
        if seen(out) == "old":
            assert list(Output(out).candidates()) == [run_id]
        publish_held(str(out), run_id)
        assert seen(out) == "new"
        collect(str(out))
        check_tidy(out, "new")
        if len(changes) <= after:
            break
    assert after > 20, "the crashes came too late to tell"


def test_a_published_candidate_is_replaced_like_any_run(tmp_path, quick):
    out = tmp_path / "out"
    run(out, "old")
    publish_held(str(out), hold(out, "a"))
    files = json.loads((out / "manifest.json").read_text())["files"]
    run(out, "b")
    for file in files:
        assert (out / file["stored"]).read_text().startswith("a ")
        assert not (out / file["file"]).exists()
    run(out, "c")
    assert not any((out / file["stored"]).exists() for file in files)
    collect(str(out))
    check_tidy(out, "c")


def check_whole(out, manifest):
    for file in manifest.files:
        assert (out / file.stored).stat().st_size == file.bytes


def test_a_crash_at_any_step_keeps_the_newest_candidates(tmp_path, quick, monkeypatch):
    before = tmp_path / "before"
    run(before, "older")
    run(before, "old")
    kept = [hold(before, f"c{n}", f"2026-11-0{n}") for n in (1, 2, 3)]
    replaced = names(before / ".runs/replaced")
    for after in range(1000):
        out = tmp_path / f"out-{after}"
        shutil.copytree(before, out)
        with crashing(monkeypatch, after, Crash(), once=False) as changes, suppress(Crash):
            hold(out, "c4", "2026-11-04")
        assert seen(out) == "old"
        found = Output(out).candidates()
        assert set(kept[1:]) <= set(found)
        for manifest in found.values():
            check_whole(out, manifest)
        newest = hold(out, "c5", "2026-11-05")
        assert len(Output(out).candidates()) == 3
        assert {*kept[2:], newest} <= set(Output(out).candidates())
        if len(changes) <= after:
            break
    assert after > 20, "the crashes came too late to tell"
    assert names(out / ".runs/replaced") == replaced, "a slow reader may be at what was replaced"
    assert not [name for name in names(out) if kept[0] in name or kept[1] in name]


@pytest.mark.parametrize("odd", ["none", [{"state": ["failed"]}]])
def test_a_candidate_with_invalid_checks_is_not_published(tmp_path, table, odd):
    run_id = held_back(table)
    file = tmp_path / f"out/.runs/held/{run_id}.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"checks": odd}))
    found = CliRunner().invoke(main, ["publish", str(tmp_path / "out"), "--held", run_id])
    assert found.exit_code == 65, found.output
    assert found.stderr.startswith("error: ")
    assert "checks" in found.stderr
    assert not (tmp_path / "out/manifest.json").exists()


def test_a_damaged_record_of_a_candidate_stops_no_later_run(tmp_path, table):
    run_id = held_back(table)
    record = tmp_path / f"out/.runs/held/{run_id}.json"
    record.write_bytes(record.read_bytes()[:100])
    run_job(small_job(table, MODELS["sampled"]))
    assert not record.exists()
    assert (tmp_path / "out/manifest.json").exists()
    collect(str(tmp_path / "out"))
    assert not list((tmp_path / "out").rglob(f"*{run_id}*"))
