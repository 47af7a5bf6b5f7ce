"""What the page explains: why rows are far out, what sets clusters apart, how sure rows are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from distsvc.models.profiles import Profile, profiles
from distsvc.models.reasons import Typical
from distsvc.report.explained_parts import (
    MembershipPart,
    ProfileColumn,
    ProfilesPart,
    ReasonsPart,
    Spread,
    TypicalRow,
)
from distsvc.report.explained_parts import Profile as ProfilePart
from distsvc.run.preparation import PREPARATION, Preparation
from distsvc.run.reasons import Reasons
from distsvc.run.room import Rows, RunDirectory

MOST_PROFILES = 200
"""Clusters that get one, the largest."""


class Explained(TypedDict):
    """Parts of the report, by their names there."""

    reasons: ReasonsPart
    profiles: ProfilesPart | None
    membership: MembershipPart | None


def explained(run: RunDirectory, rows: Rows, reasons: Reasons, shares: np.ndarray) -> Explained:
    """Return what the reasons of a table, and its labelled pilot, say in columns.

    `shares` (SHARE_BINS,) are its rows by the share of their own cluster.
    """
    preparation = Preparation.restored(run.read(PREPARATION))
    profiles = profiles_part(rows, run.plan.table.columns, reasons.typical)
    membership = None
    if run.plan.shares and reasons.rule.n_clusters > 1:
        membership = MembershipPart(meaning=reasons.rule.shared, counts=shares.tolist())
    part = reasons.part(rows, preparation)
    return {"reasons": part, "profiles": profiles, "membership": membership}


def profiles_part(rows: Rows, columns: Sequence[str], typical: Typical) -> ProfilesPart | None:
    """Return what sets clusters apart, by the labelled pilot; None where it is in one cluster."""
    missing = np.isnan(rows.raw)
    fill = np.zeros(len(columns))
    for k in np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0)):
        fill[k] = np.nanmedian(rows.raw[:, k])
    X = np.where(missing, fill, rows.raw)
    usual = rows.scores >= typical.least
    found = profiles(X, rows.X, rows.labels, usual, typical.values, MOST_PROFILES)
    if not found:
        return None
    parts = [_part(one, columns, rows) for one in found]
    return ProfilesPart(rows=len(X), clusters=parts)


def _part(profile: Profile, columns: Sequence[str], rows: Rows) -> ProfilePart:
    named = [
        ProfileColumn(
            column=columns[one.place],
            apart=one.apart,
            low=one.low if np.isfinite(one.low) else None,
            high=one.high if np.isfinite(one.high) else None,
            inside=_spread(one.inside),
            outside=_spread(one.outside),
        )
        for one in profile.columns
    ]
    places = [one.place for one in profile.columns]
    typical = [
        TypicalRow(row=int(rows.numbers[i]), values=rows.raw[i, places].tolist())
        for i in profile.typical
    ]
    return ProfilePart(label=profile.label, rows=profile.n_rows, columns=named, typical=typical)


def _spread(found: np.ndarray) -> Spread:
    lower, median, upper, share = map(float, found)
    return Spread(lower=lower, median=median, upper=upper, share=share)
