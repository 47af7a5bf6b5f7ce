"""A published model in Python: it labels raw rows, wherever they are, as its job labelled them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError
from distsvc.run.labeller import Labeller
from distsvc.run.model import FILES, read_model
from distsvc.run.model_form import features_of, job_of, restored
from distsvc.run.output_columns import published_names
from distsvc.run.preparation import Preparation, checked_rows
from distsvc.run.raw_rows import NAME, array_columns, names_of, raw_blocks
from distsvc.run.reasons import Reasons
from distsvc.run.shares import shared_columns
from distsvc.storage.arrays import read_arrays
from distsvc.storage.published import published_columns
from distsvc.storage.tables import Block

UNLABELLED = -1
"""In place of a label, of a row that the job would have left out."""


class Model:
    """Labels raw rows: it fills in and scales them as its job did, and gives published ids.

    Rows are raw: as the job's table stored them. They are a table that has `columns` by name, from
    pyarrow, polars, pandas, DuckDB, or whatever has ``__arrow_c_stream__``, whose other columns are
    ignored; or an array (n, d) with `array_columns` in their order. Where the job leaves out rows
    with missing values (``missing = "drop"``), such a row has no label: `UNLABELLED` or null, and
    no score. All methods take rows in blocks, so that beside X and the answer they need little
    memory.

    All methods raise `distsvc.errors.DataError` where X is no table or array, has not the model's
    columns, or holds what the job would have refused: infinity, or a missing value where
    ``missing = "error"``. The message names row and column.

    Attributes
    ----------
    columns : tuple of str
        The columns that a table needs.
    array_columns : tuple of str
        Those of an array: the same, and in place of a vector each of its values.
    id : str or None
        The column that `predict_batches` passes on.
    algorithm : str
    parameters : dict
        The estimator's.
    ids : ndarray of shape (k,), int32
        The published labels of the clusters.
    published : pyarrow.Schema
        The columns that `predict_batches` yields, besides the id.

    """

    def __init__(self, content: dict[str, Any], preparation: Preparation, labeller: Labeller):
        self._features = features_of(content)
        self._numbers = names_of(self._features)
        self._preparation, self._labeller = preparation, labeller
        self._missing = content["preprocess"].get("missing", "error")
        self._asked = job_of(content, NAME, NAME).output
        self.columns = tuple(feature.column for feature in self._features)
        self.array_columns = array_columns(self._features)
        self.id: str | None = content["input"]["id"]
        self.algorithm: str = content["algorithm"]
        self.parameters: dict[str, Any] = content["parameters"]
        self.ids = labeller.ids
        names = published_names(type(labeller.rule), self._asked)
        self.published = pa.schema([(of.name, of.type) for of in published_columns(names)])

    @classmethod
    def read(cls, folder: Path) -> Model:
        """Return the model of a folder with ``model.json`` and its arrays.

        Raises
        ------
        JobFileError
            It was written by another version.
        DataError
            It is damaged.

        """
        content = read_model(folder)
        try:
            return cls(content, *restored(content, read_arrays(folder / FILES[1])))
        except DataError as error:
            raise DataError(f"{folder}: {error}") from None

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels (n,) int32 of raw rows."""
        return self._one_column("label", X, UNLABELLED, np.int32)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the scores (n,) float32 of raw rows, whose meaning the manifest tells."""
        return self._one_column("score", X, np.nan, np.float32)

    def predict_batches(self, X: Any) -> Iterator[pa.RecordBatch]:
        """Yield what a job publishes of raw rows, batch by batch, in their order.

        Parameters
        ----------
        X
            A table, an array, or a stream of batches, which is read as far as it is asked for.

        Yields
        ------
        pyarrow.RecordBatch
            ``label``, ``score``, ``outlier`` and what else is published, after the id where the
            model has one and X, too. A batch of X becomes one batch, or several if it is long.

        """
        for block, known, columns in self._labelled(X):
            arrays = {f.name: pa.array(columns[f.name], f.type) for f in self.published}
            if not known.all():
                places = pa.array(np.cumsum(known) - 1, mask=~known)
                arrays = {name: array.take(places) for name, array in arrays.items()}
            yield pa.record_batch(arrays if block.ids is None else {self.id: block.ids} | arrays)

    def label(self, X: Any) -> pa.Table:
        """Return all that `predict_batches` yields as one table."""
        batches = list(self.predict_batches(X))
        return pa.Table.from_batches(batches, None if batches else self.published)

    def _one_column(self, name: str, X: Any, missing: Any, dtype: Any) -> np.ndarray:
        parts = [np.empty(0, dtype)]
        for _, known, columns in self._labelled(X):
            values = np.full(len(known), missing, dtype)
            values[known] = columns[name]
            parts.append(values)
        return np.concatenate(parts)

    def _labelled(self, X: Any) -> Iterator[tuple[Block, np.ndarray, dict[str, Any]]]:
        """Yield blocks of X, which of their rows (n,) are labelled, and the columns of these."""
        reasons = Reasons(self._labeller, self._features, self._asked.reasons)
        unit = self._preparation.scaling.kind == "unit"
        for given in raw_blocks(X, self._features, self._missing, unit, self.id):
            yield given.all, given.known, self._label(given.usable, reasons)

    def _label(self, block: Block, reasons: Reasons) -> dict[str, Any]:
        Z = checked_rows(self._preparation, block, NAME, self._numbers)
        columns = dict(self._labeller.rule.label(Z))
        if self._asked.reasons:
            columns |= reasons.add(block, Z, columns)
        columns |= shared_columns(self._asked, self._labeller, Z, columns["label"])
        columns["label"] = self._labeller.ids[columns["label"]]
        return columns

    def __repr__(self) -> str:
        k, d = len(self.ids), len(self.columns)
        return f"<distsvc model: {self.algorithm}, {k} cluster{'s' * (k != 1)}, {d} columns>"
