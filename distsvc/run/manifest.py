"""The manifest of a run: what was made from what, and every file with its size and checksum."""

from __future__ import annotations

import datetime
import platform
from importlib.metadata import version
from typing import Any

from distsvc import __version__
from distsvc.config import Job
from distsvc.run.directory import RunDirectory
from distsvc.run.labelling import ROW, Counts, published_names, read_rule
from distsvc.run.opening import Opened
from distsvc.storage.publication import PUBLISHED
from distsvc.storage.published import described, meanings

PACKAGES = ("numpy", "numba", "pyarrow", "scikit-learn", "zarr")


def publish(found: Opened, job: Job, counts: Counts) -> None:
    """Make the manifest of a run, and publish what it lists."""
    manifest = make_manifest(found.run, job, found.digest, found.inputs, counts)
    found.output.publish(found.run.path, manifest)


def make_manifest(
    run: RunDirectory, job: Job, job_sha256: str, input_sha256: str, counts: Counts
) -> dict[str, Any]:
    """Return the content of ``manifest.json`` for the files in a run's directory."""
    folder, rule = run.path, read_rule(run)
    names = published_names(type(rule), run.plan.reasons)
    rows_of = {part["file"]: {"rows": part["rows"]} for part in counts.parts}
    files = [
        str(path.relative_to(folder))
        for place in PUBLISHED
        for path in [folder / place, *sorted((folder / place).rglob("*"))]
        if path.is_file()
    ]
    return {
        "format": 1,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "job_sha256": job_sha256,
        "input_sha256": input_sha256,
        "job": job.model_dump(mode="json", exclude={"cluster"}, exclude_none=True),
        "rows": counts.n_rows,
        "clusters": len(counts.sizes),
        "schema": meanings(run.plan.table.id or ROW, names, rule.meanings),
        "files": [{"file": n} | rows_of.get(n, {}) | described(folder / n) for n in files],
        "versions": {"distsvc": __version__, "python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
    }
