"""Imports point one way: cli -> run -> {models -> kernels, storage, report}."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import distsvc

ROOT = Path(distsvc.__file__).parent
OURS = {
    "cli": {
        "cli_nights",
        "cli_outputs",
        "cli_tables",
        "ending",
        "errors",
        "job_file",
        "report",
        "run",
        "storage",
        "urls",
    },
    "cli_nights": {"ending", "errors", "job_file", "run", "urls"},
    "cli_outputs": {"ending", "errors", "run", "storage"},
    "cli_tables": {"ending", "errors", "run"},
    "run": {
        "parameters",
        "config",
        "errors",
        "faults",
        "forms",
        "inputs",
        "job_file",
        "metrics",
        "run",
        "models",
        "storage",
        "report",
        "urls",
    },
    "inputs": {"errors", "inputs"},
    "models": {"constraints", "errors", "inputs", "kernels", "models", "parameters"},
    "kernels": {"kernels"},
    "storage": {"config", "errors", "faults", "forms", "inputs", "storage", "urls"},
    "report": {"errors", "forms", "metrics", "report"},
    "ending": {"faults", "run"},
    "config": {"config", "constraints", "errors", "parameters", "urls"},
    "job_file": {"config", "dates", "errors"},
    "dates": set(),
    "errors": set(),
    "faults": {"errors", "urls"},
    "forms": {"errors"},
    "urls": set(),
    "parameters": {"constraints", "errors"},
    "constraints": {"errors"},
    "baselines": set(),
    "metrics": set(),
    "mlflow": {"run"},
    "__init__": {"run"},
    "__main__": {"cli", "ending"},
}
"""What each part of the package may import of the package, besides `distsvc` itself."""

STDLIB = set(sys.stdlib_module_names)
LOOSE = {"kernels/jit.py"}
DASK = {"dask", "distributed"}


def imported(source: str) -> set[str]:
    """Return the full names of everything that a module imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names - {"__future__.annotations"}


def violations(module: str, source: str) -> list[str]:
    """Return the imports that `module` ("run/job.py") may not make."""
    part = module.split("/")[0].removesuffix(".py")
    found = []
    for name in sorted(imported(source)):
        top, _, rest = name.partition(".")
        if top == "distsvc":
            inner = rest.split(".")[0]
            allowed = inner in OURS[part] or inner not in OURS
        elif part == "kernels":
            allowed = top in {"numpy", "numba", "math"} | (STDLIB if module in LOOSE else set())
        elif part == "metrics":
            allowed = top in {"numpy", "scipy", "sklearn"} | STDLIB
        elif top in DASK:
            allowed = module in {"run/fanout.py", "run/cluster.py"}
        else:
            allowed = not (part == "models" and top in {"pyarrow", "zarr", "fsspec"})
        if not allowed:
            found.append(name)
    return found


MODULES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
SOURCES = {module: (ROOT / module).read_text() for module in MODULES}

MOST_LINES = 400
LONGER: dict[str, str] = {}
"""Modules that may be longer, each with the reason."""

MOST_IMPORTS = 12


def edges(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return the modules that each module imports, at any depth, as files: "run/job.py".

    `from distsvc.run import job` imports the module job; `import distsvc.run` the package itself.
    """
    files = {file.removesuffix(".py").removesuffix("/__init__"): file for file in sources}
    found: dict[str, set[str]] = {}
    for file, source in sources.items():
        inner = {n.removeprefix("distsvc.") for n in imported(source) if n.startswith("distsvc.")}
        paths = {name.replace(".", "/") for name in inner}
        found[file] = {files.get(p) or files.get(p.rpartition("/")[0]) for p in paths} - {None}
    return found


def circles(sources: dict[str, str]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others."""
    imports = edges(sources)

    def reached(start: str) -> set[str]:
        seen, waiting = set(), [start]
        while waiting:
            fresh = imports.get(waiting.pop(), set()) - seen
            seen |= fresh
            waiting += fresh
        return seen

    after = {module: reached(module) for module in sources}
    found = {
        tuple(sorted({other for other in after[module] if module in after[other]}))
        for module in sources
        if module in after[module]
    }
    return [list(group) for group in sorted(found)]


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module):
    assert violations(module, SOURCES[module]) == []


