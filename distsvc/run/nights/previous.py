"""The previous run, whose cluster ids or model a run continues."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.job.config import ContinuityConfig, Job, PreprocessConfig, with_key
from distsvc.run.labelling.labeller import PREVIOUS
from distsvc.run.model.files import (
    ModelFile,
    checked_model,
    model_digest,
    read_model,
    restore_model,
)
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.lineages import earlier_runs
from distsvc.storage.publishing.manifest import ContinuedRun, Manifest, read_manifest
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import Feature, names_of


@dataclass(frozen=True)
class Previous:
    """A published run and its model.

    Attributes
    ----------
    path, address : str
        Its output as named in the job, and absolute.
    digest : str
        SHA-256 of the model, whose files are in `folder`.
    nights : int
        Number of later nights, named earlier in the job, at which nothing is published.

    """

    path: str
    address: str
    run_id: str
    digest: str
    folder: Path
    model: ModelFile
    manifest: Manifest
    nights: int

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of its model."""
        return self.model.learned_from

    @property
    def way_back(self) -> str:
        """Advice if it was published although checks failed, else empty."""
        if not self.manifest.override:
            return ""
        return (
            f"the run before, {self.path}, was published although checks failed: to leave it "
            f"behind: distsvc rollback {self.path} --withdraw, then run this night again"
        )

    def named(self) -> dict[str, str]:
        """Return path, id and digest for the manifest."""
        return {"path": self.path, "run_id": self.run_id, "model_sha256": self.digest}

    def continued(self) -> ContinuedRun:
        """Return its entry in the notes of a run that continues it."""
        return ContinuedRun(**self.named(), address=self.address)


def find_previous(config: ContinuityConfig, required: bool) -> Previous | None:
    """Return the first published run of ``continuity.previous``, if there is one.

    `InputNotFoundError` if none is published and one is `required`; `DataError` if it is damaged,
    `JobFileError` if it is of another version.
    """
    for nights, path in enumerate(config.previous):
        store = store_of(path)
        try:
            manifest = read_manifest(store)
        except InputNotFoundError:
            continue
        folder = checked_model(store, manifest)
        known = read_model(folder)
        where = path, store.address, manifest.run_id
        return Previous(*where, model_digest(folder), folder, known, manifest, nights)
    if required and config.previous:
        more = f" or at {len(config.previous) - 1} others" if len(config.previous) > 1 else ""
        raise InputNotFoundError(
            f"continuity.previous: no run is published at {config.previous[0]}{more}, whose model "
            "is to label the rows"
        )
    return None


def rows_of_runs(previous: Previous, n_runs: int) -> list[int]:
    """Return the rows of a run and of the runs that it continues, at most `n_runs` in all."""
    earlier = earlier_runs(previous.manifest, n_runs - 1)
    return [previous.manifest.rows, *(manifest.rows for _, manifest in earlier)]


def with_model_settings(job: Job, previous: Previous | None) -> Job:
    """Return the job with columns and preprocessing of the previous model, unless it refits.

    `JobFileError` if the job's columns lack one of the model's.
    """
    if previous is None or job.model.mode == "refit":
        return job
    own, columns = job.input.columns, tuple(feature.column for feature in previous.features)
    lacking = [name for name in columns if own is not None and name not in own]
    if lacking:
        raise JobFileError(
            f"input.columns: expected all columns of the model of {previous.path}, by which rows "
            f"are labelled; missing: {truncated([repr(name) for name in lacking])}"
        )
    job = with_key(job, "input", "columns", columns)
    preprocess = PreprocessConfig.model_validate(previous.model.preprocess)
    for key in "missing", "missing_values", "log", "encode":
        job = with_key(job, "preprocess", key, getattr(preprocess, key))
    return job


def model_features(job: Job, previous: Previous | None) -> tuple[Feature, ...]:
    """Return the features of the previous model, none if the job refits."""
    return () if previous is None or job.model.mode == "refit" else previous.features


def adopt(previous: Previous, run: RunDirectory, columns: list[str]) -> None:
    """Write the previous model as results of a run whose table has `columns`.

    `DataError` names columns of the model that the table lacks.
    """
    missing = [name for name in names_of(previous.features) if name not in columns]
    if missing:
        one = len(missing) == 1
        raise DataError(
            f"continuity.previous: the model of {previous.path} needs the column"
            f"{'' if one else 's'} {', '.join(map(repr, missing[:20]))}, which "
            f"{'is' if one else 'are'} not among the {len(columns)} that are clustered"
        )
    restore_model(previous.model, previous.folder, run, PREVIOUS)
