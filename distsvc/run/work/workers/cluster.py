"""Connects to a Dask cluster, or starts one on this machine."""

import hashlib
import ipaddress
import json
import logging
import multiprocessing
import os
import signal
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import distsvc
from distsvc import __version__
from distsvc.errors import InputNotFoundError, JobFileError, TemporaryError
from distsvc.errors.urls import checked_url
from distsvc.job.config import ClusterConfig
from distsvc.run.work.progress import LOG, Progress
from distsvc.run.work.start import DEFAULT_ADDRESS, ClusterAddress
from distsvc.run.work.workers.forking import (
    ENVIRONMENT,
    TASKS,
    environment,
    start_method,
    start_server,
    without_interrupts,
    workers_without_main,
)
from distsvc.storage.places.process import scratch

if TYPE_CHECKING:
    from distributed import Client

SMALL_BYTES = 64 * 2**20
"""Tables below this size are processed in this process, unless the job asks for workers."""


@dataclass(frozen=True)
class Patience:
    """Seconds for which the driver waits for a cluster."""

    answer: float = 5.0
    """Seconds between two checks of the workers; also the timeout of a check and of closing."""

    contact: float = 30.0
    """Timeout of a connection in seconds; a worker without a heartbeat for as long is reported."""

    work: float = 120.0
    """Seconds after which the run ends if no worker works."""

    heartbeat: float = 120.0
    """Seconds without a heartbeat after which a worker's tasks go to other workers."""


CLUSTER_PATIENCE = Patience()

WORKER_BYTES = 2**27
"""Memory of a worker before its first task, in bytes."""


@dataclass(frozen=True)
class Workers:
    """The workers of a run; without workers, the driver runs the tasks."""

    each: tuple[tuple[int, int], ...]  # threads, and memory limit in bytes (0: no limit)
    here: bool = True  # whether the driver started the workers

    @property
    def threads(self) -> int:
        return sum(threads for threads, _ in self.each) or 1


def expect_workers(config: ClusterConfig, at: ClusterAddress) -> None:
    """Start the fork server in the background if the job asks for workers on this machine."""
    if config.workers and not (at.scheduler or at.scheduler_file or _configured_address()):
        start_server()


@contextmanager
def connect(
    config: ClusterConfig, n_bytes: int, progress: Progress, at: ClusterAddress = DEFAULT_ADDRESS
) -> "Iterator[Client | None]":
    """Yield a Dask client, or None if the work is done in this process.

    The scheduler is the first of: the address in `at`; the address in ``DASK_SCHEDULER_ADDRESS`` or
    Dask's configuration; the scheduler file of `at`. Without a scheduler, ``cluster.workers``
    workers start on this machine, bound to loopback and protected by TLS. By default, a table below
    `SMALL_BYTES` has no workers. A larger table has one for each core that this process may use.

    Raises `TemporaryError` if the scheduler does not answer or has no worker. Raises `JobFileError`
    if the address is wrong, or if workers have other package versions than the driver. It is also
    raised if the machine has too little memory for the workers.
    """
    workers = config.workers
    try:
        address = _address_of(at)
    except _ConfigurationError:
        if workers or n_bytes >= SMALL_BYTES:
            raise
        address = None
    because = "cluster.workers is 0"
    if workers is None:
        workers = 0 if n_bytes < SMALL_BYTES else _cores()
        because = "the table has less than 64 MiB (--set cluster.workers=N starts N workers)"
    if workers and multiprocessing.current_process().daemon:
        because = (
            "the calling process is daemonic, as in Celery and multiprocessing.Pool, and can't "
            "start other processes"
        )
        workers = 0
    with ExitStack() as stack:
        with progress.phase("cluster"):
            client, fields = None, {"kind": "this process", "because": because}
            if address:
                _check_trust(address, at.require_tls, progress)
                client = stack.enter_context(_remote_client(address))
                fields = {"kind": "scheduler", "dashboard": client.dashboard_link}
            elif workers:
                start_server()
                _check_room(workers)
                client = stack.enter_context(_local_client(workers, config.threads))
                fields = {"kind": f"{workers} workers here"}
            if client is not None:
                fields["address"] = client.scheduler.address
            progress.event("cluster", **fields)
        yield client


