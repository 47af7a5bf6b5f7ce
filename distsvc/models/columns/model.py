"""The model of a table's columns: it turns stored rows into prepared rows, which are numeric.

A stored number stands for its cell: all values that round to it. Learning takes draws, random
values from the cells, so that rounding leaves no gaps. A flag or a level of a category is a latent
variable: a normal variable above or below a threshold, as in probit models. Learning takes draws of
it, too. Random numbers are keyed by row and column, and do not depend on the seed.

Labels and scores take the medians of cells and the means of the latent variables, so that equal
rows have equal labels.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import ndtri

from distsvc.kernels.rows import project
from distsvc.models.columns.density import Cells, best_density
from distsvc.models.columns.maps import (
    AS_FOUND,
    GivenColumn,
    NumberMap,
    possible_scales,
    rounding_error,
)
from distsvc.models.mixture.density import MixtureRows
from distsvc.models.rows.principal_components import components_above_noise
from distsvc.models.rows.sampling import splitmix
from distsvc.models.rules.fields import Facts

LEAST_CHANCE = 1e-6
"""Minimum distance from 0 and 1 of the uniform numbers that become normal draws."""

CONSTANT_RANGE = 1e-12
"""Maximum range of a constant column, relative to its largest absolute value."""

ZERO_INFLATED = "zero-inflated"
"""Kind, in job files and descriptions, of a column with a spike: a value that many rows have."""

_NUMBER_KINDS = ("continuous", "ordinal", ZERO_INFLATED)
"""Kinds in job files that decide how a column of numbers is modelled."""

SALT_ROWS = 64
"""Number of rows whose ranks decide the random numbers of a column."""


@dataclass(frozen=True)
class CategoryColumn:
    """The model of a flag, which has two codes, or of a category, which has more.

    Its prepared columns are the latent variables and, last, the number of the code (the level).
    """

    codes: np.ndarray  # (L,) float64: learned codes, ascending
    shares: np.ndarray  # (L,) float64: share of each code in the rows that are not missing

    @property
    def kind(self) -> str:
        return "binary" if len(self.codes) == 2 else "category"

    @property
    def n_latent(self) -> int:
        """Number of latent variables: one for a flag, one for each level of a category."""
        return 1 if len(self.codes) == 2 else len(self.codes)

    @property
    def width(self) -> int:
        return self.n_latent + 1

    def levels(self, x: np.ndarray) -> np.ndarray:
        """Return the level (n,) int64 of each value x (n,), -1 for missing and unknown codes.

        Codes are compared up to rounding, since a flag may have the values 0.1 and 0.3.
        """
        borders, errors = self._places
        place = np.searchsorted(borders, x)
        return np.where(np.abs(x - self.codes[place]) <= errors[place], place, -1)

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """Midpoints (L - 1,) between neighbouring codes, and the rounding errors (L,) of codes."""
        gaps = np.diff(self.codes)
        nearest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
        errors = [rounding_error(*one) for one in zip(self.codes, nearest, strict=True)]
        return self.codes[:-1] + 0.5 * gaps, np.array(errors)

    def describes(self, distinct: np.ndarray, counts: np.ndarray, given: GivenColumn) -> bool:
        """Return True if `shares` describe new rows as well as newly fitted shares would.

        The new rows have the `distinct` codes (u,) with `counts` (u,). The log-likelihood of
        `shares` must reach the BIC of shares that are fitted to the new rows. `given` is not used.
        """
        levels = self.levels(distinct)
        if (levels < 0).any():
            return False
        found, place = np.unique(levels, return_inverse=True)
        sizes = np.bincount(place, counts)
        gain = sizes @ np.log(sizes / sizes.sum() / self.shares[found])
        return bool(gain <= 0.5 * (len(found) - 1) * np.log(sizes.sum()))

    def prepare(
        self, x: np.ndarray, rows: np.ndarray | None, salt: np.uint64, out: np.ndarray
    ) -> None:
        """Write the prepared columns of values x (n,) to out (n, width).

        Latent variables are draws, keyed by the row numbers `rows` (n,) and the column's `salt`.
        Without `rows`, latent variables are conditional means, given the level.
        """
        levels = self.levels(x)
        chosen = range(1, 2) if self.n_latent == 1 else range(len(self.codes))
        known, scales = levels >= 0, np.ones(2)
        if self.n_latent > 1:  # the variances of all levels add up to 1
            variances = self.shares * (1.0 - self.shares)
            scales = np.sqrt(variances / variances.sum())
        for place, level in enumerate(chosen):
            share, inside = self.shares[level], levels == level
            if rows is None:
                density = np.exp(-0.5 * ndtri(1.0 - share) ** 2) / np.sqrt(2.0 * np.pi)
                z = np.where(inside, density / share, -density / (1.0 - share))
                z[~known] = 0.0
            else:
                u = keyed_uniforms(rows, salt, place)
                t = np.where(inside, 1.0 - share + u * share, u * (1.0 - share))
                t = np.where(known, t, u)
                z = ndtri(np.clip(t, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
            out[:, place] = z * scales[level]
        out[:, -1] = levels

    def facts(self) -> Facts:
        return {"kind": "category", "levels": len(self.codes)}

    def tables(self) -> list[np.ndarray]:
        return [self.codes, self.shares]

    @classmethod
    def restored(cls, facts: Facts, cut: Callable[[int], np.ndarray]) -> Self:
        return cls(cut(facts["levels"]), cut(facts["levels"]))


@dataclass(frozen=True)
class NumberColumn:
    """The model of a column of numbers.

    It has two prepared columns: the mapped value, and a flag that is 1 if the value is missing,
    else 0. A zero-inflated column has many rows at one value, the `spike`; other values are
    amounts. It has three prepared columns: the mapped value, the mapped amount, and a flag that is
    1 at the spike, -1 if the value is missing, else 0. Level trees use the mapped value; mixtures
    use the amount and the flag. In learning, rows without an amount get a random one, because a
    constant would show where the spike is.
    """

    map: NumberMap  # map of all values
    spike: float | None  # frequent minimum or maximum, usually 0; None if not zero-inflated
    amounts: NumberMap | None  # map of the values besides the spike; None if not zero-inflated

    @property
    def kind(self) -> str:
        return self.map.kind if self.amounts is None else ZERO_INFLATED

    @property
    def width(self) -> int:
        return 2 if self.amounts is None else 3

    def _at_spike(self, x: np.ndarray) -> np.ndarray:
        """Return a mask (n,) of the values x (n,) that equal the spike, up to rounding."""
        if self.spike is None or self.amounts is None:
            return np.zeros(len(x), bool)
        gap = min(abs(self.spike - self.amounts.low), abs(self.spike - self.amounts.high))
        return np.asarray(np.abs(x - self.spike) <= rounding_error(self.spike, gap))

    def describes(self, distinct: np.ndarray, counts: np.ndarray, given: GivenColumn) -> bool:
        """Return True if `map` and `amounts` describe new rows, as in `NumberMap.describes`.

        The new rows have the `distinct` values (u,) with `counts` (u,). One of the values must
        differ from the spike.
        """
        rest = ~self._at_spike(distinct)
        if not rest.any() or not self.map.describes(distinct, counts, given):
            return False
        return self.amounts is None or self.amounts.describes(distinct[rest], counts[rest], given)

    def prepare(
        self, x: np.ndarray, rows: np.ndarray | None, salt: np.uint64, out: np.ndarray
    ) -> None:
        """Write the prepared columns of values x (n,) to out (n, width).

        Mapped values are draws, keyed by the row numbers `rows` (n,) and the column's `salt`.
        Without `rows`, they are medians of cells.
        """
        missing = np.isnan(x)
        u = None if rows is None else keyed_uniforms(rows, salt)
        out[:, 0] = self.map.mapped_to(x, u)
        if missing.any():
            out[missing, 0] = 0.0 if u is None else ndtri(u[missing])
        if self.amounts is None:
            out[:, 1] = missing
            return
        at_spike = self._at_spike(x)
        with_amount = ~(missing | at_spike)
        part = None if u is None else u[with_amount]
        out[with_amount, 1] = self.amounts.mapped_to(x[with_amount], part)
        if u is not None:
            out[~with_amount, 1] = ndtri(u[~with_amount])
        out[:, 2] = np.where(missing, -1.0, at_spike)

    def draws(
        self, x: np.ndarray, rows: np.ndarray, salt: np.uint64
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the cell's index for each value x (n,), and `NumberMap.draws` (4, n).

        For missing values and for the spike, the index is -1, rows 0 and 1 of the draws are NaN,
        and rows 2 and 3 are 0. A continuous column has no cells: all indices are -1, and rows 2 and
        3 are 0.
        """
        present = ~np.isnan(x) & ~self._at_spike(x)
        own, uniforms = self.amounts or self.map, keyed_uniforms(rows[present], salt)
        indices, found = np.full(len(x), -1), np.zeros((4, len(x)))
        found[:2] = np.nan
        found[:, present] = own.draws(x[present], uniforms)
        if own.step:
            indices[present] = np.unique(x[present], return_inverse=True)[1]
        else:
            found[2:] = 0.0
        return indices, found

    def facts(self) -> Facts:
        amounts = None if self.amounts is None else self.amounts.facts()
        return {"kind": "number", "map": self.map.facts(), "spike": self.spike, "amounts": amounts}

    def tables(self) -> list[np.ndarray]:
        return self.map.tables() + ([] if self.amounts is None else self.amounts.tables())

    @classmethod
    def restored(cls, facts: Facts, cut: Callable[[int], np.ndarray]) -> Self:
        whole = NumberMap.restored(facts["map"], cut)
        amounts = facts["amounts"]
        of_amounts = None if amounts is None else NumberMap.restored(amounts, cut)
        return cls(whole, facts["spike"], of_amounts)


