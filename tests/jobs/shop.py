"""A shop whose table is clustered night after night, for tests."""

import json

import numpy as np
import tomli_w
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.job.file import load_job
from distsvc.run.job import run_job
from distsvc.run.work.start import ClusterAddress, Start
from tests.published_files import labels_of, published_file
from tests.small_runs import forget, write_table

CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 9.0], [-7.0, -5.0]])
FIRST, SECOND, THIRD = "2026-02-28", "2026-03-01", "2026-03-02"


def rows(*sizes, seed=0, shift=0.0):
    """Return rows (n, 2) around the centres, so many of each, in random order, and those."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return CENTRES[y] + random.normal(0.0, 0.4, (len(y), 2)) + shift, y


class Shop:
    """A folder of tables by date, a job file for every night, and what is published."""

    def __init__(self, folder):
        self.folder = folder

    def table(self, date, X, **columns):
        """Write the table of a night."""
        (self.folder / "in").mkdir(exist_ok=True)
        return write_table(self.folder / "in" / f"{date}.parquet", X, **columns)

    def job_file(self, **sections):
        content = {
            "input": {"path": f"{self.folder}/in/{{run_date}}.parquet"},
            "model": {"algorithm": "bico", "n_clusters": 3},
            "continuity": {"previous": f"{self.folder}/out/{{run_date-1d}}"},
            "cluster": {"workers": 0, "partition_rows": 300, "block_rows": 70},
            "output": {"path": f"{self.folder}/out/{{run_date}}"},
        }
        content |= {name: content.get(name, {}) | keys for name, keys in sections.items()}
        path = self.folder / "job.toml"
        path.write_text(tomli_w.dumps(content))
        return path

    def run(self, date, overwrite=False, scheduler=None, **sections):
        """Do a night, as a new process would, and return its report."""
        forget()
        job = load_job(self.job_file(**sections), (), date)
        return run_job(job, ClusterAddress(scheduler), Start(overwrite))

    def out(self, date):
        return self.folder / "out" / date

    def said(self, date, name):
        return json.loads(published_file(self.out(date), name).read_text())

    def manifest(self, date):
        return json.loads((self.out(date) / "manifest.json").read_text())

    def ids(self, date, y):
        """Return the id that the rows of each centre have, of all of them."""
        found = labels_of(self.out(date))
        by_centre = {int(c): set(found[y == c].tolist()) for c in np.unique(y)}
        assert all(len(several) == 1 for several in by_centre.values())
        return {c: several.pop() for c, several in by_centre.items()}


def invoked(shop, date, *options, monkeypatch, **sections):
    """Run the command, whose signals are not to be this process's."""
    forget()
    monkeypatch.setattr("signal.signal", lambda *_: None)
    path = str(shop.job_file(**sections))
    return CliRunner().invoke(main, ["run", path, "--run-date", date, *options])
