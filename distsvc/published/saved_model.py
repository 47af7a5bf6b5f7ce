"""A published model in Python, which labels further rows as its job labelled the table."""

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError, things
from distsvc.inputs.given import has_values, is_text, rows_of, type_words
from distsvc.inputs.rows import Input, Reading, RowValues, UserData, not_rows_error
from distsvc.run.algorithms.algorithm import Columns
from distsvc.run.labelling.columns import OptionalColumns, optional_columns, published_names
from distsvc.run.labelling.counts import used_clusters
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.learning.preparation import Preparation, check_rows
from distsvc.run.model.files import ModelFile, read_labeller, read_model
from distsvc.run.nights.comparison import outlier_notes
from distsvc.run.work.plan import choose_block_rows
from distsvc.run.work.sentinels import MAX_EXAMINED_ROWS, sentinel_notes
from distsvc.storage.publishing.formats import published_columns
from distsvc.storage.rows.blocks import Block, fill, plain_values
from distsvc.storage.rows.columns import plain_type, truncated
from distsvc.storage.rows.features import (
    Category,
    Feature,
    Numeric,
    TextNumber,
    Time,
    UnusableValueError,
    Vector,
    names_of,
    text_counts,
    without_sentinels,
)
from distsvc.storage.rows.numeric_text import are_numbers
from distsvc.storage.rows.usable import counts_as_missing, select_rows, usable_rows

UNLABELLED = -1
"""Label of a row that the job would have left out, because a value is missing."""

NAME = "the rows"
"""Name of the argument X in messages, as in "the rows: expected an array of 2 columns"."""

MIN_EXAMINED_ROWS = 20
"""Minimum number of rows for warnings about changed columns and about many outliers.

A warning about a category needs at least this number of values that are not missing.
"""


