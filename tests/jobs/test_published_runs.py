"""A run is whole or absent."""

import json
import signal
import subprocess
import sys

import psutil
import pytest

from distsvc.run.starting import interrupted_runs, kept_results
from distsvc.storage.publishing.publication import Output
from tests.jobs.blob_jobs import N, check_manifest
from tests.published_files import published_file

pytestmark = pytest.mark.usefixtures("quick_page")


def test_the_manifest_lists_exactly_the_files(blob_run):
    out, _ = blob_run
    manifest = check_manifest(out)
    assert [file["rows"] for file in manifest["files"] if "rows" in file] == [300, 300, 300]
    assert manifest["rows"] == N
    assert manifest["clusters"] == 3
    run_id = manifest["run_id"]
    assert [file["file"] for file in manifest["files"]] == [
        *(f"labels/{run_id}/part-0000{k}.parquet" for k in range(3)),
        f"model/{run_id}/arrays.npz",
        f"model/{run_id}/model.json",
        f"report/{run_id}/clusters.parquet",
        f"report/{run_id}/report.html",
        f"report/{run_id}/report.json",
    ]
    for name in ("report.html", "report.json"):
        assert (out / name).read_bytes() == published_file(out, name).read_bytes()
    assert (out / "_SUCCESS").exists()
    assert sorted(path.name for path in (out / ".runs").iterdir()) == ["files", "lock"]


@pytest.mark.parametrize(
    ("name", "exit_code", "workers"), [("SIGINT", 130, 0), ("SIGTERM", 143, 1)]
)
def test_an_interrupted_run_leaves_no_process(blob_table, tmp_path, name, exit_code, workers):
    path = tmp_path / "job.toml"
    path.write_text(
        f'[input]\npath = "{blob_table}"\ncolumns = ["x", "y"]\n'
        '[model]\ngamma = 4.0\nstopping = "step-norm"\ntheta = 1e-300\nmax_iter = 1000000000000\n'
        f'[cluster]\nworkers = {workers}\n[output]\npath = "{tmp_path}/out"\n'
    )
    command = [sys.executable, "-m", "distsvc", "run", str(path)]
    # A process started in the background may have been told to ignore SIGINT, and so its children.
    restore = "import signal, sys, os; signal.signal(signal.SIGINT, signal.default_int_handler); "
    restore += "os.execv(sys.argv[1], sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", restore, *command], stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if json.loads(line).get("phase") == "prepare":
                break
        children = psutil.Process(process.pid).children(recursive=True)
        assert any((tmp_path / "out" / ".runs").iterdir())
        process.send_signal(getattr(signal, name))
        _, error = process.communicate(timeout=60)
    assert process.returncode == exit_code, error
    assert "Traceback" not in error
    assert len(children) >= workers
    assert psutil.wait_procs(children, timeout=30)[1] == []
    [run] = interrupted_runs(Output(tmp_path / "out"))
    assert kept_results(run)["survey"] == 1
