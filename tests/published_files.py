"""What a run published, found by way of its manifest as a reader has to."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def listed(out, kind: str = "", key: str = "file") -> list[Path]:
    """Return the files of a kind (labels, model, report), or all, in the manifest's order.

    With the `key` "stored", those that stay when another run is published.
    """
    manifest = json.loads((Path(out) / "manifest.json").read_text())
    files = [file for file in manifest["files"] if file["file"].startswith(kind)]
    return [Path(out) / file[key] for file in files]


def published_file(out, name: str, key: str = "file") -> Path:
    """Return a file by its own name, such as arrays.npz."""
    return next(path for path in listed(out, key=key) if path.name == name)


def read_labels(out) -> pa.Table:
    """Return the parts as one table."""
    return pq.read_table(listed(out, "labels/"))


def labels_of(out) -> np.ndarray:
    """Return the clusters of the rows."""
    return read_labels(out)["label"].to_numpy()


def labels_folder(out) -> Path:
    """Return the folder of the parts, or of the arrays."""
    found = listed(out, "labels/")[0].relative_to(out)
    return Path(out, *found.parts[:2])


def nothing_left(out) -> bool:
    """Return True if a failed run left nothing in its output but the lock, which is never removed.

    A folder that is not there holds nothing.
    """
    out = Path(out)
    return set(out.rglob("*")) <= {out / ".runs", out / ".runs" / "lock"}
