"""The settings of remote stores, in the words of each library: secrets, time limits, retries.

Inputs are read with fsspec, outputs written with obstore, lake tables opened by deltalake or
pyiceberg. Each gets the S3 settings that botocore takes from the environment and the usual files,
or those of a catalog. The secrets of an HTTP URL go with the requests, not with the path, which
plans, messages and file names hold.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import unquote

import fsspec

from distsvc.errors import JobFileError, OutputPermissionError
from distsvc.errors.faults import CREDENTIALS
from distsvc.errors.urls import is_broken, links, shown_url, without_user

CONNECT_SECONDS, SILENCE_SECONDS = 10, 30
"""Time limits for a connection to a store, and for each part of its answer."""

PAUSES = (0.5, 2.0)
"""Seconds before the second and the third try of a request for an input."""

MOST_TRIES, MOST_SECONDS, FIRST_PAUSE = 8, 60, 0.2
"""Retries of a request for an output, their time in all, and the first pause in seconds."""

ASKED_AGAIN = timedelta(minutes=5)
"""The time after which credentials are asked for again; botocore renews those that expire."""

Options: TypeAlias = dict[str, Any]
"""Keyword arguments of a library."""

_LOG = logging.getLogger("distsvc")
_BUSY = {425, 429, 500, 502, 503, 504}
_S3 = ("s3", "s3a")
_UNTRIED = ("gs", "gcs", "abfs", "abfss", "adl", "az", "wasb", "wasbs")
_KEYED = (*_S3, "gs", "gcs", "gdrive", "oss", "oci", "r2", "b2", "hf")
_NAMED = ("abfs", "abfss", "adl", "az", "wasb", "wasbs")  # container@account is no secret
_LINK = re.compile(r"(?P<protocol>[\w+.-]+)://(?:(?P<user>[^/?#]*)@)?(?P<rest>.*)", re.DOTALL)


def connection(url: str, s3: Mapping[str, Any] = MappingProxyType({})) -> tuple[str, Options]:
    """Return a URL without its secrets, and fsspec's options for it by protocol.

    `s3` are more options for S3. Limits in the user's configuration of fsspec override ours.
    Raises `JobFileError` where the URL is Google's or Azure's, that of an object store holds a
    key, or a password has to be encoded.
    """
    chain = links(url)
    options: Options = {}
    for k, link in enumerate(chain):
        found = _LINK.fullmatch(link)
        if not found:
            continue
        protocol = found["protocol"]
        _check_link(link, protocol)
        if protocol in ("http", "https"):
            host, query = found["rest"].partition("?")[::2]
            chain[k] = f"{protocol}://{host}"
            options[protocol] = {"client_kwargs": _http(chain[k], found["user"], query)}
        elif protocol in _S3:
            options[protocol] = {"config_kwargs": _s3_limits()} | dict(s3)
    return "::".join(chain), options


def patient(fs: Any) -> Any:
    """Return a file system that leaves the repeating of requests to botocore, if it is S3's."""
    inner = fs
    while inner is not None:
        if "s3" in inner.protocol and hasattr(inner, "retries"):
            inner.retries = 1
        inner = getattr(inner, "fs", None)
    return fs


def _check_link(link: str, protocol: str) -> None:
    if is_broken(link):
        raise JobFileError(
            f"input.path: {shown_url(link)}: '/', '?' and '#' in a password are written %2F, %3F "
            "and %23"
        )
    user = len(link) > len(without_user(link))
    with_key = shown_url(link) != link and ":" in link.partition("://")[2].rpartition("@")[0]
    if user and (protocol in _KEYED or (protocol in _NAMED and with_key)):
        raise JobFileError(
            f"input.path: {shown_url(link)} holds a key; credentials belong in the environment, "
            "the files of the store's library or the configuration of fsspec"
        )
    if protocol in _UNTRIED:
        raise JobFileError(
            f"input.path: {shown_url(link)}: {protocol}:// is not supported; expected a path, or a "
            "URL of s3://, http:// or https://"
        )


def _http(url: str, user: str | None, query: str) -> Options:
    from aiohttp import ClientTimeout

    limits = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
    secrets = [_Secrets.of(url, user, query)] if user or query else []
    configured: Options = {}
    for protocol in ("http", "https"):
        configured |= fsspec.config.conf.get(protocol, {}).get("client_kwargs", {})
    return {"timeout": limits} | configured | {"middlewares": (again, *secrets)}


def _s3_limits() -> Options:
    limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": SILENCE_SECONDS}
    retries = {"mode": "standard", "total_max_attempts": len(PAUSES) + 1}
    configured: Options = {}
    for protocol in _S3:
        configured |= fsspec.config.conf.get(protocol, {}).get("config_kwargs", {})
    return {**limits, "retries": retries} | configured


def is_s3(url: str) -> bool:
    """Return whether a URL is one of S3."""
    return url.startswith(("s3:", "s3a:"))


def catalog_options(properties: Mapping[str, str]) -> Options:
    """Return fsspec's options for the S3 settings that an Iceberg catalog gives for a table."""

    def known(name: str) -> str | None:
        """Return a setting of S3, or that of all of AWS."""
        return properties.get(f"s3.{name}") or properties.get(f"client.{name}")

    names = {"endpoint_url": "endpoint", "key": "access-key-id", "secret": "secret-access-key"}
    names |= {"token": "session-token"}
    options: Options = {own: known(name) for own, name in names.items() if known(name)}
    if known("region"):
        options["client_kwargs"] = {"region_name": known("region")}
    return options


