"""The start of a run: its checks, its lock, and its errors."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from distsvc.errors import (
    DataError,
    InputNotFoundError,
    JobFileError,
    ParameterError,
    TemporaryError,
)
from distsvc.run.job import run_job
from distsvc.run.starting import open_run
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import Start
from distsvc.storage.places import process
from distsvc.storage.publishing.manifest import FORMAT, Manifest
from distsvc.storage.publishing.publication import Output
from distsvc.storage.tables.opening import fingerprint, open_table
from tests.published_files import nothing_left
from tests.small_runs import FORMS, MODELS, small_job, three_clusters, write_table
from tests.storage.written_runs import work_of

pytestmark = pytest.mark.usefixtures("quick_page")

N = 400


@pytest.fixture
def table(tmp_path):
    names = pa.array([f"id-{i}" for i in range(N)])
    return write_table(tmp_path / "t.parquet", three_clusters(N), name=names, event=np.arange(N))


def open_job(job, overwrite=False):
    return open_run(job, Start(overwrite), Progress(quiet=True))


def job_for(table, model, **sections):
    given = {"columns": ["x0", "x1"]} | sections.pop("input", {})
    return small_job(table, model, input=given, **sections)


def publish(job, digest, inputs):
    """Publish a run without files under these digests."""
    output = Output(job.output.path)
    manifest = {"format": FORMAT, "job_sha256": digest, "input_sha256": inputs, "files": []}
    manifest |= {"rows": 0, "clusters": 0}
    with output.locked(), work_of(output, digest) as work:
        manifest |= {"run_id": Path(work.address).name}
        output.publish(Manifest.model_validate(manifest))
    return Path(output.store.address)


@pytest.mark.parametrize("form", FORMS)
def test_a_run_begins(form, table):
    job = job_for(table, FORMS[form])
    with open_job(job) as found:
        assert form in {rule.form for rule in found.algorithm.rules}
        assert found.run.plan.partitions == [(0, 300), (300, 400)]
        assert found.digest == job.digest()
        assert found.inputs == fingerprint(open_table(job.input, table.parent / "staging"))
        assert Path(found.run.address).parent == Path(found.output.store.address) / ".runs"
        assert Path(found.run.address).name.startswith(found.digest[:12])
    assert nothing_left(found.output.store.address)


def test_the_output_is_locked_and_the_folder_is_removed(table):
    job = job_for(table, MODELS["sampled"])
    with open_job(job) as found:
        with pytest.raises(TemporaryError, match="another run is writing"), open_job(job):
            pass
        folder = Path(found.run.address)
        assert folder.is_dir()
    assert not folder.exists()
    with open_job(job) as again:
        assert Path(again.run.address) != folder


@pytest.mark.parametrize("inside", ["labels/t.parquet", "t.parquet"])
def test_an_input_in_the_folder_of_the_output(table, inside):
    """A run may remove files in its output."""
    out = table.parent / "out"
    (out / inside).parent.mkdir(parents=True)
    (out / inside).write_bytes(table.read_bytes())
    job = job_for(out / inside, MODELS["sampled"], output={"path": str(out)})
    with pytest.raises(JobFileError, match=r"^input\.path .* lies in the folder of the output"):
        run_job(job, start=Start(overwrite=True))
    assert (out / inside).exists()


def test_a_published_run_is_not_opened(table):
    job = job_for(table, MODELS["sampled"])
    out = publish(job, job.digest(), fingerprint(open_table(job.input, table.parent / "staging")))
    with open_job(job) as found:
        assert isinstance(found, Output)
    assert (out / "manifest.json").exists()


def test_a_parameter_that_only_the_estimator_refuses(table):
    """The default depth is in its signature, so the job file alone does not show the error."""
    job = job_for(table, {"algorithm": "imdh", "n_clusters": 200})
    message = "^model: n_clusters must be at most 128, found 200$"
    with pytest.raises(JobFileError, match=message) as caught, open_job(job):
        pass
    assert isinstance(caught.value.__cause__, ParameterError)
    assert nothing_left(table.parent / "out")


def test_the_section_is_named_at_any_step(table):
    with (
        pytest.raises(JobFileError, match=r"^model: tol is odd$"),
        open_job(job_for(table, MODELS["sampled"])),
    ):
        raise ParameterError("tol is odd")


@pytest.mark.parametrize("error", [ValueError("shapes"), DataError("row 3"), KeyError("S")])
def test_other_errors_stay_what_they_are(table, error):
    with pytest.raises(type(error)) as caught, open_job(job_for(table, MODELS["sampled"])):
        raise error
    assert caught.value is error


def test_zarr_refuses_ids_of_text(table):
    job = job_for(table, MODELS["sampled"], input={"id": "name"}, output={"format": "zarr"})
    message = "^output.format 'zarr' needs whole numbers as ids; column 'name' is text$"
    with pytest.raises(DataError, match=message), open_job(job):
        pass
    numbered = job_for(table, MODELS["sampled"], input={"id": "event"}, output={"format": "zarr"})
    with open_job(numbered) as found:
        assert found.algorithm is not None


def test_a_run_published_in_the_meantime_is_not_repeated(table, monkeypatch):
    """It is missing at the first check, and published once the output is locked."""
    job = job_for(table, MODELS["sampled"])
    inputs = fingerprint(open_table(job.input, table.parent / "staging"))
    locked, published = Output.locked, []

    def late(self, *given):
        if not published:
            published.append(True)
            publish(job, job.digest(), inputs)
        return locked(self, *given)

    monkeypatch.setattr(Output, "locked", late)
    with open_job(job) as found:
        assert isinstance(found, Output)
    assert published


def test_nothing_is_written_for_a_missing_input(tmp_path):
    with (
        pytest.raises(InputNotFoundError),
        open_job(job_for(tmp_path / "no.parquet", MODELS["sampled"])),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_start_removes_what_killed_processes_left(table, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"distsvc-workers-{process._place()}-{2**22 + 1}-7-abcdefgh"
    left.mkdir()
    (left / "spilled").write_text("x")
    with open_job(job_for(table, MODELS["sampled"])):
        assert not left.exists()
