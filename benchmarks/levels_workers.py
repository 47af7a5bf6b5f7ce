"""Whether labels and model depend on workers or blocks where gamma is found without labels.

The job runs on shuttle's 43,500 rows, cut into 5 partitions, with 0, 1 and 2 workers and with
blocks of 3,000 and of 65,536 rows. Compared are SHA-256 sums: of the labels, of all columns that
are written beside them, and of the file with the model's arrays.
"""

from __future__ import annotations

import hashlib
import sys
from argparse import Namespace
from itertools import product
from pathlib import Path

from benchmarks.measure import Row, publish, show, table_path, work_folder
from benchmarks.shuttle import one_job

PARTITION_ROWS = 11_600
"""A fifth of the table's 58,000 rows."""

WORKERS = (0, 1, 2)
BLOCK_ROWS = (3_000, 65_536)


def run(options: Namespace) -> None:
    table = table_path(options.data, "shuttle")
    rows = []
    with work_folder(options.work) as work:
        output = work / "shuttle"
        for workers, block_rows in product(WORKERS, BLOCK_ROWS):
            print(f"{workers} workers, blocks of {block_rows} rows", file=sys.stderr, flush=True)
            cut = {"partition_rows": PARTITION_ROWS, "block_rows": block_rows}
            one_job(table, output, {"gamma": "auto"}, cut | {"workers": workers})
            rows.append({"workers": workers, "block_rows": block_rows} | sums_of(output))
    sums = [name for name in rows[0] if name.endswith("sha256")]
    show(
        "SHA-256, beginning of",
        [row | {name: row[name][:16] for name in sums} for row in rows],
    )
    for name in sums:
        n = len({row[name] for row in rows})
        print(f"  {name}: {'all are equal' if n == 1 else f'{n} DIFFERENT ONES'}")
    publish(options.out, "levels_workers", rows)


def sums_of(output: Path) -> Row:
    """Return partitions, rows, clusters and SHA-256 sums of what was published in a folder."""
    import pyarrow.parquet as pq

    parts = sorted((output / "labels").iterdir())
    table = pq.read_table(parts)
    values = {name: table[name].to_numpy().tobytes() for name in table.column_names}
    others = b"".join(value for name, value in values.items() if name != "label")
    return {
        "partitions": len(parts),
        "rows": table.num_rows,
        "clusters": len(set(table["label"].to_pylist())),
        "label_sha256": hashlib.sha256(values["label"]).hexdigest(),
        "others_sha256": hashlib.sha256(others).hexdigest(),
        "model_sha256": hashlib.sha256((output / "model" / "arrays.npz").read_bytes()).hexdigest(),
    }
