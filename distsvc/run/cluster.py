"""Finding a cluster, or starting one on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distsvc.config import ClusterConfig
from distsvc.errors import InputNotFoundError, TemporaryError
from distsvc.run.progress import Progress

SMALL_BYTES = 64 * 2**20
"""Tables below this size are done in this process unless the job asks for workers."""

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
        The scheduler does not answer.
    InputNotFoundError
        There is no such scheduler file.

    """
    address = scheduler or _configured_address()
    if scheduler_file is not None and not address and not os.path.exists(scheduler_file):
        raise InputNotFoundError(f"scheduler file {scheduler_file} does not exist")
    workers = config.workers
    if workers is None:
        workers = 0 if n_bytes < SMALL_BYTES else os.cpu_count() or 1
    if not address and scheduler_file is None and workers == 0:
        progress.event("cluster", kind="this process")
        yield None
        return
    import dask
    from distributed import Client

    with dask.config.set({"distributed.scheduler.no-workers-timeout": NO_WORKERS_SECONDS}):
        try:
            if address:
                client = Client(address, timeout="30s", set_as_default=False)
            elif scheduler_file is not None:
                client = Client(scheduler_file=scheduler_file, timeout="30s", set_as_default=False)
            else:
                client = Client(
                    n_workers=workers,
                    threads_per_worker=config.threads,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    set_as_default=False,
                )
        except (OSError, TimeoutError) as error:
            raise TemporaryError(f"no answer from scheduler {address}: {error}") from None
        with client:
            kind = "scheduler" if address or scheduler_file else f"{workers} workers here"
            where = client.scheduler.address
            progress.event("cluster", kind=kind, address=where, dashboard=client.dashboard_link)
            yield client


def _configured_address() -> str | None:
    if os.environ.get("DASK_SCHEDULER_ADDRESS"):
        return os.environ["DASK_SCHEDULER_ADDRESS"]
    if not any(name.startswith("DASK_") for name in os.environ) and not _has_dask_files():
        return None
    import dask

    return dask.config.get("scheduler-address", None)


def _has_dask_files() -> bool:
    return any(os.path.isdir(path) for path in ("/etc/dask", os.path.expanduser("~/.config/dask")))
