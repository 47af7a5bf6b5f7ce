"""The report's part on columns.

It also finds columns that alone separate clusters, and columns that are functions of each other.
"""

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from distsvc.errors import things, times_in_words
from distsvc.job.config import Job
from distsvc.models.columns.described import ColumnDescription, described, may_be_levels
from distsvc.models.rows.sentinels import find_spike
from distsvc.models.rules.profiles import leanings, ranks
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import ColumnPart, ColumnsPart
from distsvc.report.sections.headline import ALL_DIFFER_ONLY_IN
from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.labelling.counts import ClusterContents, CountedLevels, code_text, shares_in
from distsvc.run.labelling.phase import Labelled
from distsvc.run.learning.preparation import Preparation
from distsvc.run.preparing import given_columns
from distsvc.run.work.plan import Plan
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.features import (
    Category,
    Feature,
    Log,
    Numeric,
    TextNumber,
    Time,
    Vector,
    groups_of,
    placed,
    units_of,
)
from distsvc.storage.rows.id_detection import are_mostly_different

REST = "all others"

MIN_COUNT = 10
"""Minimum number of rows in each of two groups that are compared, such as two clusters."""

USUAL_SHARE = 0.98
"""Minimum share of a group's rows that have one value, if it is to be typical of the group."""


def columns_part(
    plan: Plan, preparation: Preparation, job: Job, labelled: Labelled, rows: PilotRows
) -> ColumnsPart:
    """Return the kinds of the columns, and their values by cluster in the table's units."""
    table = plan.table
    sizes = labelled.counts.sizes.sum(axis=1)
    order = np.argsort(-sizes, kind="stable")[: labelled.counts.n_clusters][: PAGE_LIMITS.clusters]
    contents, units = labelled.contents, units_of(table.features, table.types)
    fill = preparation.scaling.fill if plan.missing == "median" else None
    descriptions = _descriptions(table, preparation, job)
    parts = []
    for (feature, places), kind in zip(placed(table.features), descriptions, strict=True):
        absent = contents.missing[:, places.start]
        own = vars(kind) | {"missing": int(absent.sum()), "unit": units.get(feature.column, "")}
        if absent.any():
            own["absent"] = absent[order].tolist()
            own["gap"] = level_of_gaps(rows.raw, places.start, contents.features)
            own["filled"] = None if fill is None else float(fill[places.start])
        fields: dict[str, Any] = {}
        if feature.column in contents.rows:
            names = next(c.names for c in contents.features if c.column == feature.column)
            fields = _shares(names, contents.rows[feature.column], order)
        elif not (isinstance(feature, Vector) and feature.width > 1):
            digits = 12 if own["unit"] else 6  # 6 digits of seconds since 1970 are only 3 hours
            values = rows.raw[:, places.start]
            fields = number_fields(values, rows.labels, order, digits)
            if isinstance(feature, Numeric | TextNumber) and (limit := share_at_limit(values)):
                own["reason"] = "; ".join(filter(None, [own["reason"], limit]))
        parts.append(ColumnPart(column=groups_of([feature])[0][0], **own, **fields))
    parts += _compared_parts(table, contents, order)
    shown = {part.column for part in parts}
    parts += [
        ColumnPart(column=name, kind="", reason=why, feature=False)
        for name, why in table.left_out.items()
        if name not in shown
    ]
    rank = np.argsort([-(part.explained or 0.0) for part in parts], kind="stable")
    kept = sorted(rank[:200].tolist())  # the columns that clusters explain best
    return ColumnsPart(
        label=order.tolist(),
        size=sizes[order].tolist(),
        sample=len(rows.labels),
        columns=[parts[k] for k in kept],
        n_hidden=len(parts) - len(kept),
    )


def share_at_limit(values: np.ndarray) -> str:
    """Return a clause on a limit of values (m,): "12% of the known values equal the minimum, 0.5".

    The limit is the lowest or highest value, if many rows have it, as at a limit of detection.
    Otherwise the clause is empty.
    """
    spike = find_spike(values[~np.isnan(values)])
    if spike is None or not spike.end:
        return ""
    return f"{spike.share:.0%} of the known values equal the {spike.end}, {spike.value:.6g}"


