"""A way back: what was published at an output before, published again."""

from __future__ import annotations

from contextlib import suppress

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.storage.places.arrays import read_json
from distsvc.storage.publishing.manifest import Manifest, checked, checked_form
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
            f"nothing that was published at {output.shown} before run {now} is kept there; a later "
            "night can go on from the output of another one: distsvc run JOB.toml --continue-from "
            "OUT"
        )
    return max(found, key=lambda one: one.created)
