"""Publish the previous result of an output again, or withdraw the present one."""

from __future__ import annotations

from contextlib import suppress

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.storage.places.arrays import read_json
from distsvc.storage.publishing.lineages import later_runs
from distsvc.storage.publishing.manifest import (
    Manifest,
    checked,
    checked_form,
    read_manifest,
)
from distsvc.storage.publishing.publication import REPLACED, Output


def roll_back(path: str) -> Manifest:
    """Publish the replaced run of an output again; return its manifest.

    The files of a replaced run stay until another run is published there, or `gc` tidies the
    output. So a second call undoes the first.

    Raises
    ------
    InputNotFoundError
        Nothing is published at `path`, or no replaced run is left.
    DataError
        A file of the replaced run differs from its manifest.
    TemporaryError, OutputPermissionError
        Another run holds the output, or it can't be written.

    """
    output = Output(path)
    _replaced(output)  # raises before anything is written
    with output.locked():
        replaced = _replaced(output)
        for file in replaced.files:
            checked(output.store, file)
        output.check_free(replaced.job_sha256, overwrite=True)
        return output.publish(replaced, again=True)


def withdraw(path: str) -> tuple[Manifest, list[str]]:
    """Publish nothing at an output; its run becomes a candidate, which can be published again.

    Later nights continue the night before it, except those that are published already.

    Returns
    -------
    Manifest
        That of the run.
    list of str
        The dates and addresses of published runs that continue it, the oldest first.

    Raises
    ------
    InputNotFoundError
        No run is published at `path`.
    TemporaryError, OutputPermissionError
        Another run holds the output, or it can't be written.

    """
    output = Output(path)
    if not output.run_id:
        raise InputNotFoundError(f"no run is published at {output.shown}")
    with output.locked():
        manifest = read_manifest(output.store)
        later = later_runs(output.store.address, manifest)
        output.withdraw(manifest)
    return manifest, [f"{one.run_date} ({address})" for address, one in later]


def _replaced(output: Output) -> Manifest:
    """Return the manifest of the run that was replaced last."""
    now = output.run_id
    if not now:
        raise InputNotFoundError(f"no run is published at {output.shown}")
    found = []
    for record in output.runs.sizes(REPLACED):
        with suppress(DataError, JobFileError, OSError):
            one = checked_form(read_json(output.runs.local(record)), record)
            if one.run_id != now and all(map(output.store.has, one.lasting)):
                found.append(one)
    if not found:
        raise InputNotFoundError(
            f"{output.shown} has no earlier result than run {now} to roll back to; to publish "
            "nothing there, so that later nights go on from the night before: distsvc rollback "
            f"{output.shown} --withdraw"
        )
    return max(found, key=lambda one: one.created)
