"""Whatever is written goes through `distsvc.storage.places.arrays`, or is named here, and why."""

import ast
from pathlib import Path

import pytest

import distsvc

ROOT = Path(distsvc.__file__).parent
HOME = "storage/places/arrays.py"

WRITERS = {
    "create_array", "create_group", "copy", "copy2", "copyfile", "copytree", "dump", "hardlink_to",
    "link", "makedirs", "mkdir", "mkdtemp", "mkstemp", "move", "open_memmap",
    "rename", "replace", "save", "savez", "savez_compressed", "symlink", "symlink_to",
    "to_csv", "to_json", "to_parquet", "tofile", "touch", "write_bytes", "write_table",
    "ParquetWriter", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile",
}  # fmt: skip
"""Names of functions and methods that write files or folders."""

MODULES = {"os", "shutil", "np", "numpy", "pa", "pq", "zarr", "tempfile", "json"}
AMBIGUOUS = {"copy", "replace", "dump", "save", "link", "move", "rename"}
"""Names that are other things' too: they count where they are a module's or a path's."""

THEIRS = {
    "storage/places/folder.py": "the place of an output, its lock and its commit",
    "storage/publishing/formats.py": "arrays in memory, whose files are then copied",
    "storage/places/process.py": "folders of the system's, for files that nobody keeps",
    "kernels/jit.py": "the cache of compiled code: what fails there is not needed",
    "inputs/rows.py": "a file of the system's without a name, for rows that come only once",
    "__main__.py": "standard output and error, where they are closed",
    "mlflow.py": "two files, which MLflow copies from a folder of the system's",
}
"""Modules that write for themselves."""


def named_writers(source: str) -> list[tuple[str, bool]]:
    """Return what a module calls that writes, and whether within `writing` or `write_whole`."""
    found: list[tuple[str, bool]] = []
    tree = ast.parse(source)
    streams = _streams(tree)

    def visit(node: ast.AST, guarded: bool) -> None:
        if isinstance(node, ast.FunctionDef) and node.name in streams:
            return
        if isinstance(node, ast.With):
            guarded = guarded or any("writing" in ast.unparse(i.context_expr) for i in node.items)
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")
            if name[2] == "write_whole":
                guarded = True
            elif _writes(node, name[0], name[2]):
                found.append((ast.unparse(node.func), guarded))
        for child in ast.iter_child_nodes(node):
            visit(child, guarded)

    visit(tree, False)
    return found


def _writes(node: ast.Call, owner: str, name: str) -> bool:
    if name == "open":
        modes = [a.value for a in node.args if isinstance(a, ast.Constant)]
        modes += [k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)]
        return any(isinstance(m, str) and len(m) < 4 and set(m) & set("wax+") for m in modes)
    if name in AMBIGUOUS:
        return owner in MODULES - {"json"} or (name == "rename" and bool(owner))
    return name in WRITERS


def _streams(tree: ast.AST) -> set[str]:
    """Return the functions that are handed a stream by `write_whole`."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    handed = [c.args[1] for c in calls if ast.unparse(c.func) == "write_whole" and len(c.args) > 1]
    return {ast.unparse(argument) for argument in handed}


def unguarded(source: str) -> list[str]:
    """Return what a module writes elsewhere than to a stream of `write_whole`."""
    return [name for name, guarded in named_writers(source) if not guarded]


FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


def test_modules_write_through_one_place():
    found = {m: unguarded((ROOT / m).read_text()) for m in FILES if m != HOME and m not in THEIRS}
    assert {module: names for module, names in found.items() if names} == {}


def test_no_exception_is_left_over():
    assert {HOME, *THEIRS} <= set(FILES)


@pytest.mark.parametrize(
    "source",
    [
        "open(path, 'w')",
        "path.open(mode='ab')",
        "os.replace(a, b)",
        "folder.mkdir()",
        "path.rename(other)",
        "np.save(path, x)",
        "pq.write_table(table, path)",
        "zarr.create_group(path)",
        "path.write_bytes(b'')",
        "with tempfile.TemporaryDirectory() as folder:\n    pass",
    ],
)
def test_a_write_is_seen(source):
    assert len(unguarded(source)) == 1
    assert unguarded(f"with writing(path):\n    {source.replace(chr(10), chr(10) + '    ')}") == []


@pytest.mark.parametrize(
    "source",
    [
        "open(path)",
        "open(path, 'rb')",
        "text.replace('a', 'w')",
        "x.copy()",
        "write_whole(path, lambda stream: pq.write_table(table, stream))",
        "def f(stream):\n    np.save(stream, x)\nwrite_whole(path, f)",
    ],
)
def test_what_is_no_write_is_not(source):
    assert unguarded(source) == []
