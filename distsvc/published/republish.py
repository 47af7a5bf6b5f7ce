"""Publish a candidate, roll back to a replaced run, or withdraw the published run.

Nothing is computed. A candidate is a run that a check held back, or that was withdrawn.
"""

from contextlib import suppress
from typing import NamedTuple

from distsvc.errors import DataError, InputNotFoundError, JobFileError, shown
from distsvc.report.content.report import Report
from distsvc.run.reporting.files import page_of
from distsvc.storage.places.arrays import json_bytes, read_json
from distsvc.storage.publishing.lineages import passing_runs, successors
from distsvc.storage.publishing.manifest import (
    PAGE,
    REPORT,
    Manifest,
    checked,
    listed_file,
    read_manifest,
)
from distsvc.storage.publishing.publication import Output
from distsvc.storage.rows.columns import truncated


class LaterNight(NamedTuple):
    """A later night that depends on a given run."""

    date: str
    address: str
    is_held: bool  # whether the run is a candidate; otherwise it is published


def publish_held(path: str, run_id: str) -> Manifest:
    """Publish the candidate `run_id` of the output `path`; return its manifest.

    If checks failed, the run's page and report warn of these checks. Other candidates of the output
    are dropped. Nothing changes if the run is published already. `InputNotFoundError` is raised if
    no candidate has this id. `DataError` is raised if a file of the candidate is missing or
    damaged.
    """
    output = Output(path)
    if output.run_id != run_id:
        _candidate(output, run_id)  # raises before anything is written
    with output.locked():
        if output.run_id == run_id:
            output.finish()
            return read_manifest(output.store)
        manifest = _candidate(output, run_id)
        for file in manifest.files:
            checked(output.store, file)
        with output.rewritten(manifest, _overridden(output, manifest)) as changed:
            output.check_free(manifest.job_sha256, overwrite=True)
            override = {"override": bool(manifest.failed)}
            return output.publish(changed.model_copy(update=override), again=True)


def continues_gone(manifest: Manifest) -> str:
    """Return a warning if a run continues a run that is no longer published, else empty text."""
    before = manifest.previous
    if before is None:
        return ""
    with suppress(DataError, JobFileError, InputNotFoundError, OSError):
        if Output(before.path).run_id == before.run_id:
            return ""
    return (
        f"this run continues run {before.run_id}, which is no longer published at {before.path}: "
        "cluster ids may differ from the ids of other nights; to get equal ids, run the night again"
    )


def passing_nights(path: str, manifest: Manifest) -> list[LaterNight]:
    """Return the later nights that skipped the run at the output `path`, the oldest first.

    These nights continue an earlier run instead, directly or through other nights. `manifest` is
    the manifest of the skipped run.
    """
    found = passing_runs(Output(path).store.address, manifest.lineage, manifest.run_date)
    return [LaterNight(one.run_date, address, is_held=False) for address, one in found]


def lines_on_ended(report: Report) -> list[str]:
    """Return a warning, in a list, if a run continues less than half of the earlier cluster ids.

    Ids end if a column has a new unit, for example. The list is empty if more ids continue.
    """
    stories = report.lineage.clusters if report.lineage else []
    ended = [one.id for one in stories if one.has_ended]
    if 2 * len(ended) <= sum(not one.is_new for one in stories):
        return []
    named = [f"{k} ({report.names[str(k)]})" if str(k) in report.names else str(k) for k in ended]
    return [
        f"warning: the cluster ids {truncated(named)} end here, with their names in [names]; if a "
        "column has a new unit, convert the column back. To keep the ids, run the night again with "
        "--overwrite"
    ]


