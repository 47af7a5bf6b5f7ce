"""Parts of the report that explain the clusters: profiles, columns, the picture of the pilot."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from distsvc.job.config import Job
from distsvc.models.graph.landmarks import separating_plane
from distsvc.models.rows.principal_components import principal_components
from distsvc.models.rows.threads import one_thread
from distsvc.models.rules.profiles import profiles
from distsvc.models.rules.rule import Rule
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.parts import (
    ProfileColumn,
    ProfilePart,
    ProfilesPart,
    Spread,
    TypicalRow,
)
from distsvc.report.content.report import Sample
from distsvc.run.algorithms.algorithm import Parts, PilotRows, rounded
from distsvc.run.labelling.counts import shares_in
from distsvc.run.labelling.phase import Labelled
from distsvc.run.learning.preparation import Preparation
from distsvc.run.learning.survey import Pilot, numbers_of
from distsvc.run.reporting.columns import columns_part
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.features import Feature, Vector, placed, units_of


def explanation_parts(run: RunDirectory, job: Job, rows: PilotRows, labelled: Labelled) -> Parts:
    """Return the parts of the report that explain the clusters and outliers."""
    preparation = Preparation.read(run)
    parts: Parts = {
        "profiles": profiles_part(rows, run.plan.table, labelled),
        "columns": columns_part(run.plan, preparation, job, labelled, rows),
    }
    for one in labelled.optional:
        parts |= one.parts(rows, preparation, labelled.contents)
    return parts


def profiles_part(rows: PilotRows, table: Table, labelled: Labelled) -> ProfilesPart | None:
    """Return profiles of the clusters of the labelled pilot; None for a single cluster."""
    columns, raw, groups = _profile_columns(rows, table.features, labelled)
    typical = labelled.labeller.typical
    usual = rows.scores >= typical.least
    found = profiles(raw, rows.X, rows.labels, usual, typical.values, 200, [g for g, _ in groups])
    if not found:
        return None
    units = units_of(table.features, table.types) if table.types else {}
    parts = []
    for profile in found:
        shares = {  # of all rows, as in the table of clusters
            k: own
            for group, counts in groups
            for k, own in enumerate(shares_in(counts, profile.label).T, group.start)
            if k < group.stop
        }
        for one in profile.columns:
            if (own := shares.get(one.place)) is not None:
                one.inside[3], one.outside[3] = own if one.low > 0.0 else 1.0 - own
        named = [
            ProfileColumn(
                column=columns[one.place],
                apart=one.apart,
                low=one.low if np.isfinite(one.low) else None,
                high=one.high if np.isfinite(one.high) else None,
                inside=_spread(one.inside),
                outside=_spread(one.outside),
                present=one.low > 0.0 if one.place in shares else None,
                unit="" if one.place in shares else units.get(columns[one.place], ""),
            )
            for one in profile.columns
        ]
        places, numbers = [one.place for one in profile.columns], rows.numbers[profile.typical]
        examples = [
            TypicalRow(row=row, id=labelled.row_ids.get(row), values=raw[i, places].tolist())
            for i, row in zip(profile.typical, numbers.tolist(), strict=True)
        ]
        parts.append(
            ProfilePart(label=profile.label, rows=profile.n_rows, columns=named, typical=examples)
        )
    return ProfilesPart(rows=len(raw), clusters=parts)


def _profile_columns(
    rows: PilotRows, features: Sequence[Feature], labelled: Labelled
) -> tuple[list[str], np.ndarray, list[tuple[slice, np.ndarray]]]:
    """Return the columns that profiles use: names, values (m, c), and groups of indicators.

    Each level of a category becomes an indicator, such as ``state=sold``. A group has the slice of
    a category's indicators, and its counts of rows by cluster and level.
    """
    columns: list[str] = []
    parts: list[np.ndarray] = []
    groups: list[tuple[slice, np.ndarray]] = []
    contents, sizes = labelled.contents, labelled.counts.sizes.sum(axis=1)
    counted = {one.column: one for one in contents.features}

    def indicate(names: Sequence[str], values: np.ndarray, counts: np.ndarray) -> None:
        groups.append((slice(len(columns), len(columns) + len(names)), counts))
        columns.extend(names)
        parts.append(values)

    for feature, places in placed(features):
        values, names = rows.raw[:, places], list(feature.names)
        absent = np.isnan(values[:, 0])
        own = counted.get(feature.column)
        if own is not None:
            indicators = np.eye(len(own.names) + 1)[own.levels_of(rows.raw), :-1]
            indicators[absent] = np.nan
            levels = [f"{feature.column}={name}" for name in own.names]
            indicate(levels, indicators, contents.rows[feature.column][:, :-1])
        else:
            if isinstance(feature, Vector) and len(names) > 1:
                values = components(rows.X[:, places])
                names = [f"{feature.whole}: component {k + 1}" for k in range(values.shape[1])]
            columns.extend(names)
            parts.append(values)
        if absent.any() and not absent.all():
            missing = contents.missing[:, places.start]
            counts = np.column_stack([missing, sizes - missing])
            indicate([f"{feature.column} missing"], absent[:, None].astype(np.float64), counts)
    return columns, np.hstack(parts), groups


def components(Z: np.ndarray) -> np.ndarray:
    """Return the leading principal components of rows Z (m, w), each with a unique sign."""
    centred = Z - Z.mean(axis=0, dtype=np.float64)
    axes = principal_components(centred)[:, : PAGE_LIMITS.vector_components]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return centred @ (axes * signs)


def _spread(found: np.ndarray) -> Spread:
    lower, median, upper, share = map(float, found)
    return Spread(lower=lower, median=median, upper=upper, share=share)


def labelled_pilot(run: RunDirectory, rule: Rule, pilot: Pilot) -> PilotRows:
    """Return the pilot with labels and scores, and with the points that the page draws."""
    preparation = Preparation.read(run)
    X, numbers = preparation(pilot.X), numbers_of(run, pilot.keys)
    labelled = rule.label(X)
    labels, scores = labelled["label"], labelled["score"]
    raw = np.where(np.isnan(pilot.X), preparation.scaling.fill, pilot.X)
    absent = np.asarray(np.isnan(pilot.X).any(axis=1))
    sample = plane(rule, run.plan.table.columns, raw, X, labels, scores, preparation.firsts, absent)
    return PilotRows(numbers, pilot.X, X, labels, scores, sample)


def plane(
    rule: Rule,
    columns: Sequence[str],
    raw: np.ndarray,
    X: np.ndarray,
    labels: np.ndarray,
    scores: np.ndarray,
    firsts: np.ndarray | slice = slice(None),
    absent: np.ndarray | None = None,
) -> Sample:
    """Return the points of the page's scatter plot.

    Two columns are the axes themselves. A single column is drawn with the score. More columns are
    projected to two directions that separate the clusters, or to principal components if there is
    one cluster. If all columns repeat each other, their only direction is drawn with the score.

    `raw` (m, d) are the rows with missing values filled in. `absent` (m,) is True for rows that had
    missing values. X (m, D) are the prepared rows; their column ``firsts[j]`` is the first that
    was made of stored column j.
    """
    kind: Literal["columns", "single", "pca", "clusters"] = "columns"
    axes, explained = list(columns), None
    how_far = "score" if rule.words.has_outliers else "distance"
    if len(columns) == 1:
        kind, axes = "single", [columns[0], how_far]
        x, y = raw[:, 0], np.where(np.isfinite(scores), scores, 0.0)
    elif len(columns) == 2:
        x, y = raw.T
    elif (places := _apart(rule, X, labels, scores >= 0.0)) is not None:
        kind = "clusters"
        x, y = places.astype(np.float64).T
        axes = [
            _axis(name, X[:, firsts], of, columns) for name, of in (("first", x), ("second", y))
        ]
    elif (shown := X if X.shape[1] == raw.shape[1] else rule.seen(X)).shape[1] == 1:
        x, y = shown[:, 0].astype(np.float64), np.where(np.isfinite(scores), scores, 0.0)
        kind, axes = "single", [_axis("only", X[:, firsts], x, columns), how_far]
    else:
        kind, axes = "pca", ["first component", "second component"]
        x, y, explained = _components(
            shown[: PAGE_LIMITS.drawn_rows], scores[: PAGE_LIMITS.drawn_rows] >= 0.0
        )
    x, y, labels, scores = (a[: PAGE_LIMITS.drawn_rows] for a in (x, y, labels, scores))
    far = _beyond(x, y, scores < 0.0)
    drawn = ~far
    return Sample(
        kind=kind,
        axes=axes,
        explained=explained,
        beyond=int(far.sum()),
        filled=0 if absent is None else int(absent[: len(drawn)][drawn].sum()),
        label=labels[drawn].tolist(),
        outlier=(scores[drawn] < 0.0).tolist(),
        x=rounded(x[drawn]),
        y=rounded(y[drawn]),
    )


def _apart(rule: Rule, X: np.ndarray, labels: np.ndarray, inside: np.ndarray) -> np.ndarray | None:
    """Return coordinates (m, 2) of X in the plane that separates clusters; None for one cluster."""
    # Only few directions are used, since any partition looks separated in a plane of many columns.
    own = rule.plane(X)
    if own is not None:
        return own
    known, members = np.unique(labels[inside], return_inverse=True)
    if rule.n_clusters < 2 or len(known) < 2:
        return None
    seen = rule.seen(X)
    seen = components(seen) if seen.shape[1] > PAGE_LIMITS.vector_components else seen
    return seen @ separating_plane(seen[inside], members).T


def _axis(name: str, X: np.ndarray, along: np.ndarray, columns: Sequence[str]) -> str:
    """Return the name of an axis, from the columns of X (m, d) that correlate most with it."""
    deviations = X.std(axis=0, dtype=np.float64) * along.std()
    products = (X - X.mean(axis=0, dtype=np.float64)).T @ (along - along.mean()) / len(X)
    alike = np.divide(products, deviations, out=np.zeros_like(products), where=deviations > 0.0)
    most = np.argsort(-np.abs(alike), kind="stable")[:2]
    strong = [k for k in most if abs(alike[k]) >= 0.5]
    named = [f"{'−' if alike[k] < 0 else ''}{columns[k]}" for k in strong]
    return f"{name} direction: {', '.join(named)}" if named else f"{name} direction"


def _components(X: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Return coordinates of X (m, d) on the two leading principal components of rows `inside`.

    Also return the components' shares of the variance.
    """
    base = X[inside] if inside.sum() > 2 else X
    base = base if len(base) > 1 else np.repeat(base, 2, axis=0)
    with one_thread():  # threads wait for each other if processes share the cores
        _, spread, axes = np.linalg.svd(base - base.mean(axis=0), full_matrices=False)
    x, y = ((X - base.mean(axis=0)) @ axes[:2].T).T
    total = float((spread**2).sum())
    return x, y, [float(v) ** 2 / total if total > 0.0 else 0.0 for v in spread[:2]]


def _beyond(x: np.ndarray, y: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Return a mask (m,) of outliers that are too far out to be drawn with all other rows."""
    far = np.zeros(len(x), bool)
    if outside.all():
        return far
    for v in (x, y):
        low, high = v[~outside].min(), v[~outside].max()
        margin = 0.5 * (high - low)
        far |= (v < low - margin) | (v > high + margin)
    return far & outside