def _check_room(workers: int) -> None:
    from distributed.system import MEMORY_LIMIT

    most = max(int(MEMORY_LIMIT // WORKER_BYTES), 1)
    if workers > most:
        raise JobFileError(
            f"cluster.workers: expected at most {most} on this machine, found {workers}: each "
            f"worker takes {WORKER_BYTES >> 20} MiB of the machine's {MEMORY_LIMIT >> 20} MiB; it "
            f"has {_cores()} cores"
        )


def _cores() -> int:
    from dask.system import CPU_COUNT

    return int(CPU_COUNT)


def driver_threads() -> int:
    """Return the number of threads for the driver's steps, during which workers mostly wait."""
    # At most 8, since some steps need memory for each thread.
    affinity = getattr(os, "sched_getaffinity", None)
    return min(len(affinity(0)) if affinity else os.cpu_count() or 1, 8)


def workers_of(client: "Client | None") -> Workers:
    """Return the workers of a client; `TemporaryError` if the scheduler does not answer."""
    if client is None:
        return Workers(())
    with loss_is_temporary(f"no answer from scheduler {client.scheduler.address}"):
        ask = client.scheduler.identity
        found = client.sync(ask, n_workers=-1, callback_timeout=CLUSTER_PATIENCE.contact)["workers"]
    each = tuple((of["nthreads"], of["memory_limit"] or 0) for of in found.values())
    return Workers(each, client.cluster is not None)


def losses() -> tuple[type[BaseException], ...]:
    """Return the exceptions that Dask raises when a scheduler or a worker is lost."""
    from distributed import CancelledError
    from distributed.comm import CommClosedError
    from distributed.scheduler import NoValidWorkerError, NoWorkerError

    return CancelledError, CommClosedError, NoValidWorkerError, NoWorkerError


@contextmanager
def loss_is_temporary(what: str) -> Iterator[None]:
    """Turn the error of a lost or silent scheduler or worker into a `TemporaryError`."""
    temporary: tuple[type[BaseException], ...] = (*losses(), TimeoutError, OSError, RuntimeError)
    try:
        yield
    except temporary as error:
        raise TemporaryError(f"{what}: {type(error).__name__}: {error}") from error


@contextmanager
def _remote_client(address: str) -> "Iterator[Client]":
    """Connect to a scheduler, wait until it has a worker, and yield the client.

    Raise `JobFileError` if a worker has other package versions than the driver.
    """
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        try:
            with loss_is_temporary(f"no answer from scheduler {address}"), _tls_errors(address):
                client = _client(address)
        except ImportError as error:
            raise JobFileError(
                f"Dask's configuration has a preload that can't be imported: {error}"
            ) from None
        except (ValueError, TypeError) as error:
            raise JobFileError(
                f"{address} is not a scheduler's address: {error}; expected tcp://HOST:PORT or "
                "tls://HOST:PORT"
            ) from None
        stack.enter_context(_closing(client))
        with loss_is_temporary(f"no answer from scheduler {address}"):
            _wait_for_a_worker(client)
            with suppress(TimeoutError):  # a stopped worker; its tasks compare versions, too
                answers = {"on_error": "return", "callback_timeout": CLUSTER_PATIENCE.contact}
                for worker, theirs in client.run(versions, **answers).items():
                    compare_versions(worker, versions(), theirs)
                for worker, theirs in client.run(processor, **answers).items():
                    if isinstance(theirs, str):
                        compare_processors(f"worker {worker}", processor(), theirs)
        yield client


TLS_KEYS = tuple(f"distributed.comm.tls.{key}" for key in ("ca-file", "client.cert", "client.key"))

NO_TLS_THERE = (
    "the scheduler does not use TLS: give its tcp:// address, or start it with --protocol tls"
)

TLS_MISTAKES = {
    "ssl_context": "no TLS certificates are set",
    "certificate does not match": "the scheduler's certificate is not from the authority in "
    "distributed.comm.tls.ca-file",
    "IOStream is not idle": NO_TLS_THERE,
    "WRONG_VERSION_NUMBER": NO_TLS_THERE,
    "encryption required": "distributed.comm.require-encryption is set: give a tls:// address",
}
"""Texts in Dask's errors about TLS, and the mistake behind each."""


@contextmanager
def _tls_errors(address: str) -> Iterator[None]:
    """Turn Dask's error about a wrong TLS configuration into a `JobFileError` with the mistake."""
    try:
        yield
    except Exception as error:
        text = f"{error} {error.__cause__} {error.__context__}"
        mistake = next((known for words, known in TLS_MISTAKES.items() if words in text), "")
        if address.startswith("tls://") and isinstance(error, FileNotFoundError):
            mistake = f"a file of the TLS configuration does not exist: {_tls_files()}"
        elif not mistake and isinstance(error, ssl.SSLError):
            mistake = f"the TLS files can't be used ({error.reason or error}): {_tls_files()}"
        if not mistake:
            raise
        where = "in Dask's configuration, or as DASK_DISTRIBUTED__COMM__TLS__CA_FILE and so on"
        fix = f"; set {', '.join(TLS_KEYS)} {where}" if "ssl_context" in text else ""
        raise JobFileError(f"scheduler {address}: {mistake}{fix}") from None


def _tls_files() -> str:
    import dask

    files = {key: str(dask.config.get(key, None) or "not set") for key in TLS_KEYS}
    marks = {key: "" if Path(file).is_file() else " (not there)" for key, file in files.items()}
    return ", ".join(f"{key} = {file}{marks[key]}" for key, file in files.items())


def _client(address: str) -> "Client":
    """Return the client of a scheduler; close it if it can't connect."""
    # Dask leaves it open if the address is wrong. Garbage collection would then close it, perhaps
    # in the thread of the next client's loop, and deadlock.
    from distributed import Client

    client = Client.__new__(Client)
    try:
        client.__init__(address, timeout=CLUSTER_PATIENCE.contact, set_as_default=False)
    except BaseException:
        with suppress(Exception):
            client.close(CLUSTER_PATIENCE.answer)
        raise
    return client


@contextmanager
def _local_client(workers: int, threads: int) -> "Iterator[Client]":
    """Start workers on this machine, protect them from other users, and yield their client."""
    # Anyone who reaches a port of a scheduler or worker could run code there. So connections need a
    # key that only these processes have, HTTP servers have no pages, and folders on the import path
    # are private.
    import dask
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        stack.enter_context(_quiet())
        settings = {
            "temporary-directory": str(stack.enter_context(scratch("workers"))),
            "distributed.scheduler.no-workers-timeout": CLUSTER_PATIENCE.work,
            "distributed.worker.profile.enabled": False,  # it interrupts a worker each 10 ms
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
            **{f"distributed.{of}.preload": [] for of in ("nanny", "scheduler", "worker")},
            **{f"distributed.nanny.pre-spawn-environ.{k}": v for k, v in ENVIRONMENT.items()},
            "distributed.worker.multiprocessing-method": start_method(),
        }
        stack.enter_context(dask.config.set(settings))
        loop = stack.enter_context(_loop_without_interrupts())
        stack.enter_context(workers_without_main())
        with (
            loss_is_temporary("workers on this machine can't start"),
            _children_killed_on_error(),
            environment(),
        ):
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=threads, loop=loop, security=True,
                host="127.0.0.1", dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False}, silence_logs=logging.CRITICAL,
                preload=TASKS, death_timeout=CLUSTER_PATIENCE.work,
            )  # fmt: skip
        stack.enter_context(_closing(cluster))
        with loss_is_temporary("no answer from the scheduler on this machine"):
            client = Client(cluster, set_as_default=False)
            client.forward_logging("distsvc", logging.INFO)
        stack.enter_context(_closing(client))
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's logs: distsvc has errors and events of its own."""
    from distributed.utils import silence_logging_cmgr

    with ExitStack() as stack:
        stack.enter_context(silence_logging_cmgr(logging.CRITICAL))
        for name in "asyncio", "tornado":
            logger = logging.getLogger(name)
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        yield


