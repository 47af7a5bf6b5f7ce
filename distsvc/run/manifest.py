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
from distsvc.storage.listing import FORMAT
from distsvc.storage.publication import PLACES
from distsvc.storage.published import described, meanings

PACKAGES = ("numpy", "numba", "pyarrow", "scikit-learn", "zarr")


def publish(found: Opened, job: Job, counts: Counts) -> None:
    """Make the manifest of a run, and publish what it lists."""
    found.output.publish(make_manifest(found.run, job, found.digest, found.inputs, counts))


def make_manifest(
    run: RunDirectory, job: Job, job_sha256: str, input_sha256: str, counts: Counts
) -> dict[str, Any]:
    """Return the content of ``manifest.json`` for the files that a run has written."""
    rule, labels = read_rule(run), run.place("labels")
    names = published_names(type(rule), run.plan.reasons)
    rows_of = {labels / part["file"]: {"rows": part["rows"]} for part in counts.parts}
    found = [p for kind in PLACES for p in sorted(run.place(kind).rglob("[!.]*")) if p.is_file()]
    return {
        "format": FORMAT,
        "run_id": run.path.name,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "job_sha256": job_sha256,
        "input_sha256": input_sha256,
        "job": job.model_dump(mode="json", exclude={"cluster"}, exclude_none=True),
        "rows": counts.n_rows,
        "clusters": len(counts.sizes),
        "schema": meanings(run.plan.table.id or ROW, names, rule.meanings),
        "files": [
            {"file": path.relative_to(run.plan.output).as_posix()}
            | rows_of.get(path, {})
            | described(path)
            for path in found
        ],
        "versions": {"distsvc": __version__, "python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
    }
