"""Settings of the libraries that access remote stores: credentials, time limits, retries.

Inputs are read with fsspec, outputs are written with obstore, and deltalake or pyiceberg open their
tables. Each library gets botocore's S3 settings, from the environment and configuration files. For
a table in an Iceberg catalog, it gets the catalog's settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import fsspec
from fsspec import AbstractFileSystem

from distsvc.errors import JobFileError, OutputPermissionError
from distsvc.errors.faults import CREDENTIALS

if TYPE_CHECKING:
    from botocore.session import Session


@dataclass(frozen=True)
class StoreLimits:
    """Limits of requests to a store: times and numbers."""

    connect: float = 10  # seconds for a connection
    silence: float = 30  # seconds without any part of an answer
    input_tries: int = 3  # requests to S3 for a part of an input; HTTP requests are not repeated
    output_retries: int = 8  # retries of a request for an output
    first_pause: float = 0.2  # seconds until the first retry


STORE = StoreLimits()

REQUESTS_AT_ONCE = 16
"""Maximum number of parallel requests to a store, which hide its latency."""

ASKED_AGAIN = timedelta(minutes=5)
"""Time after which credentials are renewed."""

Options: TypeAlias = dict[str, Any]
"""Keyword arguments of a library."""

_S3 = ("s3", "s3a")
_LOCAL = ("file", "local", "memory")


def connection(url: str, s3: Mapping[str, object] = MappingProxyType({})) -> Options:
    """Return fsspec's options for a URL, by protocol; `s3` are more options for S3.

    Limits in the user's fsspec configuration take precedence.
    """
    protocol = url.partition("://")[0]
    if protocol in ("http", "https"):
        from aiohttp import ClientTimeout

        timeout = ClientTimeout(total=None, sock_connect=STORE.connect, sock_read=STORE.silence)
        configured = _configured(("http", "https"), "client_kwargs")
        return {protocol: {"client_kwargs": {"timeout": timeout} | configured}}
    if protocol in _S3:
        limits = {
            "connect_timeout": STORE.connect,
            "read_timeout": STORE.silence,
            "retries": {"mode": "standard", "total_max_attempts": STORE.input_tries},
        }
        return {protocol: {"config_kwargs": limits | _configured(_S3, "config_kwargs")} | dict(s3)}
    if protocol in _LOCAL:
        return {}
    raise JobFileError(
        f"input.path: {url}: {protocol}:// is not supported; expected a path, or a URL of s3://, "
        "http:// or https://"
    )


def leave_retries_to_botocore(fs: AbstractFileSystem) -> AbstractFileSystem:
    """Stop fsspec from retrying requests to S3, which botocore retries; return the file system.

    File systems without retries are unchanged.
    """
    if hasattr(fs, "retries"):
        fs.retries = 1
    return fs


def _configured(protocols: tuple[str, ...], key: str) -> Options:
    """Return the options under `key` in the user's fsspec configuration of the protocols."""
    found = [fsspec.config.conf.get(protocol, {}).get(key, {}) for protocol in protocols]
    return {name: value for settings in found for name, value in settings.items()}


def is_s3(url: str) -> bool:
    """Return True for a URL of S3."""
    return url.startswith(("s3:", "s3a:"))


def catalog_options(properties: Mapping[str, str]) -> Options:
    """Return fsspec's options from the S3 settings of an Iceberg catalog."""
    known: Options = {}
    for prefix in "client.", "s3.":  # settings of all AWS services, then of S3
        named = [name for name, value in properties.items() if name.startswith(prefix) and value]
        known |= {name.removeprefix(prefix): properties[name] for name in named}
    names = {"endpoint_url": "endpoint", "key": "access-key-id", "secret": "secret-access-key"}
    names |= {"token": "session-token"}
    options: Options = {own: known[name] for own, name in names.items() if name in known}
    if "region" in known:
        options["client_kwargs"] = {"region_name": known["region"]}
    return options


def iceberg_options(url: str) -> dict[str, str]:
    """Return pyiceberg's properties for a table without a catalog."""
    if not is_s3(url):
        return {}
    return {f"s3.{name.replace('_', '-')}": value for name, value in _s3_settings().items()}


def delta_options(url: str) -> dict[str, str]:
    """Return the storage options for the package deltalake: limits, and credentials for S3."""
    options = {
        "max_retries": str(STORE.input_tries),
        "retry_timeout": f"{STORE.silence}s",
        "connect_timeout": f"{STORE.connect}s",
        "timeout": f"{STORE.silence}s",
    }
    if is_s3(url):
        options |= {f"aws_{name}": value for name, value in _s3_settings().items()}
        if options.get("aws_endpoint", "").startswith("http:"):
            options["aws_allow_http"] = "true"
    return options


def obstore_options(root: str) -> Options:
    """Return obstore's options for a bucket of S3; `OutputPermissionError` without credentials."""
    from botocore.session import get_session

    session = get_session()
    credentials = session.get_credentials()
    if credentials is None:
        raise OutputPermissionError(f"no permission to use {root}: no credentials; {CREDENTIALS}")

    def provided() -> Options:
        known = credentials.get_frozen_credentials()
        keys = {"access_key_id": known.access_key, "secret_access_key": known.secret_key}
        return keys | {"token": known.token, "expires_at": datetime.now(UTC) + ASKED_AGAIN}

    client: Options = {"connect_timeout": f"{STORE.connect}s", "timeout": f"{STORE.silence}s"}
    where = _s3_address(session)
    if where.get("endpoint", "").startswith("http:"):
        client["allow_http"] = True
    first, most = timedelta(seconds=STORE.first_pause), timedelta(seconds=5)
    retries = {
        "max_retries": STORE.output_retries,
        "retry_timeout": timedelta(minutes=1),
        "backoff": {"init_backoff": first, "max_backoff": most, "base": 2},
    }
    return where | {
        "credential_provider": provided, "client_options": client, "retry_config": retries,
    }  # fmt: skip


def _s3_settings() -> dict[str, str]:
    """Return the region, endpoint and credentials for S3 that botocore finds.

    The result is empty if botocore is not installed.
    """
    try:
        from botocore.session import get_session
    except ImportError:
        return {}
    session = get_session()
    credentials = session.get_credentials()
    known = credentials and credentials.get_frozen_credentials()
    keys = known and {
        "access_key_id": known.access_key,
        "secret_access_key": known.secret_key,
        "session_token": known.token,
    }
    return _s3_address(session) | {name: value for name, value in (keys or {}).items() if value}


def _s3_address(session: "Session") -> dict[str, str]:
    """Return the region of S3, and the endpoint if it is not Amazon's."""
    region = session.get_config_variable("region") or "us-east-1"
    meta = session.create_client("s3", region_name=region).meta
    if meta.endpoint_url.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return {"region": meta.region_name}
    return {"region": meta.region_name, "endpoint": meta.endpoint_url}