@dataclass(frozen=True)
class PreparedLayout:
    """Indices (int64) of the prepared columns that graphs, level trees and mixtures use."""

    firsts: np.ndarray  # (d,): first prepared column of each stored column
    width: int  # number of prepared columns
    latent: np.ndarray  # (r,): continuous variables, which level trees and graphs use
    numbers: np.ndarray  # (p,): numbers that a mixture uses
    absent: np.ndarray  # (p,): flag of each number, which is 0 if a row has the number
    levels: np.ndarray  # (q,): levels and flags of spikes that a mixture uses, -1 where missing
    n_levels: np.ndarray  # (q,): number of levels of each column in `levels`

    @property
    def flags(self) -> np.ndarray:
        """Index (p,) int64 of each number's flag in `levels`; -1 if it is not zero-inflated."""
        same = self.absent[:, None] == self.levels
        return np.where(same.any(axis=1), same.argmax(axis=1) if same.size else 0, -1)

    def mixed(self, Z: np.ndarray) -> MixtureRows:
        """Convert prepared rows Z (n, width) to the form that mixtures take."""
        numbers = Z[:, self.numbers].astype(np.float64)
        numbers[Z[:, self.absent] != 0.0] = np.nan
        levels = np.rint(Z[:, self.levels]).astype(np.int32)
        return MixtureRows(numbers, levels, self.n_levels)