def level_of_gaps(raw: np.ndarray, place: int, counted: Sequence[CountedLevels]) -> str:
    """Return a clause that explains missing values, such as ``missing where state=sold``.

    The clause is empty if no value of a category explains them. The values are in column `place`
    of the stored rows `raw` (m, d), and `counted` describes the categories.
    """
    absent = np.isnan(raw[:, place])
    if not MIN_COUNT <= absent.sum() <= len(absent) - MIN_COUNT:
        return ""
    for of in counted:
        levels = of.levels_of(raw)
        rows = [np.bincount(levels[own], minlength=len(of.names) + 1) for own in (absent, ~absent)]
        gaps, others = shares_in(np.array(rows), 0)
        for word, usual, rare in ("where", gaps, others), ("unless", others, gaps):
            for k in np.flatnonzero((usual >= USUAL_SHARE) & (rare <= 1.0 - USUAL_SHARE)):
                if k < len(of.names) and of.places.start != place:
                    return f"missing {word} {of.column}={of.names[k]}"
    return ""


def _descriptions(table: Table, preparation: Preparation, job: Job) -> list[ColumnDescription]:
    """Return the description of each feature, from its column model or its type."""
    if preparation.columns is not None:
        units = [
            feature.unit if isinstance(feature, Time) else ""
            for feature, places in placed(table.features)
            for _ in range(places.stop - places.start)
        ]
        found = described(preparation.columns, table.columns, given_columns(table), units)
        return [found[places.start] for _, places in placed(table.features)]
    scale = "" if preparation.scaling.kind == "none" else preparation.scaling.kind
    why = "preprocess.scale" if job.preprocess.scale else ""
    return [plain_description(feature, scale, why) for feature in table.features]


def plain_description(feature: Feature, scale: str, reason: str) -> ColumnDescription:
    """Return the description of a feature on a given scale, without a column model."""
    if isinstance(feature, Vector):
        return ColumnDescription("vector", scale, f"{feature.width} numbers in each row")
    if isinstance(feature, Category):
        return ColumnDescription("category", feature.kind, things(len(feature.known), "value"))
    if isinstance(feature, Log):
        return ColumnDescription("number", f"logarithm, {scale}", "preprocess.log")
    if isinstance(feature, Time):
        return ColumnDescription("time", scale, f"in {feature.unit}")
    if isinstance(feature, TextNumber):
        return ColumnDescription("number", scale, "text that holds numbers")
    return ColumnDescription("number", scale, reason)


def _compared_parts(table: Table, contents: ClusterContents, order: np.ndarray) -> list[ColumnPart]:
    names = {counted.column: counted.names for counted in contents.compared}
    found = []
    for j, feature in enumerate(table.compared):
        column, kind = feature.column, "category"
        if column in names:
            fields = _shares(names[column], contents.rows[column], order)
        else:
            kind, sample = "number", contents.sample[:, j]
            fields = number_fields(sample, contents.sample_labels, order)
        if fields:
            why = table.left_out.get(column, "")
            found.append(ColumnPart(column=column, kind=kind, reason=why, feature=False, **fields))
    return found


def _shares(names: Sequence[str], rows: np.ndarray, order: np.ndarray) -> dict[str, Any]:
    """Return the levels of a column, their rows by cluster, and the share that clusters explain.

    `rows` (k, L + 1) counts rows by cluster and level. Its last column is not used. `order` are
    the clusters to report.
    """
    known = rows[:, :-1]
    totals = known.sum(axis=0)
    levels = [int(c) for c in np.argsort(-totals, kind="stable") if totals[c]]
    if _are_numbers([names[c] for c in levels]):
        levels.sort(key=lambda c: float(names[c]))
    elif len(levels) == 2:
        levels.sort()
    shown, rest = levels[: PAGE_LIMITS.levels], levels[PAGE_LIMITS.levels :]
    table = known[order][:, shown]
    texts = [names[c] for c in shown]
    if rest:
        table = np.column_stack([table, known[order][:, rest].sum(axis=1)])
        texts.append(REST)
    return {
        "levels": texts,
        "rows": table.tolist(),
        "explained": explained_share(known[:, levels]) if levels else None,
    }


