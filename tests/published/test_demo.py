"""The demo finds the clusters of the papers' data sets."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from distsvc.job.file import load_job
from distsvc.published.demo import JOBS, demo_job, make_table, run_demo
from distsvc.run.reporting import files as report_files
from distsvc.run.work.progress import Progress

FOLDER = Path(__file__).parents[2] / "jobs"
EXPECTED = {"rings": 3, "moons": 2, "gaussians3": 3, "gaussians4": 4}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's folder and reports; its pages are not drawn."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_files, "page_of", lambda _: "a page")
        return folder, run_demo(folder, Progress(quiet=True))


@pytest.mark.parametrize("name", JOBS)
def test_the_job_files_are_those_of_the_demo(name):
    assert tomllib.loads((FOLDER / f"{name}.toml").read_text()) == demo_job(name, "demo-out")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_job_file_is_valid(path):
    assert load_job(path, run_date="2026-01-02").output.path


@pytest.mark.parametrize(("name", "clusters"), EXPECTED.items())
def test_clusters_of_the_plane_data_sets(demo, name, clusters):
    report = demo[1][name]
    assert len(report.clusters) == clusters
    assert report.indices["adjusted_rand_index"].value >= 0.99
    assert report.picture.equilibria


def test_clusters_of_the_digits(demo):
    report = demo[1]["digits"]
    assert report.model.algorithm == "imdh"
    assert report.indices["normalized_mutual_information"].value > 0.6
    assert len(report.tree.rules) == len(report.clusters) >= 8


def test_the_demo_writes_tables_jobs_and_runs(demo):
    folder, reports = demo
    assert list(reports) == list(JOBS)
    for name in JOBS:
        assert pq.read_metadata(folder / "data" / f"{name}.parquet").num_rows > 100
        assert load_job(folder / "jobs" / f"{name}.toml").output.path == f"{folder}/{name}"
        manifest = json.loads((folder / name / "manifest.json").read_text())
        assert manifest["rows"] == reports[name].input.n_rows


@pytest.mark.parametrize("name", JOBS)
def test_tables_are_the_same_every_time(name):
    assert make_table(name).equals(make_table(name))
    if name not in ("iris", "digits"):
        assert not make_table(name, seed=1).equals(make_table(name))
    assert np.isfinite(np.column_stack(make_table(name).columns)).all()
