"""The default job on a large table, beside mini-batch k-means that reads and writes by blocks."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path

from benchmarks.harness.measure import alone, publish
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import job_on, noisy_table, run_command, work_folder

CLASSES = 7
ROW_GROUPS = 20
REPEATS = 3


def beside_k_means(options: Namespace) -> None:
    """Seconds of the default job with two workers, and of MiniBatchKMeans in one process.

    Tables are noisy rows of shuttle, 9 columns: `--rows` and two fifths of that. Jobs and the peer
    run in turns. The peer fits, labels and writes the labels; it reads the table twice, row group
    by row group, and is told the number of classes. Its imports are not counted.
    """
    rows: list[Row] = []
    with work_folder(options.work) as work:
        for n in (options.rows, 2 * options.rows // 5):
            group = max(n // ROW_GROUPS, 1)
            table = noisy_table(work / "beside", options.data, "shuttle", n, group)
            for repeat in range(options.repeats or REPEATS):
                began = time.perf_counter()
                out = work / f"run-{n}-{repeat}"  # a published run is not repeated
                report = run_command(work, job_on(table, out, group))
                seconds = time.perf_counter() - began
                peer = alone(mini_batch_k_means, table, work / "labels.parquet")
                rows.append(
                    {
                        "rows": n,
                        "repeat": repeat,
                        "seconds": seconds,
                        "label_s": report.seconds("label"),
                        "k_means_s": peer,
                        "times": seconds / peer,
                        **report.quality,
                    }
                )
    show("bars: times <= 3.5 with 20e6 rows, <= 8 with 8e6", rows)
    publish(options.out, "beside_k_means", rows)


def mini_batch_k_means(table: Path, out: Path) -> float:
    """Fit, label and write by row groups; return the seconds."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.cluster import MiniBatchKMeans

    def block(number: int) -> np.ndarray:
        group = file.read_row_group(number)
        names = [name for name in group.column_names if name != "label"]
        return np.column_stack([group[name].to_numpy() for name in names])

    began = time.perf_counter()
    file = pq.ParquetFile(table)
    numbers = range(file.num_row_groups)
    model = MiniBatchKMeans(CLASSES, random_state=0)
    for number in numbers:
        model.partial_fit(block(number))
    with pq.ParquetWriter(out, pa.schema([("label", pa.int32())])) as writer:
        for number in numbers:
            labels = model.predict(block(number)).astype(np.int32)
            writer.write_table(pa.table({"label": labels}))
    return time.perf_counter() - began
