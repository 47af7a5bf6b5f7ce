"""Members of the previous run's clusters: this table's rows whose ids had a label in that run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError
from distsvc.run.labelling.counts import counts_ids, id_keys
from distsvc.run.learning.survey import extreme_row_numbers, keys_of, keys_of_rows
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.storage.places.store import Store
from distsvc.storage.publishing.formats import label_parts
from distsvc.storage.publishing.manifest import Manifest
from distsvc.storage.rows.blocks import Span
from distsvc.storage.tables.opening import read_blocks


@dataclass(frozen=True)
class Members:
    """Rows of the sample whose ids had a label in the previous run."""

    keys: np.ndarray  # (m,) uint64, ascending: keys of the rows
    labels: np.ndarray  # (m,) int32: ids of the rows' published clusters
    outliers: np.ndarray  # (m,) bool: whether the rows were outliers

    def published(
        self, keys: np.ndarray, labels: np.ndarray, outliers: np.ndarray, ids: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Replace the labels and outlier flags of members by their published values.

        `labels` and `outliers` (n,) are the previous model's answers for the rows with unique
        `keys` (n,). A label is a position in `ids` (k,), the ids of the clusters. Rows that are no
        members keep their labels, and so do members of clusters that are not in `ids`.
        """
        labels, outliers = labels.copy(), outliers.copy()
        _, here, own = np.intersect1d(keys, self.keys, assume_unique=True, return_indices=True)
        place = {cluster: label for label, cluster in enumerate(ids.tolist())}
        known = np.isin(self.labels[own], ids)
        here, own = here[known], own[known]
        labels[here] = [place[cluster] for cluster in self.labels[own].tolist()]
        outliers[here] = self.outliers[own]
        return labels, outliers


def read_ids(run: RunDirectory, number: int) -> Result:
    """Return keys and hashed ids of a partition's rows, up to the key that `members_of` stored.

    Rows without an id, and extreme rows, are left out.
    """
    plan, last_key = run.plan, np.uint64(run.read(keys_of(IDS)).facts["last"])
    table = replace(plan.table, features=(), types=(), compared=())
    extreme = extreme_row_numbers(run)
    keys, ids = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for block in read_blocks(table, Span(*plan.partitions[number], plan.block_rows, with_ids=True)):
        assert block.ids is not None
        own = keys_of_rows(run, block.rows, extreme)
        chosen = (own <= last_key) & block.ids.is_valid().to_numpy(zero_copy_only=False)
        chosen &= ~np.isin(block.rows, extreme)
        keys.append(own[chosen])
        ids.append(id_keys(block.ids.filter(pa.array(chosen))))
    return Result(arrays={"keys": np.concatenate(keys), "ids": np.concatenate(ids)})


IDS = Phase("match-ids", read_ids)


def members_of(steps: Steps, manifest: Manifest, store: Store, last_key: int) -> Members | None:
    """Return the members among the rows with keys up to `last_key`.

    Return None if the ids of both runs can't be compared. `manifest` and `store` are the previous
    run's. Ids that several rows share are left out.
    """
    run, table = steps.run, steps.run.plan.table
    if table.id is None or not counts_ids(table.type_of(table.id)):
        return None
    if table.id not in manifest.columns:
        return None
    run.write(keys_of(IDS), Result({"last": last_key}))
    found = [result.arrays for result in steps.map(IDS)]
    keys, hashes = (np.concatenate([one[name] for one in found]) for name in ("keys", "ids"))
    ids, first, n_rows = np.unique(hashes, return_index=True, return_counts=True)
    labels, outliers = np.zeros(len(ids), np.int32), np.zeros(len(ids), bool)
    n_before = np.zeros(len(ids), np.int64)
    try:
        for then, label, outlier in _published(manifest, store, table.id, table.type_of(table.id)):
            place = np.minimum(np.searchsorted(ids, then), max(len(ids) - 1, 0))
            same = ids[place] == then if len(ids) else np.zeros(len(then), bool)
            labels[place[same]], outliers[place[same]] = label[same], outlier[same]
            np.add.at(n_before, place[same], 1)
    except (DataError, pa.ArrowInvalid) as error:
        steps.progress.event("note", because=f"clusters are matched without ids: {error}")
        return None
    once = (n_rows == 1) & (n_before == 1)
    order = np.argsort(keys[first[once]])
    chosen = np.flatnonzero(once)[order]
    return Members(keys[first[chosen]], labels[chosen], outliers[chosen])


def _published(
    manifest: Manifest, store: Store, column: str, kind: pa.DataType
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield hashes (n,) of the previous run's ids (cast to `kind`), labels and outlier flags."""
    names = [column, "label", *({"outlier"} & set(manifest.columns))]
    for part in label_parts(manifest, store, names):
        known = part.filter(part[column].is_valid())
        for batch in known.combine_chunks().to_batches():
            ids, label = batch.column(column).cast(kind), batch.column("label").to_numpy()
            outlier = np.zeros(len(label), bool)
            if "outlier" in names:
                outlier = batch.column("outlier").to_numpy(zero_copy_only=False)
            yield id_keys(ids), label, outlier
