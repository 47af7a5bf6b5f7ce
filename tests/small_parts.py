"""Parts of random labels."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from distsvc.storage.publishing.formats import PartWriter

LABELS = ("label", "score", "outlier")


def write_part(path: Path, n: int, seed: int = 0, blocks: int = 1, id_name: str = "row", ids=None):
    random = np.random.default_rng(seed)
    ids = np.arange(n, dtype=np.int64) if ids is None else ids
    label = random.integers(0, 4, n).astype(np.int32)
    score = random.normal(size=n).astype(np.float32)
    columns = {"label": label, "score": score, "outlier": score < 0}
    part = PartWriter(id_name, ids.type if isinstance(ids, pa.Array) else pa.int64(), LABELS)
    for chosen in np.array_split(np.arange(n), blocks):
        s = slice(chosen[0], chosen[-1] + 1) if len(chosen) else slice(0, 0)
        part.add(ids[s], {name: values[s] for name, values in columns.items()})
    return part.write(path), columns
