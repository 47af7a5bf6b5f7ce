"""The published run that a run continues: its clusters keep their ids, or its model is used."""

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
    """A published run, and where its model can be read.

    `path` is as the job names it, and `address` where it is. `digest` is the SHA-256 of its model,
    whose files are in `folder`. At so many `nights`, earlier choices of the job, nothing is
    published.
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
        """What helps where it was published although checks failed; empty where none did."""
        if not self.manifest.override:
            return ""
        return (
            f"the run before, {self.path}, was published although checks failed: to leave it "
            f"behind: distsvc rollback {self.path} --withdraw, then run this night again"
        )

    def named(self) -> dict[str, str]:
        """Return its path, id and digest, for manifest and lineage."""
        return {"path": self.path, "run_id": self.run_id, "model_sha256": self.digest}

    def continued(self) -> ContinuedRun:
        """Return it as a run that is begun names it."""
        return ContinuedRun(**self.named(), address=self.address)


def find_previous(config: ContinuityConfig, required: bool) -> Previous | None:
    """Return the first run of ``continuity.previous`` that is published, or None.

    `InputNotFoundError` where none is, and one is `required`; `DataError` or `JobFileError` where
    it is damaged, or was published by another version.
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
    """Return the rows of a run and of those it continues, at most `n_runs`, the latest first.

    The list ends where a run is published no more.
    """
    earlier = earlier_runs(previous.manifest, n_runs - 1)
    return [previous.manifest.rows, *(manifest.rows for _, manifest in earlier)]


def labelled_by(job: Job, previous: Previous | None) -> Job:
    """Return the job with the columns of the model it begins by, and how these are prepared.

    Nothing is changed where it learns a model of its own at once.

    `JobFileError` where the job names columns, and not all of the model's.
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


def features_by(job: Job, previous: Previous | None) -> tuple[Feature, ...]:
    """Return the features of the model by which a job begins to label; none where it learns."""
    return () if previous is None or job.model.mode == "refit" else previous.features


def adopt(previous: Previous, run: RunDirectory, columns: list[str]) -> None:
    """Put the model of a run before into a run's directory; its table has `columns`.

    `DataError` where the table lacks some of the model's columns; names them.
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
