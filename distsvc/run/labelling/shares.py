"""How surely rows are in their clusters, as columns: their own share, and the next clusters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from distsvc.errors import JobFileError
from distsvc.job.config import OutputConfig
from distsvc.models.rules.membership import Membership
from distsvc.models.rules.rule import Rule
from distsvc.run.algorithms.algorithm import Columns
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.work.plan import Plan


def check_shares(rule: type[Rule], asked: OutputConfig | Plan) -> None:
    """Raise JobFileError where shares of clusters are asked for, and the rule has no clusters."""
    if asked.shares and not rule.shared:
        key = "top" if asked.top else "membership"
        raise JobFileError(
            f"output.{key} needs an algorithm with clusters, found one that only tells rows inside "
            "from rows outside"
        )


def shared_columns(
    asked: OutputConfig | Plan, labeller: Labeller, Z: np.ndarray, labels: np.ndarray
) -> Columns:
    """Return the columns of shares that are asked for, of prepared rows Z (n, d) with labels (n,).

    Clusters have their ids.
    """
    if not asked.shares:
        return {}
    found = Membership.of(labeller.rule, Z, labels, asked.top)
    columns: Columns = {"membership": found.own}
    if asked.top:
        columns |= {"next": _lists(labeller.ids[found.others])}
        columns |= {"next_share": _lists(found.other_shares)}
    return columns


def _lists(values: np.ndarray) -> pa.Array:
    """Return the rows of an array (n, m) as lists."""
    n, m = values.shape
    offsets = np.arange(0, n * m + 1, m) if m else np.zeros(n + 1)
    return pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(values.ravel()))