def _overridden(output: Output, manifest: Manifest) -> dict[str, str]:
    """Return a candidate's page and report by file name, with a warning if checks failed."""
    place = output.store
    path = place.local(listed_file(place, manifest, REPORT).stored)
    report = Report.parsed(read_json(path), str(path))
    expected, found = (sorted({check.name for check in one.failed}) for one in (report, manifest))
    if expected != found:
        raise DataError(
            f"manifest of candidate {manifest.run_id}: expected the failed checks as in the "
            f"report, {shown(expected)}, found {shown(found)}"
        )
    failed = "; ".join(check.words for check in report.failed)
    warning = f"published although these checks failed: {failed}"
    warnings = [warning] if failed and warning not in report.warnings else []
    changes = {"held": False, "publish_command": None, "warnings": [*warnings, *report.warnings]}
    report = report.model_copy(update=changes)
    return {PAGE: page_of(report), REPORT: json_bytes(report.model_dump()).decode()}


def waiting_at(output: Output) -> dict[str, Manifest]:
    """Return the manifests of the runs that are held back at an output, by run id, oldest first."""
    # A killed process may not have removed the published run from the candidates.
    published, found = output.run_id, output.candidates().items()
    ordered = sorted(found, key=lambda pair: (pair[1].created, pair[0]))
    return {name: one for name, one in ordered if name != published}


def _candidate(output: Output, run_id: str) -> Manifest:
    held = waiting_at(output)
    if run_id not in held:
        known = f"held back are {', '.join(sorted(held))}" if held else "none is held back there"
        raise InputNotFoundError(f"no candidate {run_id} is held back at {output.shown}: {known}")
    return held[run_id]


def roll_back(path: str) -> tuple[Manifest, list[LaterNight]]:
    """Publish again the run that was replaced last at the output `path`.

    Return the manifest of this run, and the nights that continue the run published until now, the
    oldest first. Candidates of the output are dropped. A second call undoes the first: the files of
    a replaced run stay until another run is published. `InputNotFoundError` is raised if nothing is
    published at `path` or no replaced run is left. `DataError` is raised if a file of the replaced
    run is damaged.
    """
    output = Output(path)
    _replaced(output)  # raises before anything is written
    with output.locked():
        replaced = _replaced(output)
        for file in replaced.files:
            checked(output.store, file)
        output.check_free(replaced.job_sha256, overwrite=True)
        later = _later_nights(output, read_manifest(output.store))
        return output.publish(replaced, again=True), later


def withdraw(path: str) -> tuple[Manifest, list[LaterNight]]:
    """Withdraw the published run of the output `path`, so that no run is published there.

    The run becomes a candidate, which can be published again. Return the run's manifest, and the
    nights that continue the run, the oldest first. A night continues the run by its published run
    or by a candidate. These nights don't change. `InputNotFoundError` is raised if no run is
    published.
    """
    output = Output(path)
    if not output.run_id:
        raise InputNotFoundError(f"no run is published at {output.shown}")
    with output.locked():
        manifest = read_manifest(output.store)
        later = _later_nights(output, manifest)
        output.withdraw(manifest)
    return manifest, later


def _later_nights(output: Output, manifest: Manifest) -> list[LaterNight]:
    """Return the nights whose published run or candidate continues the run with this manifest."""
    later = []
    for address, run_id, one in successors(output.store.address, manifest):
        with suppress(DataError, InputNotFoundError, JobFileError, OSError):  # unreadable
            other = Output(address)
            is_held = run_id in waiting_at(other)
            if other.store.address != output.store.address and (is_held or other.run_id == run_id):
                later.append(LaterNight(one.run_date, address, is_held))
    return later


def _replaced(output: Output) -> Manifest:
    """Return the manifest of the run that was replaced last; raise if there is none."""
    now = output.run_id
    if not now:
        raise InputNotFoundError(f"no run is published at {output.shown}")
    others = [one for one in output.replaced() if one.run_id != now]
    found = [one for one in others if all(map(output.store.has, one.stored))]
    if not found:
        raise InputNotFoundError(
            f"{output.shown} has no earlier result than run {now}. To withdraw run {now}, so that "
            "later nights continue the night before: distsvc rollback "
            f"{output.shown} --withdraw"
        )
    return max(found, key=lambda one: one.created)
