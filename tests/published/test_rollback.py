"""A replaced run is published again, while its files are kept."""

import json

import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import DataError, InputNotFoundError
from distsvc.published.republish import roll_back
from distsvc.run.job import run_job
from distsvc.run.reporting.files import rename_clusters
from distsvc.run.work.start import Start
from distsvc.storage.publishing.publication import Output, collect
from tests.published_files import read_labels
from tests.small_runs import MODELS, small_job, three_clusters, write_table


@pytest.fixture
def twice(tmp_path):
    """An output where a run replaced another, and the ids of both runs."""
    table = write_table(tmp_path / "t.parquet", three_clusters(600))
    job = small_job(table, MODELS["sampled"])
    run_job(job)
    first = Output(job.output.path).run_id
    other = small_job(table, MODELS["sampled"], preprocess={"scale": "none"})
    run_job(other, start=Start(overwrite=True))
    return job.output.path, first, Output(job.output.path).run_id


def test_a_second_rollback_undoes_the_first(twice):
    out, first, second = twice
    labels = read_labels(out)
    said = CliRunner().invoke(main, ["rollback", out])
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith(f"run {first} of ")
    assert Output(out).run_id == first
    page = Output(out).file("report.html").read_bytes()
    assert (Output(out).store.current("report.html") or [b""])[0] == page
    said = CliRunner().invoke(main, ["rollback", out, "--json"])
    assert json.loads(said.stdout)["run_id"] == second
    assert read_labels(out).equals(labels)


def test_after_a_rename_the_replaced_run_is_still_there(twice, tmp_path):
    out, first, second = twice
    model = MODELS["sampled"], {"preprocess": {"scale": "none"}}
    for names, n in (({"0": "Families", "1": "Families", "9": "Nobody"}, 2), ({"0": "Few"}, 0)):
        job = small_job(tmp_path / "t.parquet", model[0], names=names, **model[1])
        found = rename_clusters(Output(out), job).warnings
        assert len([one for one in found if one.startswith("names: ")]) == n
    assert Output(out).run_id == second
    assert roll_back(out)[0].run_id == first


def test_without_a_replaced_run_there_is_an_error(twice, tmp_path):
    out, _, second = twice
    collect(out)
    with pytest.raises(InputNotFoundError, match="has no earlier result than run"):
        roll_back(out)
    assert CliRunner().invoke(main, ["rollback", out]).exit_code == 66
    assert Output(out).run_id == second
    with pytest.raises(InputNotFoundError, match="no run is published at"):
        roll_back(str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_a_damaged_run_is_not_published(twice):
    out, first, second = twice
    stored = f".runs/files/{first}/first/labels/part-00000.parquet"
    Output(out).store.local(stored).write_bytes(b"other")
    with pytest.raises(DataError, match=r"expected .* bytes"):
        roll_back(out)
    assert Output(out).run_id == second
