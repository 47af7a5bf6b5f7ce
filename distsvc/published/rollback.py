"""Two ways back: publish the previous result of an output again, or withdraw the present one."""

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
    """Publish the run that the one at an output has replaced; return its manifest.

    Its files stay until another run is published there, or `gc` tidies the output. What is
    published now is kept likewise, so that a second call undoes the first.

    Raises
    ------
    InputNotFoundError
        Nothing is published at `path`, or nothing that it replaced is kept.
    DataError
        A file of the run before is not as its manifest lists it.
    TemporaryError, OutputPermissionError
        Another run holds the output, or it can't be written.

    """
    output = Output(path)
    _before(output)  # before anything is written
    with output.locked():
        before = _before(output)
        for file in before.files:
            checked(output.store, file)
        output.check_free(before.job_sha256, overwrite=True)
        return output.publish(before, again=True)


def withdraw(path: str) -> tuple[Manifest, list[str]]:
    """Publish nothing at an output; its run becomes a candidate, which can be published again.

    Later nights go on from the night before it, as if it had not been published. Those that went on
    from it already stay as they are.

    Returns
    -------
    Manifest
        That of the run.
    list of str
        The dates and addresses of the published runs that went on from it, the oldest first.

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


def _before(output: Output) -> Manifest:
    """Return the manifest of the run that the one at an output has replaced."""
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
