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
from chaos import oracle, results
from chaos.case import Case
from chaos.faults import SETTINGS
from chaos.lab import Undisturbed
from chaos.looking import look, reading
from chaos.processes import HERE, ROOT, TESTS
from chaos.run import Run, Start

JOB = "spdc"
RUN = "0123456789ab-01234567"
SEEDS = (567, 1362, 392)


def test_disturbed_runs_leave_what_undisturbed_ones_leave(tmp_path):
    command = [sys.executable, "-m", "tests.chaos", "--only", *map(str, SEEDS)]
    more = ["--races", "1", "--overwrites", "2", "--job", f"predict-{JOB}", "--work", str(tmp_path)]
    done = subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(lines) == len(SEEDS) + 2
    went_on = [line["tasks"] for line in lines if line.get("tasks", {}).get("kept")]
    assert went_on
    assert all(one["kept"] + one["made"] == one["whole"] for one in went_on)


def test_the_seeds_are_those_of_few_jobs_and_of_different_disturbances():
    cases = [Case.of(seed) for seed in SEEDS]
    assert {case.job for case in cases} == {JOB}
    assert {(case.kind, case.overwrite) for case in cases} == {
        ("driver-kills", True),
        ("publish-fault", True),
        ("killed-job", True),
    }


CHANGES = """
0.0 os.rename /out/.runs/{run}/plan.json
1.0 open /out/.runs/{run}/results/survey/.00000.npz.0123
1.0 os.rename /out/.runs/{run}/results/survey/00000.X.npy
1.0 os.rename /out/.runs/{run}/results/survey/00000.npz
5.0 os.rename /out/.runs/{run}/results/rule.npz
8.9 os.remove /out/.runs/{run}/plan.json
9.0 os.rename /out/.runs/{run}/results/label/00000.npz
""".lstrip()


@pytest.fixture
def disturbed(tmp_path):
    """A run that has been begun, without any process."""
    log = tmp_path / "changes-0"
    log.write_text(CHANGES.format(run=RUN))
    run = object.__new__(Run)
    run.out, run.problems = tmp_path / "out", []
    run.out.mkdir()
    run.wholes = [Undisturbed(tmp_path, 0, None, results.logged(log))]
    return run


@pytest.mark.parametrize(
    ("before", "code", "resumed", "problem"),
    [
        ((), 0, False, None),
        ((), 0, True, "resumed is True"),
        (("survey/00000",), 0, True, "done again: 1: survey/00000"),
        (("survey/00001",), 0, True, "missing, or too many: 1: survey/00001"),
        ((), -9, False, "lost with exit -9: 2: rule, survey/00000"),
        (("other/00000",), 78, False, "kept 1 results, 0 after exit 78"),
    ],
)
def test_what_is_done_twice_or_lost_is_seen(disturbed, tmp_path, before, code, resumed, problem):
    if code == 0:
        written(disturbed.out, {}, run_id=RUN)
    start = Start(tmp_path / "changes-0", set(before), None)
    disturbed.account(start, code, resumed)
    if problem is None:
        assert disturbed.problems == []
    else:
        assert problem in "; ".join(disturbed.problems)


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
    assert look(reading(str(out)), 0.0)[1] or harm == "other rows"


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
    steps = [line.split()[1] for line in (tmp_path / "log").read_text().splitlines()]
    made = ["os.mkdir", "open", "write", "fsync", "os.rename", "os.remove"]
    assert steps[:at] == made[:at]
    assert len(steps) == (at or len(made)) or what in ("EIO", "FULL")
