"""How a store is asked: with its secrets, for how long, and how often.

The secrets of an HTTP URL go with the requests, not with the path: paths are what plans, messages
and names of files are made of.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import fsspec

from distsvc.errors import JobFileError
from distsvc.errors.urls import is_broken, links, shown_url, without_user

CONNECT_SECONDS, SILENCE_SECONDS = 10, 30
"""How long a store may take to accept a connection, and to send anything."""

PAUSES = (0.5, 2.0)
"""Seconds before the second and the third try of a request."""

_LOG = logging.getLogger("distsvc")
_BUSY = {425, 429, 500, 502, 503, 504}
_S3 = ("s3", "s3a")
_KEYED = (*_S3, "gs", "gcs", "gdrive", "oss", "oci", "r2", "b2", "hf")
_NAMED = ("abfs", "abfss", "adl", "az", "wasb", "wasbs")  # container@account is no secret
_LINK = re.compile(r"(?P<protocol>[\w+.-]+)://(?:(?P<user>[^/?#]*)@)?(?P<rest>.*)", re.DOTALL)


def connection(
    url: str, s3: Mapping[str, Any] = MappingProxyType({})
) -> tuple[str, dict[str, Any]]:
    """Return a URL without its secrets and the options with which fsspec opens it.

    The options are fsspec's, by protocol; `s3` are more of them for S3. What the user's
    configuration of fsspec says of limits goes before what is said here.

    Raises
    ------
    JobFileError
        The URL of an object store holds a key, or a password has to be encoded.

    """
    chain, options = links(url), {}
    for k, link in enumerate(chain):
        found = _LINK.fullmatch(link)
        if not found:
            continue
        protocol = found["protocol"]
        _check_user(link, protocol)
        if protocol in ("http", "https"):
            host, query = found["rest"].partition("?")[::2]
            chain[k] = f"{protocol}://{host}"
            options[protocol] = {"client_kwargs": _http(chain[k], found["user"], query)}
        elif protocol in _S3:
            options[protocol] = {"config_kwargs": _s3()} | dict(s3)
    return "::".join(chain), options


def patient(fs: Any) -> Any:
    """Return a file system that leaves the repeating of requests to botocore, if it is S3's."""
    inner = fs
    while inner is not None:
        if "s3" in inner.protocol and hasattr(inner, "retries"):
            inner.retries = 1
        inner = getattr(inner, "fs", None)
    return fs


def _check_user(link: str, protocol: str) -> None:
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


def _http(url: str, user: str | None, query: str) -> dict[str, Any]:
    from aiohttp import ClientTimeout

    limits = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
    secrets = [_Secrets.of(url, user, query)] if user or query else []
    configured: dict[str, Any] = {}
    for protocol in ("http", "https"):
        configured |= fsspec.config.conf.get(protocol, {}).get("client_kwargs", {})
    return {"timeout": limits} | configured | {"middlewares": (again, *secrets)}


def _s3() -> dict[str, Any]:
    limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": SILENCE_SECONDS}
    retries = {"mode": "standard", "total_max_attempts": len(PAUSES) + 1}
    configured: dict[str, Any] = {}
    for protocol in _S3:
        configured |= fsspec.config.conf.get(protocol, {}).get("config_kwargs", {})
    return {**limits, "retries": retries} | configured


def s3_settings() -> dict[str, str]:
    """Return what botocore finds of S3 in the environment and the usual files, for other libraries.

    That is ``access_key_id``, ``secret_access_key``, ``session_token``, ``region`` and
    ``endpoint``, as far as they are known; nothing without botocore.
    """
    try:
        from botocore.session import get_session
    except ImportError:
        return {}
    session = get_session()
    region = session.get_config_variable("region") or "us-east-1"
    client = session.create_client("s3", region_name=region)
    found = {"region": client.meta.region_name}
    credentials = session.get_credentials()
    if credentials is not None:
        known = credentials.get_frozen_credentials()
        found |= {"access_key_id": known.access_key, "secret_access_key": known.secret_key}
        found |= {"session_token": known.token} if known.token else {}
    if not client.meta.endpoint_url.endswith((".amazonaws.com", ".amazonaws.com.cn")):
        found["endpoint"] = client.meta.endpoint_url
    return found


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
