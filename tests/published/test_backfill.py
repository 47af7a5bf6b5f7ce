"""Backfills: the days that are run, their order, and the end at a failure."""

import datetime
import json
import re
import shlex

import numpy as np
import pytest
import tomli_w
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import CheckFailedError, DataError, JobFileError, SkippedError, TemporaryError
from distsvc.job.file import load_job
from distsvc.published import backfill as backfills
from distsvc.published.backfill import backfill, publish_commands
from distsvc.published.republish import roll_back, withdraw
from distsvc.run.job import run_job
from distsvc.run.reporting.files import read_report
from distsvc.run.work.start import Display, Start
from distsvc.storage.places.arrays import sealed
from distsvc.storage.publishing.publication import Output
from tests.small_runs import forget, killed, write_table

pytestmark = pytest.mark.usefixtures("quick_page")
DAYS = [f"2026-11-{day:02}" for day in range(1, 6)]


@pytest.fixture
def job_file(tmp_path):
    """A job with a table for each of five days."""
    (tmp_path / "data").mkdir()
    random = np.random.default_rng(0)
    for number, day in enumerate(DAYS):
        X = random.normal(0.0, 0.3, (300, 2)) + 5.0 * random.integers(0, 2, (300, 1))
        write_table(tmp_path / f"data/{day}.parquet", X + 0.01 * number)
    content = {
        "input": {"path": f"{tmp_path}/data/{{run_date}}.parquet"},
        "model": {"algorithm": "bico", "n_clusters": 2},
        "continuity": {"previous": f"{tmp_path}/out/{{run_date-1d}}"},
        "output": {"path": f"{tmp_path}/out/{{run_date}}"},
    }
    path = tmp_path / "job.toml"
    path.write_text(tomli_w.dumps(content))
    return path


def nights(job_file, first=DAYS[0], last=DAYS[2], reprocess="none", settings=()):
    first, last = datetime.date.fromisoformat(first), datetime.date.fromisoformat(last)
    job_of = lambda day: load_job(job_file, settings, day)  # noqa: E731
    return list(backfill(job_of, first, last, reprocess, display=Display(quiet=True)))


def manifest(job_file, day):
    return Output(job_file.parent / "out" / day).manifest()


def test_every_night_continues_the_one_before(job_file):
    done = nights(job_file)
    assert [(night.day, night.state) for night in done] == [(day, "published") for day in DAYS[:3]]
    assert "2 clusters in 300 rows" in done[0].line()
    runs = [manifest(job_file, day) for day in DAYS[:3]]
    assert runs[0].previous is None
    assert [one.previous.run_id for one in runs[1:]] == [one.run_id for one in runs[:2]]
    again = nights(job_file, last=DAYS[3])
    assert [night.state for night in again] == ["kept", "kept", "kept", "published"]
    assert [manifest(job_file, day) for day in DAYS[:3]] == runs
    for seed, found in ((1, "its names stay: .* different configuration"), (0, "names changed: ")):
        settings = (f"model.seed={seed}", "names.0=few")
        assert all(re.search(found, night.words) for night in nights(job_file, settings=settings))
    names = [read_report(Output(f"{job_file.parent}/out/{day}")).names for day in DAYS[:4]]
    assert names == [{"0": "few"}] * 3 + [{}]


def test_a_night_with_shared_ids_names_them(job_file):
    X = np.random.default_rng(0).normal(size=(300, 2))
    write_table(job_file.parent / f"data/{DAYS[0]}.parquet", X, k=[7] * 300)
    (done,) = nights(job_file, last=DAYS[0], settings=("input.id=k",))
    assert any(one.startswith("300 rows share their id with another") for one in done.warnings)


def test_a_changed_job_repeats_nights_only_with_completed(job_file):
    nights(job_file)
    runs = [manifest(job_file, day).run_id for day in DAYS[:3]]
    other = ("model.seed=1",)
    for reprocess in "none", "failed":
        found = nights(job_file, reprocess=reprocess, settings=other)
        assert [night.state for night in found] == ["kept"] * 3
    found = nights(job_file, last=DAYS[1], reprocess="completed", settings=other)
    found += nights(job_file, DAYS[2], reprocess="completed", settings=other)
    assert [night.state for night in found] == ["published"] * 3
    later = [re.findall("later nights continued: (.*) [(]", str(one.warnings)) for one in found]
    assert later == [[DAYS[2]]] * 2 + [[]], "nights that the same backfill repeats are left out"
    after = [manifest(job_file, day) for day in DAYS[:3]]
    assert not {one.run_id for one in after} & set(runs)
    assert after[2].previous.run_id == after[1].run_id


