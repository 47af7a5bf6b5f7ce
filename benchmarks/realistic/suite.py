"""All tables of the benchmark by name, and their halves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.realistic.added import ADDED, added_table
from benchmarks.realistic.generated import DESIGNS, GENERATED, generated_table
from benchmarks.realistic.kinds import KINDS, kind_table
from benchmarks.realistic.one_class import SHAPES, one_class_table
from benchmarks.realistic.real import REAL, real_table
from benchmarks.realistic.tables import KnownTable
from benchmarks.realistic.wide import WIDE, wide_name, wide_table

MADE_GROUPS = ("generated", "added", "one-class")
GROUPS = (*MADE_GROUPS, "wide", "kinds", "real")


class TableKey(NamedTuple):
    """The name of a table, and what makes it."""

    group: str
    name: str
    source: str
    """Module that makes the table: "generated", "added", "one-class", "wide", "kinds" or "real"."""
    arguments: tuple[str | float, ...]


def keys_of(groups: Sequence[str] = GROUPS) -> list[TableKey]:
    """Return the names of all tables of some groups."""
    keys = []
    for domain, variant in GENERATED:
        group = "one-class" if DESIGNS[variant].classes == 1 else "generated"
        keys.append(TableKey(group, f"{domain}-{variant}", "generated", (domain, variant)))
    keys += [TableKey("added", f"{kind}-{v}", "added", (kind, v)) for kind, v in ADDED]
    keys += [TableKey("one-class", f"one-{shape}", "one-class", (shape,)) for shape in SHAPES]
    keys += [TableKey("wide", wide_name(*one), "wide", one) for one in WIDE]
    keys += [TableKey("kinds", f"kind-{name}", "kinds", (name,)) for name in KINDS]
    keys += [TableKey("real", name, "real", (name,)) for name in REAL]
    return [key for key in keys if key.group in groups]


MAKERS = {
    "generated": generated_table,
    "added": added_table,
    "one-class": one_class_table,
    "wide": wide_table,
    "kinds": kind_table,
}


def table_of(key: TableKey, seed: int = 0, data: Path | None = None) -> KnownTable:
    """Return a table by its key; a real one has the same rows for every seed.

    Parameters
    ----------
    key : TableKey
    seed : int
        Seed of the rows.
    data : Path or None
        Folder of real data sets, GROUP/NAME.parquet.

    """
    if key.source == "real":
        return real_table(key.name, data)
    return MAKERS[key.source](*key.arguments, seed=seed)


def tables(
    groups: Sequence[str] = MADE_GROUPS,
    seeds: Sequence[int] = (0,),
    half: str | None = None,
    contains: Sequence[str] = ("",),
    data: Path | None = None,
) -> Iterator[KnownTable]:
    """Yield tables one by one.

    Parameters
    ----------
    groups : sequence of str
        Some of `GROUPS`.
    seeds : sequence of int
        Seeds of the rows; real tables are yielded once.
    half : {"tune", "confirm"} or None
        None for both.
    contains : sequence of str
        Only tables whose name contains one of these.
    data : Path or None
        Folder of real data sets, GROUP/NAME.parquet.

    """
    for key in keys_of(groups):
        if not any(part in key.name for part in contains):
            continue
        for seed in seeds if key.source != "real" else seeds[:1]:
            table = table_of(key, seed, data)
            if half in (None, table.half):
                yield table