@contextmanager
def _loop_without_interrupts() -> Iterator[Any]:
    """Yield an event loop whose thread, and the workers that it starts, ignore SIGINT."""
    from distributed.utils import LoopRunner

    runner = LoopRunner()
    with environment():
        resource_tracker.ensure_running()  # its start would unblock SIGINT
    with without_interrupts():
        runner.start()
    try:
        yield runner.loop
    finally:
        runner.stop(CLUSTER_PATIENCE.answer)


@contextmanager
def _children_killed_on_error() -> Iterator[None]:
    """Kill the processes that were started inside the block, after an error."""
    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        raise


@contextmanager
def _closing(closable: Any) -> Iterator[None]:
    """Close a client or cluster in bounded time; its local workers are killed."""
    try:
        yield
    finally:
        for nanny in list(getattr(closable, "workers", {}).values()):
            nanny.close_gracefully()  # so that it does not restart the worker
            if nanny.pid:
                with suppress(OSError):
                    os.kill(nanny.pid, signal.SIGKILL)
        with suppress(Exception):
            closable.close(CLUSTER_PATIENCE.answer)


Versions = tuple[tuple[str, str], ...]


@cache
def versions() -> Versions:
    """Return the versions that driver and workers must share."""
    python = ".".join(map(str, sys.version_info[:2]))
    others = ((name, metadata.version(name)) for name in ("numba", "numpy", "pyarrow"))
    own = ("distsvc", __version__), ("distsvc sources", sources_digest())
    return ("python", python), *own, *others


