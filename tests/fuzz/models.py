"""Damage published runs of every algorithm, and see what reading them says.

What is damaged ends in one line that names the file, or, where what is left is a model or a report,
in labels that are the same on each of two calls, or a page. Each is drawn from its own number.
"""

import io
import json
import shutil
import traceback
import warnings
import zipfile
from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq

from distsvc.errors import DistsvcError
from distsvc.published.predict import predict_table
from distsvc.published.run import load
from distsvc.published.status import status, status_lines
from distsvc.run.job import run_job
from distsvc.run.reporting.files import rewrite_page
from distsvc.storage.places.folder import Folder
from distsvc.storage.publishing.manifest import listed_file, read_manifest
from tests.fuzz.inputs import damage as damage_bytes
from tests.published_files import nothing_left, published_file
from tests.small_runs import FORMS, forget, listed_again, small_job, three_clusters, write_table

MODELS = FORMS | {
    "two columns": {"gamma": 1.0, "nu": 0.1, "max_iter": 2000, "budget": 20},
    "spdc": {"algorithm": "spdc", "window": 50, "valley": 1.0},
    "fuzzy": {"algorithm": "fuzzy-c-means", "n_clusters": 3},
}
ROWS = 600
"""Of each run's table."""

NUMBERS = (-1, 0, 1, 2, 7, 2**31, 2**63, 10**40, 10**400, -0.5, 0.5, 1e-320, 1e30, 1e300, 1.7e308)
ODD = (None, True, False, "", "x", "../x", "a\nb", "\ud800", "ß" * 5000, [], {}, [[1]], [None])
NO_NUMBERS = (float("nan"), float("inf"), -float("inf"))
TYPES = ("f4", "f8", "f2", "i1", "i4", "i8", "u8", "?", ">f4", ">f8", ">i8", "U3", "S4", "c16")


def publish(folder: Path, names=tuple(MODELS)) -> dict[str, Path]:
    """Publish small runs by name, and a small table beside them, ``few.parquet``."""
    runs = {}
    for name in names:
        d = 2 if name == "two columns" else 3
        table = write_table(folder / f"t{d}.parquet", three_clusters(ROWS, d))
        out = {"path": str(folder / name.replace(" ", "-")), "reasons": 2}
        job = small_job(table, MODELS[name], output=out)
        run_job(job)
        runs[name] = Path(out["path"])
        write_table(folder / f"few{d}.parquet", three_clusters(40, d, seed=5))
    return runs


def damaged_json(random: np.random.Generator, text: str) -> bytes:
    """Return JSON with one place changed, or its bytes."""
    kind = random.integers(14)
    if kind == 0:
        return damaged_bytes(random, text.encode())
    content = json.loads(text)
    if kind == 1:
        pair = f'"{next(iter(content))}": 1, '
        return text.replace("{", "{" + pair, 1).encode()
    if kind == 2:
        content["deep"] = 0
        deep = "[" * 100_000 + "]" * 100_000
        return json.dumps(content).replace('"deep": 0', f'"deep": {deep}').encode()
    place, key = chosen_place(random, content)
    if kind == 3:
        del place[key]
    elif kind == 4:
        other, name = chosen_place(random, content)
        place[key], other[name] = other[name], place[key]
    elif kind == 5 and isinstance(place[key], list) and place[key]:
        place[key].append(place[key][int(random.integers(len(place[key])))])
    elif kind == 6 and isinstance(place[key], list) and place[key]:
        place[key].pop(int(random.integers(len(place[key]))))
    elif kind == 7 and isinstance(place[key], str):
        place[key] = place[key][::-1] + "\0"
    elif kind < 11:
        place[key] = NUMBERS[random.integers(len(NUMBERS))]
    else:
        values = ODD + NO_NUMBERS
        place[key] = values[random.integers(len(values))]
    return json.dumps(content).encode()


def chosen_place(random: np.random.Generator, content):
    """Return a container of JSON, and one of its keys; shallow places as often as deep ones."""
    while True:
        keys = list(content) if isinstance(content, dict) else range(len(content))
        key = keys[int(random.integers(len(keys)))]
        deeper = isinstance(content[key], dict | list) and content[key]
        if not deeper or random.random() < 0.15:
            return content, key
        content = content[key]


def damaged_bytes(random: np.random.Generator, content: bytes) -> bytes:
    return damage_bytes(content, Random(int(random.integers(2**32))))


def damaged_arrays(random: np.random.Generator, content: bytes) -> bytes:
    """Return an ``.npz`` file with an array changed, or the archive."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = list(arrays)[int(random.integers(len(arrays)))]
    kind = random.integers(12)
    if kind == 0:
        return damaged_bytes(random, content)
    if kind == 1:
        return odd_archive(random, arrays, name)
    if kind == 2:
        del arrays[name]
    elif kind == 3:
        arrays["more"] = arrays[name]
    elif kind == 4:
        other = list(arrays)[int(random.integers(len(arrays)))]
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif kind < 8:
        arrays[name] = of_other_shape(random, arrays[name])
    elif kind == 8:
        arrays[name] = arrays[name].astype(TYPES[random.integers(len(TYPES))])
    else:
        arrays[name] = with_other_values(random, arrays[name])
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def of_other_shape(random: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Return an array with more, fewer or otherwise ordered dimensions, rows or columns."""
    axis = int(random.integers(max(array.ndim, 1)))
    n = array.shape[axis]
    many = np.take(array, np.arange(2 * n + 1) % max(n, 1), axis=axis) if n else array
    return (
        lambda: array[..., None],
        lambda: array.ravel(),
        lambda: array.T,
        lambda: np.asfortranarray(array),
        lambda: np.take(array, np.arange(n - 1), axis=axis),
        lambda: np.take(array, [], axis=axis).astype(array.dtype),
        lambda: many,
        lambda: np.concatenate([array, array[-1:]]),
        lambda: array[:1],
        lambda: array.reshape(-1)[:1].reshape(()),
        lambda: np.take(array, [*range(n), n - 1], axis=axis),
    )[random.integers(11)]()


