"""The whole story of a run, top to bottom: plan, survey, fit, label, publish.

Each step maps a task over partitions, on workers or in this process, reads the small files that the
tasks left in the run's directory, in the order of the partitions, and writes what the next
step needs to know. The table is read once for its statistics and a random sample, and once to label
it (support vector clustering tests the splits of its trees, or looks for its boundary, in between;
a linear model of a large table takes a few more readings). Learning is sequential: a stream of the
sample's rows, in random order, or for linear models and baselines all of them at once. Nothing that
decides a label depends on how the table is cut or who does the work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from distsvc.config import Job, PreprocessConfig
from distsvc.errors import DataError, JobFileError
from distsvc.models import sampling
from distsvc.models.baselines.bico import BICO
from distsvc.models.baselines.depddp import DePDDP
from distsvc.models.baselines.fuzzy import FuzzyCMeans
from distsvc.models.baselines.sampled import Baseline
from distsvc.models.baselines.spdc import SPDC
from distsvc.models.hyperplanes.estimator import IncrementalMDH
from distsvc.models.hyperplanes.tree import GrowingTree
from distsvc.models.linear.estimators import (
    MEMORY_BYTES,
    LinearModel,
    LinearOneClassSVM,
    LinearSVDD,
)
from distsvc.models.sampling import PILOT_ROWS
from distsvc.models.scaling import ColumnSums, Scaling
from distsvc.models.support_vector.estimator import SupportVectorClustering
from distsvc.models.support_vector.labelling import Boundary, pair_blocks
from distsvc.report.page import write_page
from distsvc.run import outer, summary, tasks
from distsvc.run.cluster import connected
from distsvc.run.directory import Plan, RunDirectory
from distsvc.run.fanout import fan_out
from distsvc.run.partitions import choose_block_rows, plan_partitions
from distsvc.run.progress import Progress
from distsvc.run.stream import prepared, sample_blocks, whole_sample
from distsvc.run.summary import Model
from distsvc.storage.arrays import read_json, write_json
from distsvc.storage.outputs import output_format
from distsvc.storage.publication import Output
from distsvc.storage.tables import (
    Table,
    fingerprint,
    id_type,
    open_table,
    read_blocks,
    sparse_rows,
)

ESTIMATORS: dict[str, type[Model]] = {
    "support-vector": SupportVectorClustering,
    "imdh": IncrementalMDH,
    "linear-one-class": LinearOneClassSVM,
    "linear-svdd": LinearSVDD,
    "bico": BICO,
    "spdc": SPDC,
    "depddp": DePDDP,
    "fuzzy-c-means": FuzzyCMeans,
}
KEEPS_ZEROS = PreprocessConfig(scale="none", missing="error")
SHOWN = 20
PILOT_BYTES = 16 * 2**20
PARTITION_BYTES = 2**30
"""Of a partition's rows, which a worker may have to hold when all belong to the sample."""


