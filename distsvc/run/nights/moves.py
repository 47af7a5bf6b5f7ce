"""Ids whose published cluster differs from the previous run.

The labels of both runs are split by id into buckets on disk, and joined bucket by bucket. So memory
does not grow with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distsvc.errors import DataError
from distsvc.run.labelling.columns import parts_place
from distsvc.run.labelling.counts import Counts
from distsvc.run.labelling.ids import counts_ids, id_keys
from distsvc.run.nights.previous import Previous
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.progress import Progress
from distsvc.storage.places.arrays import make_folder, write_whole
from distsvc.storage.places.process import scratch
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.reading import label_parts

MOVES_FILE = "moves.parquet"

BEFORE, NOW = "cluster_before", "cluster_now"
"""Columns of the file besides the id; null if a run does not have the id."""

BUCKET_ROWS = 2**21
"""Mean number of rows of both runs in a bucket."""


def write_moves(
    run: RunDirectory, previous: Previous | None, counts: Counts, progress: Progress
) -> None:
    """Write ``moves.parquet``: ids whose published cluster differs from the previous run's.

    Nothing is written without a previous run or a column of ids. Ids that are missing or shared by
    several rows are left out.
    """
    table = run.plan.table
    if previous is None or table.id is None or not counts_ids(table.type_of(table.id)):
        return
    if table.id not in previous.manifest.columns:
        progress.event(
            "note",
            because=f"{MOVES_FILE} is not written: the labels of {previous.path} have no column "
            f"{table.id!r}, the ids of this run",
        )
        return
    place, name = parts_place(run), table.id
    now = (
        pq.ParquetFile(place.local(part["stored"])).read(columns=[name, "label"])
        for part in counts.parts
    )
    then = label_parts(previous.manifest, store_of(previous.address), [name, "label"])
    n_buckets = -(-(counts.n_rows + previous.manifest.rows) // BUCKET_ROWS)
    with progress.phase("moves"), scratch("moves") as folder:
        try:
            sides = [
                _split(tables, table.type_of(name), n_buckets, folder / side)
                for side, tables in ((BEFORE, then), (NOW, now))
            ]
        except (DataError, pa.ArrowInvalid) as error:
            progress.event("note", because=f"{MOVES_FILE} is not written: {error}")
            return

        def write(stream: BinaryIO) -> None:
            moved = (one.rename_columns([name, BEFORE, NOW]) for one in _joined(*sides))
            first = next(moved)
            with pq.ParquetWriter(stream, first.schema) as writer:
                for one in chain([first], moved):
                    writer.write_table(one)

        with run.place("report").created(MOVES_FILE) as path:
            write_whole(path, write)


def _split(
    tables: Iterable[pa.Table], kind: pa.DataType, n_buckets: int, folder: Path
) -> list[Path]:
    """Write ids, cast to `kind`, and labels to a file for each bucket; return the files."""
    make_folder(folder)
    schema = pa.schema([("id", kind), ("label", pa.int32())])
    files = [folder / str(number) for number in range(n_buckets)]
    writers = [pa.ipc.new_file(pa.OSFile(str(file), "wb"), schema) for file in files]
    for found in tables:
        table = pa.table(list(found.columns), names=schema.names).cast(schema)
        for batch in table.filter(table["id"].is_valid()).combine_chunks().to_batches():
            buckets = (id_keys(batch.column(0)) % np.uint64(n_buckets)).astype(np.int64)
            for number in np.unique(buckets):
                writers[number].write_batch(batch.filter(pa.array(buckets == number)))
    for writer in writers:
        writer.close()
    return files


def _joined(before: Sequence[Path], now: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield, bucket by bucket, the ids whose labels differ, with both labels, ordered by id."""
    for one, other in zip(before, now, strict=True):
        found = _unique(one).join(_unique(other), "id", join_type="full outer", right_suffix="_now")
        same = pc.fill_null(pc.equal(found["label"], found["label_now"]), False)
        yield found.filter(pc.invert(same)).sort_by("id")


def _unique(file: Path) -> pa.Table:
    """Return the rows of a bucket with unique ids."""
    with pa.memory_map(str(file)) as source:
        table = pa.ipc.open_file(source).read_all()
    if len(table["id"].unique()) == len(table):
        return table
    counted = table.group_by("id").aggregate([("label", "min"), ([], "count_all")])
    alone = counted.filter(pc.equal(counted["count_all"], 1))
    return pa.table({"id": alone["id"], "label": alone["label_min"]})