def iceberg_options(url: str) -> dict[str, str]:
    """Return pyiceberg's properties for a table without a catalog."""
    if not is_s3(url):
        return {}
    return {f"s3.{name.replace('_', '-')}": value for name, value in _s3_settings().items()}


def delta_options(url: str) -> dict[str, str]:
    """Return deltalake's options; it looks for other stores than S3 in the environment."""
    options = {"max_retries": str(len(PAUSES) + 1), "retry_timeout": f"{SILENCE_SECONDS}s"}
    options |= {"connect_timeout": f"{CONNECT_SECONDS}s", "timeout": f"{SILENCE_SECONDS}s"}
    if is_s3(url):
        options |= {f"aws_{name}": value for name, value in _s3_settings().items()}
        if options.get("aws_endpoint", "").startswith("http:"):
            options["aws_allow_http"] = "true"
    return options


def obstore_options(root: str) -> Options:
    """Return obstore's options for a bucket of S3, whose credentials are renewed.

    Raises `OutputPermissionError` where there are no credentials.
    """
    session = _botocore()
    credentials = session.get_credentials()
    if credentials is None:
        raise OutputPermissionError(f"no permission to use {root}: no credentials; {CREDENTIALS}")

    def provided() -> Options:
        known = credentials.get_frozen_credentials()
        keys = {"access_key_id": known.access_key, "secret_access_key": known.secret_key}
        return keys | {"token": known.token, "expires_at": datetime.now(UTC) + ASKED_AGAIN}

    client: Options = {"connect_timeout": f"{CONNECT_SECONDS}s", "timeout": f"{SILENCE_SECONDS}s"}
    where = _s3_address(session)
    if where.get("endpoint", "").startswith("http:"):
        client["allow_http"] = True
    pauses = {"init_backoff": timedelta(seconds=FIRST_PAUSE), "max_backoff": timedelta(seconds=5)}
    tries = {"max_retries": MOST_TRIES, "retry_timeout": timedelta(seconds=MOST_SECONDS)}
    retries = tries | {"backoff": pauses | {"base": 2}}
    return where | {
        "credential_provider": provided, "client_options": client, "retry_config": retries,
    }  # fmt: skip


def _s3_settings() -> dict[str, str]:
    """Return address and keys of S3, as far as botocore knows them; nothing without botocore."""
    try:
        session = _botocore()
    except ImportError:
        return {}
    credentials = session.get_credentials()
    known = credentials and credentials.get_frozen_credentials()
    keys = known and {
        "access_key_id": known.access_key,
        "secret_access_key": known.secret_key,
        "session_token": known.token,
    }
    return _s3_address(session) | {name: value for name, value in (keys or {}).items() if value}


def _s3_address(session: Any) -> dict[str, str]:
    """Return the region of S3, and its endpoint unless that is Amazon's own."""
    region = session.get_config_variable("region") or "us-east-1"
    meta = session.create_client("s3", region_name=region).meta
    if meta.endpoint_url.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        return {"region": meta.region_name}
    return {"region": meta.region_name, "endpoint": meta.endpoint_url}


def _botocore() -> Any:
    from botocore.session import get_session

    return get_session()


async def again(request: Any, send: Any) -> Any:
    """Send a GET request again where the server is busy or broken or drops the connection.

    A range of a file is read here, as the connection may be dropped on the way. Other methods are
    sent once: fsspec follows HEAD by GET. Silence is waited for once.
    """
    import aiohttp

    for pause in PAUSES if request.method == "GET" else ():
        try:
            response = await send(request)
            if response.status == 206:
                await response.read()
            if response.status not in _BUSY:
                return response
            why = f"HTTP {response.status}"
            response.release()
        except (aiohttp.ClientConnectorError, TimeoutError):
            raise
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            why = type(error).__name__
        fields = {"url": shown_url(str(request.url)), "because": why, "seconds": pause}
        _LOG.warning("store is asked again", extra={"fields": fields})
        await asyncio.sleep(pause)
    return await send(request)


class _Secrets:
    """Adds user, password and query of a URL to the requests for it and for what is below it."""

    def __init__(self, url: str, user: str | None, query: str):
        from yarl import URL

        self._url, self._query = URL(url), query
        name = unquote(user or "")
        self._header = "Basic " + base64.b64encode(name.encode()).decode() if name else None

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, url: str, user: str | None, query: str) -> _Secrets:
        """Return always the same object for a URL: by it fsspec knows its sessions again."""
        return cls(url, user if user and ":" in user else f"{user}:" if user else None, query)

    async def __call__(self, request: Any, send: Any) -> Any:
        """Send a request; one that was redirected to another server is left as it is."""
        from yarl import URL

        if request.url.origin() == self._url.origin():
            if self._header:
                request.headers["Authorization"] = self._header
            if self._query and not request.url.query_string:
                request.url = URL(f"{request.url}?{self._query}", encoded=True)
        return await send(request)
