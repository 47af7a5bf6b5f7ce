"""Parquet: the parts are published as the workers wrote them."""

from __future__ import annotations

from distsvc.storage.publishing.formats.base import OutputFormat


class Parquet(OutputFormat):
    """A folder of one file for each partition; it holds every type of id."""

    name = "parquet"
    publishes_parts = True
