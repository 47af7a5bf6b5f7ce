"""Commands and workers do not import libraries that they never use."""

import pytest

from tests.processes import python

CODE = """
import sys
from distsvc.run.work.workers.lean import lean
lean()
lean()
{}
print(sorted({{"pandas", "rich", "matplotlib", "sklearn"}} & set(sys.modules)))
"""


def loaded(code: str) -> str:
    done = python("-c", CODE.format(code))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "code",
    [
        "import pyarrow; print(pyarrow.array([1, None]).to_pylist())",
        "import distsvc.run.job, distsvc.cli.main, distsvc.run.drafts.asked_job",
        "import scipy.spatial; scipy.spatial.cKDTree([[0.0], [1.0]]).query([0.2])",
    ],
)
def test_unused_libraries_are_not_imported(code):
    assert loaded(code) == "[]"


def test_other_processes_can_import_pandas():
    assert python("-c", "import distsvc.run.job, pandas").returncode == 0


PAGE = """
from distsvc.run.reporting.files import skip_docstrings
skip_docstrings()
from matplotlib.lines import Line2D
from matplotlib.axes import Axes
assert callable(Line2D([], []).set)
print("Properties:" in str(Line2D.set.__doc__), "antialiased" in Axes.plot.__doc__)
"""


@pytest.mark.parametrize(("start", "shown"), [("lean()", "False False"), ("", "True True")])
def test_only_commands_leave_out_lists_of_properties(start, shown):
    code = f"from distsvc.run.work.workers.lean import lean\n{start}\n{PAGE}"
    done = python("-c", code)
    assert done.stdout == f"{shown}\n", done.stderr
