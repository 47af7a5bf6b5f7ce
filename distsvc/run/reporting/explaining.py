"""Parts of the report that explain an answer: profiles, and those of the columns asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.models.rules.profiles import ClusterProfile, leanings, profiles
from distsvc.models.rules.reasons import Typical
from distsvc.models.support_vector.level_tree.directions import principal_components
from distsvc.report.content.explained_parts import (
    HeatPart,
    ProfileColumn,
    ProfilePart,
    ProfilesPart,
    Spread,
    TypicalRow,
)
from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.labelling.asked import ExplainedParts
from distsvc.run.labelling.phase import Labelled
from distsvc.run.learning.preparation import Preparation
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.rows.features import Feature, Vector

MOST_PROFILES = 200
"""Clusters that get one, the largest."""

MOST_HEATED = 16
"""Columns of the heat map."""

COMPONENTS = 20
"""By which a vector is told of, at most."""


def explained(run: RunDirectory, rows: PilotRows, labelled: Labelled) -> ExplainedParts:
    """Return the parts of the report that explain an answer, by their names there."""
    preparation, typical = Preparation.read(run), labelled.labeller.typical
    parts: ExplainedParts = {"profiles": profiles_part(rows, run.plan.table.features, typical)}
    for one in labelled.asked:
        parts |= one.parts(rows, preparation)
    return parts


def profiles_part(
    rows: PilotRows, features: Sequence[Feature], typical: Typical
) -> ProfilesPart | None:
    """Return profiles of clusters in the labelled pilot; None where it is in one cluster.

    Vectors are told of by their leading principal components.
    """
    columns, raw, one_hot = _told(rows, features)
    missing = np.isnan(raw)
    fill = np.zeros(len(columns))
    for k in np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0)):
        fill[k] = np.nanmedian(raw[:, k])
    X = np.where(missing, fill, raw)
    usual = rows.scores >= typical.least
    found = profiles(X, rows.X, rows.labels, usual, typical.values, MOST_PROFILES, one_hot)
    if not found:
        return None
    values = {k for group in one_hot for k in range(group.start, group.stop)}
    parts = [_part(one, columns, rows.numbers, raw, values) for one in found]
    chosen = [one.label for one in found]
    heat = _heat(X, rows.labels, chosen, columns, sorted(values))
    return ProfilesPart(rows=len(X), clusters=parts, heat=heat)


def _heat(
    X: np.ndarray,
    labels: np.ndarray,
    chosen: Sequence[int],
    columns: Sequence[str],
    one_hot: Sequence[int],
) -> HeatPart:
    """Return clusters `chosen` of rows X (m, c) by the columns in which any of them leans most."""
    leaning = leanings(X, labels, chosen)
    most = np.abs(leaning).max(axis=0)
    shown = np.sort(np.argsort(-most, kind="stable")[:MOST_HEATED])
    middles = np.array([np.median(X[labels == c], axis=0) for c in chosen])
    for k in one_hot:
        middles[:, k] = [np.mean(X[labels == c, k]) for c in chosen]
    return HeatPart(
        label=list(chosen),
        columns=[columns[k] for k in shown],
        leaning=np.round(leaning[:, shown], 3).tolist(),
        median=[[float(f"{value:.4g}") for value in row] for row in middles[:, shown]],
    )


def _told(
    rows: PilotRows, features: Sequence[Feature]
) -> tuple[list[str], np.ndarray, list[slice]]:
    """Return the columns that profiles are told by: names, values (m, c) float64, and one-hot ones.

    The latter are slices of the columns.
    """
    columns: list[str] = []
    parts: list[np.ndarray] = []
    one_hot: list[slice] = []
    first = 0
    for feature in features:
        places = slice(first, first + len(feature.names))
        values, names = rows.raw[:, places], list(feature.names)
        if isinstance(feature, Vector) and len(names) > 1:
            values = components(rows.X[:, places])
            names = [f"{feature.whole}: component {k + 1}" for k in range(values.shape[1])]
        if feature.one_hot:
            one_hot.append(slice(len(columns), len(columns) + len(names)))
        columns.extend(names)
        parts.append(values)
        first = places.stop
    return columns, np.hstack(parts), one_hot


def components(Z: np.ndarray) -> np.ndarray:
    """Return rows Z (m, w) along their leading principal components, (m, COMPONENTS at most).

    The largest weight of a component is positive, so that its sign is always the same.
    """
    centred = Z - Z.mean(axis=0, dtype=np.float64)
    axes = principal_components(centred)[:, :COMPONENTS]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return centred @ (axes * signs)


def _part(
    profile: ClusterProfile,
    columns: Sequence[str],
    numbers: np.ndarray,
    raw: np.ndarray,
    one_hot: set[int],
) -> ProfilePart:
    named = [
        ProfileColumn(
            column=columns[one.place],
            apart=one.apart,
            low=one.low if np.isfinite(one.low) else None,
            high=one.high if np.isfinite(one.high) else None,
            inside=_spread(one.inside),
            outside=_spread(one.outside),
            present=one.low > 0.0 if one.place in one_hot else None,
        )
        for one in profile.columns
    ]
    places = [one.place for one in profile.columns]
    typical = [
        TypicalRow(row=int(numbers[i]), values=raw[i, places].tolist()) for i in profile.typical
    ]
    return ProfilePart(label=profile.label, rows=profile.n_rows, columns=named, typical=typical)


def _spread(found: np.ndarray) -> Spread:
    lower, median, upper, share = map(float, found)
    return Spread(lower=lower, median=median, upper=upper, share=share)
