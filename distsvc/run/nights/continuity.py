"""The previous run, and cluster ids that continue from earlier runs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from distsvc.errors import DataError, InputNotFoundError, JobFileError, OutputPermissionError
from distsvc.job.config import ContinuityConfig, Job, PreprocessConfig, with_key
from distsvc.models.automatic.previous import PreviousAnswer
from distsvc.models.nights.continuity import (
    MATCHED_ROWS,
    LabelOverlap,
    Return,
    match_clusters,
    match_returned,
    rows_in_ranges,
)
from distsvc.models.nights.drift import counts_between, unit_factors
from distsvc.models.rows.scaling import MAX_ROW_LENGTH
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.run.labelling.labeller import COUNTED, PREVIOUS, RULE, Labeller
from distsvc.run.learning.preparation import PREPARATION, Preparation
from distsvc.run.learning.stream import last_key_of, raw_sample
from distsvc.run.learning.survey import Survey
from distsvc.run.model.files import (
    ModelFile,
    checked_model,
    model_digest,
    read_model,
    restore_model,
)
from distsvc.run.nights.members import Members, members_of
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Steps
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.lineages import Lineage, earlier_runs
from distsvc.storage.publishing.manifest import ContinuedRun, Manifest, read_manifest
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import Feature, names_of


@dataclass(frozen=True)
class Previous:
    """A published run and its model."""

    path: str  # output as named in the job
    address: str  # absolute path or URL
    run_id: str
    digest: str  # SHA-256 of the model, whose files are in `folder`
    folder: Path
    model: ModelFile
    manifest: Manifest
    nights: int  # paths in ``continuity.previous`` that were skipped, since no run is there

    @property
    def features(self) -> tuple[Feature, ...]:
        return self.model.learned_from

    def way_back(self, output: str) -> str:
        """Return advice to withdraw this run if it was published despite failed checks, else "".

        If the next run has the same `output`, the advice is to roll back instead.
        """
        if not self.manifest.override:
            return ""
        is_own = store_of(output).address == self.address
        return (
            f"the run before, {self.path}, was published although checks failed; to undo this: "
            f"distsvc rollback {self.path}{'' if is_own else ' --withdraw'}, then run this night "
            "again"
        )

    def named(self) -> dict[str, str]:
        return {"path": self.path, "run_id": self.run_id, "model_sha256": self.digest}

    def continued(self) -> ContinuedRun:
        """Return the record of this run for a run that continues it."""
        return ContinuedRun(**self.named(), address=self.address)


def find_previous(config: ContinuityConfig, required: bool) -> Previous | None:
    """Return the first published run in ``continuity.previous``, or None if there is none.

    If a run is `required`, raise `InputNotFoundError` instead of returning None.
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
        raise InputNotFoundError(
            f"continuity.previous: no run is published at {truncated(config.previous, 1)}; "
            "model.mode = 'assign' needs its model"
        )
    return None


def with_model_settings(job: Job, previous: Previous | None) -> Job:
    """Return the job with the previous model's columns, missing values, logarithms and encodings.

    Without a previous model, or if the job refits, return the job unchanged.
    """
    if previous is None or job.model.mode == "refit":
        return job
    own, columns = job.input.columns, tuple(feature.column for feature in previous.features)
    lacking = [name for name in columns if own is not None and name not in own]
    if lacking:
        raise JobFileError(
            f"input.columns: expected all columns of the model of {previous.path}, which labels "
            f"the rows; missing: {truncated([repr(name) for name in lacking])}"
        )
    job = with_key(job, "input", "columns", columns)
    for key, value in _preprocessing(previous).items():
        job = with_key(job, "preprocess", key, value)
    return job


def ignored_settings(job: Job, previous: Previous | None) -> list[str]:
    """Return warnings about keys that a job sets and `with_model_settings` replaces."""
    if previous is None or job.model.mode == "refit":
        return []
    own = job.preprocess.model_dump(mode="json", exclude_unset=True)
    fitted = PreprocessConfig(**_preprocessing(previous)).model_dump(mode="json")
    return [
        f"preprocess.{key} = {own[key]!r} is ignored: the model of {previous.path} was fitted with "
        f"{fitted[key]!r}; to use {own[key]!r}, run one night with model.mode = 'refit'"
        for key in _preprocessing(previous)
        if key in own and own[key] != fitted[key]
    ]


def _preprocessing(previous: Previous) -> dict[str, Any]:
    """Return the settings in ``[preprocess]`` that a run takes over from the previous model."""
    preprocess = PreprocessConfig.model_validate(previous.model.preprocess)
    return {key: getattr(preprocess, key) for key in ("missing", "missing_values", "log", "encode")}


