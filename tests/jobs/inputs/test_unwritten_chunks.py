"""Chunks of Zarr that were never written are in the report and on the page of a run."""

import numpy as np
import zarr

from distsvc.job.file import parse_job
from distsvc.run.job import run_job


def test_the_report_and_the_page_say_how_many_chunks_are_missing(tmp_path):
    path = tmp_path / "g.zarr"
    zarr.open_group(path, mode="w")
    for k, name in enumerate("xy"):
        array = zarr.create_array(path / name, shape=(300,), chunks=(100,), dtype="f8")
        array[: 300 - 100 * k] = np.random.default_rng(k).normal(size=300 - 100 * k)
    report = run_job(
        parse_job(
            {
                "input": {"path": str(path)},
                "model": {"algorithm": "bico", "n_clusters": 2},
                "output": {"path": str(tmp_path / "out")},
                "cluster": {"workers": 0},
            }
        )
    )
    (told,) = [one for one in report.warnings if "chunks" in one]
    assert "array 'y' (1 of 3 chunks, read as 0.0)" in told
    assert "1 of 3 chunks" in (tmp_path / "out" / "report.html").read_text()