def with_other_values(random: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Return an array with one value, or all of them, changed."""
    array = array.copy(order="K")
    if not array.size:
        return array
    at = np.unravel_index(int(random.integers(array.size)), array.shape)
    kind = random.integers(5)
    if kind == 0:
        return random.permutation(array)
    if kind == 1:
        return array[::-1].copy()
    if array.dtype.kind in "iu":
        others = (-2, -1, 0, 1, 3, len(array), len(array) - 1, 2**31 - 1, -(2**31), 10**6)
        array[at] = others[random.integers(len(others))]
        return array
    others = (*NO_NUMBERS, -1.0, 0.0, 1e-320, 1e-30, 1e30, -1e30, 1e300)
    with np.errstate(over="ignore"):
        array[at if kind < 4 else ...] = others[random.integers(len(others))]
    return array


def odd_archive(random: np.random.Generator, arrays: dict[str, np.ndarray], name: str) -> bytes:
    """Return an archive that is compressed, lies about a size, or has an odd or second member."""
    stream = io.BytesIO()
    kind = random.integers(6)
    if kind == 0:
        np.savez_compressed(stream, **arrays)
        return stream.getvalue()
    np.savez(stream, **arrays)
    header = io.BytesIO()
    shape = ((10**12,), (-1, 2), (2**40, 2**40), (1, 3))[random.integers(4)]
    descr = ("<f8", "|O", [("a", "<f4")], "<f4")[random.integers(4)]
    np.lib.format.write_array_header_1_0(
        header, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "a") as archive:
        warnings.simplefilter("ignore")  # of the second member
        member = (f"{name}.npy", "more.npy", "../more.npy", "more.txt", "a\nb.npy")[kind - 1]
        archive.writestr(member, header.getvalue() + bytes(48))
    return stream.getvalue()


FILES = {
    "manifest.json": damaged_json,
    "model.json": damaged_json,
    "arrays.npz": damaged_arrays,
    "report.json": damaged_json,
}


def damage(random: np.random.Generator, copy: Path, name: str) -> bool:
    """Change a file of a published run; return whether its checksum was brought up to date."""
    path, place = copy / name, Folder(copy)
    if name != "manifest.json":
        path = copy / listed_file(place, read_manifest(place), name).file
    content = path.read_bytes()
    change = FILES[name]
    path.write_bytes(change(random, content.decode() if change is damaged_json else content))
    if name == "manifest.json" or random.random() < 0.1:
        return False
    listed_again(copy)
    return True


def outcome(copy: Path, table: Path, out: Path, name: str) -> str:
    """Read a damaged run; return what came of it, and raise AssertionError where that is wrong."""
    try:
        if name == "report.json":
            rewrite_page(str(copy))
            return "a page"
        if name == "manifest.json":
            read_back(copy)
        first = predict_table(copy, str(table), str(out / "a"))
        again = predict_table(copy, str(table), str(out / "b"))
    except DistsvcError as error:
        said = str(error)
        assert said.isprintable(), f"more than a line, or control characters: {said!r}"
        assert len(said) < 1500, f"long: {said}"
        named = str(copy) in said or str(table) in said or "scale the features" in said
        assert named, f"no file is named: {said}"
        assert nothing_left(out / "a"), f"something was published: {said}"
        return f"{type(error).__name__}"
    labels = [
        pq.read_table([out / one / f.file for f in found.files if "labels" in f.file])
        for one, found in (("a", first), ("b", again))
    ]
    first_rows, second_rows = (repr(table.to_pylist()) for table in labels)  # NaN is NaN there
    assert first_rows == second_rows, "two calls give other labels"
    found = labels[0]["label"].to_numpy()
    with np.load(published_file(copy, "arrays.npz")) as arrays:
        assert set(found.tolist()) <= set(arrays["ids"].tolist()), "a label is no id of the model"
    return "labels"


def read_back(copy: Path) -> None:
    """Read all that a published run has; AssertionError where rows are missing without a word."""
    run = load(copy)
    assert len(run.labels()) == ROWS, "labels of other rows"
    assert len(run.labels("label", filter="label >= 0")) == ROWS, "labels of other rows"
    assert sum(pq.read_metadata(file).num_rows for file in run.files) == ROWS, "other files"
    assert run.report.input.n_rows == ROWS
    assert status_lines(status(str(copy)))
    assert json.dumps(run.manifest, allow_nan=False)
    assert repr(run)
    assert repr(run.model)


def try_one(runs: dict[str, Path], work: Path, seed: int, number: int, files=tuple(FILES)):
    """Damage one run; return (run, file, listed again, outcome, what was wrong or None)."""
    random = np.random.default_rng([seed, number])
    name = list(runs)[number % len(runs)]
    file = files[int(random.integers(len(files)))]
    copy, out = work / "copy", work / "out"
    for folder in (copy, out):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(runs[name], copy)
    table = runs[name].parent / f"few{2 if name == 'two columns' else 3}.parquet"
    again = damage(random, copy, file)
    forget()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of overflow, where values are odd but allowed
            return name, file, again, outcome(copy, table, out, file), None
    except AssertionError as error:
        return name, file, again, "WRONG", str(error)
    except Exception:
        return name, file, again, "TRACEBACK", traceback.format_exc()
