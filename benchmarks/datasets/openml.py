"""Tables of OpenML, with names turned into the numbers that the catalogue asks for."""

from __future__ import annotations

import http.client
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import numpy as np

from benchmarks.datasets.catalogue import OpenML
from distsvc.errors import DataError, InputNotFoundError, TemporaryError

MISSING = "?"
NOT_THERE = (404, 410, 412)
CUT_OFF = (URLError, http.client.HTTPException, ConnectionError, TimeoutError, EOFError)


def read_openml(name: str, source: OpenML) -> tuple[np.ndarray, np.ndarray]:
    """Download a table, or take the copy that scikit-learn kept, and encode it.

    Parameters
    ----------
    name
        Of the set, for the errors.
    source
        Where it is and how it is encoded.

    Returns
    -------
    X : array of shape (n_rows, n_features), float64, C-ordered
    y : array of shape (n_rows,), int64

    Raises
    ------
    InputNotFoundError
        OpenML has no such table.
    TemporaryError
        It can't be reached, or what came is cut off.
    DataError
        The table has names that the catalogue does not know, or can't be read.

    """
    began = time.time() - 1.0
    try:
        bunch = _download(name, source)
    except TemporaryError:
        _forget_copies(began)
        raise
    kept = [j for j, column in enumerate(bunch.feature_names) if column not in source.drop]
    X = np.empty((len(bunch.data), len(kept)))
    for place, j in enumerate(kept):
        column, ours = bunch.feature_names[j], f"f{place}"
        names = bunch.categories.get(column)
        values = bunch.data[:, j]
        if names is not None:
            where = f"{name}: OpenML {source.id}, column {column}"
            values = _numbers(where, values, names, source.order.get(ours))
        missing = source.missing.get(ours, np.nan)
        X[:, place] = np.where(np.isnan(values), missing, values)
    targets = np.asarray(bunch.target).ravel()
    stay = ~np.isin(targets, source.drop_classes)
    y = _classes(f"{name}: OpenML {source.id}, classes", targets[stay], source.classes)
    return X[stay], y


def _forget_copies(since: float) -> None:
    """Remove what scikit-learn has kept since a time: before 1.9.1 also what was cut off."""
    from sklearn.datasets import get_data_home

    for path in Path(get_data_home(), "openml").rglob("*.gz"):
        if path.stat().st_mtime >= since:
            path.unlink()


def _download(name: str, source: OpenML) -> Any:
    """Return what scikit-learn makes of the table: numbers, and the names that codes stand for."""
    from sklearn.datasets import fetch_openml

    where = f"{name}: OpenML {source.id} ({source.title})"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of every attempt; the last one raises
            return fetch_openml(
                data_id=source.id,
                target_column=source.target,
                as_frame=False,
                parser="liac-arff",
            )
    except HTTPError as error:
        error.close()
        if error.code in NOT_THERE:
            raise InputNotFoundError(f"{where} is not there: HTTP {error.code}") from None
        raise TemporaryError(f"{where} can't be had now: HTTP {error.code}") from None
    except CUT_OFF as error:
        raise TemporaryError(f"{where} can't be reached, or was cut off: {error}") from None
    except json.JSONDecodeError as error:
        raise TemporaryError(f"{where}: the answer is cut off: {error}") from None
    except ValueError as error:
        if "not found" in str(error):  # HTTP 412, as scikit-learn tells it
            raise InputNotFoundError(f"{where} is not there: {error}") from None
        if "md5" in str(error):
            raise TemporaryError(f"{where}: the download is cut off or damaged: {error}") from None
        raise DataError(f"{where} can't be read: {error}") from error
    except OSError as error:
        raise TemporaryError(f"{where} can't be kept: {error}") from None
    except Exception as error:  # the parser of the format has exceptions of its own
        raise DataError(f"{where} can't be read: {type(error).__name__}: {error}") from error


def _numbers(
    where: str, codes: np.ndarray, names: Sequence[str], order: Sequence[str] | None
) -> np.ndarray:
    """Return the values (n,) of a column that holds places in a list of names; NaN is missing."""
    known = [*map(str, names), MISSING]
    places = np.where(np.isnan(codes), len(names), codes).astype(np.intp)
    occurring = [known[place] for place in np.unique(places)]
    if order is None and all(map(_is_number, (text for text in occurring if text != MISSING))):
        value = {text: float(text) for text in occurring if text != MISSING}
    else:
        value = {text: float(k) for k, text in enumerate(order or sorted(set(occurring)))}
        _all_known(where, occurring, value)
    return np.array([value.get(text, np.nan) for text in known])[places]


def _classes(where: str, targets: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return the class (n,) of each row as its place among the names."""
    texts, inverse = np.unique(targets.astype(str), return_inverse=True)
    occurring = texts.tolist()
    numeric = all(map(_is_number, occurring))
    ranked = names or sorted(occurring, key=float if numeric else str)
    place = {text: k for k, text in enumerate(ranked)}
    _all_known(where, occurring, place)
    return np.array([place[text] for text in occurring], dtype=np.int64)[inverse]


def _all_known(where: str, found: Sequence[str], known: dict[str, Any]) -> None:
    strange = [text for text in found if text not in known]
    if strange:
        raise DataError(f"{where}: expected {', '.join(known)}, found {', '.join(strange)}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
