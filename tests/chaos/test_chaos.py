"""A few disturbed runs, a race and overwrites beside readers; and that the harness sees faults."""

import hashlib
import json
import os
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos import oracle
from chaos.disturb import Case
from chaos.faults import SETTINGS, swap
from chaos.processes import HERE, ROOT, TESTS, left_running, marked
from chaos.readers import look

JOB = "spdc"
RUN = "0123456789ab-01234567"
SEEDS = (1390, 163, 275, 1102, 756, 1558)


def test_disturbed_runs_leave_what_undisturbed_ones_leave(tmp_path):
    command = [sys.executable, "-m", "tests.chaos", "--only", *map(str, SEEDS)]
    more = ["--races", "1", "--overwrites", "2", "--job", f"predict-{JOB}", "--work", str(tmp_path)]
    done = subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == len(SEEDS) + 2


def test_the_seeds_are_those_of_few_jobs_and_of_different_disturbances():
    cases = [Case.of(seed) for seed in SEEDS]
    assert {case.job for case in cases} == {JOB, f"predict-{JOB}"}
    assert {(case.kind, case.overwrite) for case in cases} >= {
        ("driver-kill", True),
        ("publish-kill", False),
        ("publish-kill", True),
        ("publish-fault", True),
        ("input", False),
    }


def written(out, files, **more):
    """Publish some files by hand, and return the folder."""
    listed = []
    for name, content in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        listed.append({"file": name, "bytes": len(content), "sha256": digest})
    manifest = {"job_sha256": "1", "rows": 3, "files": listed} | more
    (out / "manifest.json").write_text(json.dumps(manifest))
    return out


def labels(shift=0):
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table({"label": [0 + shift, 1, 2]}), stream)
    return stream.getvalue().to_pybytes()


@pytest.fixture
def out(tmp_path):
    files = {f"labels/{RUN}/part-00000.parquet": labels(), f"model/{RUN}/model.json": b"{}"}
    return written(tmp_path / "out", files)


def test_results_of_other_runs_are_the_same_and_other_labels_are_not(out, tmp_path):
    one = oracle.published(out)
    other = RUN.replace("0", "f")
    files = {f"labels/{other}/part-00000.parquet": labels(), f"model/{other}/model.json": b"{}"}
    assert one.differences(oracle.published(written(tmp_path / "b", files))) == []
    files[f"labels/{other}/part-00000.parquet"] = labels(1)
    differing = one.differences(oracle.published(written(tmp_path / "c", files)))
    assert differing == ["part-00000.parquet differs"]


@pytest.mark.parametrize("harm", ["gone", "other bytes", "no JSON", "other rows"])
def test_a_result_that_is_not_whole_is_torn(out, harm):
    part = out / "labels" / RUN / "part-00000.parquet"
    if harm == "gone":
        part.unlink()
    elif harm == "other bytes":
        part.write_bytes(labels(1))
    elif harm == "no JSON":
        (out / "manifest.json").write_text("{")
    else:
        written(out, {f"labels/{RUN}/part-00000.parquet": labels()}, rows=4)
    with pytest.raises(oracle.TornError):
        oracle.published(out)
    assert look(out, 0.0)[1] or harm == "other rows"


def test_what_does_not_belong_there_is_left_behind(out):
    (out / ".runs").mkdir()
    (out / ".runs" / "lock").touch()
    assert oracle.left_behind(out, tidy=True) == []
    dead = out / ".runs" / RUN.replace("0", "e")
    dead.mkdir()
    (dead / "plan.json").touch()
    assert oracle.left_behind(out, tidy=False) == []
    assert len(oracle.left_behind(out, tidy=True)) == 2
    (out / "labels" / "part-00001.parquet").touch()
    assert oracle.left_behind(out, tidy=False) == ["labels/part-00001.parquet"]


def test_what_was_replaced_may_stay_while_it_is_listed(out):
    gone = RUN.replace("0", "d")
    (out / "labels" / gone).mkdir()
    (out / "labels" / gone / "part-00000.parquet").touch()
    assert oracle.left_behind(out, tidy=True) == [f"labels/{gone}/part-00000.parquet"]
    (out / ".runs" / "replaced").mkdir(parents=True)
    listed = {"files": [{"file": f"labels/{gone}/part-00000.parquet"}]}
    (out / ".runs" / "replaced" / "1.json").write_text(json.dumps(listed))
    assert oracle.left_behind(out, tidy=True) == []


SCRIPT = """
import os, pathlib
pathlib.Path("a").mkdir()
with open("a/one", "wb") as stream:
    stream.write(b"1" * 10)
    stream.flush()
    os.fsync(stream.fileno())
os.replace("a/one", "a/two")
folder = os.open("a", os.O_RDONLY)
os.unlink("two", dir_fd=folder)
open("/dev/null", "w").close()
print("end")
"""


@pytest.mark.parametrize(
    ("at", "what", "code", "said"),
    [
        (None, None, 0, "end"),
        (2, "ENOSPC", 1, "[Errno 28]"),
        (3, "FULL", 1, "[Errno 28]"),
        (4, "EIO", 1, "[Errno 5]"),
        (5, "SIGKILL", -signal.SIGKILL, ""),
        (6, "SIGTERM", -signal.SIGTERM, ""),
    ],
)
def test_a_fault_comes_at_its_step(tmp_path, at, what, code, said):
    settings = {"under": str(tmp_path / "a"), "at": at, "what": what, "log": str(tmp_path / "log")}
    paths = os.pathsep.join([str(TESTS), str(HERE / "injected")])
    env = os.environ | {"PYTHONPATH": paths, SETTINGS: json.dumps(settings)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    steps = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    made = ["os.mkdir", "open", "write", "fsync", "os.rename", "os.remove"]
    assert steps[:at] == made[:at]
    assert len(steps) == (at or len(made)) or what in ("EIO", "FULL")


def test_a_table_is_changed_file_by_file(tmp_path):
    for folder, files in {"old": ("a", "b", "c"), "new": ("a", "c", "d")}.items():
        (tmp_path / folder).mkdir()
        for name in files:
            (tmp_path / folder / name).write_text(name if name == "a" else folder)
    swap(str(tmp_path / "old"), str(tmp_path / "new"), in_place=True)
    found = {path.name: path.read_text() for path in (tmp_path / "old").iterdir()}
    assert found == {"a": "a", "c": "new", "d": "new"}


def test_a_process_that_is_left_running_is_found(tmp_path):
    env = os.environ | {"DISTSVC_CHAOS_RUN": str(tmp_path)}
    process = subprocess.Popen(["sleep", "60"], env=env)
    try:
        assert left_running(str(tmp_path), 0.2) == [process.pid]
    finally:
        process.kill()
        process.wait()
    assert marked(str(tmp_path)) == []
