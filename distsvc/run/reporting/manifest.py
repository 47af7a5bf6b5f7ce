"""The manifest of a run: its job, its input, and every file with its size and checksum."""

from __future__ import annotations

import datetime
import logging
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from distsvc import __version__
from distsvc.errors import CheckFailedError, OutputPermissionError
from distsvc.job.config import Job
from distsvc.report.content.report import Report
from distsvc.run.labelling.columns import schema
from distsvc.run.labelling.counts import Counts
from distsvc.run.labelling.phase import Labelled, label_files
from distsvc.run.starting.opening import Opened
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.places.arrays import described
from distsvc.storage.publishing.manifest import (
    COPIES,
    FORMAT,
    STORED,
    CheckRecord,
    Continued,
    ListedFile,
    Manifest,
)
from distsvc.storage.tables.opening import check_unchanged

PAGE = COPIES[0]
_LOG = logging.getLogger("distsvc")
PACKAGES = ("numpy", "numba", "pyarrow", "scikit-learn", "zarr")


def publish(opening: Opened, labelled: Labelled, report: Report) -> None:
    """Make the manifest of a run, and publish its files, if the table has not changed.

    `CheckFailedError` where a check of the job failed: the run is kept, and not published.
    """
    check_unchanged(opening.table)
    manifest = make_manifest(opening.run, opening.job, opening.digest, opening.inputs, labelled)
    checks = [CheckRecord.model_validate(check.model_dump()) for check in report.checks]
    manifest = manifest.model_copy(update={"checks": checks})
    if opening.previous is not None:
        previous = Continued(**opening.previous.named())
        manifest = manifest.model_copy(update={"previous": previous})
    if opening.lineage is not None:
        manifest = manifest.model_copy(update={"lineage": opening.lineage.named()})
        with suppress(OutputPermissionError):  # ids that could not be claimed are told
            opening.lineage.enter()
    if report.failed:
        for gone in opening.output.hold(manifest):
            _LOG.info("older candidate given up", extra={"fields": {"run": gone}})
        failed = "; ".join(check.words for check in report.failed)
        run, shown = opening.run, opening.output.shown
        back = opening.previous.way_back if opening.previous else ""
        page = f"{shown.rstrip('/')}/{STORED}/{run.name}/{run.folder('report')}/{PAGE}"
        error = CheckFailedError(
            f"run {run.attempt} is held back: {failed}. {_stays(opening)} See {page}. If the input "
            "is wrong, mend it and run the night again; to publish it all the same: distsvc "
            f"publish {shown} --held {run.attempt}{back and f'; {back}'}"
        )
        error.report, error.page = report, page
        raise error
    opening.output.publish(manifest)


def _stays(opening: Opened) -> str:
    """Return the sentence on what readers of the output find."""
    shown = opening.output.shown
    if opening.output.run_id:
        return f"What was published in {shown} stays."
    return f"Nothing is published in {shown}."


def make_manifest(
    run: RunDirectory, job: Job, job_sha256: str, input_sha256: str, labelled: Labelled
) -> Manifest:
    """Return the manifest for the files that a run has written."""
    counts = labelled.counts
    return Manifest(
        format=FORMAT,
        run_id=run.attempt,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        job_sha256=job_sha256,
        input_sha256=input_sha256,
        job=job.model_dump(mode="json", exclude={"cluster"}, exclude_none=True),
        rows=counts.n_rows,
        clusters=counts.n_clusters,
        schema=schema(run, labelled.labeller.rule),
        files=_files(run, counts),
        versions={"distsvc": __version__, "python": platform.python_version()}
        | {name: found for name in PACKAGES if (found := _version(name))},
    )


def _files(run: RunDirectory, counts: Counts) -> list[ListedFile]:
    """Return the entries of all files that a run has written; errors as in `label_files`."""
    found = {f"labels/{run.attempt}/{n}": one for n, one in label_files(run, counts).items()}
    for kind in ("model", "report"):
        place = run.place(kind)
        for name in place.sizes():
            entry = {"stored": f"{run.folder(kind)}/{name}", **described(place.local(name))}
            found[f"{kind}/{run.attempt}/{name}"] = entry
    below = f"{STORED}/{run.name}"
    return [
        ListedFile.model_validate({**one, "file": name, "stored": f"{below}/{one['stored']}"})
        for name, one in found.items()
    ]


def _version(package: str) -> str:
    """Return the version of a package, nothing of one that comes with an extra that is not here."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
