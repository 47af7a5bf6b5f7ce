"""Files of other formats, each refused with advice."""

from __future__ import annotations

from collections.abc import Iterable

from distsvc.errors import DataError
from distsvc.storage.places.location import Location

_PARQUET = "write it as Parquet"
_BY_PANDAS = _PARQUET + ": pandas.read_{}({{name!r}}).to_parquet('t.parquet')"
_PACKED = "unpack it; CSV may also be packed by gzip (.csv.gz)"
_KINDS: dict[tuple[str, ...], tuple[str, str]] = {
    (".csv.zip", ".csv.bz2", ".csv.xz", ".csv.zst", ".tsv.bz2"): ("a packed file", _PACKED),
    (".zip", ".tar", ".tar.gz", ".tgz", ".7z", ".rar"): ("an archive", "unpack it"),
    (".parquet.gz", ".json.gz", ".jsonl.gz"): ("a packed file", "unpack it"),
    (".xlsx", ".xls", ".xlsm", ".ods"): ("a spreadsheet", _BY_PANDAS.format("excel")),
    (".jsonl", ".ndjson", ".json"): (
        "JSON", f"{_PARQUET}: DuckDB's COPY (FROM {{name!r}}) TO 't.parquet'",
    ),
    (".feather", ".arrow", ".ipc"): ("an Arrow file", _BY_PANDAS.format("feather")),
    (".orc",): ("ORC", _BY_PANDAS.format("orc")),
    (".npy", ".npz"): (
        "a NumPy file", "fit the array in Python, or write it as Zarr: zarr.save('t.zarr', X)",
    ),
    (".h5", ".hdf5", ".hdf", ".nc", ".mat"): ("a file of HDF5 or its kin", "write it as Zarr"),
    (".avro", ".arff", ".sas7bdat", ".sav", ".dta", ".rds", ".rdata"): ("a table", _PARQUET),
    (".pkl", ".pickle", ".joblib"): ("a pickle", _PARQUET),
    (".sqlite", ".sqlite3", ".db", ".duckdb"): (
        "a database", "write the query's rows as Parquet: DuckDB's COPY ... TO 't.parquet'",
    ),
}  # fmt: skip
"""Kind of file and advice, by suffix."""

_UNKNOWN = (".txt", ".dat", ".data", ".log", ".gz", ".bz2", ".html", ".xml", ".pdf", ".md")
_PARTS = ("JSON", "a spreadsheet", "an Arrow file", "ORC", "a packed file")
"""Kinds that would be some of a table's rows beside files that are read."""


def refuse_foreign(
    location: Location, names: Iterable[str], read: str | None, formats: str
) -> None:
    """Raise `DataError` for a file, or a Zarr store in a folder, that would not be read.

    `names` are the files at the location, `read` is the suffix of those that are read, if any, and
    `formats` the list of formats for the message.
    """
    for name in names:
        inside, mark, _ = f"{name}/".partition(".zarr/")
        if mark and "/" in name:
            raise DataError(
                f"{location.shown} is a folder that holds the Zarr store {inside}.zarr: "
                "give the path of one store"
            )
        short = name.rpartition("/")[2]
        known = _kind_of(short, read)
        if known is None:
            continue
        what, hint = known
        whole = location.shown if location.path.endswith(short) else f"{location.shown}: {name}"
        glob = f"; or read the others by a glob such as *{read}" if read else ""
        raise DataError(
            f"{whole} is {what}, which is not read (expected {formats}): "
            + hint.replace("{name!r}", repr(short))
            + glob
        )


def _kind_of(name: str, read: str | None) -> tuple[str, str] | None:
    """Return the kind of a file and the advice; None if the file is read or no table."""
    lower = name.lower()
    known = next((kind for ends, kind in _KINDS.items() if lower.endswith(ends)), None)
    if read:
        if lower.startswith("part-") and "." not in lower:
            return "a file without a suffix", f"name it like the others, *{read}"
        part = known is not None and known[0] in _PARTS and not lower.endswith(".json")
        return known if part else None
    if known is None and lower.endswith(_UNKNOWN):
        return (
            "a file whose name tells no format",
            "give it a name such as *.csv, *.svm or *.parquet, whichever it is",
        )
    return known
