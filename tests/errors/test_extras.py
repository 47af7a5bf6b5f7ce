"""Without the packages of extras all else works, and errors name the extra to install."""

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
OPTIONAL = ("matplotlib",)
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


def test_a_plain_installation_starts_workers_and_writes_zarr(table, tmp_path):
    out = str(tmp_path / "out")
    asked = ["--algorithm", "bico", "--clusters", "2", "--set", "output.format=zarr"]
    found = distsvc("run", table, "--out", out, "--set", "cluster.workers=1", *asked)
    assert found.returncode == 0, found.stderr
    assert '"kind": "1 workers here"' in found.stderr
    labels = "import distsvc; print(distsvc.load(sys.argv[1]).labels().num_rows)"
    loaded = python("-c", WITHOUT.format(hidden=OPTIONAL) + labels, out)
    assert (loaded.returncode, loaded.stdout) == (0, "300\n"), loaded.stderr


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


def test_installed_packages_are_returned():
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
    assert {"zarr", "cryptography"} <= plain
    assert {Requirement(line).name for line in extras["report"]} == {*OPTIONAL}
    [everything] = map(Requirement, extras["all"])
    assert everything.extras == extras.keys() - {"all", "bench", "dev", "docs", "package"}
