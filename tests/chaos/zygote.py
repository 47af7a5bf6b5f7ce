"""A process that has imported what a driver needs, and forks one for each line of its input.

It runs no job itself, so that no thread of a library is lost in the fork.
"""

import importlib
import json
import os
import runpy
import select
import signal
import sys
import tempfile
import time

PRELOADED = (
    "distsvc.cli.main", "distsvc.run.job", "distsvc.published.predict", "distributed", "zarr",
    "boto3", "obstore.store",
)  # fmt: skip

PAGE = "<p>a page</p>\n" * 1000
"""What forked drivers publish for a page: to draw it takes longer than the rest of a small job."""


def preload():
    """Import what drivers, workers and schedulers would import."""
    for name in PRELOADED:
        importlib.import_module(name)
    numba = importlib.import_module("numba")
    numba.njit(lambda x: x + 1)(1)
    # What forked workers change would not be logged.
    importlib.import_module("distsvc.run.work.workers.forking").FORKS = False


def serve():
    """Answer requests until the input ends, and return None; in a child, return its request."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing)
    waiting = b""
    say({"ready": os.getpid()})
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 1024)
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return None
            waiting += data
            *lines, waiting = waiting.split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os.close(reading)
                    os.close(writing)
                    return request
        reap()


def reap():
    """Tell of every child that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def say(answer, fd=1):
    os.write(fd, json.dumps(answer).encode() + b"\n")


def become(request):
    """Be the process that a request describes, as if it had just been started."""
    os.setsid()
    answers = os.dup(1)
    for fd, name in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(opened, fd)
        os.close(opened)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    from chaos.faults import install_from_environment

    say({"id": request["id"], "pid": os.getpid()}, answers)
    os.close(answers)
    while time.monotonic() < request["start_at"]:
        time.sleep(0.0005)
    install_from_environment()
    checkpoints = importlib.import_module("distsvc.run.work.phases")
    seconds = request.get("checkpoint_seconds", checkpoints.CHECKPOINT_SECONDS)
    checkpoints.CHECKPOINT_SECONDS = seconds
    importlib.import_module("distsvc.run.reporting.files").page_of = lambda report: PAGE
    sys.argv = [request["module"], *request["args"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    preload()
    child = serve()
    if child is not None:
        become(child)
