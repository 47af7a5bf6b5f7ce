"""Parts of URLs, and the refusal of URLs that carry credentials.

URLs are written to plans, manifests, pages, logs and messages, and sent to workers. A user, a
password or a query (perhaps a signature) is therefore refused.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from distsvc.errors import JobFileError

_USER = re.compile(r"(?<=://)[^/?#]*@")
# A password may have characters that should be encoded; digits before a slash are a port.
_BROKEN_USER = re.compile(r"(?<=://)[^/?#@\s:]+:(?!\d*[/?#])(?:(?!://)[^@])*@")
_HTTP_QUERY = re.compile(r"(?<=://).*?([?#;].*)", re.DOTALL)
_OTHER_QUERY = re.compile(r"(?<=://).*?([?#;][\w.-]+=.*)", re.DOTALL)  # "?" alone may be a glob
_IN_TEXT = re.compile(r"[\w+.-]+://[^\s'\"<>]+")
_LAKE = re.compile(r"(delta|iceberg)://(.*?)(?:\?((?:version|snapshot)=[\w-]*))?", re.DOTALL)
_HTTP_SETTINGS = (
    'FSSPEC_HTTP=\'{"client_kwargs": {"headers": {"Authorization": "..."}}}\' in the environment, '
    "or download the file if its URL is signed"
)
_S3_SETTINGS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, in the environment"
_TLS_SETTINGS = "TLS certificates, which the keys distributed.comm.tls of Dask's configuration name"
_SETTINGS = {
    "s3": _S3_SETTINGS, "s3a": _S3_SETTINGS, "http": _HTTP_SETTINGS, "https": _HTTP_SETTINGS,
    "tcp": _TLS_SETTINGS, "tls": _TLS_SETTINGS,
}  # fmt: skip
"""Places where a user should put credentials instead of a URL, by the URL's protocol."""


class LakeUrl(NamedTuple):
    """Parts of the URL of a Delta or Iceberg table. Any other path or URL has only a `path`."""

    kind: str  # "delta", "iceberg" or empty
    path: str
    pin: str  # the state of the table, "version=..." or "snapshot=...", or empty

    def around(self, path: str) -> str:
        """Return this URL with another path, and the same prefix and version."""
        return f"{self.kind}://{path}" + (f"?{self.pin}" if self.pin else "")


NO_LAKE = LakeUrl("", "", "")


def lake_url(url: str) -> LakeUrl:
    """Return the parts of a path or URL such as ``delta://s3://bucket/table?version=3``."""
    found = _LAKE.fullmatch(url)
    return LakeUrl(found[1], found[2], found[3] or "") if found else LakeUrl("", url, "")


def checked_url(url: str) -> str:
    """Return a path or URL; `JobFileError`, without the secret, if it has a user or a query."""
    path = lake_url(url).path
    if bare_url(path) != path:
        protocol = re.findall(r"([\w+.-]+)://", path)[-1]  # of the last link of a chained URL
        other = f"FSSPEC_{protocol.upper()}='{{\"username\": ...}}' in the environment"
        raise JobFileError(
            f"{bare_url(path)}: expected a URL without user, password and query, since URLs "
            f"are written to logs and manifests; use {_SETTINGS.get(protocol, other)}"
        )
    return url


def bare_url(url: str) -> str:
    """Return a path or URL without users, passwords and queries."""
    if "://" not in url:
        return url
    url = _BROKEN_USER.sub("", _USER.sub("", url))
    found = (_HTTP_QUERY if re.search("https?://", url) else _OTHER_QUERY).search(url)
    return url[: found.start(1)] if found else url


def bare_text(text: str) -> str:
    """Return a text, such as a library's message, with `bare_url` applied to every URL in it."""
    return _IN_TEXT.sub(lambda found: bare_url(found[0]), text) if "://" in text else text


FRAME = "frame"
"""Part of the name of a temporary folder, by which `is_in_memory` recognises it.

A table that a user passes as an object is written to such a folder.
"""


def is_in_memory(path: str) -> bool:
    """Return True if a path is the temporary file of a table that a user passed as an object."""
    return Path(path).parent.name.startswith(f"distsvc-{FRAME}-")


def shown_urls(urls: Sequence[str]) -> str:
    """Return the first path or URL, and the number of others, for a message."""
    if is_in_memory(urls[0]):
        return "the table"
    return urls[0] + (f" and {len(urls) - 1} more" if len(urls) > 1 else "")


def local_file(name: str, path: str) -> Path:
    """Return the local path that the option `name` gives; `JobFileError` for a URL."""
    if "://" in path:
        raise JobFileError(f"{name}: expected a local file, found {bare_url(path)}")
    return Path(path)


def shown_address(address: str) -> str:
    """Return an address; a path in the working directory becomes relative to that directory."""
    path = Path(address)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else address