def test_completed_repeats_a_night_whose_previous_run_was_replaced_by_an_equal_model(job_file):
    nights(job_file)
    table = job_file.parent / f"data/{DAYS[1]}.parquet"
    table.write_bytes(table.read_bytes())  # a new time, the same rows
    found = nights(job_file, first=DAYS[1], reprocess="completed")
    assert [night.state for night in found] == ["published"] * 2
    after = [manifest(job_file, day) for day in DAYS[:3]]
    assert after[2].previous.run_id == after[1].run_id
    assert [night.state for night in nights(job_file, reprocess="completed")] == ["kept"] * 3
    _, later = roll_back(str(job_file.parent / "out" / DAYS[1]))
    assert [night.date for night in later] == [DAYS[2]]


def test_a_held_night_ends_the_backfill_and_prints_the_next_commands(job_file, tmp_path):
    many = np.tile(np.arange(5.0), (2, 200)).T + np.random.default_rng(1).normal(0, 0.01, (1000, 2))
    write_table(tmp_path / f"data/{DAYS[1]}.parquet", many)
    runner = CliRunner()
    command = ["backfill", str(job_file), "--from", DAYS[0], "--to", DAYS[3]]
    command += ["--set", "checks.max_drift=0.5"]
    said = runner.invoke(main, command)
    assert said.exit_code == 76, said.output
    lines = [line for line in said.stdout.splitlines() if not line.startswith("  warning: ")]
    assert [line.split()[:2] for line in lines] == [[DAYS[0], "published"], [DAYS[1], "held"]]
    assert manifest(job_file, DAYS[1]) is None
    assert said.output.count("max_drift: ") == 1, "why is told once"
    assert f"stopped at {DAYS[1]}, done up to {DAYS[0]}" in said.stderr
    *_, mended, retry, _, publish, following = said.stderr.splitlines()
    assert mended == "to go on, once the input is mended:"
    assert f"--from {DAYS[1]} --to {DAYS[3]} --set=checks.max_drift=0.5" in retry
    [run_id] = Output(tmp_path / "out" / DAYS[1]).candidates()
    assert lines[1].split()[2:] == ["run", run_id]
    assert publish == f"  distsvc publish {tmp_path}/out/{DAYS[1]} --held {run_id}"
    assert runner.invoke(main, publish.split()[1:]).exit_code == 0
    assert f"--from {DAYS[2]} --to {DAYS[3]} --set=checks.max_drift=0.5" in following
    said = runner.invoke(main, [*following.split()[1:], "--set=checks.max_drift=9", "--json"])
    found = json.loads(said.stdout)
    assert [night["state"] for night in found["nights"]] == ["published"] * 2
    assert found["go_on"] == []
    assert manifest(job_file, DAYS[2]).previous.run_id == run_id


def test_a_held_night_names_the_night_that_it_continues(job_file, tmp_path):
    first, second = (f"{tmp_path}/out/{day}" for day in DAYS[:2])
    strict = ("checks.min_rows=1000",)
    nights(job_file, last=DAYS[0])
    for day in DAYS[1:3]:  # a held night is no withdrawn one
        assert (
            f"This run continues {first}. " in nights(job_file, day, day, settings=strict)[0].words
        )
    nights(job_file, DAYS[1], DAYS[1])
    assert f"This run continues {second}. " in nights(job_file, DAYS[2], settings=strict)[0].words
    withdraw(second)
    held = nights(job_file, DAYS[2], settings=strict)[0].words
    assert f"This run continues {first}, since {second} was withdrawn. " in held
    withdraw(first)
    held = nights(job_file, DAYS[2], settings=strict)[0].words
    assert f"This run continues no night: {second}, {first} were withdrawn. " in held


