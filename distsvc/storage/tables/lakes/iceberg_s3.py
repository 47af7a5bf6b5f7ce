"""What Iceberg calls the settings of S3, beside what fsspec calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distsvc.storage.places.remote import s3_settings

_OPTIONS = {
    "endpoint": "endpoint_url",
    "access-key-id": "key",
    "secret-access-key": "secret",
    "session-token": "token",
}


def s3_properties(url: str) -> dict[str, str]:
    """Return what pyiceberg is to know of S3 for a table without a catalog."""
    if not is_s3(url):
        return {}
    names = {name: name.replace("_", "-") for name in ("access_key_id", "secret_access_key")}
    names |= {"session_token": "session-token"}
    return {f"s3.{names.get(name, name)}": value for name, value in s3_settings().items()}


def s3_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return what s3fs is to know of S3, of what a catalog says of a table's files."""
    known = {name: _property(properties, name) for name in (*_OPTIONS, "region")}
    options: dict[str, Any] = {own: known[name] for name, own in _OPTIONS.items() if known[name]}
    if known["region"]:
        options["client_kwargs"] = {"region_name": known["region"]}
    return options


def is_s3(url: str) -> bool:
    """Return whether a URL is one of S3."""
    return url.startswith(("s3:", "s3a:"))


def _property(properties: Mapping[str, str], name: str) -> str | None:
    """Return a setting of S3, or that of all of AWS; there is none of an endpoint."""
    return properties.get(f"s3.{name}") or properties.get(f"client.{name}")
