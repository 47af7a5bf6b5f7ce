"""A run over an input that changes while it is read publishes nothing, and names the file."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError
from distsvc.job.file import parse_job
from distsvc.run import fitting
from distsvc.run import job as jobs
from distsvc.run.job import run_job

N_ROWS = 90
Writer = Callable[[Path, dict[str, np.ndarray]], None]


def rows(n: int = N_ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    """Two columns; whole numbers of one digit, so that rows of a text are equally long."""
    rng = np.random.default_rng(seed)
    return {"f1": rng.integers(1, 9, n).astype(float), "f2": rng.integers(1, 9, n).astype(float)}


def write_parquet(path: Path, columns: dict[str, np.ndarray]) -> None:
    pq.write_table(
        pa.table(columns), path, row_group_size=30, compression="none", use_dictionary=False
    )


def write_folder(path: Path, columns: dict[str, np.ndarray]) -> None:
    path.mkdir(exist_ok=True)
    half = N_ROWS // 2
    for name, part in (("a", slice(half)), ("b", slice(half, None))):
        write_parquet(path / f"{name}.parquet", {n: v[part] for n, v in columns.items()})


def write_zarr(path: Path, columns: dict[str, np.ndarray]) -> None:
    zarr.open_group(path, mode="w")
    for name, values in columns.items():
        zarr.create_array(path / name, data=values, chunks=(30,), compressors=None)


def write_csv(path: Path, columns: dict[str, np.ndarray]) -> None:
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")


def write_svmlight(path: Path, columns: dict[str, np.ndarray]) -> None:
    table = zip(*columns.values(), strict=True)
    names = [name[1:] for name in columns]
    lines = [" ".join(f"{n}:{v}" for n, v in zip(names, row, strict=True)) for row in table]
    path.write_text("".join(f"1 {line}\n" for line in lines))


FORMATS: dict[str, tuple[str, Writer]] = {
    "parquet": ("t.parquet", write_parquet),
    "folder": ("t", write_folder),
    "zarr": ("t.zarr", write_zarr),
    "csv": ("t.csv", write_csv),
    "svmlight": ("t.svm", write_svmlight),
}


def files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())


def data_file(path: Path) -> Path:
    """The last file that holds rows."""
    return [p for p in files_of(path) if p.name != "zarr.json"][-1]


def rewritten(path: Path, write: Writer, columns: dict[str, np.ndarray]) -> None:
    """Write another table there; files of a folder are replaced in place or removed with it."""
    if path.suffix == ".zarr":
        shutil.rmtree(path)
    write(path, columns)


def replaced(path: Path, write: Writer) -> None:
    rewritten(path, write, rows(seed=1))


def appended(path: Path, write: Writer) -> None:
    rewritten(path, write, rows(N_ROWS + 30))


def truncated(path: Path, write: Writer) -> None:
    file = data_file(path)
    os.truncate(file, file.stat().st_size // 2)


def permuted(path: Path, write: Writer) -> None:
    """Other rows in files of the same names, sizes and times of modification."""
    before = {file: file.stat() for file in files_of(path)}
    order = np.random.default_rng(2).permutation(N_ROWS)
    rewritten(path, write, {name: values[order] for name, values in rows().items()})
    for file, found in before.items():
        assert file.stat().st_size == found.st_size
        os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


def added(path: Path, write: Writer) -> None:
    """One more file in a folder; of a table that is one file, a folder in its place."""
    if path.is_file():
        content = path.read_bytes()
        path.unlink()
        path.mkdir()
        (path / f"a{path.suffix}").write_bytes(content)
        (path / f"b{path.suffix}").write_bytes(content)
    else:
        file = data_file(path)
        shutil.copy(file, file.with_name(f"9{file.suffix}"))


def removed(path: Path, write: Writer) -> None:
    data_file(path).unlink()


def linked(path: Path, write: Writer) -> None:
    """Replaced by a link to a table that was there before."""
    file = data_file(path)
    other = path.parent / f"other{file.suffix}"
    os.replace(file, other)
    content = other.read_bytes()
    file.symlink_to(other)
    other.with_suffix(".new").write_bytes(content)
    os.replace(other.with_suffix(".new"), other)


CHANGES = replaced, appended, truncated, permuted, added, removed, linked
MOMENTS = ("open", "survey", "fit", "label")
"""After which of a run's steps the change happens; `open` is before the first task."""


@contextmanager
def changing(moment: str, change: Callable[[], None]) -> Iterator[None]:
    """Let something happen once after a step of the next run."""
    name = {"survey": "survey_table", "fit": "ids_of", "label": "label_table"}
    module, step = (jobs, "steps_on") if moment == "open" else (fitting, name[moment])
    inner = getattr(module, step)

    def then_change(*args, **options):
        found = inner(*args, **options)
        change()
        return found

    with patch.object(module, step, then_change):
        yield


def refusal(folder: Path, form: str, change: Callable[..., None], moment: str) -> str:
    """Return the message of a run whose input changes meanwhile; fail if the run succeeds."""
    name, write = FORMATS[form]
    path = folder / name
    write(path, rows())
    content = {
        "input": {"path": str(path), "columns": ["f1", "f2"]},
        "model": {"algorithm": "linear-svdd", "nu": 0.2},
        "cluster": {"workers": 0, "partition_rows": 30, "block_rows": 20},
        "output": {"path": str(folder / "out")},
    }
    no_page = patch.object(jobs, "write_report")  # what takes longest, and reads no input
    with changing(moment, lambda: change(path, write)), no_page:
        try:
            run_job(parse_job(content))
        except DataError as error:
            assert not (folder / "out" / "manifest.json").exists()
            return str(error)
    raise AssertionError("a run over a changed input was published")


# Every change with every format, and with every moment.
CASES = [
    (form, change, MOMENTS[(i + k) % len(MOMENTS)])
    for i, form in enumerate(FORMATS)
    for k, change in enumerate(CHANGES)
]


@pytest.mark.parametrize(("form", "change", "moment"), CASES)
def test_a_changed_input_is_refused(form, change, moment, tmp_path):
    said = refusal(tmp_path, form, change, moment)
    assert len(said.splitlines()) == 1
    name, _ = FORMATS[form]
    assert str(tmp_path / name) in said
    assert any(
        word in said for word in ("changed while", "was removed", "was added", "become a folder")
    )