def test_printed_commands_start_an_interrupted_night_with_another_input_over(
    job_file, tmp_path, monkeypatch, no_signals
):
    nights(job_file, last=DAYS[0])
    with killed(monkeypatch, at="label/00000"):
        nights(job_file, first=DAYS[1])
    forget()
    write_table(tmp_path / f"data/{DAYS[1]}.parquet", np.random.default_rng(7).random((400, 2)))
    command = ["backfill", str(job_file), "--from", DAYS[1], "--to", DAYS[2]]
    command += ["--set", "checks.max_drift=false"]
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 78, said.output
    *_, over, again = said.stderr.splitlines()
    assert "--fresh" in over
    for line in over, again:
        done = CliRunner().invoke(main, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
    assert manifest(job_file, DAYS[2]).previous.run_id == manifest(job_file, DAYS[1]).run_id


def test_failed_repeats_nights_whose_last_try_was_held_or_interrupted(job_file, monkeypatch):
    nights(job_file)
    strict = ("model.seed=1", "checks.min_rows=1000")
    with pytest.raises(CheckFailedError):
        run_job(load_job(job_file, strict, DAYS[1]), start=Start(overwrite=True))
    assert [one.state for one in nights(job_file, reprocess="none")] == ["kept"] * 3
    found = nights(job_file, reprocess="failed", settings=("model.seed=1",))
    assert [one.state for one in found] == ["kept", "published", "kept"]
    output = Output(job_file.parent / "out" / DAYS[2])
    work = output.new_work("0" * 12)
    work.put("begun.json", sealed({"output": output.store.address}))
    found = nights(job_file, reprocess="failed", settings=("model.seed=1",))
    assert [one.state for one in found] == ["kept", "kept", "published"]


@pytest.mark.parametrize(
    ("error", "states", "code"),
    [
        (SkippedError("no _SUCCESS"), ["published", "skipped", "published"], 0),
        (TemporaryError("no _SUCCESS"), ["published", "failed"], 75),
        (DataError("no rows"), ["published", "failed"], 65),
    ],
)
def test_a_failed_night_ends_the_backfill_a_skipped_one_does_not(
    job_file, monkeypatch, error, states, code
):
    real = backfills.run_job

    def failing(job, *given, **options):
        if job.job.run_date == DAYS[1]:
            raise error
        return real(job, *given, **options)

    monkeypatch.setattr(backfills, "run_job", failing)
    found = nights(job_file)
    assert [night.state for night in found] == states
    assert found[-1].exit_code == code
    assert publish_commands(found[-1], DAYS[2], str) == []


def test_the_printed_command_keeps_skip_missing(job_file, monkeypatch):
    def missing(job, at, start, **options):
        skipped = start.skip_missing and job.job.run_date == DAYS[0]
        raise SkippedError("no table") if skipped else DataError("NaN")

    monkeypatch.setattr(backfills, "run_job", missing)
    command = ["backfill", str(job_file), "--from", DAYS[0], "--to", DAYS[2], "--json"]
    said = CliRunner().invoke(main, [*command, "--skip-missing"])
    assert said.exit_code == 65
    found = json.loads(said.stdout)
    assert [night["state"] for night in found["nights"]] == ["skipped", "failed"]
    assert found["go_on"][0].endswith(f"--from {DAYS[1]} --to {DAYS[2]} --skip-missing")
    assert f"error: {DAYS[1]}: NaN" in said.stderr
    assert CliRunner().invoke(main, command).exit_code == 65


@pytest.mark.parametrize(("ready", "code"), [([], 66), (["--set", "input.ready=_SUCCESS"], 75)])
def test_a_missing_input_offers_skip_missing(job_file, ready, code):
    (job_file.parent / f"data/{DAYS[0]}.parquet").unlink()
    command = ["backfill", str(job_file), "--from", DAYS[0], "--to", DAYS[0], *ready]
    said = CliRunner().invoke(main, command)
    *_, instead = said.stderr.splitlines()
    assert (said.exit_code, "--skip-missing" in instead) == (code, True)
    assert CliRunner().invoke(main, shlex.split(instead)[1:]).exit_code == 0


@pytest.mark.parametrize("path", ["out", "out/{run_date:%Y-%m}"])
def test_every_day_needs_an_output_of_its_own(job_file, path):
    with pytest.raises(JobFileError, match=r"^output\.path must contain the date"):
        nights(job_file, settings=(f"output.path={path}",), last=DAYS[0])


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [("2026-11-02", "2026-11-01", "--from is after --to"),
     ("2026-11-31", "2026-12-01", "'2026-11-31' does not match"),
     ("today", "2026-12-01", "'today' does not match"),
     ("0001-01-01", "2026-01-01", "span 739617 days, expected at most 3660")],
)  # fmt: skip
def test_invalid_ranges_of_days(job_file, first, last, words):
    said = CliRunner().invoke(main, ["backfill", str(job_file), "--from", first, "--to", last])
    assert (said.exit_code, words in said.stderr) == (2, True)


def test_the_last_representable_day_is_allowed(job_file, tmp_path):
    (tmp_path / "data" / f"{DAYS[0]}.parquet").rename(tmp_path / "data" / "9999-12-31.parquet")
    none = [f"continuity.previous={tmp_path}/out/none"]
    [done] = nights(job_file, "9999-12-31", "9999-12-31", settings=none)
    assert (done.day, done.state) == ("9999-12-31", "published")
    held = done._replace(state="held", exit_code=76, held="r1")
    assert publish_commands(held, "9999-12-31", str) == [f"distsvc publish {done.output} --held r1"]


def test_metrics_are_those_of_the_last_day(job_file, tmp_path):
    command = ["backfill", str(job_file), "--from", DAYS[0], "--to", DAYS[1]]
    said = CliRunner().invoke(main, [*command, "--metrics-file", str(tmp_path / "m.prom")])
    assert said.exit_code == 0, said.output
    told = (tmp_path / "m.prom").read_text()
    at = datetime.datetime.fromisoformat(f"{DAYS[1]}T00:00+00:00").timestamp()
    (line,) = [one for one in told.splitlines() if one.startswith("distsvc_run_date_timestamp")]
    assert float(line.split()[-1]) == at
