"""Labelling another table with a published model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distsvc.errors import JobFileError
from distsvc.run.forecast.memory import check_labelling
from distsvc.run.labelling.phase import fill_output, label_table
from distsvc.run.model.columns import known_features
from distsvc.run.model.files import (
    checked_model,
    model_digest,
    prediction_job,
    restore_model,
    with_previous,
)
from distsvc.run.reporting.manifest import make_manifest
from distsvc.run.starting.beginning import Asked, begun
from distsvc.run.work.phases import steps_on
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import Progress
from distsvc.storage.publishing.publication import Output
from distsvc.storage.tables.opening import check_unchanged, fingerprint, open_table


def predict_table(
    published: str | Path,
    path: str,
    output_path: str,
    *,
    settings: Mapping[str, Any] | None = None,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    require_tls: bool = False,
    overwrite: bool = False,
    fresh: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Label another table with a published model and publish the labels; return the manifest.

    The table needs the model's columns; others that it has are ignored, and named in an event.
    Labels are the ids of the run whose model it is.

    Parameters
    ----------
    published
        The path of the run.
    path, output_path
        The table, and where its labels are published.
    settings
        Keys of ``[cluster]``.
    scheduler, scheduler_file, require_tls, overwrite, fresh, progress
        As of `distsvc.run.job.run_job`.

    """
    progress = progress or Progress(quiet=True)
    source, output = Output(published).place, Output(output_path)
    if os.path.realpath(source.address) == os.path.realpath(output.place.address):
        raise JobFileError(f"OUTPUT {output_path} is the published run whose model is to be used")
    model = checked_model(source)
    job = prediction_job(model, path, output_path, settings or {})
    digest = with_previous(job.digest(), model_digest(model))
    asked = Asked(job, digest, model=digest, fresh=fresh)
    with begun(output, asked, overwrite, progress) as found:
        if found is None:
            return output.manifest() or {}
        run = found.run
        with progress.phase("open"):
            content = restore_model(model, run)
            if not run.is_planned:
                known = known_features(content, path, run.staging, progress)
                table = open_table(job.input, run.staging, job.preprocess, known)
                run.write_plan(Plan.of(job, table))
            table = run.plan.table
            for note in run.plan.notes:
                progress.event("unknown values", because=note)
        where = job.cluster, table.nbytes, scheduler, scheduler_file, require_tls
        with steps_on(run, progress, *where) as steps:
            check_labelling(job, table, steps.workers, content["facts"]["wide"])
            counts = label_table(steps).counts
            fill_output(steps, counts)
        check_unchanged(table)
        manifest = make_manifest(run, job, digest, fingerprint(table), counts)
        return output.publish(manifest)
