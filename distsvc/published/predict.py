"""Label another table with a published model."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from distsvc.errors import JobFileError
from distsvc.run.forecast import check_labelling
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.labelling.phase import fill_output, label_table
from distsvc.run.model import files
from distsvc.run.nights.comparison import outlier_notes
from distsvc.run.reporting.manifest import make_manifest
from distsvc.run.starting import Request, begin_run
from distsvc.run.work.phases import steps_on
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import Progress
from distsvc.run.work.sentinels import sentinel_notes
from distsvc.run.work.start import DEFAULT_ADDRESS, DEFAULT_START, ClusterAddress, Start
from distsvc.storage.publishing.manifest import ContinuedRun, Manifest, read_manifest
from distsvc.storage.publishing.publication import Output
from distsvc.storage.rows.columns import truncated
from distsvc.storage.tables.opening import check_unchanged, fingerprint, open_table


def predict_table(
    published: str | Path,
    path: str,
    output_path: str,
    *,
    settings: Mapping[str, object] | None = None,
    at: ClusterAddress = DEFAULT_ADDRESS,
    start: Start = DEFAULT_START,
    progress: Progress | None = None,
) -> Manifest:
    """Label the table at `path` by a published model, and publish the labels; return the manifest.

    The labels are the cluster ids of the run at `published`, and are written to `output_path`. The
    table needs the model's columns. Other columns are ignored, and `progress` shows their names.
    `settings` are keys of the section ``[cluster]``. `at`, `start` and `progress` are as in
    `distsvc.run.job.run_job`.
    """
    progress = progress or Progress(quiet=True)
    source, output = Output(published).store, Output(output_path)
    if os.path.realpath(source.address) == os.path.realpath(output.store.address):
        raise JobFileError(
            f"OUTPUT {output_path} is the published run with the model; give another folder"
        )
    manifest = read_manifest(source)
    folder = files.checked_model(source, manifest)
    model = files.read_model(folder)
    job = model.job(path, output_path, settings)
    learned = files.model_digest(folder)
    digest = files.with_previous(job.digest(), learned)
    used = ContinuedRun(
        path=str(published), run_id=manifest.run_id, model_sha256=learned, address=source.address
    )
    request = Request(job, output, digest, continued=used)
    with begin_run(request, start, progress) as run:
        if run is None:
            return read_manifest(output.store)
        with progress.phase("open"):
            files.restore_model(model, folder, run)
            if not run.is_planned:
                table = open_table(job.input, run.staging, job.preprocess, model.learned_from)
                if names := truncated(model.ignored(table)):
                    why = "the model was learned without them"
                    progress.event("ignored columns", because=why, names=names)
                plan = Plan.of(job, table)
                first = next(plan.blocks(0), None)
                if first is not None:
                    changes = Labeller.read(run).changed_units(first.X)
                    changes += sentinel_notes(first.X, table.features)
                    plan = replace(plan, notes=[*plan.notes, *changes])
                run.write_plan(plan)
            table = run.plan.table
            for note in run.plan.notes:
                progress.event("note", because=note)
        with steps_on(run, progress, job.cluster, at) as steps:
            check_labelling(run.plan, steps.workers, model.rule.float64)
            labelled = label_table(steps)
            fill_output(steps, labelled.counts)
        notes = labelled.ids.notes(str(table.id)) if labelled.ids is not None else []
        for note in [*notes, *outlier_notes(labelled.outlier_share, [model.parameters])]:
            progress.event("note", because=note)
        check_unchanged(table)
        made = make_manifest(run, job, digest, fingerprint(table), labelled)
        return output.publish(made)