def test_no_modules_import_each_other():
    assert circles(SOURCES) == []


def test_modules_are_short():
    long = {module for module, source in SOURCES.items() if source.count("\n") > MOST_LINES}
    assert long == set(LONGER)


def test_a_module_imports_few_others():
    counts = {module: len(found) for module, found in edges(SOURCES).items()}
    many = {module: n for module, n in counts.items() if n > MOST_IMPORTS}
    assert not many, many


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"a.py": "import distsvc.b", "b.py": "from distsvc.a import x"}, [["a.py", "b.py"]]),
        (
            {"a.py": "def f():\n    from distsvc.b import x", "b.py": "import distsvc.a"},
            [["a.py", "b.py"]],
        ),
        (
            {
                "run/a.py": "from distsvc.run import b",
                "run/b.py": "from distsvc.run.c import x",
                "run/c.py": "if x:\n    import distsvc.run.a",
                "d.py": "from distsvc.run import a",
            },
            [["run/a.py", "run/b.py", "run/c.py"]],
        ),
        (
            {
                "__init__.py": "from distsvc.run.a import x",
                "run/__init__.py": "from distsvc.run.a import x",
                "run/a.py": "from distsvc.run import y",
            },
            [["run/__init__.py", "run/a.py"]],
        ),
        ({"a.py": "from distsvc.b import x", "b.py": "", "c.py": "import distsvc.a"}, []),
    ],
)
def test_a_circle_is_caught(sources, expected):
    assert circles(sources) == expected


@pytest.mark.parametrize(
    ("module", "source", "name"),
    [
        ("kernels/rbf.py", "import os", "os"),
        ("kernels/rbf.py", "from distsvc.models import scaling", "distsvc.models.scaling"),
        ("models/scaling.py", "def f():\n    import pyarrow.parquet", "pyarrow.parquet"),
        ("models/scaling.py", "from distsvc.storage.arrays import x", "distsvc.storage.arrays.x"),
        ("models/scaling.py", "from dask import array", "dask.array"),
        ("run/job.py", "from distributed import Client", "distributed.Client"),
        ("run/job.py", "from distsvc.cli import main", "distsvc.cli.main"),
        ("run/job.py", "from distsvc import cli", "distsvc.cli"),
        ("storage/parts.py", "import distsvc.run.job", "distsvc.run.job"),
        ("report/page.py", "from distsvc.models import scaling", "distsvc.models.scaling"),
        ("errors.py", "from distsvc import metrics", "distsvc.metrics"),
        ("metrics.py", "import pandas", "pandas"),
        ("cli.py", "from distsvc.models import scaling", "distsvc.models.scaling"),
    ],
)
def test_a_violation_is_caught(module, source, name):
    assert violations(module, source) == [name]


def test_allowed_imports_are_not_violations():
    assert violations("run/fanout.py", "import dask\nfrom distsvc.errors import DataError") == []
    assert violations("kernels/jit.py", "import os\nimport numba") == []
    assert violations("cli.py", "from distsvc import __version__") == []


def test_workers_import_neither_estimators_nor_pictures():
    tasks = [name for name in MODULES if name.startswith("run/algorithms/")]
    tasks += ["run/survey.py", "run/labelling.py", "run/categories.py"]
    names = [name.removesuffix(".py").replace("/", ".") for name in tasks]
    code = f"import sys; {'; '.join(f'import distsvc.{name}' for name in names)}\n"
    code += "print(sorted({'sklearn', 'scipy.stats', 'matplotlib'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stderr
