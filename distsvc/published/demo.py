"""The demo: jobs on the papers' plane data sets and on two real tables."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from distsvc.job.config import Section, Sections
from distsvc.job.file import load_job
from distsvc.report.content.report import Report
from distsvc.run.job import run_job
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import Start
from distsvc.storage.places.arrays import make_folder, write_content, write_whole

JOBS: dict[str, Section] = {
    "rings": {"gamma": 24.0, "nu": 0.03, "budget": 200},
    "moons": {"gamma": 16.0, "nu": 0.1},
    "gaussians3": {"gamma": 8.0, "nu": 0.1},
    "gaussians4": {"gamma": 8.0, "nu": 0.1},
    "iris": {},
    "digits": {"algorithm": "imdh"},
}
"""Section ``[model]`` of each job of the demo, by the job's name."""


def two_rings(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (2100, 2) and classes: a Gaussian in two rings (Pham et al. 2017, figure 1)."""
    random = np.random.default_rng(seed)
    sizes, radii = (300, 600, 1200), (0.0, 2.0, 3.5)
    parts = [random.normal(0.0, 0.3, (sizes[0], 2))]
    for size, radius in zip(sizes[1:], radii[1:], strict=True):
        angle = random.uniform(0.0, 2.0 * np.pi, size)
        distance = radius + random.normal(0.0, 0.12, size)
        parts.append(np.column_stack([distance * np.cos(angle), distance * np.sin(angle)]))
    return np.concatenate(parts), np.repeat([0, 1, 2], sizes)


def two_moons(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (1000, 2) and classes: two interlocking half circles (Pham et al., figure 2)."""
    random = np.random.default_rng(seed)
    angle = random.uniform(0.0, np.pi, 1000)
    moon = np.repeat([0, 1], 500)
    x = np.where(moon == 0, np.cos(angle), 1.0 - np.cos(angle))
    y = np.where(moon == 0, np.sin(angle), 0.5 - np.sin(angle))
    return np.column_stack([x, y]) + random.normal(0.0, 0.06, (1000, 2)), moon


def gaussians(seed: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (300 k, 2) and classes: k Gaussians, 3 or 4 (Pham et al. 2017, figure 3)."""
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [1.5, 2.6], [4.5, 2.6]])[:k]
    classes = np.repeat(np.arange(k), 300)
    noise = np.random.default_rng(seed).normal(0.0, 0.4, (300 * k, 2))
    return centres[classes] + noise, classes


def make_table(name: str, seed: int = 0) -> pa.Table:
    """Return the table of the job `name`, with the classes in the column ``label``."""
    if name in ("iris", "digits"):
        from sklearn import datasets

        bundled = getattr(datasets, f"load_{name}")()
        X, y, names = bundled.data, bundled.target, bundled.feature_names
    else:
        makers = {"rings": two_rings, "moons": two_moons}
        X, y = makers[name](seed) if name in makers else gaussians(seed, int(name[-1]))
        names = ["x", "y"]
    columns = {n: X[:, k] for k, n in enumerate(names)}
    return pa.table(columns | {"label": y.astype(np.int32)})


def demo_job(name: str, folder: str) -> Sections:
    """Return the sections of the job `name`, whose table is in ``<folder>/data``."""
    return {
        "input": {"path": f"{folder}/data/{name}.parquet", "label": "label"},
        "model": {"algorithm": "support-vector", "seed": 0} | JOBS[name],
        "output": {"path": f"{folder}/{name}"},
    }


def run_demo(folder: Path, progress: Progress) -> dict[str, Report]:
    """Write tables and job files to a folder, run the jobs, and return their reports by name."""
    for sub in ("data", "jobs"):
        make_folder(folder / sub)
    reports = {}
    for name in JOBS:
        table = folder / "data" / f"{name}.parquet"
        if not table.exists():
            write_whole(table, partial(pq.write_table, make_table(name)))
        path = folder / "jobs" / f"{name}.toml"
        write_content(path, tomli_w.dumps(demo_job(name, str(folder))))
        job = load_job(path)
        reports[name] = run_job(job, start=Start(overwrite=True), command=f"distsvc run {path}")
        progress.event("demo", job=name, clusters=len(reports[name].clusters))
    return reports