def adopt(previous: Previous, run: RunDirectory) -> None:
    """Write the previous model as results of a run; `DataError` if it does not fit the table."""
    table = run.plan.table
    missing = [name for name in names_of(previous.features) if name not in table.columns]
    if missing:
        one = len(missing) == 1
        raise DataError(
            f"continuity.previous: the model of {previous.path} needs the column"
            f"{'' if one else 's'} {', '.join(map(repr, missing[:20]))}, which {table.shown} lacks "
            f"among its {len(table.columns)} features"
        )
    now = {one.column: one.meaning for one in table.features}
    for before in previous.features:
        if now[before.column] != before.meaning:
            raise DataError(
                f"column {before.column!r} of {table.shown} is read as {now[before.column]}; the "
                f"previous run, {previous.path}, read it as {before.meaning}: give the column its "
                "previous type, or its previous kind in [columns], or remove continuity.previous, "
                "so that cluster ids start at 0"
            )
    restore_model(previous.model, previous.folder, run, PREVIOUS)


LINEAGE = "lineage"
UNCLAIMED = "unclaimed"
"""Name under which a result stores the error if ids of new clusters could not be reserved."""


def ids_of(
    steps: Steps,
    rule: Rule,
    survey: Survey,
    config: ContinuityConfig,
    lineage: Lineage | None = None,
    previous: Previous | None = None,
) -> tuple[np.ndarray, int]:
    """Return the ids (k,) of a rule's clusters, and the next unused id.

    A cluster that matches a cluster of an earlier run gets that cluster's id.
    """
    run = steps.run
    if not run.has(PREVIOUS + RULE):
        if lineage is not None:
            with suppress(OutputPermissionError):  # a later run claims ids above its own
                lineage.claim(rule.n_clusters, 0)
        return np.arange(rule.n_clusters, dtype=np.int32), rule.n_clusters
    if not run.has(LINEAGE):
        last_key, members = last_key_of(run, survey.n_rows, MATCHED_ROWS), None
        if previous is not None:
            published = previous.manifest, store_of(previous.address)
            members = members_of(steps, *published, last_key)
        with steps.progress.phase("match"):
            ClusterMatching(run, rule, last_key, config, members).write(lineage)
    found = run.read(LINEAGE)
    return found.arrays["ids"], found.facts["next_id"]


