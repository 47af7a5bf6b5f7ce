"""Imports point downhill: cli -> published -> run -> {models -> kernels, storage, report}."""

import ast
import sys
from pathlib import Path

import pytest

import distsvc
from tests.processes import python

ROOT = Path(distsvc.__file__).parent
MAY_IMPORT = {
    "errors": set(),
    "kernels": set(),
    "metrics": set(),
    "inputs": {"errors"},
    "job": {"errors"},
    "report": {"errors", "metrics"},
    "models": {"errors", "inputs", "job", "kernels"},
    "storage": {"errors", "inputs", "job"},
    "run": {"errors", "job", "metrics", "models", "report", "storage"},
    "monitoring": {"errors", "job", "report", "storage"},
    "published": {"errors", "inputs", "job", "kernels", "monitoring", "report", "run", "storage"},
    "cli": {"errors", "job", "monitoring", "published", "report", "run", "storage"},
    "baselines": {"models"},
    "mlflow": {"published", "run", "storage"},
    "plot": {"models", "published", "report", "run"},
    "__init__": {"baselines", "errors", "metrics", "models", "plot", "published", "run"},
    "__main__": {"cli", "run"},
}
"""The packages that each package may import, besides itself and `distsvc`; lowest first."""

INSIDE = {
    package: names.split()
    for package, names in {
        "models": "rules rows bases mixture columns engine mixture_clustering nights "
        "hyperplanes linear support_vector graph baselines automatic estimators",
        "report": "content formats figures sections page",
        "run": "work learning algorithms labelling model nights preparing fitting starting "
        "reporting forecast job drafts worker",
        "storage": "places rows tables publishing",
    }.items()
}
"""The order of what a package holds: each imports only what stands before it."""

STDLIB = set(sys.stdlib_module_names)
CODE = set(sys.stdlib_module_names) | {"llvmlite"}
LOOSE = {f"kernels/{name}.py" for name in ("ahead", "jit", "lanes")}
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


def part_of(name: str) -> tuple[str, str]:
    """Return package and part of a module by its path: ("run", "work") of run/work/phases."""
    package, _, inner = name.removesuffix(".py").partition("/")
    return package, inner.split("/")[0]


def may_import(module: str, path: str) -> bool:
    """Whether a module may import what stands at a path, both of the package distsvc."""
    (package, part), (other, inner) = part_of(module), part_of(path)
    if other == package and package in INSIDE:
        places = {name: number for number, name in enumerate(INSIDE[package])}
        return part in places and places.get(inner, -1) <= places[part]
    return other in {"", package} or other in MAY_IMPORT[package] or other not in MAY_IMPORT


def violations(module: str, source: str) -> list[str]:
    """Return the imports that `module` ("run/job.py") may not make."""
    package, _ = part_of(module)
    bad = []
    for name in sorted(imported(source)):
        top, _, rest = name.partition(".")
        if top == "distsvc":
            allowed = may_import(module, rest.replace(".", "/"))
        elif package == "kernels":
            allowed = top in {"numpy", "numba", "math"} | (CODE if module in LOOSE else set())
        elif package == "metrics":
            allowed = top in {"numpy", "scipy", "sklearn"} | STDLIB
        elif top in DASK:
            allowed = module in {"run/work/workers/fanout.py", "run/work/workers/cluster.py"}
        else:
            allowed = not (package == "models" and top in {"pyarrow", "zarr", "fsspec"})
        if not allowed:
            bad.append(name)
    return bad


MODULES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
SOURCES = {module: (ROOT / module).read_text() for module in MODULES}


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


def test_imports_point_one_way():
    found = {module: violations(module, source) for module, source in SOURCES.items()}
    assert {module: names for module, names in found.items() if names} == {}


def test_no_modules_import_each_other():
    assert circles(SOURCES) == []


def test_all_parts_have_their_place():
    parts = {package: set() for package in INSIDE}
    for module in MODULES:
        package, part = part_of(module)
        assert package in MAY_IMPORT, module
        if package in INSIDE and part != "__init__":
            parts[package].add(part)
    assert parts == {package: set(order) for package, order in INSIDE.items()}


def test_packages_import_downhill():
    below = set()
    for package, others in MAY_IMPORT.items():
        assert others <= below, package
        below.add(package)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"a.py": "import distsvc.b", "b.py": "from distsvc.a import x"}, [["a.py", "b.py"]]),
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
        ("models/rows/scaling.py", "def f():\n    import pyarrow.parquet", "pyarrow.parquet"),
        (
            "models/rows/min_cluster_size.py",
            "import distsvc.models.linear",
            "distsvc.models.linear",
        ),
        ("run/job.py", "from distributed import Client", "distributed.Client"),
        ("run/job.py", "from distsvc.cli.main import main", "distsvc.cli.main.main"),
        ("run/work/plan.py", "import distsvc.run.job", "distsvc.run.job"),
        ("storage/rows/blocks.py", "import distsvc.storage.tables", "distsvc.storage.tables"),
        ("errors/__init__.py", "from distsvc import metrics", "distsvc.metrics"),
        ("metrics.py", "import pandas", "pandas"),
    ],
)
def test_a_violation_is_caught(module, source, name):
    assert violations(module, source) == [name]


def test_allowed_imports_are_not_violations():
    assert (
        violations(
            "run/work/workers/fanout.py", "import dask\nfrom distsvc.errors import DataError"
        )
        == []
    )
    assert violations("kernels/jit.py", "import os\nimport numba") == []
    assert violations("cli/main.py", "from distsvc import __version__") == []


def test_workers_import_neither_estimators_nor_pictures():
    tasks = [name for name in MODULES if name.startswith("run/algorithms/")]
    tasks += ["run/learning/survey.py", "run/labelling/phase.py", "run/work/plan.py"]
    names = [name.removesuffix(".py").replace("/", ".") for name in tasks]
    code = f"import sys; {'; '.join(f'import distsvc.{name}' for name in names)}\n"
    code += "print(sorted({'sklearn', 'scipy.stats', 'matplotlib'} & set(sys.modules)))"
    found = python("-c", code)
    assert found.stdout == "[]\n", found.stderr
