"""Labelling another table with a published model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from distsvc.errors import JobFileError
from distsvc.run.labelling import label_table
from distsvc.run.manifest import make_manifest
from distsvc.run.model import checked_model, prediction_digest, prediction_job, restore_model
from distsvc.run.model_columns import check_columns
from distsvc.run.opening import begun
from distsvc.run.phases import Steps
from distsvc.run.plan import Plan
from distsvc.run.progress import Progress
from distsvc.run.resuming import Asked
from distsvc.storage.publication import Output
from distsvc.storage.tables import check_unchanged, fingerprint, open_table


def predict_table(
    published: str | Path,
    path: str,
    output_path: str,
    *,
    overwrite: bool = False,
    fresh: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Label another table with a published model and publish the labels; return the manifest.

    The table needs the model's columns: where the job named columns, those; otherwise its numeric
    columns, but for the job's id and label, have to be the model's, in the same order.
    """
    progress = progress or Progress(quiet=True)
    source, output = Output(published).place, Output(output_path)
    if os.path.realpath(source.address) == os.path.realpath(output.place.address):
        raise JobFileError(f"OUTPUT {output_path} is the published run whose model is to be used")
    model = checked_model(source)
    job = prediction_job(model, path, output_path)
    digest = prediction_digest(job, model)
    asked = Asked(job, digest, model=digest, fresh=fresh)
    with begun(output, asked, overwrite, progress) as run:
        if run is None:
            return output.manifest() or {}
        with progress.phase("open"):
            content = restore_model(model, run)
            check_columns(content, path, run.staging)
            table = run.plan.table if run.is_planned else open_table(job.input, run.staging)
            if not run.is_planned:
                run.write_plan(Plan.of(job, table))
        counts = label_table(Steps(run, None, progress)).counts
        check_unchanged(table)
        manifest = make_manifest(run, job, digest, fingerprint(table), counts)
        return output.publish(manifest)
