"""The columns of a table beside those of the model that is to label it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distsvc.errors import DataError
from distsvc.job_file import parse_job
from distsvc.storage.tables import open_table, states_width
from distsvc.storage.where import where_columns
from distsvc.urls import shown_url


def check_columns(content: dict[str, Any], path: str, staging: str) -> None:
    """Compare the columns that a table has by default with those of a model that took its own so.

    Where the model's job named its columns, the table needs those, and may have others.
    """
    if content["chosen_columns"]:
        return
    columns, used = content["columns"], content["input"]
    where = where_columns(used["where"]) if used["where"] else []
    apart = {used["id"], used["label"], *where}
    given = {"path": path} | ({"id": used["id"]} if used["id"] else {})
    found = open_table(parse_job({"input": given, "output": {"path": "-"}}).input, staging)
    names = [name for name in found.columns if name not in apart]
    unstated = not states_width(found) and set(names) <= set(columns)
    if names != columns and not unstated:
        raise DataError(
            f"{shown_url(path)}: expected the model's {len(columns)} columns in their order, "
            f"{named(columns)}; found {len(names)}: {named(names)}"
        )


def named(columns: Sequence[str]) -> str:
    """Return the names of columns for an error, of the first ones where there are many."""
    return ", ".join(columns[:20])
