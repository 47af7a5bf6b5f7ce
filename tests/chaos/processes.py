"""Starting drivers, forked or fresh, signalling them, and finding what they leave running."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, TimeoutError
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent
TESTS, ROOT = HERE.parent, HERE.parents[1]
MARK = "DISTSVC_CHAOS_RUN"
CHECKPOINT_SECONDS = 0.02
"""The time between two checkpoints of drivers that are forked: their jobs are small."""


class Started:
    """A process that was started: its pid, what it wrote, and how it ended.

    `code` is the exit status, negative for a signal.
    """

    def __init__(self, pid, stderr):
        self.pid, self.stderr = pid, Path(stderr)
        self.code = Future()
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._fd = None

    def send(self, number):
        """Send a signal, unless the process has ended; no other can have its place."""
        if self._fd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)

    def wait(self, seconds):
        """Return the exit status, None if it is still running after so many seconds."""
        with suppress(TimeoutError):
            code = self.code.result(seconds)
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            return code
        return None

    def said(self):
        return self.stderr.read_text(errors="replace")


class Launcher:
    """Starts processes of the package in folders of runs; close it at the end.

    `import_seconds` is what a fresh driver needs longer than a forked one.
    """

    def __init__(self, work):
        self.work = Path(work)
        self._zygote, self._lock, self._n = None, threading.Lock(), 0
        self._asked, self._running = {}, {}
        self._begun, self.import_seconds = 0.0, 0.0

    def environment(self, mark, fault=None, more=()):
        """Return the variables of a run's processes, of which `more` are its own.

        Their log is JSON, in which the harness looks for events.
        """
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DASK_", "DISTSVC_"))}
        paths = [str(ROOT), str(TESTS)] + ([str(HERE / "injected")] if fault else [])
        kept = {k: v for k, v in kept.items() if not k.startswith("AWS_")} | dict(more)
        kept |= {MARK: mark, "PYTHONPATH": os.pathsep.join(paths), "DISTSVC_LOG_FORMAT": "json"}
        return kept | ({"DISTSVC_CHAOS_FAULT": json.dumps(fault)} if fault else {})

    def start(
        self, folder, args, *, module="distsvc", fresh=False, fault=None, start_at=0.0, more=()
    ):
        """Start ``python -m module args`` in a folder, which is the mark of its processes."""
        with self._lock:
            self._n += 1
            number = self._n
        logs = Path(folder) / "logs"
        logs.mkdir(exist_ok=True)
        stdout, stderr = logs / f"{number}.out", logs / f"{number}.err"
        env = self.environment(str(folder), fault, more)
        if fresh:
            return self._start_fresh(folder, [module, *args], env, stdout, stderr)
        request = {
            "id": number, "module": module, "args": list(args), "cwd": str(folder), "env": env,
            "stdout": str(stdout), "stderr": str(stderr), "start_at": start_at,
            "checkpoint_seconds": CHECKPOINT_SECONDS,
        }  # fmt: skip
        answer = Future()
        with self._lock:
            self._asked[number] = (answer, stderr)
            zygote = self._zygote or self._start_zygote()
            zygote.stdin.write(json.dumps(request).encode() + b"\n")
            zygote.stdin.flush()
        return answer.result(120)

    def _start_fresh(self, folder, command, env, stdout, stderr):
        with open(stdout, "ab") as out, open(stderr, "ab") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
        started = Started(process.pid, stderr)
        threading.Thread(
            target=lambda: started.code.set_result(process.wait()), daemon=True
        ).start()
        return started

    def _start_zygote(self):
        self._begun = time.monotonic()
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "chaos.zygote"], cwd=self.work, env=self.environment("zygote"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._listen, args=(self._zygote.stdout,), daemon=True).start()
        return self._zygote

    def _listen(self, answers):
        for line in answers:
            said = json.loads(line)
            if "ready" in said:
                self.import_seconds = time.monotonic() - self._begun
            elif "id" in said:
                answer, stderr = self._asked.pop(said["id"])
                started = self._running[said["pid"]] = Started(said["pid"], stderr)
                answer.set_result(started)
            else:
                self._running.pop(said["ended"]).code.set_result(said["code"])

    def close(self):
        """End what forks; what was forked ends by itself."""
        if self._zygote:
            self._zygote.stdin.close()
            self._zygote.wait(30)


def marked(mark):
    """Return the pids of the processes that inherited a run's mark and are no zombies."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                environment = Path(entry.path, "environ").read_bytes().split(b"\0")
                if wanted in environment:
                    found.append(int(entry.name))
    return found


def workers_of(mark):
    """Return the pids of a run's Dask workers: the spawned processes that are no trackers."""
    found = []
    for pid in marked(mark):
        with suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"spawn_main" in line:
                found.append(pid)
    return found


def left_running(mark, seconds):
    """Wait until no process of a run is left; return the pids that are after so many seconds."""
    until = time.monotonic() + seconds
    while (found := marked(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def end(pids):
    """Kill processes of a run."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