def processor() -> str:
    """Return the vector instructions that NumPy and BLAS use; our kernels don't depend on them."""
    numpy_core = import_module("numpy._core._multiarray_umath")
    from threadpoolctl import threadpool_info

    known = numpy_core.__cpu_features__
    names = [name for name in numpy_core.__cpu_dispatch__ if known.get(name)]
    blas = {str(one.get("architecture")) for one in threadpool_info() if one["user_api"] == "blas"}
    return ", ".join([*names, *sorted(blas)]) or "none"


def compare_processors(who: str, ours: str, theirs: str) -> None:
    """Warn if the results of `processor` differ between this process and another one."""
    if ours != theirs:
        fields = {"who": who, "ours": ours, "theirs": theirs}
        LOG.warning("other processor", extra={"fields": fields})


def sources_digest() -> str:
    """Return 16 digits of a SHA-256 of the names and contents of the package's source files."""
    digest, root = hashlib.sha256(), Path(distsvc.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def compare_versions(worker: str, ours: Versions, theirs: Versions | Exception) -> None:
    """Raise `JobFileError` if a worker has other package versions than this process.

    `theirs` is an exception if the worker could not return its versions.
    """
    if isinstance(theirs, (ImportError, AttributeError)):
        raise JobFileError(
            f"worker {worker} has another version of distsvc than this process: {theirs}; install "
            "the same version"
        )
    if isinstance(theirs, Exception):
        return  # the worker is lost, which other code reports
    known = dict(theirs)
    for name, own in ours:
        other = known.get(name, "unknown")
        if own != other:
            raise JobFileError(
                f"worker {worker} has {name} {other}, this process has {own};"
                " driver and workers need equal versions"
            )


def _check_trust(address: str, require_tls: bool, progress: Progress) -> None:
    if address.startswith("tls://"):
        return
    if require_tls:
        raise JobFileError(f"--require-tls: scheduler {address} is not a tls:// address")
    host = address.rpartition("://")[2].rpartition("@")[2].rpartition(":")[0].strip("[]")
    with suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return
    progress.event(
        "scheduler without TLS",
        about=f"scheduler {address} is on another host and does not use TLS: anyone who can reach "
        "the scheduler, or read the network, can run code as you and as the scheduler's user; "
        "start the scheduler with --protocol tls",
    )


def _address_of(at: ClusterAddress) -> str | None:
    """Return the address of the scheduler; None if workers start on this machine."""
    address = at.scheduler or _configured_address()
    if not address and at.scheduler_file is not None:
        try:
            address = str(json.loads(Path(at.scheduler_file).read_bytes())["address"])
        except FileNotFoundError:
            raise InputNotFoundError(f"scheduler file {at.scheduler_file} does not exist") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JobFileError(
                f"{at.scheduler_file} is not a scheduler file: {type(error).__name__}: {error}"
            ) from None
    return checked_url(address) if address else None


def _wait_for_a_worker(client: "Client") -> None:
    deadline = time.monotonic() + CLUSTER_PATIENCE.work
    ask = client.scheduler.identity
    while not client.sync(ask, n_workers=1, callback_timeout=CLUSTER_PATIENCE.work)["n_workers"]:
        if time.monotonic() > deadline:
            name = client.scheduler.address
            raise TemporaryError(
                f"scheduler {name} has no worker after {CLUSTER_PATIENCE.work:g} s: start a "
                "worker, then the same command"
            )
        time.sleep(0.1)


def _configured_address() -> str | None:
    if os.environ.get("DASK_SCHEDULER_ADDRESS"):
        return os.environ["DASK_SCHEDULER_ADDRESS"]
    folders = "/etc/dask", os.path.expanduser("~/.config/dask")
    configured = any(name.startswith("DASK_") for name in os.environ)
    if not configured and not any(map(os.path.isdir, folders)):  # importing Dask takes time
        return None
    try:
        import dask
    except ValueError as error:
        raise _ConfigurationError(
            f"{error}; mend that file, or set DASK_CONFIG to another folder"
        ) from None
    return dask.config.get("scheduler-address", None)


class _ConfigurationError(JobFileError):
    """A file of Dask's configuration can't be read."""
