"""Parts of the report that explain an answer: profiles, columns, and optional columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.job.config import Job
from distsvc.models.rules.profiles import ClusterProfile, profiles
from distsvc.models.rules.reasons import Typical
from distsvc.models.support_vector.level_tree.directions import principal_components
from distsvc.report.content.explained_parts import (
    ProfileColumn,
    ProfilePart,
    ProfilesPart,
    Spread,
    TypicalRow,
)
from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.labelling.contents import CountedLevels
from distsvc.run.labelling.optional_columns import ExplainedParts
from distsvc.run.labelling.phase import Labelled
from distsvc.run.learning.preparation import Preparation
from distsvc.run.reporting.columns import columns_part
from distsvc.run.work.directory import RunDirectory
from distsvc.storage.rows.features import Feature, Vector

MAX_VECTOR_COMPONENTS = 20
"""Maximum number of principal components that describe a vector."""


def explanation_parts(
    run: RunDirectory, job: Job, rows: PilotRows, labelled: Labelled
) -> ExplainedParts:
    """Return the parts of the report that explain an answer."""
    preparation, table = Preparation.read(run), run.plan.table
    typical, levels = labelled.labeller.typical, labelled.contents.features
    parts: ExplainedParts = {
        "profiles": profiles_part(rows, table.features, levels, typical),
        "columns": columns_part(table, preparation, job, labelled, rows),
    }
    for one in labelled.optional:
        parts |= one.parts(rows, preparation)
    return parts


def profiles_part(
    rows: PilotRows,
    features: Sequence[Feature],
    levels: Sequence[CountedLevels],
    typical: Typical,
) -> ProfilesPart | None:
    """Return profiles of the clusters of the labelled pilot; None if it is a single cluster."""
    columns, raw, one_hot = _profile_columns(rows, features, levels)
    usual = rows.scores >= typical.least
    found = profiles(raw, rows.X, rows.labels, usual, typical.values, 200, one_hot)
    if not found:
        return None
    values = {k for group in one_hot for k in range(group.start, group.stop)}
    parts = [_part(one, columns, rows.numbers, raw, values) for one in found]
    return ProfilesPart(rows=len(raw), clusters=parts)


def _profile_columns(
    rows: PilotRows, features: Sequence[Feature], levels: Sequence[CountedLevels]
) -> tuple[list[str], np.ndarray, list[slice]]:
    """Return the columns of profiles: names, values (m, c) float64, and slices of indicators.

    A category or a flag has an indicator for each level, a column with missing values one for
    these. A vector has its leading principal components.
    """
    columns: list[str] = []
    parts: list[np.ndarray] = []
    groups: list[slice] = []
    counted = {one.column: one for one in levels}
    first = 0

    def indicate(names: Sequence[str], values: np.ndarray) -> None:
        groups.append(slice(len(columns), len(columns) + len(names)))
        columns.extend(names)
        parts.append(values)

    for feature in features:
        places = slice(first, first + len(feature.names))
        first = places.stop
        values, names = rows.raw[:, places], list(feature.names)
        absent = np.isnan(values[:, 0])
        own = counted.get(feature.column)
        if own is not None:
            indicators = np.eye(len(own.names) + 1)[own.levels_of(rows.raw), :-1]
            indicators[absent] = np.nan
            indicate([f"{feature.column}={name}" for name in own.names], indicators)
        else:
            if isinstance(feature, Vector) and len(names) > 1:
                values = components(rows.X[:, places])
                names = [f"{feature.whole}: component {k + 1}" for k in range(values.shape[1])]
            columns.extend(names)
            parts.append(values)
        if absent.any() and not absent.all():
            indicate([f"{feature.column} missing"], absent[:, None].astype(np.float64))
    return columns, np.hstack(parts), groups


def components(Z: np.ndarray) -> np.ndarray:
    """Return the leading principal components of rows Z (m, w).

    The largest weight of a component is positive, which makes its sign unique.
    """
    centred = Z - Z.mean(axis=0, dtype=np.float64)
    axes = principal_components(centred)[:, :MAX_VECTOR_COMPONENTS]
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
