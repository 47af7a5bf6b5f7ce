"""An interrupted run resumes at the next start, with the same result."""

import builtins
import errno
import json
import os
from contextlib import contextmanager

import pytest

from distsvc.errors import DataError, JobFileError, PartitionFailedError, TemporaryError
from distsvc.published.predict import predict_table
from distsvc.run import job as job_story
from distsvc.run import starting
from distsvc.run.job import run_job
from distsvc.run.reporting import files as report_files
from distsvc.run.starting import Request, differences, interrupted_runs, kept_results
from distsvc.run.work.directory import LostWorkError
from distsvc.run.work.progress import sentence
from distsvc.run.work.start import Start
from distsvc.run.work.workers.cluster import versions
from distsvc.storage.places.arrays import file_facts
from distsvc.storage.places.folder import Folder
from distsvc.storage.publishing.manifest import ContinuedRun
from distsvc.storage.publishing.publication import Output
from tests.published_files import listed, nothing_left
from tests.small_runs import (
    MODELS,
    Killed,
    digests,
    forget,
    small_job,
    three_clusters,
    write_table,
    zeroed,
)

pytestmark = pytest.mark.usefixtures("quick_page")


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "t.parquet", three_clusters(1500))


@pytest.fixture
def job(table):
    return small_job(table, MODELS["sampled"])


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the answer of an uninterrupted run of the sampled model."""
    folder = tmp_path_factory.mktemp("whole")
    table = write_table(folder / "t.parquet", three_clusters(1500))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_files, "page_of", lambda _: "a page")
        run_job(small_job(table, MODELS["sampled"]))
    return answer(folder / "out")


def answer(out):
    """Return the digests of published files, except those that contain times."""
    paths = [path for path in listed(out) if path.name not in ("report.html", "report.json")]
    contents = {path: digests(path.parent)[path.name] for path in paths}
    return {(path.parts[-3], path.name): digest for path, digest in contents.items()}


def test_an_interrupted_run_resumes(table, tmp_path, tasks, caplog):
    caplog.set_level("INFO", "distsvc")
    run_job(small_job(table, MODELS["sampled"], output={"path": str(tmp_path / "whole")}))
    order = list(tasks)
    for share in (0.3, 0.9):
        out, most = tmp_path / str(share), int(share * len(order))
        job = small_job(table, MODELS["sampled"], output={"path": str(out)})
        tasks.interrupt(job, most)
        caplog.clear()
        run_job(job)
        assert tasks == order[most:]
        assert answer(out) == answer(tmp_path / "whole")
        resumed = next(one for one in caplog.records if one.getMessage() == "resumed")
        assert f"survey {min(most, 5)}" in resumed.fields["kept"]
        assert Output(out).kept_works() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": {"seed": 7}}, "model.seed: 0, now 7"),
        ({"model": {"algorithm": "imdh"}}, "model.algorithm: 'depddp', now 'imdh'"),
        ({"preprocess": {"scale": "none"}}, "preprocess.scale: 'standard', now 'none'"),
        ({"cluster": {"partition_rows": 200}}, "cluster.partition_rows: 300, now 200"),
        ({"input": {"columns": ["x0"]}}, r"input.columns: not given, now \['x0'\]"),
    ],
)
def test_another_job_is_refused(job, table, tmp_path, tasks, change, said):
    tasks.interrupt(job, 6)
    before = digests(tmp_path / "out")
    other = small_job(table, MODELS["sampled"] | change.pop("model", {}), **change)
    message = rf"output\.path .*/out holds the interrupted run .*: {said}; give --fresh"
    with pytest.raises(JobFileError, match=message):
        run_job(other)
    assert digests(tmp_path / "out") == before, "nothing of the interrupted run is lost"
    run_job(other, start=Start(fresh=True))
    assert Output(tmp_path / "out").kept_works() == []


def test_another_input_is_refused(job, table, tmp_path, tasks):
    tasks.interrupt(job, 6)
    write_table(table, three_clusters(1600))
    with pytest.raises(JobFileError, match=r"t\.parquet changed .* bytes .*; give --fresh"):
        run_job(job)
    assert run_job(job, start=Start(fresh=True)).input.n_rows == 1600


def test_another_version_of_the_code_is_refused(job, tasks, monkeypatch):
    tasks.interrupt(job, 6)
    monkeypatch.setattr(
        starting, "versions", lambda: (*versions()[:1], ("distsvc", "99"), *versions()[2:])
    )
    with pytest.raises(JobFileError, match=r"versions\.distsvc: '.*', now '99'; give --fresh"):
        run_job(job)


def test_another_processor_is_a_warning(job, tasks, monkeypatch, caplog):
    tasks.interrupt(job, 6)
    ours = starting.processor()
    monkeypatch.setattr(starting, "processor", lambda: "AVX9")
    with caplog.at_level("WARNING", "distsvc"):
        run_job(job)
    [record] = [one for one in caplog.records if one.getMessage() == "other processor"]
    assert record.fields["who"].startswith("run ")
    assert (record.fields["ours"], record.fields["theirs"]) == ("AVX9", ours)
    assert "may differ in their last digits" in sentence(record.getMessage(), record.fields)


def test_a_run_resumes_with_other_workers_and_blocks(expected, table, tmp_path, tasks):
    """No result depends on them."""
    tasks.interrupt(small_job(table, MODELS["sampled"]), 7)
    run_job(small_job(table, MODELS["sampled"], cluster={"block_rows": 33, "threads": 2}))
    assert tasks == ["label/00002", "label/00003", "label/00004"]
    assert answer(tmp_path / "out") == expected


@pytest.mark.parametrize("error", [TemporaryError("away"), KeyboardInterrupt(), ValueError("bug")])
def test_work_is_kept_after_errors_that_may_not_repeat(job, tmp_path, tasks, error):
    tasks.most, tasks.error = 7, error
    with pytest.raises(BaseException):  # noqa: B017 - a bug becomes a failed partition
        run_job(job)
    [run] = interrupted_runs(Output(tmp_path / "out"))
    stopped = json.loads(run.work.current("stopped.json")[0])
    assert stopped["run"] == run.name
    assert stopped["seconds"] >= 0.0
    tasks.most = None
    forget()
    run_job(job)


def test_arrays_and_labels_zeroed_by_a_power_loss_are_written_again(table, tmp_path, tasks, caplog):
    """Their sizes are unchanged, so only checksums show the damage."""
    model = MODELS["boundary"]
    run_job(small_job(table, model, output={"path": str(tmp_path / "whole")}))
    order = list(tasks)
    job = small_job(table, model)
    tasks.interrupt(job, len(order) - 2)
    [name] = Output(tmp_path / "out").kept_works()
    zeroed(tmp_path / f"out/.runs/{name}/results/survey/00001.X.npy")
    zeroed(tmp_path / f"out/.runs/{name}/results/rule.npz")
    zeroed(tmp_path / f"out/.runs/files/{name}/first/labels/part-00001.parquet")
    with caplog.at_level("INFO", "distsvc"):
        run_job(job)
    assert tasks == ["survey/00001", "label/00001", *order[-2:]]
    assert answer(tmp_path / "out") == answer(tmp_path / "whole")
    again = [one.fields["because"] for one in caplog.records if one.getMessage() == "done again"]
    assert ["rule.npz is damaged" in again[0], "X.npy is damaged" in again[1]] == [True, True]


def sound(out):
    """Return True if all listed files exist, with their listed sizes and checksums."""
    files = {
        file["file"]: file for file in json.loads((out / "manifest.json").read_text())["files"]
    }
    return all(file_facts(out / name).items() <= file.items() for name, file in files.items())


@pytest.mark.parametrize("kind", ["report", "model", "labels"])
@pytest.mark.parametrize("form", ["parquet", "zarr"])
def test_files_to_publish_zeroed_by_a_power_loss_are_written_again(
    table, tmp_path, monkeypatch, kind, form
):
    output = {"output": {"format": form, "path": str(tmp_path / "out")}}
    job = small_job(table, MODELS["sampled"], **output)
    with monkeypatch.context() as patched:
        patched.setattr(job_story, "publish", raises_killed)
        with pytest.raises(Killed):
            run_job(job)
    forget()
    stored = {"labels": "filled" if form == "zarr" else "labels"}.get(kind, kind)
    files = (tmp_path / "out/.runs/files").rglob(f"{stored}/**/*")
    files = [path for path in files if path.is_file()]
    assert files
    for path in files:
        zeroed(path)
    damaged = {path: path.read_bytes() for path in files}
    run_job(job)
    assert not {path for path in files if path.exists() and path.read_bytes() == damaged[path]}
    assert sound(tmp_path / "out")


def raises_killed(*_):
    raise Killed


@pytest.mark.parametrize("content", [b"\x00\xff{]", None], ids=["garbled", "none"])
@pytest.mark.parametrize("file", ["plan.json", "begun.json", "stopped.json"])
def test_a_damaged_note_or_plan_counts_as_missing(expected, table, tmp_path, tasks, file, content):
    tasks.interrupt(small_job(table, MODELS["sampled"]), 7, TemporaryError("away"))
    [name] = Output(tmp_path / "out").kept_works()
    path = tmp_path / f"out/.runs/{name}/{file}"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    run_job(small_job(table, MODELS["sampled"]))
    assert tasks[0] == ("label/00002" if file == "stopped.json" else "survey/00000")
    assert answer(tmp_path / "out") == expected
    assert Output(tmp_path / "out").kept_works() == []


def test_a_changed_digit_in_a_note_is_damage_and_no_other_job(table, tmp_path, tasks):
    tasks.interrupt(small_job(table, MODELS["sampled"]), 7)
    [name] = Output(tmp_path / "out").kept_works()
    path = tmp_path / f"out/.runs/{name}/begun.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    run_job(small_job(table, MODELS["sampled"]))
    assert tasks[0] == "survey/00000"


def test_a_damaged_converted_table_is_converted_again(tmp_path, tasks):
    table = tmp_path / "t.csv"
    rows = three_clusters(900)
    table.write_text("x0,x1\n" + "".join(f"{a},{b}\n" for a, b in rows))
    run_job(small_job(table, MODELS["sampled"], output={"path": str(tmp_path / "whole")}))
    job = small_job(table, MODELS["sampled"])
    tasks.interrupt(job, 2)
    [name] = Output(tmp_path / "out").kept_works()
    [staged] = (tmp_path / f"out/.runs/{name}/staging").iterdir()
    zeroed(staged)
    run_job(job)
    assert answer(tmp_path / "out") == answer(tmp_path / "whole")


def test_a_run_whose_workdir_is_unknown_starts_over(table, tmp_path, tasks):
    job = small_job(table, MODELS["sampled"], cluster={"workdir": str(tmp_path / "scratch")})
    tasks.interrupt(job, 7)
    [path] = (tmp_path / "out/.runs").glob("*/workdir.json")
    path.write_bytes(path.read_bytes().replace(b"scratch", b"scrotch"))
    run_job(job)
    assert tasks[0] == "survey/00000"


@contextmanager
def troubled(monkeypatch, tasks, owner, name, number):
    """Let a call fail for every result from the eighth task on."""
    plain = getattr(owner, name)

    def failing(path=".", *args, **options):
        if len(tasks) >= 8 and "/results" in str(path) and ".npz." not in str(path):
            raise OSError(number, os.strerror(number), str(path))
        return plain(path, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, failing)
        yield
    tasks.most = None
    tasks.clear()
    forget()


@pytest.mark.parametrize(
    ("call", "number"), [((builtins, "open"), errno.EIO), ((os, "stat"), errno.ESTALE)]
)
def test_work_is_kept_if_a_file_of_the_run_can_not_be_reached(
    job, tmp_path, tasks, monkeypatch, number, call
):
    with troubled(monkeypatch, tasks, *call, number), pytest.raises(TemporaryError) as found:
        run_job(job)
    assert not isinstance(found.value, LostWorkError)
    [run] = interrupted_runs(Output(tmp_path / "out"))
    assert kept_results(run)["label"] >= 2
    run_job(job)
    assert {name.partition("/")[0] for name in tasks} == {"label"}


def test_work_is_kept_if_results_can_not_be_listed(table, tmp_path, tasks, monkeypatch):
    tasks.most, tasks.error = 8, ValueError("a bug")
    failing = troubled(monkeypatch, tasks, os, "scandir", errno.EIO)
    with failing, pytest.raises(PartitionFailedError):
        run_job(small_job(table, MODELS["sampled"]))
    [run] = interrupted_runs(Output(tmp_path / "out"))
    assert kept_results(run)["label"] == 3


@pytest.mark.parametrize(("most", "error"), [(7, DataError("row 3")), (0, Killed())])
def test_nothing_is_kept_if_the_data_is_wrong_or_without_results(job, tmp_path, tasks, most, error):
    tasks.interrupt(job, most, error)
    assert nothing_left(tmp_path / "out")


def test_a_published_run_stays_beside_an_interrupted_one(job, table, tmp_path, tasks):
    run_job(job)
    before, n = answer(tmp_path / "out"), len(tasks)
    other = small_job(table, MODELS["sampled"], preprocess={"scale": "none"})
    tasks.interrupt(other, n - 2, start=Start(overwrite=True))
    assert answer(tmp_path / "out") == before
    run_job(job)  # is published, and has nothing to do with the other
    run_job(other, start=Start(overwrite=True))
    assert [name.partition("/")[0] for name in tasks] == ["label"] * 2


def test_a_prediction_resumes(table, tmp_path, tasks):
    run_job(small_job(table, MODELS["sampled"]))
    model, new = tmp_path / "out", write_table(tmp_path / "n.parquet", three_clusters(900, seed=5))
    tasks.clear()
    given = {"settings": {"partition_rows": 300, "block_rows": 100}}
    predict_table(model, str(new), str(tmp_path / "whole"), **given)
    n = len(tasks)
    tasks.clear()
    tasks.most = 1
    with pytest.raises(Killed):
        predict_table(model, str(new), str(tmp_path / "labels"), **given)
    tasks.most = None
    tasks.clear()
    predict_table(model, str(new), str(tmp_path / "labels"), **given)
    assert len(tasks) == n - 1 > 0
    assert answer(tmp_path / "labels") == answer(tmp_path / "whole")


@contextmanager
def killed_while_discarding(monkeypatch, n_steps):
    """Let the process be killed after `n_steps` steps of removing a finished run."""
    remove, clear, taken = Folder.remove, Folder.clear, []

    def counted(step):
        def taking(self, name, *known):
            if name == starting.BEGUN or taken:
                taken.append(name)
            if len(taken) > n_steps:
                raise Killed
            return step(self, name, *known)

        return taking

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "remove", counted(remove))
        patched.setattr(Folder, "clear", counted(clear))
        with pytest.raises(Killed):
            yield
    forget()


@pytest.mark.parametrize("n_steps", [0, 1])
def test_a_run_killed_after_its_publication_is_finished(job, n_steps, tmp_path, tasks, monkeypatch):
    with killed_while_discarding(monkeypatch, n_steps):
        run_job(job)
    assert Output(tmp_path / "out").kept_works() != []
    tasks.clear()
    run_job(job)
    assert tasks == []
    assert Output(tmp_path / "out").kept_works() == []


def test_another_job_may_follow_a_run_killed_after_its_publication(table, tmp_path, monkeypatch):
    with killed_while_discarding(monkeypatch, 1):
        run_job(small_job(table, MODELS["sampled"]))
    other = small_job(table, MODELS["sampled"], preprocess={"scale": "none"})
    run_job(other, start=Start(overwrite=True))
    assert Output(tmp_path / "out").kept_works() == []


@pytest.mark.parametrize("n_steps", [1, 4])
def test_a_partly_removed_run_does_not_resume(job, n_steps, tmp_path, tasks, monkeypatch):
    """Its results may exist without the labels that they list."""
    tasks.interrupt(job, 8)
    with killed_while_discarding(monkeypatch, n_steps):
        run_job(job, start=Start(fresh=True))
    run_job(job)
    assert tasks[0] == "survey/00000"
    assert Output(tmp_path / "out").kept_works() == []


def test_differences_are_named_by_their_keys():
    assert differences({"a": {"b": 1, "c": [1]}, "d": 2}, {"a": {"b": 1, "c": [2]}, "e": None}) == [
        "a.c: [1], now [2]",
        "d: 2, now not given",
    ]


def test_the_content_of_a_request_is_all_that_decides_results(job, table):
    """The place of its work and of its output do not count."""
    moved = small_job(table, MODELS["sampled"], output={"path": "/elsewhere"})
    out = Output(job.output.path)
    other = ContinuedRun(path="p", run_id="r", model_sha256="m")
    assert Request(job, out, "d").content() == Request(moved, out, "d").content()
    assert Request(job, out, "d").content() != Request(job, out, "d", continued=other).content()
