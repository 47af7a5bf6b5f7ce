"""A continued run is kept as long as it is needed, and named if it is gone."""

import shutil
import threading

import numpy as np
import pytest

from distsvc.errors import DataError, JobFileError, TemporaryError
from distsvc.job.file import load_job
from distsvc.published.predict import predict_table
from distsvc.published.republish import withdraw
from distsvc.report.sections.names import cluster_names
from distsvc.run.job import run_job
from distsvc.run.starting import open_run
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import DEFAULT_ADDRESS, Start
from distsvc.storage.publishing import retention
from distsvc.storage.publishing.publication import Output
from distsvc.storage.publishing.retention import retain
from tests.jobs.shop import rows
from tests.small_runs import forget, killed

pytestmark = pytest.mark.usefixtures("quick_page")
DAYS = [f"2026-11-0{day}" for day in range(1, 7)]
FIRST, _, THIRD, FOURTH, *LATER = DAYS


def starting(shop, day, **options):
    forget()
    return open_run(load_job(shop.job_file(), (), day), Start(**options), Progress(quiet=True))


@pytest.fixture
def nights(shop, monkeypatch):
    """Six nights, of which the fourth is unfinished."""
    for number, day in enumerate(DAYS):
        shop.table(day, rows(300, 200, 100, seed=number)[0])
    for day in DAYS[:3]:
        shop.run(day)
    with killed(monkeypatch):
        shop.run(FOURTH)
    for day in LATER:
        shop.run(day)
    return shop


def kept(found):
    return {one["path"].rpartition("/")[2]: one["because"] for one in found["kept"]}


def test_a_run_that_begins_during_gc_protects_the_continued_run(nights, monkeypatch):
    Output(nights.out(FOURTH)).discard(*Output(nights.out(FOURTH)).kept_works())
    look, stack, lock = retention._runs_at, [], threading.Lock()

    def later(path):
        found = look(path)
        with lock:  # outputs are looked at in threads
            if not stack:
                stack.append(starting(nights, FOURTH))
                stack[0].__enter__()
        return found

    monkeypatch.setattr(retention, "_runs_at", later)
    found = retain(str(nights.folder / "out"), 1)
    stack[0].__exit__(None, None, None)
    assert {THIRD, FOURTH, *LATER} == set(kept(found))
    assert "continues from this run" in kept(found)[THIRD]
    assert [one["path"][-10:] for one in found["removed"]] == DAYS[:2]


def test_a_run_does_not_continue_a_run_that_is_being_removed(nights):
    before = nights.manifest(THIRD)["run_id"]
    for name in Output(nights.out(FOURTH)).kept_works():
        Output(nights.out(FOURTH)).discard(name)
    with Output(nights.out(THIRD)).locked(removes=True):
        with pytest.raises(TemporaryError, match=f"run {before} at .* is being removed by process"):
            nights.run(FOURTH)
        assert Output(nights.out(FOURTH)).kept_works() == []
    with Output(nights.out(THIRD)).locked():  # as a run that publishes something new
        nights.run(FOURTH)
    assert nights.manifest(FOURTH)["previous"]["run_id"] == before


@pytest.mark.parametrize("at", ["label/00001", "survey/00000"])
@pytest.mark.parametrize("left", [(), DAYS[:1]])
def test_a_run_whose_previous_run_is_gone_needs_fresh(nights, at, left, monkeypatch):
    if at.startswith("survey"):  # a kill leaves a run without results, where an error leaves none
        [work] = Output(nights.out(FOURTH)).kept_works()
        shutil.rmtree(nights.out(FOURTH) / ".runs" / work / "results")
    before = nights.manifest(THIRD)["run_id"]
    for day in DAYS[:3]:
        if day not in left:
            shutil.rmtree(nights.out(day))
    what = f"its previous run, run {before} at {nights.out(THIRD)}, is no longer published"
    instead = "which continues .*01$" if left else "where cluster ids start at 0$"
    for _ in range(2):
        with pytest.raises(JobFileError, match=f"{what}; give --fresh for a new run, {instead}"):
            nights.run(FOURTH)
    forget()
    job = load_job(nights.job_file(), (), FOURTH)
    assert bool(run_job(job, DEFAULT_ADDRESS, Start(fresh=True)).lineage.path) == bool(left)