@dataclass(frozen=True)
class ClusterMatching:
    """Matches the clusters of a rule with clusters of earlier models, on rows of the sample."""

    run: RunDirectory
    rule: Rule
    last_key: int  # the highest key of the rows
    config: ContinuityConfig
    members: Members | None = None

    def write(self, lineage: Lineage | None) -> None:
        """Write the ids of the clusters, and what became of the previous run's clusters."""
        before = Labeller.read(self.run, PREVIOUS)
        ids_before = before.ids.tolist()
        shared, members, scores = self._in_common(PREVIOUS, self.members)
        match = self.config.min_overlap
        numbered = partial(match_clusters, ids_before, shared=shared, match=match, members=members)
        found, facts = numbered(before.next_id), Facts()
        new = np.flatnonzero(found.ids >= before.next_id).tolist()
        if new and lineage is not None:
            back = self._returned(lineage, set(ids_before), new)
            n_new, first = len(new) - len(back), before.next_id
            try:
                first = lineage.claim(n_new, first) if n_new else first
            except OutputPermissionError as error:
                facts = {UNCLAIMED: str(error)}
            found = numbered(first, returned=back)
        facts |= {
            "next_id": found.next_id,
            "rows": int(found.overlap.sum()),
            "moved": found.moved(ids_before),
            "clusters": [asdict(story) for story in found.stories],
            "before": ids_before,
        }
        arrays = {"ids": found.ids, "overlap": shared.overlap, "scores": scores}
        self.run.write(LINEAGE, Result(facts, arrays))

    def _returned(self, lineage: Lineage, known: set[int], new: Sequence[int]) -> dict[int, Return]:
        """Match the clusters with the labels `new` to clusters that had ended in earlier runs.

        Return the matches by label. Clusters whose ids are in `known` have not ended.
        """
        found: dict[int, Return] = {}
        assert lineage.previous is not None
        for number, (store, _) in enumerate(earlier_runs(lineage.previous, self.config.memory)):
            left = [label for label in new if label not in found]
            if not left:
                break
            folder, of = checked_model(store), f"earlier-{number}-"
            restore_model(read_model(folder), folder, self.run, of)
            ids = Labeller.read(self.run, of).ids.tolist()
            wanted = set(ids) - known
            if wanted:
                shared, within = self._in_common(of)[0], self._within(of)
                match = self.config.min_overlap
                found |= match_returned(ids, wanted, left, shared, within, match)
            known |= set(ids)
        return found

    def _in_common(
        self, of: str, members: Members | None = None
    ) -> tuple[LabelOverlap, LabelOverlap | None, np.ndarray]:
        """Count the rows that an earlier model's clusters and this rule's clusters have in common.

        `of` is the prefix of the earlier model's results. Return two counts and the histogram of
        the earlier model's scores. In the first count, the earlier model labels every row. In the
        second count, `members` have their published labels instead; it is None without members.
        """
        before = Labeller.read(self.run, of)
        shape = before.rule.n_clusters, self.rule.n_clusters
        by_model, by_id = (np.zeros((2, *shape), np.int64) for _ in range(2))
        scores = np.zeros(len(before.score_edges) - 1, np.int64)
        for keys, own, Z in self._prepared(of):
            then, now = before.rule.label(Z), self.rule.labels(own)
            label, outlier = then["label"], then["outlier"]
            by_model += _counts_of_pairs(label, outlier, now, shape)
            if members is not None:
                label, outlier = members.published(keys, label, outlier, before.ids)
                by_id += _counts_of_pairs(label, outlier, now, shape)
            scores += counts_between(then["score"], before.score_edges)
        sizes = self.run.read(of + COUNTED).arrays["cluster_counts"]
        shared = LabelOverlap(by_model[0], by_model[1], sizes)
        by_members = None if members is None else LabelOverlap(by_id[0], by_id[1], sizes)
        return shared, by_members, scores

    def _within(self, of: str) -> np.ndarray:
        """Return a mask (k_before, k): True if an earlier cluster's typical row is in a cluster.

        The row is in a cluster if each of its values is in the range of that cluster's values.
        """
        typical = Labeller.read(self.run, of).typical.values
        low = np.full((self.rule.n_clusters, typical.shape[1]), np.inf)
        high = -low
        for _, own, Z in self._prepared(of):
            now = self.rule.label(own)
            for label in np.unique(now["label"]):
                rows = Z[(now["label"] == label) & ~now["outlier"]]
                low[label] = np.minimum(low[label], rows.min(axis=0, initial=np.inf))
                high[label] = np.maximum(high[label], rows.max(axis=0, initial=-np.inf))
        return rows_in_ranges(low, high, typical)

    def _prepared(self, of: str) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield keys of rows, and the rows prepared for this rule and for an earlier model's rule.

        Rows with values that are not finite or too large are left out.
        """
        own, other = Preparation.read(self.run), Preparation.read(self.run, of + PREPARATION)
        places = Labeller.read(self.run, of).places(self.run.plan.table.columns)
        for keys, X in raw_sample(self.run, self.last_key):
            Z = own(X), other(np.ascontiguousarray(X[:, places]))
            usable = np.logical_and(*(_usable(rows) for rows in Z))
            yield keys[usable], Z[0][usable], Z[1][usable]


def _counts_of_pairs(
    before: np.ndarray, outlier: np.ndarray, now: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Count rows by their labels in an earlier model (`before`) and in the new model (`now`).

    `shape` has the numbers of clusters of both models. The result (2, *shape) counts all rows, and
    then only the rows that are no outliers of the earlier model.
    """
    pairs = np.ravel_multi_index((before, now), shape)
    found = [np.bincount(some, minlength=shape[0] * shape[1]) for some in (pairs, pairs[~outlier])]
    return np.reshape(found, (2, *shape))


def answer_before(run: RunDirectory, survey: Survey) -> PreviousAnswer | None:
    """Return the previous model, and its labels of tonight's pilot rows.

    A row with a value that is too large for the model has label 0. Return None if the model no
    longer describes the table: the unit of a column has changed, or more than half of the rows are
    outliers or too large.
    """
    before, names = Labeller.read(run, PREVIOUS), run.plan.table.columns
    pilot = np.ascontiguousarray(survey.pilot[:, before.places(names)])
    if not np.isnan(unit_factors(before.column_edges, pilot)).all():
        return None
    preparation = Preparation.read(run, PREVIOUS + PREPARATION)
    Z = preparation(pilot)
    usable, labels = _usable(Z), np.zeros(len(Z), np.int32)
    found = before.rule.label(Z[usable])
    labels[usable] = found["label"]
    if 2 * np.count_nonzero(~found["outlier"]) < len(Z):
        return None
    columns, latent = preparation.columns, None
    if columns is not None:
        latent = columns.layout.latent
        known = {name: j for j, name in enumerate(before.columns)}
        columns = columns.of_columns([known.get(name) for name in names])
    return PreviousAnswer(labels, before.rule, preparation.origin, columns, latent)


def _usable(Z: np.ndarray) -> np.ndarray:
    """Return a mask of the prepared rows (n, d) whose values are finite and not too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    return np.isfinite(squares) & (squares <= (2.0 * MAX_ROW_LENGTH) ** 2)