def _are_numbers(texts: Sequence[str]) -> bool:
    try:
        return all(np.isfinite(float(text)) for text in texts)
    except ValueError:
        return False


def number_fields(
    x: np.ndarray, labels: np.ndarray, order: np.ndarray, digits: int = 6
) -> dict[str, Any]:
    """Return quartiles of values x (m,) by cluster, or shares if there are only two values."""
    known = ~np.isnan(x)
    x, labels = x[known], labels[known]
    values = np.unique(x)
    if not len(values):
        return {}
    k = int(max(labels.max(), order.max())) + 1
    if len(values) == 2:
        rows = np.zeros((k, 3), np.int64)
        np.add.at(rows, (labels, np.searchsorted(values, x)), 1)
        names = [code_text(value) for value in values]
        return _shares(names, rows, order) | {"sampled": True}
    quartiles: list[list[float | None]] = []
    for c in order.tolist():
        own = x[labels == c]
        parts = np.quantile(own, [0.25, 0.5, 0.75]).tolist() if len(own) else [None] * 3
        quartiles.append([None if part is None else float(f"{part:.{digits}g}") for part in parts])
    here = np.isin(order, labels)
    leaning = np.zeros(len(order))
    if here.sum() > 1:
        leaning[here] = leanings(x[:, None], labels, order[here].tolist())[:, 0]
    return {
        "quartiles": quartiles,
        "leaning": np.round(leaning, 3).tolist(),
        "explained": explained_ranks(x, labels),
    }


def explained_share(rows: np.ndarray) -> float:
    """Return the share of a category's variation that clusters explain, adjusted for chance.

    This is Goodman and Kruskal's tau. `rows` (k, L) counts rows by cluster and level.
    """
    n, sizes = rows.sum(), rows.sum(axis=1)
    if n < 2 or not n * n > (rows.sum(axis=0) ** 2).sum():
        return 0.0
    whole = 1.0 - float(((rows.sum(axis=0) / n) ** 2).sum())
    inside = 1.0 - float((rows**2 / np.maximum(sizes, 1)[:, None]).sum() / n)
    return _beyond_chance(1.0 - inside / whole, int(n), int((sizes > 0).sum()))


