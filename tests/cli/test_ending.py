"""One signal ends a command wherever it strikes, a second one at once; nothing else is printed."""

import re
import signal
import subprocess
import sys
from textwrap import indent

import pytest

from tests.processes import python

BEGIN = """
import atexit, ctypes, multiprocessing, os, signal, sys, time
from distsvc.cli import ending
from distsvc.cli.ending import stoppable

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored in a test's process
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as under nohup

def kill():
    os.kill(os.getpid(), signal.{name})
    for _ in range(1000):
        pass

class Fragile:
    def __del__(self):
        kill()

def wait(seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)

def sleeper():
    time.sleep(300)

def command():
{body}

if __name__ == "__main__":
    stoppable(command)
"""

SWALLOWED = {
    "callback of C": "ctypes.CFUNCTYPE(None)(kill)(); wait()",
    "finaliser": "one = Fragile(); del one; wait()",
    "garbage": "one = Fragile(); one.self = one; del one; import gc; gc.collect(); wait()",
    "bare except": "try:\n    kill()\nexcept BaseException:\n    pass\nwait()",
    "another error": "try:\n    kill()\nexcept BaseException:\n    raise ValueError from None",
    "a defect": "with ending.failing_cleanly():\n    try:\n        kill()\n    "
    "except BaseException:\n        raise ValueError from None",
    "a success": "try:\n    kill()\nexcept BaseException:\n    pass",
    "twice": "f = ctypes.CFUNCTYPE(None)(lambda: (kill(), wait())); f(); wait()",
}


def ended(body, name="SIGTERM", before=""):
    code = BEGIN.format(name=name, body=indent(body, "    "))
    return python("-c", code.replace("def command", f"{before}\ndef command", 1))


def check(found, code, how, kept=""):
    assert (found.returncode, found.stdout) == (code, ""), found.stderr
    [line] = found.stderr.splitlines()
    by = "" if code == 130 else r" by SIG\w+"
    words = rf"Interrupted {how}{by}\. Run the same command again to go on"
    assert re.fullmatch(words + re.escape(f"{kept}."), line)


def test_the_message_has_the_kept_work():
    body = "try:\n    kill()\n    wait()\nexcept BaseException as error:\n"
    body += "    error.add_note('36 s of work kept')\n    raise"
    check(ended(body, "SIGINT"), 130, "cleanly", " (36 s of work kept)")


@pytest.mark.parametrize("body", SWALLOWED.values(), ids=SWALLOWED)
def test_no_signal_is_lost(body):
    check(ended(body), 143, "cleanly")


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 143)])
def test_finally_blocks_run_after_a_signal(name, code, tmp_path):
    body = f"open('{tmp_path}/work', 'w').close()\n"
    body += f"try:\n    kill()\n    wait()\nfinally:\n    os.remove('{tmp_path}/work')"
    check(ended(body, name), code, "cleanly")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_during_an_import(tmp_path):
    (tmp_path / "slow.py").write_text("import __main__\n__main__.kill()\n__main__.wait()\n")
    body = f"sys.path.insert(0, '{tmp_path}')\nimport slow"
    check(ended(body, "SIGINT"), 130, "cleanly")


def test_a_second_signal_ends_it_at_once():
    check(ended("try:\n    kill()\nfinally:\n    kill()\n    wait()"), 143, "at once")


def test_the_time_to_put_things_away_is_limited():
    body = "ending.GRACE_SECONDS = 0.2\ntry:\n    kill()\nfinally:\n    wait()"
    check(ended(body), 143, "after 0 s")


def test_a_kernel_does_not_delay_it():
    """Compiled code lets other threads run, but not signal handlers, which need the main thread."""
    body = "ending.GRACE_SECONDS = 0.2\nimport threading\nthreading.Timer(0.1, kill).start()\n"
    body += "ctypes.CDLL(None).sleep(60)\nctypes.CDLL(None).sleep(60)"
    blocked = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
    check(ended(body.replace("ctypes", blocked + "ctypes", 1)), 143, "after 0 s")


def test_children_are_killed(tmp_path):
    script = BEGIN.format(
        name="SIGTERM",
        body=indent(
            "context = multiprocessing.get_context('spawn')\n"
            "child = context.Process(target=sleeper)\nchild.start()\n"
            "print(child.pid, flush=True)\ntry:\n    kill()\nfinally:\n    kill()\n    wait()",
            "    ",
        ),
    )
    (tmp_path / "script.py").write_text(script)
    found = python(tmp_path / "script.py")
    # The child shares the output, so its end means that the child has ended, too.
    assert found.returncode == 143
    assert found.stdout.strip().isdigit()
    assert "Traceback" not in found.stderr


def test_a_late_signal_does_not_print_a_traceback():
    check(ended("atexit.register(kill)"), 143, "after the work was done")


def test_ignored_signals_stay_ignored():
    found = ended("kill(); print('done')", "SIGHUP", "signal.signal(signal.SIGHUP, signal.SIG_IGN)")
    assert (found.returncode, found.stdout, found.stderr) == (0, "done\n", "")


def test_a_signal_while_this_package_is_imported_is_no_traceback():
    code = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupted:
    def find_spec(self, name, *_):
        if name == "distsvc.cli.ending":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
import distsvc.__main__
"""
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


FAULTY = {"2>&-": 0, ">/dev/full": 75, "DASK_CONFIG=odd": 0}


@pytest.mark.parametrize("fault", FAULTY)
def test_surroundings_that_are_not_as_usual(tmp_path, fault):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{k % 7},{k % 5}\n" for k in range(300)))
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "bad.yaml").write_text("a: [\n  : b\n")
    (tmp_path / "odd" / "preload.yaml").write_text("distributed: {nanny: {preload: [no]}}")
    command = f"{sys.executable} -m distsvc run t.csv --out out --set model.algorithm=depddp"
    line = f"{fault} {command}" if "=" in fault else f"{command} {fault}"
    found = subprocess.run(
        line, shell=True, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert found.returncode == FAULTY[fault], found.stderr
    assert "defect" not in found.stderr
