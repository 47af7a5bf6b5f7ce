"""Beginning a run, or going on with it: the output is held, and has not the same already."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from distsvc.errors import JobFileError, ParameterError
from distsvc.run.starting.resuming import Asked, Attempt, note_death, run_directory
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.progress import Progress
from distsvc.storage.publishing.publication import Output
from distsvc.storage.tables.opening import fingerprint, open_table

__all__ = ["Asked", "Begun", "begun", "naming_the_section"]


@dataclass(frozen=True)
class Begun:
    """A run's directory, and where it is published, which is held."""

    run: RunDirectory
    output: Output


@contextmanager
def begun(
    output: Output, asked: Asked, overwrite: bool, progress: Progress
) -> Iterator[Begun | None]:
    """Hold an output and yield a run in it, or None where the run is published already.

    Errors as in `Output.locked`, `Output.check_free` and `run_directory`.
    """
    job, digest, attempt = asked.job, asked.digest, Attempt(progress)
    for path in job.input.paths:
        output.check_apart(path)
    if _is_published(output, asked):
        yield None
        return
    _check_free(output, asked, overwrite)  # before anything is made
    with output.locked(digest, overwrite, attempt.doing) as before:
        if _is_published(output, asked):  # in the meantime
            yield None
            return
        _check_free(output, asked, overwrite)
        note_death(output, before)
        with run_directory(output, asked, attempt, progress) as run:
            yield Begun(run, output)


def _check_free(output: Output, asked: Asked, overwrite: bool) -> None:
    """Check that the output is free; what is there and was made from it may be this job's, too."""
    own = asked.also if output.holds(asked.also) else asked.digest
    output.check_free(own, overwrite)


def _is_published(output: Output, asked: Asked) -> bool:
    """Return whether the run is published already; the output need not be writable then."""
    digest = next((one for one in (asked.digest, asked.also) if one and output.holds(one)), None)
    if digest is None:
        return False
    with tempfile.TemporaryDirectory() as staging:
        job = asked.job
        inputs = fingerprint(open_table(job.input, staging, job.preprocess, kept=asked.kept))
    if not output.holds(digest, inputs):
        return False
    output.mend()
    return True


@contextmanager
def naming_the_section() -> Iterator[None]:
    """Say that a parameter that is not allowed is one of the job file's ``[model]``."""
    try:
        yield
    except ParameterError as error:
        raise JobFileError(f"model: {error}") from error
