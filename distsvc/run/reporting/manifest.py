"""The manifest of a run: what was made from what, and every file with its size and checksum."""

from __future__ import annotations

import datetime
import logging
import platform
from importlib.metadata import version
from typing import Any

from distsvc import __version__
from distsvc.errors import CheckFailedError, TemporaryError
from distsvc.job.config import Job
from distsvc.report.content.report import Report
from distsvc.run.labelling.columns import schema
from distsvc.run.labelling.counts import Counts
from distsvc.run.labelling.phase import Labelled
from distsvc.run.starting.opening import Opened
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.publishing.columns import described
from distsvc.storage.publishing.formats import output_format
from distsvc.storage.publishing.manifest import FORMAT
from distsvc.storage.publishing.publication import COPIES, PLACES
from distsvc.storage.tables.opening import check_unchanged

PAGE = COPIES[0]
_LOG = logging.getLogger("distsvc")
PACKAGES = ("numpy", "numba", "pyarrow", "scikit-learn", "zarr")


def publish(found: Opened, labelled: Labelled, report: Report) -> None:
    """Make the manifest of a run, and publish what it lists, if the table is as it was.

    Raises
    ------
    CheckFailedError
        A check of the job failed: the run is kept, and not published.

    """
    check_unchanged(found.table)
    manifest = make_manifest(found.run, found.job, found.digest, found.inputs, labelled)
    manifest["checks"] = [check.model_dump() for check in report.checks]
    if found.previous is not None:
        manifest["previous"] = found.previous.named()
    if report.failed:
        for gone in found.output.hold(manifest):
            _LOG.info("older candidate given up", extra={"fields": {"run": gone}})
        failed = "; ".join(check.words for check in report.failed)
        run_id, shown = found.run.name, found.output.shown
        error = CheckFailedError(
            f"run {run_id} is held back: {failed}. What was published in {shown} stays. See "
            f"{shown}/{found.run.folder('report')}/{PAGE}; to publish it all the same: distsvc "
            f"publish {shown} --held {run_id}"
        )
        error.report = report
        raise error
    found.output.publish(manifest)


def make_manifest(
    run: RunDirectory, job: Job, job_sha256: str, input_sha256: str, labelled: Labelled
) -> dict[str, Any]:
    """Return the content of ``manifest.json`` for the files that a run has written."""
    counts = labelled.counts
    return {
        "format": FORMAT,
        "run_id": run.name,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "job_sha256": job_sha256,
        "input_sha256": input_sha256,
        "job": job.model_dump(mode="json", exclude={"cluster"}, exclude_none=True),
        "rows": counts.n_rows,
        "clusters": len(counts.sizes),
        "schema": schema(run, labelled.labeller.rule),
        "files": _files(run, counts),
        "versions": {"distsvc": __version__, "python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
    }


def _files(run: RunDirectory, counts: Counts) -> list[dict[str, Any]]:
    """Return what the manifest says of every file that a run has written.

    Raises
    ------
    TemporaryError
        A part of the labels is not there any more, or is another.

    """
    known = {f"{run.folder('labels')}/{part['file']}": part for part in counts.parts}
    files = []
    for kind in PLACES:
        for name, n_bytes in run.output.sizes(run.folder(kind)).items():
            part = known.pop(name, None)
            if part is None:
                files.append({"file": name} | described(run.output.local(name)))
            elif part["bytes"] == n_bytes:
                files.append(part | {"file": name})
            else:
                raise TemporaryError(f"{name} has {n_bytes} bytes, and had {part['bytes']}")
    if known and output_format(run.plan.output.format).publishes_parts:
        raise TemporaryError(f"{min(known)} has gone from {run.output.address}")
    return files