def run_job(
    job: Job,
    *,
    command: str = "",
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Cluster a table and publish labels, model and report; return the report.

    Nothing is published unless everything is. `distsvc.errors` lists what can go wrong.
    """
    progress = progress or Progress(quiet=True)
    output = Output(job.output.path)
    digest = job.digest()
    with output.locked(), output.run_folder(digest) as folder, ExitStack() as stack:
        run = RunDirectory(folder)
        with progress.phase("open"):
            table = open_table(job.input, folder / "staging")
            inputs = fingerprint(table)
            if output.check_free(digest, inputs, overwrite):
                progress.event("already published", output=str(output.path))
                return read_json(output.path / "report.json")
            names = ["label", "score", "outlier", *(["reasons"] if job.output.reasons else [])]
            output_format(job.output.format).check(table.id or "row", id_type(table), names)
            plan = make_plan(job, table)
            run.write_plan(plan)
            model = make_model(job)
            if isinstance(model, LinearModel):
                model.set_width(len(table.columns), sparse=has_sparse_rows(job, table))
        with progress.phase("cluster"):
            cluster = connected(job.cluster, table.nbytes, progress, scheduler, scheduler_file)
            steps = Steps(run, len(plan.partitions), stack.enter_context(cluster), progress)
        survey = survey_table(steps, model)
        prepare(steps, job, model, survey)
        if isinstance(model, IncrementalMDH):
            fit_imdh(steps, model, survey)
        elif isinstance(model, LinearModel):
            fit_linear(steps, model, survey, job.output.reasons)
        elif isinstance(model, Baseline):
            fit_baseline(steps, model, survey)
        elif model.by_levels_:
            fit_level_tree(steps, model, survey)
        else:
            fit_support_vector(steps, model, survey)
        totals = label_table(steps, job.output.format)
        with progress.phase("report"):
            summary.write_model(run, job, model)
            report = summary.make_report(run, job, model, survey.pilot, totals, command)
            write_page(report | {"phases": progress.phases}, run.path / "report.html")
        with progress.phase("publish"):
            report["phases"] = progress.phases
            write_json(run.path / "report.json", report)
            output.publish(folder, summary.manifest(folder, job, plan, digest, inputs, totals))
    return report


def predict_table(
    published: str | Path,
    path: str,
    output_path: str,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Label another table with a published model and publish the labels; return the manifest.

    The table needs the model's columns: where the job named columns, those; otherwise its numeric
    columns, but for the job's id and label, have to be the model's, in the same order.
    """
    progress = progress or Progress(quiet=True)
    output = Output(output_path)
    name = hashlib.sha256(f"{published}\n{path}".encode()).hexdigest()
    with output.locked(), output.run_folder(name) as folder:
        run = RunDirectory(folder)
        with progress.phase("open"):
            job = summary.restore_model(Path(published), run, path, output_path)
            table = open_table(job.input, folder / "staging")
            inputs, digest = fingerprint(table), summary.predict_digest(job, Path(published))
            if output.check_free(digest, inputs, overwrite):
                return output.manifest() or {}
            plan = make_plan(job, table)
            run.write_plan(plan)
        totals = label_table(Steps(run, len(plan.partitions), None, progress))
        manifest = summary.manifest(folder, job, plan, digest, inputs, totals)
        output.publish(folder, manifest)
    return manifest


@dataclass(frozen=True)
class Steps:
    """What every step needs: the run's directory, its partitions, the workers and the display."""

    run: RunDirectory
    n_partitions: int
    client: Any
    progress: Progress

    def map(self, name: str, task: Callable[[str, int], int], n: int | None = None) -> None:
        """Do a task for every partition, or for the numbers below n."""
        numbers = range(self.n_partitions if n is None else n)
        with self.progress.phase(name) as phase:
            fan_out(self.client, task, str(self.run.path.absolute()), numbers, phase)

    def results(self, name: str, n: int | None = None) -> Any:
        """Return an iterator over what the tasks left, in the order of their numbers."""
        return self.run.results(name, self.n_partitions if n is None else n)


def make_model(job: Job) -> Model:
    """Return the job's estimator, its parameters checked."""
    model: Model = ESTIMATORS[job.model.algorithm](**job.model.parameters())
    with _blaming_the_job():
        model.begin()
    return model


def has_sparse_rows(job: Job, table: Table) -> bool:
    """Return whether a table's rows are sparse, stay so, and all fit in memory as they are."""
    X = sparse_rows(table) if job.preprocess == KEEPS_ZEROS else None
    return X is not None and 12 * X.nnz <= MEMORY_BYTES


def make_plan(job: Job, table: Table) -> Plan:
    """Cut the table, and find a point near its data for sums of squares to be taken about."""
    d = len(table.columns)
    first = next(read_blocks(table, 0, table.n_rows, 1024), None)
    if first is None:
        raise DataError(f"input.where = {job.input.where!r} leaves no row of {job.input.path}")
    known = np.where(np.isfinite(first.X), first.X, 0.0)
    partition_rows = min(job.cluster.partition_rows, max(PARTITION_BYTES // (8 * d), 1))
    return Plan(
        table=table,
        partitions=plan_partitions(table.extents, partition_rows),
        block_rows=job.cluster.block_rows or choose_block_rows(d),
        missing=job.preprocess.missing,
        seed=job.model.seed,
        pilot_rows=max(100, min(PILOT_ROWS, PILOT_BYTES // (8 * d))),
        shift=np.median(known, axis=0),
    )


@dataclass(frozen=True)
class Survey:
    """What one pass tells of a table: rows used, column sums, the rows with the lowest keys."""

    n_rows: int
    sums: ColumnSums
    pilot: np.ndarray


def survey_table(steps: Steps, model: Model) -> Survey:
    """Read the table once for its statistics, a small uniform sample, the pilot, and the sample.

    Which rows the sample has follows from their number. Where rows are left out, that is known only
    afterwards, and the sample takes another reading.
    """
    run, plan = steps.run, steps.run.plan
    keys_of_sample = write_sampling(run, model, plan.table.n_rows)
    steps.map("survey", tasks.survey_partition)
    sums = ColumnSums.empty(plan.shift)
    pilot, keys = np.zeros((0, plan.shift.size)), np.zeros(0, np.uint64)
    n_rows = 0
    for facts, arrays in steps.results("survey"):
        n_rows += facts["n_rows"]
        bounds = arrays["least"], arrays["most"], arrays["counts"]
        sums.merge(ColumnSums(plan.shift, facts["first"], facts["second"], *bounds))
        keys = np.concatenate([keys, arrays["keys"]])
        kept = sampling.lowest(keys, plan.pilot_rows)
        pilot, keys = np.concatenate([pilot, arrays["pilot"]])[kept], keys[kept]
    if n_rows < 2:
        raise DataError(f"expected at least 2 rows to cluster, found {n_rows} that can be used")
    if write_sampling(run, model, n_rows) != keys_of_sample:
        steps.map("sample", tasks.sample_partition)
    return Survey(n_rows, sums, pilot)


def write_sampling(run: RunDirectory, model: Model, n_rows: int) -> dict[str, int]:
    """Write and return the range of keys that the sample of a table of so many rows has."""
    ranges = model.key_ranges(n_rows)
    keys = {"key_low": ranges[0][0], "key_high": ranges[-1][1]}
    run.write("sampling", keys)
    return keys


def prepare(steps: Steps, job: Job, model: Model, survey: Survey) -> None:
    """Settle what makes a table's row a learner's: scaling and centre; and all that takes a pilot.

    The sample holds rows as the table has them, so every learner prepares them alike.
    """
    with steps.progress.phase("prepare"), _blaming_the_job():
        scaling, notes = make_scaling(job, survey, steps.run.plan)
        model.set_pilot(scaling.apply(survey.pilot), survey.n_rows)
        model.notes_ += notes
        facts = {"wide": isinstance(model, LinearModel | Baseline)}
        steps.run.write("scaling", facts, **vars(scaling), origin=model.centre_)


def fit_support_vector(steps: Steps, model: SupportVectorClustering, survey: Survey) -> None:
    """Train the decision function on a stream of rows, then find its clusters."""
    run, ranges = steps.run, model.key_ranges(survey.n_rows)
    if model.solver == "bsgd" and survey.n_rows < (budget := model.descent_.budget):
        model.notes_.append(f"{survey.n_rows} rows are fewer than the budget of {budget}")
    with steps.progress.phase("train") as phase:
        n, seed = steps.n_partitions, model.seed_
        model.train(lambda epoch: sample_blocks(run, n, ranges, seed, epoch))
        phase.rows = model.n_iter_
        run.write("decision", model.decision_facts(), S=model.decision_.S, a=model.decision_.a)
    steps.map("boundary", tasks.find_boundary)
    with steps.progress.phase("merge"):
        model.boundary_ = Boundary.empty(model.decision_)
        for _, arrays in steps.results("boundary"):
            model.boundary_ = model.boundary_.merge(Boundary(**arrays), model.boundary_size)
        run.write("boundary", {}, X=model.boundary_.X)
    n_climbs = tasks.climb_tasks(len(model.boundary_.X))
    steps.map("climb", tasks.climb_from_boundary, n_climbs)
    with steps.progress.phase("equilibria"):
        ends = [arrays["ends"] for _, arrays in steps.results("climb", n_climbs)]
        model.set_equilibria(model.boundary_.X, np.concatenate(ends))
        run.write("vertices", {}, vertices=model.vertices_)
    n_blocks = pair_blocks(len(model.vertices_))
    steps.map("segments", tasks.join_vertices, n_blocks)
    with steps.progress.phase("clusters"):
        pairs = [arrays["pairs"] for _, arrays in steps.results("segments", n_blocks)]
        model.set_clusters(np.concatenate(pairs))
        clusters = model.clusters_
        arrays = {"points": clusters.points, "cluster": clusters.cluster}
        run.write("clusters", {}, **arrays)
        scores = model.decision_(model.pilot_)
        summary.write_labelling(run, "support-vector", clusters.n_clusters, scores)


def fit_level_tree(steps: Steps, model: SupportVectorClustering, survey: Survey) -> None:
    """Train models that differ in width and subspace, test their trees' splits, and let them vote.

    Every model is a task that streams the sample; the splits of all trees are tested in one pass.
    """
    run, n_models = steps.run, len(model.plan_.members)
    ranges = model.key_ranges(survey.n_rows)
    facts = {"plan": model.plan_.facts(), "n_rows": survey.n_rows, "ranges": ranges}
    run.write("ensemble", facts, components=model.plan_.components, view=model.view_)
    steps.map("learn", tasks.grow_level_tree, n_models)
    steps.map("test", tasks.test_splits)
    with steps.progress.phase("vote"):
        trees = tasks.level_trees(run, n_models)
        sums = sum(arrays["sums"] for _, arrays in steps.results("test"))
        ends = np.cumsum([tree.n_branches for tree in trees])[:-1]
        model.choose(trees, np.split(sums, ends, axis=1), survey.n_rows)
        levels = model.levels_
        tree, rows = levels.tree, levels.rows(levels.pilot)
        facts = {"gamma": tree.gamma, "level": levels.boundary, "nearest": levels.nearest}
        components = levels.plan.components[: len(tree.S)]
        run.write("levels", facts, components=components, S=tree.S, a=tree.a, part=levels.part)
        scores = levels.voter(rows)[1]
        summary.write_labelling(run, "level-tree", levels.answer.n_clusters, scores)


def fit_imdh(steps: Steps, model: IncrementalMDH, survey: Survey) -> None:
    """Learn trees of hyperplanes, each in a task that streams the sample, and prune the best."""
    run = steps.run
    run.write("restarts", {"parameters": model.get_params(), "n_rows": survey.n_rows})
    steps.map("learn", tasks.learn_tree, model.n_init)
    with steps.progress.phase("prune"):
        trees = [GrowingTree(**arrays) for _, arrays in steps.results("trees", model.n_init)]
        with _blaming_the_job():
            model.choose(trees)
        run.write("tree", {}, **vars(model.cluster_tree_))
        scores = model.cut_.label(model.pilot_)[1]
        summary.write_labelling(run, "imdh", model.n_clusters_, scores)


def fit_linear(steps: Steps, model: LinearModel, survey: Survey, reasons: int) -> None:
    """Solve the sample in memory; where it is not the table, all rows in outer steps from there."""
    run = steps.run
    with steps.progress.phase("train") as phase, _blaming_the_job():
        Z = sparse_rows(run.plan.table) if model.sparse_ else whole_sample(run, steps.n_partitions)
        converged, phase.rows = model.fit_rows(Z), Z.shape[0]
    if phase.rows < survey.n_rows:
        converged = outer.descend_table(steps, model, survey.n_rows)
    with steps.progress.phase("rule"):
        if not converged:
            model.notes_.append(
                f"training ended before its tolerance, with a violation of {model.violation_:.2g}; "
                "raise max_iter or tol"
            )
        rule = model.rule
        mean = prepared(run, survey.sums.mean_and_variance()[0][None, :])[0]
        facts = {"offset": rule.offset, "ball": rule.ball, "reasons": reasons}
        run.write("linear", facts, weights=rule.weights, mean=mean)
        scores = rule.scores(prepared(run, survey.pilot)) - rule.offset
        summary.write_labelling(run, model.algorithm, 1, scores)


def fit_baseline(steps: Steps, model: Baseline, survey: Survey) -> None:
    """Fit the sample in memory; what labels rows is a rule of a few arrays."""
    run = steps.run
    with steps.progress.phase("train") as phase, _blaming_the_job():
        X = whole_sample(run, steps.n_partitions)
        rule, phase.rows = model.fit_sample(X), len(X)
        run.write("rule", {}, **vars(rule))
        scores = rule.label(prepared(run, survey.pilot))[1]
        summary.write_labelling(run, rule.form, rule.n_clusters, scores)


def make_scaling(job: Job, survey: Survey, plan: Plan) -> tuple[Scaling, list[str]]:
    """Turn the column sums into the scaling that the job asks for, and say what is remarkable."""
    sums, names = survey.sums, plan.table.columns
    notes = []
    empty = [name for name, n in zip(names, sums.counts, strict=True) if n == 0]
    if empty:
        raise DataError(f"column {empty[0]!r} has no value in any row")
    fill = np.zeros(len(names))
    if job.preprocess.missing == "median":
        means, _ = sums.mean_and_variance()
        pilot = np.where(np.isnan(survey.pilot).all(axis=0), means, survey.pilot)
        fill = np.nanmedian(pilot, axis=0)
        n_missing = int((survey.n_rows - sums.counts).sum())
        sums.impute(fill, survey.n_rows)
        if n_missing:
            notes.append(f"{n_missing} missing values were replaced by their columns' medians")
    constant = [n for n, a, b in zip(names, sums.least, sums.most, strict=True) if a == b]
    if constant:
        more = f" and {len(constant) - SHOWN} more" if len(constant) > SHOWN else ""
        shown = ", ".join(constant[:SHOWN])
        notes.append(f"constant columns carry no information: {shown}{more}")
    return Scaling.from_sums(sums, job.preprocess.scale, fill), notes


def label_table(steps: Steps, form: str = "parquet") -> summary.Totals:
    """Write every row's label, score and outlier flag, and add up what the report tells."""
    steps.map("label", tasks.label_partition)
    with steps.progress.phase("totals"):
        totals = summary.add_up(steps.results("labelled"))
    parts = [(part["file"], part["rows"]) for part in totals.parts]
    n_tasks = output_format(form).begin(steps.run.path, parts)
    if n_tasks:
        steps.run.write("parts", {"format": form, "parts": parts})
        steps.map(form, tasks.fill_output, n_tasks)
    output_format(form).finish(steps.run.path)
    return totals


@contextmanager
def _blaming_the_job() -> Iterator[None]:
    """Turn an estimator's complaint about its parameters into one about the job file."""
    try:
        yield
    except ValueError as error:
        raise JobFileError(f"model: {error}") from None
