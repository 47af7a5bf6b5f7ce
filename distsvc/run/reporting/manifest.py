"""The manifest of a run: its job, its input, and every file with its size and checksum."""

import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from distsvc import __version__
from distsvc.errors import CheckFailedError, DistsvcError, OutputPermissionError
from distsvc.job.config import Job
from distsvc.report.content.report import Report
from distsvc.run.labelling.columns import schema
from distsvc.run.labelling.phase import Labelled, label_files
from distsvc.run.nights.continuity import Previous
from distsvc.run.starting import RunContext
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.progress import LOG, now_text
from distsvc.storage.places.arrays import file_facts
from distsvc.storage.publishing.manifest import (
    FORMAT,
    PAGE,
    STORED,
    CheckRecord,
    ContinuedRun,
    ListedFile,
    Manifest,
)
from distsvc.storage.publishing.publication import Output
from distsvc.storage.rows.columns import truncated
from distsvc.storage.tables.opening import check_unchanged

PACKAGES = ("numpy", "numba", "pyarrow", "scikit-learn", "zarr")


def publish(context: RunContext, labelled: Labelled, report: Report) -> None:
    """Publish a run, unless a check failed.

    If a check failed, keep the result as a candidate, and raise `CheckFailedError`. If the table
    has changed since it was read, raise `DataError`.
    """
    run, output, previous = context.run, context.output, context.previous
    check_unchanged(run.plan.table)
    more: dict[str, object] = {
        "checks": [CheckRecord.model_validate(check.model_dump()) for check in report.checks]
    }
    if previous is not None:
        more["previous"] = ContinuedRun(**previous.named())
    if context.lineage is not None:
        more["lineage"] = context.lineage.named()
    manifest = make_manifest(run, context.job, context.digest, context.inputs, labelled)
    manifest = manifest.model_copy(update=more)
    if context.lineage is not None:
        with suppress(OutputPermissionError):  # the report has a warning
            context.lineage.enter()
    if not report.failed:
        output.publish(manifest)
        return
    for removed in output.hold(manifest):
        LOG.info("older candidate given up", extra={"fields": {"run": removed}})
    shown, failed = output.shown, "; ".join(check.words for check in report.failed)
    stays = f"Nothing is published in {shown}."
    if output.run_id:
        stays = f"The earlier result in {shown} stays published."
    goes_on = _continued_night(context.job.continuity.previous, previous)
    back = previous.way_back(output.shown) if previous else ""
    page = f"{shown.rstrip('/')}/{STORED}/{run.name}/{run.folder('report')}/{PAGE}"
    error = CheckFailedError(
        f"run {run.attempt} is held back: {failed}. {goes_on}{stays} See {page}. If "
        "the input is wrong, mend it and run the night again; to publish this result all the same: "
        f"distsvc publish {shown} --held {run.attempt}{back and f'; {back}'}"
    )
    error.report, error.page = report, page
    raise error


def _continued_night(paths: Sequence[str], previous: Previous | None) -> str:
    """Return a sentence on the night that a run continues, and on withdrawn nights; or ""."""
    withdrawn = []
    for path in paths[: previous.nights if previous else None]:
        with suppress(DistsvcError, OSError):  # unreadable
            found = Output(path).candidates().values()
            withdrawn += [path] if any(one.override or not one.failed for one in found) else []
    since = f"{truncated(withdrawn, 3)} {'was' if len(withdrawn) == 1 else 'were'} withdrawn"
    if previous is None:
        return f"This run continues no night: {since}. " if withdrawn else ""
    return f"This run continues {previous.path}{f', since {since}' if withdrawn else ''}. "


def make_manifest(
    run: RunDirectory, job: Job, job_sha256: str, input_sha256: str, labelled: Labelled
) -> Manifest:
    """Return the manifest of the files that a run has written."""
    counts = labelled.counts
    packages = {"distsvc": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):  # of an extra that is not installed
            packages[name] = version(name)
    found = {f"labels/{run.attempt}/{n}": one for n, one in label_files(run, counts).items()}
    for kind in ("model", "report"):
        place = run.place(kind)
        for name in place.sizes():
            entry = {"stored": f"{run.folder(kind)}/{name}", **file_facts(place.local(name))}
            found[f"{kind}/{run.attempt}/{name}"] = entry
    below = f"{STORED}/{run.name}"
    files = [
        ListedFile.model_validate({**one, "file": name, "stored": f"{below}/{one['stored']}"})
        for name, one in found.items()
    ]
    return Manifest(
        format=FORMAT,
        run_id=run.attempt,
        created=now_text(),
        job_sha256=job_sha256,
        input_sha256=input_sha256,
        job=job.model_dump(mode="json", exclude={"cluster"}, exclude_none=True),
        rows=counts.n_rows,
        clusters=counts.n_clusters,
        schema=schema(run, labelled.labeller.rule),
        files=files,
        versions=packages,
    )