@dataclass(frozen=True)
class ColumnModel:
    """The models of all stored columns.

    Each column has a salt, a number from which its random draws follow. Salts depend on the ranks
    of the values in a few rows. They do not depend on the columns' names, order or units, nor on
    the order of the rows.
    """

    columns: list[NumberColumn | CategoryColumn | None]  # models, or None for unused columns
    salts: np.ndarray  # (d,) uint64: salt of each stored column
    axes: np.ndarray | None = None  # (q, r) float64: if set, mixtures use only these components

    @classmethod
    def of(
        cls,
        pilot: np.ndarray,
        nominal: np.ndarray,
        given: Sequence[GivenColumn] | None = None,
        before: Self | None = None,
        rows: np.ndarray | None = None,
    ) -> Self:
        """Fit the model to stored pilot rows (m, d), NaN where missing.

        A column has no model if it is constant, or if an earlier column has the same or the
        reverse order of rows. `nominal` (d,) bool marks columns of category codes. `given` are
        kinds and scales from the job file. `before` is the previous run's model: a column keeps its
        salt, and keeps its model if the model still describes the rows. `rows` (m,) int64 are the
        row numbers in the table, by default from 0.
        """
        rows = np.arange(len(pilot)) if rows is None else rows
        stored = np.ascontiguousarray(pilot.T, np.float64)  # sums then have one order
        orders = [_hash_of_ranks(x, rows) for x in stored]
        original = _originals(stored, rows, orders)
        columns: list[NumberColumn | CategoryColumn | None] = []
        for place, x in enumerate(stored):
            of = AS_FOUND if given is None else given[place]
            earlier = None if before is None else before.columns[place]
            is_copy, known = original[place] < place, x[~np.isnan(x)]
            columns.append(
                None if is_copy else _column_of(known, bool(nominal[place]), of, earlier)
            )
        salts = _salts_of(stored, rows, orders)
        if before is not None:
            modelled = [earlier is not None for earlier in before.columns]
            salts = np.where(modelled, before.salts, salts)
        return cls(columns, salts[original])  # a copy has the salt of its original

    def along_components(
        self, pilot: np.ndarray, rows: np.ndarray, before: Self | None = None
    ) -> Self:
        """Return this model with `axes`: the principal components whose variance exceeds noise.

        They are computed from the latent variables of stored pilot rows (m, d) with the row numbers
        `rows` (m,). The axes of the previous model `before` are kept if it has axes of the same
        latent variables.
        """
        assert self.axes is None
        axes = None
        if before is not None and np.array_equal(before.layout.latent, self.layout.latent):
            axes = before.axes
        if axes is None:
            axes = components_above_noise(self.latent(pilot, rows))[0]
        return replace(self, axes=axes)

    @cached_property
    def layout(self) -> PreparedLayout:
        """Indices of prepared columns for each use. All but `firsts` are in the order of salts."""
        widths = [1 if one is None else one.width for one in self.columns]
        firsts = np.cumsum([0, *widths])
        empty: list[list[int]] = [[] for _ in range(5)]
        latent, numbers, absent, levels, n_levels = empty
        for j in np.argsort(self.salts, kind="stable").tolist():
            column, first = self.columns[j], int(firsts[j])
            if isinstance(column, CategoryColumn):
                latent.extend(range(first, first + column.n_latent))
                levels.append(first + column.n_latent)
                n_levels.append(len(column.codes))
            elif column is not None:
                latent.append(first)
                numbers.append(first if column.amounts is None else first + 1)
                absent.append(first + column.width - 1)
                if column.amounts is not None:
                    levels.append(first + 2)
                    n_levels.append(2)
        width = int(firsts[-1])
        if self.axes is not None:
            numbers, levels, n_levels = list(range(width, width + len(self.axes))), [], []
            width += len(self.axes) + 1
            absent = [width - 1] * len(numbers)
        places = (np.array(one, np.int64) for one in (latent, numbers, absent, levels, n_levels))
        return PreparedLayout(firsts[:-1].astype(np.int64), width, *places)

    def prepared(self, X: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Convert stored rows X (n, d) to prepared rows (n, width) float64.

        `rows` (n,) int64, the row numbers in the table, are given in learning. Values are then
        draws from their cells, and missing numbers are draws from a standard normal. Without
        `rows`, as for labels, values are medians of their cells, and missing numbers are 0.
        """
        return np.ascontiguousarray(self._by_column(X, rows))

    def centred(self, X: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Convert stored rows X (n, d) to prepared rows minus `origin` (width,), as float32.

        Values are medians of their cells, as for labels.
        """
        Z = self._by_column(X, None)
        out = np.empty(Z.shape, np.float32, order="F")
        np.subtract(Z, origin, out=out, casting="same_kind")
        return np.ascontiguousarray(out)

    def _by_column(self, X: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Return the rows of `prepared` in Fortran order, in which columns are contiguous."""
        out = np.zeros((self.layout.width, len(X))).T
        for j, (column, first) in enumerate(zip(self.columns, self.layout.firsts, strict=True)):
            if column is not None:
                own = out[:, first : first + column.width]
                column.prepare(np.ascontiguousarray(X[:, j], np.float64), rows, self.salts[j], own)
        if self.axes is not None:
            latent = out[:, self.layout.latent].astype(np.float32)
            out[:, self.layout.numbers] = project(latent, self.axes.astype(np.float32))
        return out

    def of_columns(self, places: Sequence[int | None]) -> Self:
        """Return a model with selected columns: `places` are their indices here, in the new order.

        None in `places` adds a column without a model. `axes` are kept only if all columns stay.
        """
        columns = [None if j is None else self.columns[j] for j in places]
        salts = [0 if j is None else int(self.salts[j]) for j in places]
        all_stay = set(range(len(self.columns))) == set(places)
        axes = self.axes if all_stay else None
        return replace(self, columns=columns, salts=np.array(salts, np.uint64), axes=axes)

    def draws(self, X: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw stored values for the p numbers that mixtures use; `prepared` maps the same draws.

        X (n, d) are stored rows with the row numbers `rows` (n,). Return three arrays: the indices
        (n, p) int64 of cells, `NumberColumn.draws` (4, n, p), and the stored values (n, p), NaN
        without a draw.
        """
        shape = len(X), len(self.layout.numbers)
        indices, found, values = np.empty(shape, np.int64), np.empty((4, *shape)), np.empty(shape)
        owners = np.searchsorted(self.layout.firsts, self.layout.numbers, "right") - 1
        for place, j in enumerate(owners.tolist()):
            column, x = self.columns[j], np.ascontiguousarray(X[:, j], np.float64)
            assert isinstance(column, NumberColumn)
            indices[:, place], found[:, :, place] = column.draws(x, rows, self.salts[j])
            values[:, place] = np.where(np.isnan(found[0, :, place]), np.nan, x)
        return indices, found, values

    @property
    def firsts(self) -> np.ndarray:
        """Index (d,) int64 of the first prepared column of each stored column."""
        return self.layout.firsts

    def latent(self, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return draws (n, r) float64 of the latent variables of stored rows X (n, d)."""
        return self.prepared(X, rows)[:, self.layout.latent]

    def origin(self, centre: np.ndarray) -> np.ndarray:
        """Return the origin (width,) with `centre` (r,) in the latent columns and 0 elsewhere."""
        origin = np.zeros(self.layout.width)
        origin[self.layout.latent] = centre
        return origin

    def facts(self) -> list[Facts | None]:
        return [None if one is None else one.facts() for one in self.columns]

    @property
    def tables(self) -> np.ndarray:
        """All numbers of the model in one array (t,) float64, from which `restored` rebuilds it."""
        parts = [part for one in self.columns if one is not None for part in one.tables()]
        if self.axes is not None:
            parts.append(self.axes.ravel())
        return np.concatenate(parts) if parts else np.zeros(0)

    @classmethod
    def restored(cls, facts: Sequence[Facts | None], tables: np.ndarray, salts: np.ndarray) -> Self:
        """Return the model from its saved parts; ValueError or KeyError if they are damaged."""
        place = 0

        def cut(n: int) -> np.ndarray:
            nonlocal place
            found = tables[place : place + n]
            if len(found) != n or n < 0:
                raise ValueError(
                    f"array 'tables': expected {n} numbers from place {place}, found {len(found)}"
                )
            place += n
            return found

        columns: list[NumberColumn | CategoryColumn | None] = []
        for one in facts:
            is_category = one is not None and one["kind"] == "category"
            kind = CategoryColumn if is_category else NumberColumn
            columns.append(None if one is None else kind.restored(one, cut))
        found = cls(columns, salts)
        rest, r = tables[place:], len(found.layout.latent)
        if not len(rest):
            return found
        if not r or len(rest) % r:
            raise ValueError(
                f"array 'tables': expected {place} numbers and {r} for each component, found "
                f"{len(tables)}"
            )
        return replace(found, axes=rest.reshape(-1, r))


def keyed_uniforms(rows: np.ndarray, salt: int | np.uint64, more: int = 0) -> np.ndarray:
    """Return random numbers (n,), uniform in (0, 1), keyed by row numbers (n,) and a column's salt.

    Another value of `more` gives independent numbers for the column.
    """
    bits = splitmix(rows.astype(np.uint64) + np.uint64(salt), more)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _salts_of(stored: np.ndarray, rows: np.ndarray, orders: Sequence[int]) -> np.ndarray:
    """Return the salts (d,) uint64 of stored columns (d, m) with the row numbers `rows` (m,).

    A salt is the hash of a column's ranks in a few rows, so that a new row seldom changes it. If
    columns have equal ranks there, but not in all rows, their salts are `orders` (d,) instead: the
    hashes of their ranks in all rows.
    """
    few = np.argsort(keyed_uniforms(rows, 1))[:SALT_ROWS]
    hashes = [_hash_of_ranks(x[few], rows[few]) for x in stored]
    columns = Counter(found for found, _ in set(zip(hashes, orders, strict=True)))
    pairs = zip(hashes, orders, strict=True)
    return np.array([own if columns[own] == 1 else order for own, order in pairs], np.uint64)


def _originals(stored: np.ndarray, rows: np.ndarray, orders: Sequence[int]) -> list[int]:
    """Return the index of each column's original: the first column with the same order of rows.

    The reverse order counts, too, as of a date and the days since that date. Columns are `stored`
    (d, m), and `orders` (d,) are the hashes of their ranks. A constant column has no model, so it
    is never the original of a column that varies.
    """
    reverse = [_hash_of_ranks(-x, rows) for x in stored]
    varies = [len(np.unique(x[~np.isnan(x)])) > 1 for x in stored]
    return [
        next(i for i, order in enumerate(orders) if order in both and varies[i] >= varies[place])
        for place, both in enumerate(zip(orders, reverse, strict=True))
    ]


def _hash_of_ranks(x: np.ndarray, rows: np.ndarray) -> int:
    """Return a hash of the ranks of a column's values x (m,); NaN is the highest value.

    It depends on the row numbers `rows` (m,), but not on their order.
    """
    _, ranks = np.unique(x, return_inverse=True, equal_nan=True)
    weights = (keyed_uniforms(rows, 1) * 2.0**64).astype(np.uint64)
    return int((ranks.astype(np.uint64) * weights).sum())  # modulo 2^64, in any order of the rows


def _column_of(
    x: np.ndarray,
    nominal: bool,
    given: GivenColumn,
    before: NumberColumn | CategoryColumn | None = None,
) -> NumberColumn | CategoryColumn | None:
    """Fit the model of a column to its values x (m,) that are not missing.

    Return None if they are nearly equal. `before`, the column's previous model, is kept if it
    describes these values and has the `given` kind and scale.
    """
    distinct, counts = np.unique(x, return_counts=True)
    if not len(distinct):
        return None
    may_stay = before is not None and _is_as_given(before, nominal, given)
    if before is not None and may_stay and before.describes(distinct, counts, given):
        return before
    if len(distinct) < 2:
        return None
    spread, largest = distinct[-1] - distinct[0], max(abs(distinct[0]), abs(distinct[-1]))
    if not nominal and spread <= CONSTANT_RANGE * largest:
        return None
    if nominal or len(distinct) == 2 or given.kind in ("binary", "category"):
        return CategoryColumn(distinct, counts / counts.sum())
    whole = NumberMap.of(distinct, counts, given)
    if whole is None:
        return None
    spike = None
    if given.kind == ZERO_INFLATED:
        spike = float(distinct[0] if counts[0] >= counts[-1] else distinct[-1])
    elif not whole.is_ordinal:
        spike = _spike_of(distinct, counts, given)
    if spike is None:
        return NumberColumn(whole, None, None)
    rest = distinct != spike
    amounts = NumberMap.of(distinct[rest], counts[rest], given)
    return NumberColumn(whole, spike, amounts) if amounts else NumberColumn(whole, None, None)


def _is_as_given(before: NumberColumn | CategoryColumn, nominal: bool, given: GivenColumn) -> bool:
    """Return True if a column's previous model agrees with the kind and scale in the job file."""
    if isinstance(before, CategoryColumn):
        return given.scale is None and given.kind not in _NUMBER_KINDS
    decides = given.kind in (*_NUMBER_KINDS, "binary", "category")
    has_scale = given.scale in (None, before.map.scale)
    return not nominal and has_scale and (not decides or given.kind == before.kind)


def _spike_of(distinct: np.ndarray, counts: np.ndarray, given: GivenColumn) -> float | None:
    """Return the spike of a column of distinct values (u,), or None if it is not zero-inflated.

    The spike is the most frequent value if it is repeated, and is the minimum or maximum. A model
    with a separate probability of the spike must have a higher BIC than one density of all values.
    There is no spike among fewer than four distinct values: with three, a
    density has as many parameters as there are free probabilities.
    """
    n, at = float(counts.sum()), int(counts.argmax())
    if at not in (0, len(distinct) - 1) or len(distinct) < 4 or counts[at] < 2:
        return None
    rest = np.arange(len(distinct)) != at
    amounts = Cells.of(distinct[rest], counts[rest])
    edge = (distinct[at] + distinct[1 if at == 0 else at - 1]) / 2.0
    ends = [np.array([edge]), amounts.edges], [counts[[at]], amounts.counts]
    edges, sizes = (np.concatenate(one if at == 0 else one[::-1]) for one in ends)
    whole = Cells(edges, sizes.astype(np.float64), float(distinct[0]), float(distinct[-1]))
    scales = possible_scales(distinct, given)
    one, other = best_density(whole, scales), best_density(amounts, scales)
    if one is None or other is None:
        return None
    share = counts[at] / n
    split = counts[at] * np.log(share) + (n - counts[at]) * np.log1p(-share) - 0.5 * np.log(n)
    return float(distinct[at]) if split + other.bic > one.bic else None
