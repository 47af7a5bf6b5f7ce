"""Finding a cluster, or starting one on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from distsvc.config import ClusterConfig
from distsvc.errors import InputNotFoundError, JobFileError, TemporaryError
from distsvc.run.progress import Progress

SMALL_BYTES = 64 * 2**20
"""Tables below this size are done in this process unless the job asks for workers."""

CONNECT_SECONDS = 30
NO_WORKERS_SECONDS = 120


@contextmanager
def connected(
    config: ClusterConfig,
    n_bytes: int,
    progress: Progress,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
) -> Iterator[Any]:
    """Yield a Dask client, or None where the work is done in this process.

    The cluster is, in this order: `scheduler`; the address in ``DASK_SCHEDULER_ADDRESS`` or Dask's
    configuration; `scheduler_file`; else workers on this machine, bound to loopback: as many as
    ``cluster.workers`` says, or none for a table below 64 MiB and one per processor above.

    Raises
    ------
    TemporaryError
        The scheduler does not answer, or has no worker and gets none.
    InputNotFoundError
        There is no such scheduler file.
    JobFileError
        The address or the scheduler file is not one of Dask's.

    """
    address = scheduler or _configured_address()
    if not address and scheduler_file is not None:
        address = _address_in(scheduler_file)
    workers = config.workers
    if workers is None:
        workers = 0 if n_bytes < SMALL_BYTES else os.cpu_count() or 1
    with ExitStack() as stack:
        with progress.phase("cluster"):
            if address or workers:
                client = stack.enter_context(_client(address, workers, config.threads))
                kind = "scheduler" if address else f"{workers} workers here"
                at = {"address": client.scheduler.address, "dashboard": client.dashboard_link}
            else:
                client, kind, at = None, "this process", {}
            progress.event("cluster", kind=kind, **at)
        yield client


@contextmanager
def _client(address: str | None, workers: int, threads: int) -> Iterator[Any]:
    """Yield the client of a scheduler, or of workers on this machine, once it has a worker."""
    import dask
    from distributed import Client

    with dask.config.set({"distributed.scheduler.no-workers-timeout": NO_WORKERS_SECONDS}):
        try:
            if address:
                client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
            else:
                client = Client(
                    n_workers=workers,
                    threads_per_worker=threads,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    set_as_default=False,
                )
        except (OSError, TimeoutError) as error:
            name = address or "on this machine"
            raise TemporaryError(f"no answer from scheduler {name}: {error}") from None
        except ValueError as error:
            raise JobFileError(f"{address} is not a scheduler's address: {error}") from None
        with client:
            _wait_for_a_worker(client)
            yield client


def _address_in(scheduler_file: str) -> str:
    try:
        return str(json.loads(Path(scheduler_file).read_bytes())["address"])
    except FileNotFoundError:
        raise InputNotFoundError(f"scheduler file {scheduler_file} does not exist") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JobFileError(
            f"{scheduler_file} is not a scheduler file: {type(error).__name__}: {error}"
        ) from None


def _wait_for_a_worker(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=NO_WORKERS_SECONDS)
    except TimeoutError:
        raise TemporaryError(
            f"scheduler {client.scheduler.address} has no worker after {NO_WORKERS_SECONDS} s"
        ) from None


def _configured_address() -> str | None:
    if os.environ.get("DASK_SCHEDULER_ADDRESS"):
        return os.environ["DASK_SCHEDULER_ADDRESS"]
    if not any(name.startswith("DASK_") for name in os.environ) and not _has_dask_files():
        return None
    import dask

    return dask.config.get("scheduler-address", None)


def _has_dask_files() -> bool:
    return any(os.path.isdir(path) for path in ("/etc/dask", os.path.expanduser("~/.config/dask")))
