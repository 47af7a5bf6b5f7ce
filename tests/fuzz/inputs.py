"""Small inputs of every format, damaged at random; each must be read or refused in one line."""

import gzip
import json
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr

from distsvc.errors import DistsvcError
from distsvc.job.config import InputConfig
from distsvc.storage.rows.blocks import Span
from distsvc.storage.tables.opening import check_unchanged, open_table, read_blocks

N_ROWS = 60
ODD_NUMBERS = (-1, 0, 1, 2, 7, 61, 2**31, 2**40, 10**13, 2**63, 10**30, 0.5)
ODD_VALUES = (*ODD_NUMBERS, None, True, "", "f", "<f8", "|O", "float64", [], {}, [[]], ["x"])


def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "x": rng.normal(size=N_ROWS),
        "y": rng.integers(0, 9, N_ROWS),
        "name": np.array([f"n{k}" for k in range(N_ROWS)]),
    }


def write_parquet(folder: Path) -> Path:
    pq.write_table(pa.table(columns()), folder / "t.parquet", row_group_size=20)
    return folder / "t.parquet"


def write_parquet_folder(folder: Path) -> Path:
    for k in range(2):
        (folder / "t" / f"k={k}").mkdir(parents=True)
        pq.write_table(pa.table(columns()), folder / "t" / f"k={k}" / "part.parquet")
    return folder / "t"


def write_csv(folder: Path) -> Path:
    made = columns()
    lines = [",".join(map(str, row)) for row in zip(*made.values(), strict=True)]
    (folder / "t.csv").write_text("\n".join([",".join(made), *lines]) + "\n")
    return folder / "t.csv"


def write_packed_csv(folder: Path) -> Path:
    path = write_csv(folder)
    (folder / "t.csv.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    return folder / "t.csv.gz"


def write_svmlight(folder: Path) -> Path:
    made = columns()
    lines = [f"1 1:{x:.4f} 3:{y}" for x, y in zip(made["x"], made["y"], strict=True)]
    (folder / "t.svm").write_text("\n".join(lines) + "\n")
    return folder / "t.svm"


def write_zarr_array(folder: Path) -> Path:
    values = np.random.default_rng(0).normal(size=(N_ROWS, 2))
    zarr.create_array(folder / "t.zarr", data=values, chunks=(20, 2))
    return folder / "t.zarr"


def write_zarr_group(folder: Path, zarr_format: Any = 3) -> Path:
    zarr.open_group(folder / "g.zarr", mode="w", zarr_format=zarr_format)
    for name in ("x", "y"):
        data = columns()[name]
        zarr.create_array(
            folder / "g.zarr" / name, data=data, chunks=(20,), zarr_format=zarr_format
        )
    return folder / "g.zarr"


def write_old_zarr_group(folder: Path) -> Path:
    return write_zarr_group(folder, 2)


WRITERS: tuple[Callable[[Path], Path], ...] = (
    write_parquet,
    write_parquet_folder,
    write_csv,
    write_packed_csv,
    write_svmlight,
    write_zarr_array,
    write_zarr_group,
    write_old_zarr_group,
)


def damage(content: bytes, rng: random.Random) -> bytes:
    """Flip, cut, insert, double or drop some bytes, near the end as often as anywhere."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(found) + 1)
        if rng.random() < 0.3:
            place = max(len(found) - rng.randrange(200), 0)
        kind = rng.choice(("flip", "set", "cut", "insert", "drop", "double"))
        size = rng.choice((1, 2, 4, 40))
        if kind == "flip" and place < len(found):
            found[place] ^= 1 << rng.randrange(8)
        elif kind == "set":
            found[place : place + size] = rng.randbytes(size)
        elif kind == "cut":
            del found[place:]
        elif kind == "insert":
            odd = (rng.randbytes(size), b"\n", b",", b"\x00", b'"', b" 99999999999:1", b"n.a.")
            found[place:place] = rng.choice(odd)
        elif kind == "drop":
            del found[place : place + size]
        else:
            found[place:place] = found[place : place + size]
    return bytes(found)


def damage_json(content: bytes, rng: random.Random) -> bytes:
    """Replace, remove or double something in a document."""
    document = json.loads(content)
    places = list(_places(document)) or [(document, "zarr_format")]
    for _ in range(rng.choice((1, 1, 2))):
        holder, key = rng.choice(places)
        if rng.random() < 0.2 and isinstance(holder, dict):
            holder.pop(key, None)
        elif rng.random() < 0.1 and isinstance(holder, list):
            holder.append(rng.choice(ODD_VALUES))
        elif isinstance(holder, dict) or key < len(holder):
            holder[key] = rng.choice(ODD_VALUES)
    return json.dumps(document).encode()


def _places(node: Any) -> Any:
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])


def damaged_input(folder: Path, rng: random.Random) -> Path:
    """Write an input of some format, and damage one of its files or remove it."""
    path = rng.choice(WRITERS)(folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    described = [p for p in files if p.name.startswith((".z", "zarr.json"))]
    chosen = rng.choice(described if described and rng.random() < 0.6 else files)
    content = chosen.read_bytes()
    if len(files) > 1 and rng.random() < 0.05:
        chosen.unlink()
    elif chosen in described and rng.random() < 0.7:
        chosen.write_bytes(damage_json(content, rng))
    else:
        chosen.write_bytes(damage(content, rng))
    return path


def read(path: Path, staging: Path) -> int:
    """Read everything that an input has; return the number of rows."""
    table = open_table(InputConfig(path=str(path)), staging)
    rows = sum(len(b.rows) for b in read_blocks(table, Span(0, min(table.n_rows, 100_000), 30)))
    check_unchanged(table)
    return rows


def outcome(seed: int) -> tuple[str, str]:
    """Return what becomes of a damaged input: rows, a refusal, or what must not be; and of what."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    path = damaged_input(folder, random.Random(seed))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "rows", f"{path.suffix}: {read(path, folder / 'staging')}"
    except DistsvcError as error:
        message = str(error)
        named = path.name in message or "input." in message
        good = named and len(message.splitlines()) == 1
        return "refused" if good else "message", f"{path.suffix}: {message!r}"
    except Exception as error:
        return "defect", f"{path.suffix}: {type(error).__name__}: {error}"
    finally:
        shutil.rmtree(folder)
