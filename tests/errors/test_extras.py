"""Without the packages of extras all else works, and what needs one says which."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from distsvc.errors import MissingExtraError
from distsvc.errors.extras import check_extra, is_installed, required
from tests.processes import python

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys

class Hidden:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Hidden)
"""
OPTIONAL = ("matplotlib", "zarr", "cryptography")
COMMAND = WITHOUT.format(hidden=OPTIONAL) + "from distsvc.__main__ import main; main()"


def distsvc(*arguments):
    return python("-c", COMMAND, *arguments)


@pytest.fixture
def table(tmp_path):
    random = np.random.default_rng(0)
    rows = np.concatenate([random.normal(c, 0.3, (150, 2)) for c in ((0, 0), (3, 3))])
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="x,y", comments="")
    return str(tmp_path / "t.csv")


def test_a_plain_installation_runs_jobs_and_loads_runs(table, tmp_path):
    out = str(tmp_path / "out")
    found = distsvc("run", table, "--out", out, "--set", "model.effort=fast", "--json")
    assert found.returncode == 0, found.stderr
    assert len(json.loads(found.stdout)["clusters"]) == 2
    assert "page without figures" in found.stderr
    page = next(Path(out).rglob("report.html")).read_text()
    assert "This figure is not drawn" in page
    assert "distsvc[report]" in page
    assert "<svg" not in page.partition("<main")[2]
    code = "import distsvc; run = distsvc.load(sys.argv[1])\n"
    code += "import numpy; rows = numpy.zeros((3, 2))\n"
    code += "print(run.labels().num_rows, len(set(run.model.predict(rows).tolist())))"
    loaded = python("-c", WITHOUT.format(hidden=OPTIONAL) + code, out)
    assert (loaded.returncode, loaded.stdout) == (0, "300 1\n"), loaded.stderr
    again = distsvc("report", out)
    assert again.returncode == 78
    assert "a page with figures needs matplotlib, which comes with distsvc[report]" in again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--set", "output.format=zarr"],
            "output.format = 'zarr' needs zarr, which comes with distsvc[zarr]: "
            "pip install 'distsvc[zarr]'",
        ),
        (
            ["--set", "cluster.workers=1"],
            "the TLS of cluster.workers on this machine needs cryptography, which comes with "
            "distsvc[tls]: pip install 'distsvc[tls]'",
        ),
    ],
    ids=lambda words: words[-1] if isinstance(words, list) else "",
)
def test_what_needs_an_extra_names_it(table, tmp_path, words, message):
    found = distsvc("run", table, "--out", str(tmp_path / "out"), "--quiet", *words)
    assert (found.returncode, found.stdout) == (78, "")
    assert found.stderr == f"error: {message}\n"


def test_a_zarr_input_names_its_extra(tmp_path):
    (tmp_path / "in.zarr").mkdir()
    (tmp_path / "in.zarr/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    found = distsvc("run", str(tmp_path / "in.zarr"), "--quiet")
    assert found.returncode == 78
    assert "in.zarr needs zarr, which comes with distsvc[zarr]" in found.stderr


def test_a_large_table_is_worked_on_without_workers():
    code = """
from distsvc.job.config import ClusterConfig
from distsvc.run.work.workers.cluster import connected
from distsvc.run.work.progress import Progress
with connected(ClusterConfig(), 2**40, Progress(log_format="text")) as client:
    print(client)
"""
    found = python("-c", WITHOUT.format(hidden=OPTIONAL) + code)
    assert (found.returncode, found.stdout) == (0, "None\n"), found.stderr
    assert "in this process alone: workers on this machine are closed to others" in found.stderr
    assert "pip install 'distsvc[tls]'" in found.stderr


def test_figures_in_python_name_their_extra():
    code = """
import numpy as np
import distsvc
from distsvc.errors import MissingExtraError
rows = np.random.default_rng(0).normal(size=(50, 2))
model = distsvc.IncrementalMDH(n_clusters=2).fit(rows)
for draw in (lambda: distsvc.plot.tree(model), lambda: distsvc.plot.clusters(model, rows)):
    try:
        draw()
    except MissingExtraError as error:
        print(error)
"""
    found = python("-W", "ignore", "-c", WITHOUT.format(hidden=OPTIONAL) + code)
    line = "a figure needs matplotlib, which comes with distsvc[report]: "
    assert found.stdout == 2 * f"{line}pip install 'distsvc[report]'\n", found.stderr


def test_what_is_there_is_returned():
    assert required("json.decoder", "none", "this").JSONDecoder
    check_extra("json", "none", "this")
    assert is_installed("json")
    assert not is_installed("no_such_package")
    with pytest.raises(MissingExtraError, match=r"it needs no_such, which comes with distsvc\[x\]"):
        required("no_such.part", "x", "it")


def test_extras_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    plain = {Requirement(line).name for line in project["dependencies"]}
    assert plain.isdisjoint(OPTIONAL)
    for extra, package in zip(("report", "zarr", "tls"), OPTIONAL, strict=True):
        assert {Requirement(line).name for line in extras[extra]} == {package}
    [everything] = map(Requirement, extras["all"])
    assert everything.extras == extras.keys() - {"all", "bench", "dev", "docs", "package"}