class Model:
    """The model of a published run, which labels raw rows.

    Raw rows X are like rows of the job's table: the model imputes and scales them. X is a table
    with `columns`, from pyarrow, polars, pandas, DuckDB or anything with ``__arrow_c_stream__``, or
    an array (n, d) with `array_columns`. All methods process X block by block. For dask arrays and
    dataframes, `predict`, `score_samples` and `predict_proba` are lazy: they return arrays with the
    chunks of X, or series and dataframes with its index.

    A row with a missing value has no score if the job leaves out such rows
    (``missing = "drop"``). Its label is `UNLABELLED` in arrays, and null in tables.

    All methods raise `distsvc.errors.DataError` if X is no table or array, lacks a column, or has a
    value that the job refuses: infinity, or a missing value if ``missing = "error"``. The message
    names row and column.

    Attributes
    ----------
    columns : tuple of str
        The columns that a table must have.
    array_columns : tuple of str
        The columns of an array, in order; each value of a vector is a column of its own.
    id : str or None
        The column of row ids, which `predict_batches` and `label` return if X has it.
    algorithm : str
        The name of the algorithm.
    parameters : dict
        The parameters of the estimator.
    ids : ndarray of shape (k,), int32
        The ids of the clusters, which are the published labels.
    n_clusters : int
        The number of clusters that have rows in the job's table.
    published : pyarrow.Schema
        The columns that `predict_batches` and `label` return, without the id.

    See Also
    --------
    distsvc.load : Loads a run with its model.

    Examples
    --------
    >>> import distsvc
    >>> model = distsvc.load("out/moons").model
    >>> model
    <distsvc model: support-vector, 2 clusters, 2 columns>
    >>> model.columns
    ('x', 'y')

    """

    def __init__(
        self, model: ModelFile, preparation: Preparation, labeller: Labeller, n_clusters: int
    ):
        job, self._features = model.job(NAME, NAME), model.learned_from
        self._numbers = names_of(self._features)
        self._preparation, self._labeller = preparation, labeller
        self._missing, self._output = job.missing, job.output
        self._missing_values = job.preprocess.missing_values
        self.columns = tuple(feature.column for feature in self._features)
        parts = (f.places if isinstance(f, Vector) else (f.column,) for f in self._features)
        self.array_columns = tuple(name for names in parts for name in names)
        self.id = model.input.id
        self.algorithm, self.parameters = model.algorithm, model.parameters
        self.ids, self.n_clusters = labeller.ids, n_clusters
        names = published_names(type(labeller.rule), self._output)
        self.published = pa.schema([(one.name, one.type) for one in published_columns(names)])

    def predict(self, X: UserData) -> Any:
        """Return the labels of raw rows.

        Parameters
        ----------
        X : array or table of shape (n, d)
            Raw rows.

        Returns
        -------
        labels : ndarray of shape (n,), int32
            Ids of clusters; `UNLABELLED` for rows that the job would have left out.

        Examples
        --------
        >>> import distsvc
        >>> import numpy as np
        >>> model = distsvc.load("out/moons").model
        >>> len(set(model.predict(np.array([[0.0, 1.0], [1.0, -0.5]]))))
        2

        """
        return self._values(X, RowValues("label", np.int32))

    def score_samples(self, X: UserData) -> Any:
        """Return the scores of raw rows, which are low for unusual rows.

        The entry ``schema`` in the manifest of the published run explains the score.

        Parameters
        ----------
        X : array or table of shape (n, d)
            Raw rows.

        Returns
        -------
        scores : ndarray of shape (n,), float32

        Examples
        --------
        >>> import distsvc
        >>> import numpy as np
        >>> model = distsvc.load("out/moons").model
        >>> model.score_samples(np.array([[0.0, 1.0], [9.0, 9.0]])) > 0
        array([ True, False])

        """
        return self._values(X, RowValues("score", np.float32))

    def predict_proba(self, X: UserData) -> Any:
        """Return the memberships of raw rows in all clusters, whose order is that of `ids`.

        Parameters
        ----------
        X : array or table of shape (n, d)
            Raw rows.

        Returns
        -------
        shares : ndarray of shape (n, k), float32
            The sum of each row is 1.

        Raises
        ------
        DataError
            The model has no clusters.

        Examples
        --------
        >>> import distsvc
        >>> import numpy as np
        >>> model = distsvc.load("out/moons").model
        >>> model.predict_proba(np.array([[0.0, 1.0]])).shape
        (1, 2)

        """
        if not self._labeller.rule.shared:
            raise DataError(
                "predict_proba needs a model with clusters, found one that only finds outliers"
            )
        return self._values(X, RowValues("share", np.float32, self.ids.tolist()))

    def predict_batches(self, X: UserData) -> Iterator[pa.RecordBatch]:
        """Yield the published columns of raw rows, batch by batch.

        Parameters
        ----------
        X : array, table or stream of batches
            Raw rows; a stream is read lazily.

        Yields
        ------
        pyarrow.RecordBatch
            The id, if the model and X have an id, then ``label``, ``score``, ``outlier`` and other
            published columns. A long batch of X is split into several batches.

        Examples
        --------
        >>> import pyarrow.csv
        >>> import distsvc
        >>> model = distsvc.load("out/moons").model
        >>> table = pyarrow.csv.read_csv("moons.csv")
        >>> for batch in model.predict_batches(table.to_reader(max_chunksize=500)):
        ...     print(batch.num_rows, batch.schema.names)
        500 ['label', 'score', 'outlier']
        500 ['label', 'score', 'outlier']

        """
        rows = self._rows(X)
        optional: list[OptionalColumns] | None = None
        for ids, known, block in self._blocks(rows):
            if optional is None:
                parts = self._labeller, self._preparation, self._features, self._output
                optional = optional_columns(*parts, block.types, reported=False)
            Z = self._prepared(block, rows)
            columns: Columns = dict(self._labeller.rule.label(Z))
            for one in optional:
                columns |= one.add(block, Z, columns)
            columns["label"] = self.ids[columns["label"]]
            arrays = {f.name: pa.array(columns[f.name], f.type) for f in self.published}
            if not known.all():
                places = pa.array(np.cumsum(known) - 1, mask=~known)
                arrays = {name: array.take(places) for name, array in arrays.items()}
            yield pa.record_batch(arrays if ids is None else {self.id: ids} | arrays)

    def label(self, X: UserData) -> pa.Table:
        """Return the published columns of raw rows as one table.

        Parameters
        ----------
        X : array, table or stream of batches
            Raw rows.

        Returns
        -------
        pyarrow.Table

        Examples
        --------
        >>> import distsvc
        >>> import numpy as np
        >>> model = distsvc.load("out/moons").model
        >>> model.label(np.array([[0.0, 1.0], [9.0, 9.0]]))["outlier"].to_pylist()
        [False, True]

        """
        batches = list(self.predict_batches(X))
        return pa.Table.from_batches(batches, None if batches else self.published)

    def _read(self, X: UserData) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of X that the job would label, raw (m, d) and prepared (m, D)."""
        rows = self._rows(X)
        blocks = [(block.X, self._prepared(block, rows)) for _, _, block in self._blocks(rows)]
        raw, prepared = zip(*blocks, strict=True)
        return np.concatenate(raw), np.concatenate(prepared)

    def _values(self, X: UserData, answer: RowValues) -> Any:
        rows = self._rows(X)
        of_part = partial(self._of_part, answer)
        return rows.map_parts(of_part, answer) if rows.lazy else of_part(rows)

    def _of_part(self, answer: RowValues, rows: Input) -> np.ndarray:
        parts, missing = [], UNLABELLED if answer.name == "label" else np.nan
        for _, known, block in self._blocks(rows):
            Z, rule = self._prepared(block, rows), self._labeller.rule
            if answer.name == "share":
                found = rule.shares(Z)
            else:
                found = self.ids[rule.labels(Z)] if answer.name == "label" else rule.scores(Z)
            values = np.full((len(known), *found.shape[1:]), missing, answer.dtype)
            values[known] = found
            parts.append(values)
        return answer.joined(parts)

    def _rows(self, X: UserData) -> Input:
        """Return a reader of the blocks of X.

        `DataError` is raised if X is no table, or an array without the model's number of columns.
        """
        rows = rows_of(X, Reading(NAME, choose_block_rows(len(self._numbers)), by_name=True))
        if rows is None:
            raise not_rows_error(X, NAME)
        names = self.array_columns
        if rows.shape is not None and (len(rows.shape) != 2 or rows.shape[1] != len(names)):
            raise DataError(
                f"{NAME}: expected an array of {len(names)} columns ({truncated(names)}), found "
                f"an array of shape {tuple(rows.shape)}"
            )
        return rows

    def _blocks(self, rows: Input) -> Iterator[tuple[pa.Array | None, np.ndarray, Block]]:
        """Yield the ids of each block's rows, a mask (n,), and the rows that can be labelled.

        The mask is True for rows that can be labelled. A warning is issued if the first rows of X
        differ much from the job's table.
        """
        unit, row, types = self._preparation.scaling.kind == "unit", rows.first, tuple[str, ...]()
        empty = list(self._features)  # features without a value so far
        for piece in rows.pieces():
            if row == rows.first and not isinstance(piece, np.ndarray):
                self._warn_of_changes(piece.slice(0, MAX_EXAMINED_ROWS))
            if isinstance(piece, pa.RecordBatch):
                names = piece.schema.names
                lists = {
                    "missing": [one for one in self.columns if one not in names],
                    "repeated": [one for one in self.columns if names.count(one) > 1],
                }
                faults = [f"{word}: {truncated(some)}" for word, some in lists.items() if some]
                if faults:
                    raise DataError(
                        f"{NAME}: expected the model's {len(self.columns)} columns, each once; "
                        f"{'; '.join(faults)}; found: {truncated(names)}"
                    )
                if not len(piece):
                    continue
            try:
                X = feature_matrix(piece, self._features, self._missing_values)
            except UnusableValueError as error:
                raise DataError(
                    f"{rows.shown}: column {error.column!r}, row {row + error.place}: {error}"
                ) from None
            empty = without_values(empty, piece, self._features)
            is_first = row == rows.first
            if is_first:
                changes = self._labeller.changed_units(X)
                changes += sentinel_notes(X, self._features)
                for note in changes:
                    warnings.warn(note, UserWarning, stacklevel=2)
            ids = None
            if not isinstance(piece, np.ndarray):
                types = tuple(str(piece.schema.field(f.column).type) for f in self._features)
                ids = piece.column(self.id) if piece.schema.names.count(self.id) == 1 else None
            numbers = np.arange(row, row + len(X), dtype=np.int64)
            block, row = Block(numbers, X, ids, None, types=types), row + len(X)
            known = usable_rows(block, rows.shown, self._features, self._missing, unit)
            block = select_rows(block, known)
            if is_first and len(block.X) >= MIN_EXAMINED_ROWS:
                first = select_rows(block, np.arange(len(block.X)) < MAX_EXAMINED_ROWS)
                self._warn_of_outliers(self._prepared(first, rows))
            yield ids, known, block
        if row - rows.first >= MIN_EXAMINED_ROWS:
            for note in counts_as_missing([feature.column for feature in empty]):
                warnings.warn(note, UserWarning, stacklevel=2)

    def _warn_of_changes(self, piece: pa.RecordBatch) -> None:
        """Warn of each category with many values that are new to the model or rare.

        A category with fewer than `MIN_EXAMINED_ROWS` values is not examined.
        """
        for feature in self._features:
            if isinstance(feature, Category) and piece.schema.names.count(feature.column) == 1:
                column = piece.column(feature.column)
                if len(column) - column.null_count < MIN_EXAMINED_ROWS:
                    continue
                array = without_sentinels(_plain(column, feature), self._missing_values)
                if note := feature.change(text_counts(array), len(piece)):
                    warnings.warn(note, UserWarning, stacklevel=2)

    def _warn_of_outliers(self, Z: np.ndarray) -> None:
        """Warn if many of the prepared rows Z (n, D) are outliers."""
        outside = self._labeller.rule.label(Z)["outlier"]
        share, examined = float(outside.mean()), f"the first {len(outside):,} rows"
        for note in outlier_notes(share, [self.parameters], examined):
            warnings.warn(note, UserWarning, stacklevel=2)

    def _prepared(self, block: Block, rows: Input) -> np.ndarray:
        Z = self._preparation(block.X)
        check_rows(Z, block, rows.shown, self._numbers)
        return Z

    def __repr__(self) -> str:
        clusters = things(self.n_clusters, "cluster")
        return f"<distsvc model: {self.algorithm}, {clusters}, {len(self.columns)} columns>"


def read_saved_model(folder: Path) -> Model:
    """Read a saved model from a local folder, such as `Run.model_folder`.

    `JobFileError` is raised if another version wrote the model, and `DataError` if it is damaged.
    """
    model = read_model(folder)
    preparation, labeller, arrays = read_labeller(model, folder)
    return Model(model, preparation, labeller, used_clusters(arrays["cluster_counts"]))


def feature_matrix(
    piece: np.ndarray | pa.RecordBatch, features: Sequence[Feature], missing_values: Sequence[float]
) -> np.ndarray:
    """Convert raw rows to a matrix (n, d) float64 of features, with NaN for missing values.

    The columns of a table are found by name. Numbers in `missing_values` count as missing.
    """
    if isinstance(piece, np.ndarray):
        stored = (isinstance(f, Numeric) or (isinstance(f, Vector) and not f.log) for f in features)
        if all(stored) and not missing_values:
            return np.ascontiguousarray(piece, dtype=np.float64)
        arrays = _of_array(piece, features)
    else:
        arrays = [_plain(piece.column(feature.column), feature) for feature in features]
    X = np.empty((len(piece), len(names_of(features))))
    fill(X, features, arrays, missing_values)
    return X


def without_values(
    some: Sequence[Feature], piece: np.ndarray | pa.RecordBatch, features: Sequence[Feature]
) -> list[Feature]:
    """Return the features in `some` that have no value in the raw rows `piece`.

    `features` are all features of the model. If `piece` is an array, its columns have their order.
    """
    if isinstance(piece, pa.RecordBatch):
        return [one for one in some if not has_values(piece.column(one.column))]
    found, first, names = [], 0, {feature.column for feature in some}
    for feature in features if some else ():
        last = first + (feature.width if isinstance(feature, Vector) else 1)
        if feature.column in names and np.isnan(piece[:, first:last]).all():
            found.append(feature)
        first = last
    return found


def _of_array(piece: np.ndarray, features: Sequence[Feature]) -> list[pa.Array]:
    """Convert an array (n, d) to one Arrow array for each feature.

    The columns of a vector become one array of lists. `DataError` is raised if a feature can't be
    a number, such as a category with text.
    """
    arrays: list[pa.Array] = []
    first = 0
    for feature in features:
        width = feature.width if isinstance(feature, Vector) else 1
        part = pa.array(np.ascontiguousarray(piece[:, first : first + width]).ravel())
        if isinstance(feature, Vector):
            part = pa.FixedSizeListArray.from_arrays(part, width)
        elif not feature.takes(part.type):
            raise DataError(
                f"{NAME}: column {feature.column!r} holds {feature.expected}: expected a table "
                "with named columns, found an array of numbers"
            )
        arrays.append(part)
        first += width
    return arrays


def _plain(array: pa.Array, feature: Feature) -> pa.Array:
    """Return the column of a feature as a plain array; text with numbers becomes numbers.

    `DataError` is raised if the column's type is wrong, such as text for a feature of numbers.
    """
    kind, values = plain_type(array.type), plain_values(array)
    if isinstance(feature, Numeric) and is_text(kind) and are_numbers(values):
        return pa.array(TextNumber(column=feature.column).values(values))
    if not feature.takes(kind) and has_values(values):
        of_time = is_text(kind) and isinstance(feature, Time)
        hint = "; convert it by pandas.to_datetime or to_timedelta" if of_time else ""
        raise DataError(
            f"{NAME}: column {feature.column!r} is {type_words(kind)}, expected "
            f"{feature.expected}{hint}"
        )
    return values
