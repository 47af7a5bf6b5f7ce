"""Each bad input has its exit code and one sentence, and leaves nothing at the output path."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
from click.testing import CliRunner

from distsvc.cli.main import main
from tests.published_files import nothing_left

pytestmark = pytest.mark.usefixtures("quick_page")

N = 60
MODEL = {"gamma": 1.0, "max_iter": 1000}


@pytest.fixture(autouse=True)
def no_signals(monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)


def columns(n: int = N) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {"x": random.normal(size=n), "y": random.normal(size=n)}


class Bench:
    """A folder with a table, and the command line run on it."""

    def __init__(self, folder):
        self.folder, self.out = folder, folder / "out"
        self.command = []

    def table(self, content=None, name="in.parquet", **changes):
        table = pa.table((columns() if content is None else content) | changes)
        pq.write_table(table, self.folder / name, row_group_size=25)

    def run(self, *options, path="in.parquet", out=None, **sections):
        given = {
            "input": {"path": str(self.folder / path)} | sections.pop("input", {}),
            "output": {"path": str(out or self.out)} | sections.pop("output", {}),
            "model": MODEL | sections.pop("model", {}),
        }
        job = self.folder / "job.toml"
        job.write_text(tomli_w.dumps(given | sections))
        return self.invoke("run", str(job), *options)

    def invoke(self, *arguments):
        return CliRunner().invoke(main, arguments)

    def refuses(self, exit_code, *parts, **given):
        """Run, and check exit code and message, and that nothing is left."""
        found = self.run(**given)
        self.check(found, exit_code, *parts)
        assert nothing_left(self.out)

    def check(self, found, exit_code, *parts):
        messages = [s for s in found.stderr.splitlines() if s.startswith("error: ")]
        assert len(messages) == 1, found.output
        for part in parts:
            assert part in messages[0]
        assert found.exit_code == exit_code
        assert found.stdout == ""


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


# The file


# The columns


@pytest.mark.parametrize("value", [-np.inf, 1e200])
def test_a_value_that_is_not_finite(bench, value):
    content = columns()
    content["y"][37] = value
    bench.table(content)
    message = f"expected a finite number below 1e154, found {value}"
    for missing in "error", "drop", "median":
        bench.refuses(65, "column 'y', row 37:", message, preprocess={"missing": missing})


@pytest.mark.parametrize("gap", [None, np.nan])
def test_missing_values(bench, gap):
    y = columns()["y"].tolist()
    y[37] = y[40] = gap
    bench.table(y=pa.array(y, pa.float64()))
    bench.refuses(
        65,
        f"in.parquet: column 'y' has 2 missing values in rows 0 to {N - 1} (first at row 37); ",
        "add --set preprocess.missing=median, or =drop",
    )


# The output


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("in.parquet/out", "can't be written"),
        ("in.parquet", "can't be written"),
        ("/proc/distsvc/out", "(No such file or directory)"),
    ],
)
def test_output_not_writable(bench, out, why):
    bench.table()
    path = bench.folder / out
    before = sorted(bench.folder.iterdir())
    found = bench.run(out=path)
    bench.check(found, 77, f"output.path {path}", why)
    assert sorted({*bench.folder.iterdir()} - {bench.folder / "job.toml"}) == before


# Predict


def test_predict_with_bad_rows(bench):
    bench.table()
    assert bench.run().exit_code == 0
    bench.table({"x": [1.0, 2.0], "y": [0.0, np.nan]}, name="new.parquet")
    target = str(bench.folder / "predicted")
    result = bench.invoke("predict", str(bench.out), str(bench.folder / "new.parquet"), target)
    bench.check(result, 65, "new.parquet: column 'y' has 1 missing value in", "at row 1)")
    result = bench.invoke("predict", str(bench.out), str(bench.folder / "none.parquet"), target)
    bench.check(result, 66, "none.parquet does not exist")
    assert nothing_left(bench.folder / "predicted")


def test_predict_and_report_without_a_run(bench):
    bench.table()
    table, target = str(bench.folder / "in.parquet"), str(bench.folder / "predicted")
    message = "it has no manifest.json"
    bench.check(bench.invoke("predict", str(bench.folder), table, target), 66, message)
    bench.check(bench.invoke("report", str(bench.folder)), 66, message)
    assert nothing_left(bench.folder / "predicted")