def test_a_run_starts_over_if_its_previous_run_was_replaced(nights, caplog):
    nights.run(THIRD, overwrite=True, model={"algorithm": "bico", "n_clusters": 2})
    now = nights.manifest(THIRD)["run_id"]
    nights.run(FOURTH)
    assert nights.manifest(FOURTH)["previous"]["run_id"] == now
    assert "was withdrawn or replaced" in str([one.fields for one in caplog.records])


def test_a_run_starts_over_if_its_previous_run_was_withdrawn(nights):
    withdraw(nights.out(THIRD))
    nights.run(FOURTH)
    before = nights.manifest(DAYS[1])["run_id"]
    assert nights.manifest(FOURTH)["previous"]["run_id"] == before
    assert Output(nights.out(FOURTH)).kept_works() == []


def test_another_previous_run_is_named(nights):
    then, now = (nights.manifest(day)["run_id"] for day in (THIRD, FIRST))
    with pytest.raises(JobFileError, match=f"previous run: '{then}', now '{now}'; give --fresh"):
        nights.run(FOURTH, continuity={"previous": str(nights.out(FIRST))})


def test_an_unfinished_prediction_protects_its_model(nights, monkeypatch):
    """A finished prediction does not."""
    table, labelled = f"{nights.folder}/in/{FOURTH}.parquet", f"{nights.folder}/out/labelled"
    settings = {"partition_rows": 300, "workers": 0}
    with killed(monkeypatch):
        predict_table(nights.out(DAYS[0]), table, labelled, settings=settings)
    assert kept(retain(str(nights.folder / "out"), 1))[DAYS[0]].endswith("continues from this run")
    forget()
    predict_table(nights.out(DAYS[0]), table, labelled, settings=settings)
    assert DAYS[0] not in kept(retain(str(nights.folder / "out"), 1))


def test_a_column_of_another_type_than_the_night_before_is_refused(shop):
    shop.table(DAYS[0], rows(300, 200, 100)[0], member=np.arange(600) % 5 > 0)
    shop.table(DAYS[1], rows(300, 200, 100)[0], member=["yes", "yes", "no"] * 200)
    model = {"algorithm": "auto", "n_clusters": 3}
    shop.run(DAYS[0], model=model)
    found = "column 'member' of .* is read as categories; the .*, read it as numbers: give"
    with pytest.raises(DataError, match=found):
        shop.run(DAYS[1], model=model)
    assert not (shop.out(DAYS[1]) / "manifest.json").exists()


def test_a_name_for_an_id_that_was_never_given_is_a_warning(shop):
    shop.table(DAYS[0], rows(300, 200, 100)[0])
    found = shop.run(DAYS[0], names={"2": "quiet", "9": "loud"})
    about = [one for one in found.warnings if one.startswith("names: ")]
    assert about == ["names: no cluster has or had the id 9, named 'loud'; ids go from 0 to 2"]
    job = load_job(shop.job_file(names={"2": cluster_names(found)[0]}), (), DAYS[0])
    [about] = [one for one in run_job(job).warnings if one.startswith("names: ")]
    assert "; give one of these clusters another name" in about
    shop.table(DAYS[1], rows(300, 200, 100)[0])
    shop.run(DAYS[1], model={"n_clusters": 4})
    renamed = shop.run(DAYS[0], names={"3": "of the next night", "4": "loud"}).warnings
    about = [one.partition("named")[0] for one in renamed if one.startswith("names: ")]
    assert about == ["names: no cluster has or had the id 4, "]