def explained_ranks(x: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of the variance of x's ranks (m,) that clusters explain.

    This is Kruskal and Wallis' statistic, divided by its maximum and adjusted for chance.
    """
    r = ranks(x)
    r = r - r.mean()
    total = float(r @ r)
    if not total > 0.0:
        return 0.0
    sums, sizes = np.bincount(labels, r), np.bincount(labels)
    between = float((sums**2 / np.maximum(sizes, 1)).sum())
    return _beyond_chance(between / total, len(x), int((sizes > 0).sum()))


def _beyond_chance(share: float, n: int, k: int) -> float:
    """Subtract from an explained share the part that k random clusters of n rows explain."""
    if n <= k:
        return 0.0
    return round(min(1.0, max(0.0, 1.0 - (1.0 - share) * (n - 1) / (n - k))), 4)


SAME_FACTOR = 0.05
"""Maximum difference between the logarithms (base 10) of two factors that count as equal."""

MIN_CLUSTER_FACTOR = 5.0
"""Minimum ratio between the medians of two clusters for the report to suspect another unit."""


@dataclass(frozen=True)
class SeparatingColumn:
    """A column that alone separates pairs of clusters."""

    column: str
    pairs: list[tuple[int, int]]  # ids of the clusters
    separates_all: bool = False  # `pairs` has every pair of clusters
    is_removable: bool = False  # the only flag or category that separates clusters
    may_be_code: bool = False  # the column may have codes of categories
    may_be_id: bool = False  # whole numbers, nearly all different
    factor: float | None = None  # common ratio of the pairs' medians, if it suggests another unit
    among_numbers: bool = False  # flags or categories differ, too, but no other number

    @property
    def clause(self) -> str:
        """A clause on the pairs: "clusters 0 and 1 differ only in premium"."""
        count = f"{len(self.pairs):,} pairs of clusters differ"
        if len(self.pairs) == 1:
            count = "clusters {} and {} differ".format(*self.pairs[0])
        if self.among_numbers:
            return f"{count} in only one numeric column, {self.column}"
        return f"{ALL_DIFFER_ONLY_IN if self.separates_all else f'{count} only in'} {self.column}"

    @property
    def note(self) -> str:
        words = self.clause.replace(ALL_DIFFER_ONLY_IN, "the clusters differ only in")
        note = f"{words[0].upper()}{words[1:]}"
        # A gap between numbers is evidence of clusters, and so may be several categories together.
        exclude = shlex.join(["--exclude", self.column])
        if self.is_removable:
            return f"{note}. To ignore it: {exclude}"
        if self.factor is not None:
            times = times_in_words(self.factor)
            which = f"one cluster's values are {times} the other's"
            ids = f" If the values are ids: {exclude}" if self.may_be_id else ""
            return f"{note}: {which}. Do some rows have another unit?{ids}"
        if self.may_be_id:
            return f"{note}, whose values are nearly all different. If they are ids: {exclude}"
        if self.may_be_code:
            kind = shlex.join(["--set", f"columns.{self.column}=category"])
            return f"{note}. If its values are codes without an order: {kind}"
        return note


def separating_columns(
    rows: PilotRows,
    features: Sequence[Feature],
    ids: np.ndarray,
    preparation: Preparation,
    integers: Collection[str] = (),
) -> list[SeparatingColumn]:
    """Return each column that is the only one in which some clusters of the pilot differ.

    A numeric column also counts if categories differ, too, and if the medians of all pairs have a
    common ratio. Then one of the clusters may have its values in another unit. `ids` (k,) are the
    clusters' ids. The columns `integers` may have codes of categories.
    """
    Z, owners = rows.X, np.arange(rows.X.shape[1])
    if preparation.columns is not None:
        latent = preparation.columns.layout.latent
        Z, owners = Z[:, latent], np.searchsorted(preparation.firsts, latent, side="right") - 1
    numbers, counts = np.unique(rows.labels, return_counts=True)
    most = int((2**21 / Z.shape[1]) ** 0.5)  # clusters whose pairs fit into memory
    large = numbers[np.argsort(-counts, kind="stable")][:most]
    clusters = np.sort(large[np.isin(large, numbers[counts >= MIN_COUNT])])
    if len(clusters) < 2:
        return []
    apart, noise = _apart(Z, rows.labels, clusters)
    every = [(f, own, _usual_values(rows, clusters, own, f)) for f, own in placed(features)]
    is_number = np.repeat([u is None for *_, u in every], [len(f.names) for f, *_ in every])[owners]
    found = []
    for feature, own, usual in every:
        if usual is not None:
            known = (usual[:, None] >= 0) & (usual >= 0)
            differ, most_rest = known & (usual[:, None] != usual), 2.0
        elif len(features) >= 4 and own.stop == own.start + 1:  # numbers, in wider tables only
            differ, most_rest = _ranges_differ(rows, clusters, own.start), 1.0
        else:
            continue
        mine = (owners >= own.start) & (owners < own.stop)
        for among_numbers in (False, True)[: 1 + (usual is None)]:
            others = ~mine & is_number if among_numbers else ~mine
            rest = apart[:, :, others].sum(axis=2) - noise
            pairs = np.argwhere(np.triu(differ & (rest <= most_rest))).tolist()
            if not pairs:
                continue
            named = [(int(ids[clusters[a]]), int(ids[clusters[b]])) for a, b in pairs]
            k = len(numbers)
            all_pairs = 2 * len(pairs) == k * (k - 1)
            one = SeparatingColumn(feature.column, named, all_pairs, usual is not None)
            if usual is None:
                x = rows.raw[:, own.start]
                medians = [np.nanmedian(x[rows.labels == c]) for c in clusters]
                one = replace(
                    one,
                    may_be_code=feature.column in integers and may_be_levels(x),
                    may_be_id=feature.column in integers and are_mostly_different(x),
                    factor=_common_factor([(medians[a], medians[b]) for a, b in pairs]),
                    among_numbers=among_numbers,
                )
            if one.factor is not None or not among_numbers:
                found.append(one)
                break
    if sum(one.is_removable for one in found) > 1:
        found = [replace(one, is_removable=False) for one in found]
    return found


def _common_factor(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the common ratio of pairs of medians if it suggests another unit, else None.

    The ratio must be at least `MIN_CLUSTER_FACTOR`. For a single pair, it must be a power of ten.
    """
    low, high = np.sort(pairs, axis=1).T
    if low.min() <= 0.0:
        return None
    logs = np.log10(high / low)
    factor = float(np.median(logs))
    if np.abs(logs - factor).max() > SAME_FACTOR or factor < np.log10(MIN_CLUSTER_FACTOR):
        return None
    if len(logs) == 1 and abs(factor - round(factor)) > SAME_FACTOR:
        return None
    return float(10.0**factor)


def _ranges_differ(rows: PilotRows, clusters: np.ndarray, place: int) -> np.ndarray:
    """Return a mask (k, k): whether the ranges (5 % to 95 % quantiles) of clusters are disjoint."""
    low, high = np.full(len(clusters), np.nan), np.full(len(clusters), np.nan)
    for k, c in enumerate(clusters):
        x = rows.raw[rows.labels == c, place]
        known = x[~np.isnan(x)]
        if 2 * len(known) > len(x):
            low[k], high[k] = np.quantile(known, [0.05, 0.95])
    return np.asarray((high[:, None] < low) | (low[:, None] > high))


def _apart(
    Z: np.ndarray, labels: np.ndarray, clusters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances (k, k, d) of cluster means, relative to the variance in clusters.

    Also return the sum over columns (k, k) that would be expected if the true means were equal.
    """
    members = [Z[labels == c].astype(np.float64) for c in clusters]
    means = np.array([X.mean(axis=0) for X in members])
    variances = np.array([X.var(axis=0) for X in members])
    shares = 1.0 / np.array([len(X) for X in members])
    squares = (means[:, None] - means) ** 2
    within = (variances[:, None] + variances) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(squares > 0.0, np.minimum(squares / within, 1e6), 0.0)
    return apart, (shares[:, None] + shares) * Z.shape[1]


def _usual_values(
    rows: PilotRows, clusters: np.ndarray, own: slice, feature: Feature
) -> np.ndarray | None:
    """Return the code (k,) that nearly all rows of a cluster have in a column.

    It is -1 for a cluster with several frequent codes. Return None if the column has no codes:
    it is neither a category nor a flag.
    """
    raw = rows.raw[:, own]
    known = ~np.isnan(raw).any(axis=1)
    if feature.one_hot:
        codes = raw.argmax(axis=1)
    elif feature.nominal:
        codes = np.where(known, raw[:, 0], 0.0).astype(np.int64)
    elif raw.shape[1] == 1:
        values, codes = np.unique(raw[:, 0], return_inverse=True)
        if np.count_nonzero(~np.isnan(values)) != 2:
            return None
    else:
        return None
    usual = np.full(len(clusters), -1)
    for k, c in enumerate(clusters):
        counts = np.bincount(codes[known & (rows.labels == c)])
        if counts.size and counts.max() >= USUAL_SHARE * counts.sum():
            usual[k] = counts.argmax()
    return usual


def function_pairs(rows: PilotRows, features: Sequence[Feature]) -> list[tuple[str, str]]:
    """Return the pairs of numeric columns that rank the pilot's rows equally, or in reverse."""
    names, columns = [], []
    for feature, places in placed(features):
        x = rows.raw[:2000, places.start]
        if isinstance(feature, Numeric | TextNumber) and len(np.unique(x)) >= 32:
            r = ranks(np.where(np.isnan(x), np.nanmedian(x), x))
            names.append(feature.column)
            columns.append((r - r.mean()) / r.std())
    if not columns:
        return []
    R = np.array(columns)
    alike = np.abs(R @ R.T) / R.shape[1] >= 0.999
    return [(names[i], names[j]) for i, j in np.argwhere(np.triu(alike, 1)).tolist()]


def doubt_of_functions(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return at most one clause on columns that are functions of each other."""
    if not pairs:
        return []
    clause, more = "{!r} and {!r} are functions of each other".format(*pairs[0]), len(pairs) - 1
    others = "is 1 more pair" if more == 1 else f"are {more} more pairs"
    return [f"{clause}, as {others} of columns" if more else clause]
