"""The server that forks the workers of a command."""

import json
import os
import signal

import pytest

from distsvc.run.work.workers import forking
from tests.processes import python

SCRIPT = """
import json, os, signal, sys, threading
from distsvc.job.config import ClusterConfig
from distsvc.run.work.workers.cluster import connect, expect_workers
from distsvc.run.work.workers.lean import lean
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import DEFAULT_ADDRESS


def seen():
    with open(f"/proc/{os.getppid()}/cmdline") as stream:
        parent = stream.read()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    return {
        "pid": os.getpid(),
        "parent": parent,
        "pandas": "pandas" in sys.modules,
        "interrupts": signal.SIGINT not in blocked,
        "environ": dict(os.environ),
    }


if __name__ == "__main__":
    if sys.argv[1] == "command":
        lean()
    config = ClusterConfig(workers=2)
    expect_workers(config, DEFAULT_ADDRESS)
    before = dict(os.environ)
    with connect(config, 0, Progress(quiet=True)) as client:
        assert client.submit(int, "7").result() == 7
        found = list(client.run(seen).values())
    print(json.dumps({"workers": found, "added": sorted(before.keys() - os.environ.keys())}))
"""


def workers_of(kind, folder, **environ):
    (folder / "script.py").write_text(SCRIPT)
    # A nanny in this process sets such variables while it starts a worker, and two may leave them.
    others = {name: text for name, text in os.environ.items() if name not in forking.ENVIRONMENT}
    done = python(folder / "script.py", kind, env=others | environ)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["workers"]


@pytest.mark.skipif(not forking.FORKS, reason="workers are not forked here")
def test_workers_of_a_command_are_forked(tmp_path):
    workers = workers_of("command", tmp_path, OMP_NUM_THREADS="2")
    assert len({worker["pid"] for worker in workers}) == 2
    for worker in workers:
        assert "forkserver" in worker["parent"]
        assert not worker["pandas"]
        assert not worker["interrupts"]
        assert worker["environ"]["MALLOC_TRIM_THRESHOLD_"] == str(2 * forking.REUSED_BYTES)
        assert worker["environ"]["OMP_NUM_THREADS"] == "2"  # as the user has it
        with pytest.raises(ProcessLookupError):
            os.kill(worker["pid"], signal.SIGCONT)


def test_workers_of_another_process_are_not_forked(tmp_path):
    for worker in workers_of("script", tmp_path):
        assert "forkserver" not in worker["parent"]


@pytest.mark.skipif(not forking.FORKS, reason="workers are not forked here")
def test_workers_are_not_forked_with_a_long_temporary_path(tmp_path):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    for worker in workers_of("command", tmp_path, TMPDIR=str(long)):
        assert "forkserver" not in worker["parent"]


RUN = """
import distsvc
job = {"input": {"path": "t.csv"}, "output": {"path": "out"}, "cluster": {"workers": 1}}
job["model"] = {"algorithm": "bico", "n_clusters": 3}
print(distsvc.run(job).report.input.n_rows)
"""


@pytest.mark.parametrize("way", ["script", "standard input"])
def test_scripts_need_no_main_guard_and_their_folder_is_not_imported(tmp_path, way):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{k % 7},{k % 5}\n" for k in range(300)))
    (tmp_path / "calendar.py").write_text("open('was_run', 'w').write('')")
    script = tmp_path / "elsewhere" / "s.py"
    script.parent.mkdir()
    script.write_text(RUN)
    given = [script] if way == "script" else ["-P", "-"]
    found = python(*given, input=None if way == "script" else RUN, cwd=tmp_path)
    assert found.stdout == "300\n", found.stderr
    assert not (tmp_path / "was_run").exists()


def test_a_daemonic_process_does_the_work_itself(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{k % 7},{k % 5}\n" for k in range(300)))
    script = f"""
import multiprocessing
def work(_):
{chr(10).join("    " + line for line in RUN.strip().splitlines())}
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(work, [0])
"""
    (tmp_path / "s.py").write_text(script)
    found = python("s.py", cwd=tmp_path)
    assert found.stdout == "300\n", found.stderr
