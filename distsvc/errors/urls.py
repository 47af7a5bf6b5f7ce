"""URLs that hold secrets: how they are shown, and how processes hand them to each other.

A secret is what stands before the host (``user:password@``) and every value of a query, a matrix
parameter (``;token=``) or a fragment, which may be a signature. None is written to a file, a log or
a message, nor sent to a worker. Where a URL has to be written so that it can be opened again, a
stand-in is: the URL as shown, with a number. The process's environment, which the processes that it
starts inherit, has the URL of that number.

A text that quotes a URL may break it in two or decode it, so every secret that was ever masked in
this process is masked by its own letters, too, as are values of the environment that are named so.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from distsvc.errors import JobFileError

MASK = "***"
MOST_URLS = 16
"""Secret URLs that a process keeps: far more than a run has, and few enough for an environment."""

MOST_SECRETS = 256
"""Secrets that a process knows by their letters."""

_VARIABLE = "DISTSVC_PRIVATE_URL_"
_STAND_IN = re.compile(r"#\*\*\*([0-9a-f]{16})$")
_USER = re.compile(r"(?<=://)[^/?#]*@")
# A password with a slash in it, which should be %2F; digits before the slash are a port.
_BROKEN_USER = re.compile(r"(?<=://)[^/?#@\s:]+:(?!\d*[/?#])(?:(?!://)[^@])*@")
_QUERY = re.compile(r"(?<=[?#]).*", re.DOTALL)
_OTHER_QUERY = re.compile(r"(?<=[?#])[\w.-]+=.*", re.DOTALL)  # others have globs, too
_MATRIX = re.compile(r"(?<=;)[^/;?#]+")
_OTHER_MATRIX = re.compile(  # others have names of files with semicolons, too
    r"(?<=[;#])[\w.-]*(?:auth|credential|key|pass|secret|session|sig|token)[\w.-]*=[^/;?#]*", re.I
)
_IN_TEXT = re.compile(
    r"(?<=')[\w+.:-]+://[^'\n]*(?=')|(?<=\")[\w+.:-]+://[^\"\n]*(?=\")"
    r"|[\w+.-]+://\S*[^\s'\"<>()\[\]{},.:;]"
)
_ENCODED = re.compile(r"[\w+.-]+(?:%3A|:)%2F%2F[^\s'\"<>]*", re.IGNORECASE)
# What follows white space in a URL, or a path that a library names without its host.
_LOOSE_USER = re.compile(r"(?<=://)(?!\*\*\*)[^/?#@\n:]+:(?!\d+\W)[^/?#@\n]*@")
_LOOSE_PAIR = re.compile(
    r"(?<=[?&#;])([\w.%-]+=)(?!\*\*\*)[^&#;'\"<>\n]*?(?=[&#;'\"<>\n]|[:,)] |$)"
)
_LOOSE_TOKEN = re.compile(
    r"(https?://[^'\"<>\n?#;]*[?#;])(?!\*|\s|[\w.%-]+=)[^&#;'\"<>\n]*?(?=[&#;'\"<>\n]|[:,)] |$)"
)
_SECRET_NAME = (
    r"[\w.-]*(?:signature|token|passw(?:or)?d|secret|credential|account[_-]?key|api[_-]?key)"
)
_SECRET_PAIR = re.compile(
    rf"(?<![\w.-])({_SECRET_NAME}[\w.-]*(?:=|['\"]: ?|['\"] ?= ?)['\"]?)"
    r"(?!\*\*\*)[^\s&;#'\"<>,)}]+",
    re.IGNORECASE,
)
_SCHEDULER = re.compile(r"(?<=--scheduler[= ])[^\s/@]*@")
_TO_THE_END = re.compile(r"[\w+.-]+://.*", re.DOTALL)
_NAMED_SECRET = re.compile(r"SECRET|TOKEN|PASSWORD", re.I)
_LAKE = re.compile(r"(delta|iceberg)://(.*?)(?:\?((?:version|snapshot)=[\w-]*))?", re.DOTALL)


class LakeUrl(NamedTuple):
    """A path or URL, and what stands around it where it is that of a table with a log."""

    kind: str  # "delta", "iceberg" or nothing
    path: str
    pin: str  # "version=...", "snapshot=..." or nothing: the state of the table that is asked for

    def around(self, path: str) -> str:
        """Return the URL of another path."""
        return f"{self.kind}://{path}" + (f"?{self.pin}" if self.pin else "")


NO_LAKE = LakeUrl("", "", "")

_known: dict[str, None] = {}


def lake_url(url: str) -> LakeUrl:
    """Return what a path or URL consists of: ``delta://s3://bucket/table?version=3``."""
    found = _LAKE.fullmatch(url)
    return LakeUrl(found[1], found[2], found[3] or "") if found else LakeUrl("", url, "")


def links(url: str) -> list[str]:
    """Return the links of a chained URL; a ``::`` that no protocol follows separates none."""
    return re.split(r"::(?=[\w+.-]+(?:://|::|$))", url)


def shown_url(url: str) -> str:
    """Return a path or URL, chained or not, as it may be shown: secrets are ``***``."""
    if "://" not in url:
        return url
    bare = _STAND_IN.sub("", url)
    lake = lake_url(bare)
    if lake.kind:
        return lake.around(shown_url(lake.path))
    return "::".join(_masked_link(link) for link in links(bare))


def shown_urls(urls: Sequence[str]) -> str:
    """Return one or several paths or URLs as a message shows them: the first, and how many more."""
    more = f" and {len(urls) - 1} more" if len(urls) > 1 else ""
    return shown_url(urls[0]) + more


def local_file(name: str, path: str) -> Path:
    """Return the path of a file of this machine, which `name` asks for; no URL.

    A path takes one of two slashes away, and what was a URL is then shown with its secrets.
    `JobFileError` for a URL.
    """
    if "://" in path:
        raise JobFileError(f"{name}: expected a file of this machine, found {shown_url(path)}")
    return Path(path)


def masked(text: str) -> str:
    """Return a text with every URL in it as `shown_url` shows it, and no secret that is known.

    URLs may be percent-encoded, or have white space; where these end is not known, so what follows
    a query's name is hidden up to the next mark that ends a value.
    """
    if "%2f%2f" in text.lower():
        text = _ENCODED.sub(lambda found: _decoded(found[0]), text)
    if "://" in text:
        first = text.index("://")
        text = text[:first] + _LOOSE_PAIR.sub(_masked_pair, text[first:])
        text = _LOOSE_TOKEN.sub(rf"\1{MASK}", _LOOSE_USER.sub(f"{MASK}@", text))
        text = _IN_TEXT.sub(lambda found: shown_url(found[0]), text)
    text = _SCHEDULER.sub(f"{MASK}@", _SECRET_PAIR.sub(rf"\1{MASK}", text))
    named = (value for name, value in os.environ.items() if _NAMED_SECRET.search(name))
    for secret in (*_known, *filter(_tells, named)):
        text = text.replace(secret, MASK)
    return text


def masked_argument(text: str) -> str:
    """Return an argument of a command as `masked` does, and any URL in it up to its end."""
    return masked(_TO_THE_END.sub(lambda found: shown_url(found[0]), text))


def remember(address: str) -> None:
    """Let what stands before the host of an address, with or without ``://``, be masked."""
    shown_url(address if "://" in address else f"tcp://{address}")


def without_user(url: str) -> str:
    """Return a URL without what stands before its hosts; its queries stay."""
    return "::".join(_BROKEN_USER.sub("", _USER.sub("", link)) for link in links(url))


def is_broken(url: str) -> bool:
    """Return whether a password holds what ends the host: ``/``, ``?`` or ``#``."""
    return any(_BROKEN_USER.search(_USER.sub("", link)) for link in links(url))


def has_token_in_path(url: str) -> bool:
    """Return whether a path or fragment holds what is named as a secret: ``;token=``, ``#sig=``."""
    return any(_OTHER_MATRIX.search(link.partition("?")[0]) for link in links(url))


def stand_in(url: str) -> str:
    """Return what may be written in place of a URL; `original` returns the URL again.

    That is the URL itself if it holds no secret.
    """
    shown = shown_url(url)
    if shown == url or is_private(url):
        return url
    kept = [name for name in os.environ if name.startswith(_VARIABLE)]
    for name in kept:
        if os.environ.get(name) == url:
            return f"{shown}#{MASK}{name.removeprefix(_VARIABLE)}"
    for name in kept[: max(0, len(kept) + 1 - MOST_URLS)]:
        os.environ.pop(name, None)
    number = secrets.token_hex(8)
    os.environ[_VARIABLE + number] = url
    return f"{shown}#{MASK}{number}"


def hand_over(written: Sequence[str], urls: Sequence[str]) -> None:
    """Give this process the secrets of stand-ins that another one made, from the URLs it was given.

    Of several URLs that are shown alike, the stand-ins were made in the order of `urls`.
    """
    for shown, numbers in _numbers(written).items():
        pin = lake_url(shown).pin
        known = [_pinned(url, pin) for url in urls]
        alike = [url for url in dict.fromkeys(known) if shown_url(url) == shown != url]
        for number, url in zip(numbers, alike, strict=False):
            os.environ.setdefault(_VARIABLE + number, url)


def is_private(url: str) -> bool:
    """Return whether a URL is a stand-in for one with secrets."""
    return _STAND_IN.search(url) is not None


def original(url: str) -> str:
    """Return the URL of a stand-in, or any other URL as it is.

    Raises
    ------
    LookupError
        No process from which this one was started made the stand-in.

    """
    found = _STAND_IN.search(url)
    if not found:
        return url
    try:
        return os.environ[_VARIABLE + found[1]]
    except KeyError:
        raise LookupError(f"the secrets of {shown_url(url)} are not in this process") from None


def _numbers(written: Sequence[str]) -> dict[str, list[str]]:
    """Return the numbers of all stand-ins among texts, by the URL as shown."""
    found: dict[str, list[str]] = {}
    for text in dict.fromkeys(written):
        number = _STAND_IN.search(text)
        if number:
            found.setdefault(_STAND_IN.sub("", text), []).append(number[1])
    return found


def _pinned(url: str, pin: str) -> str:
    lake = lake_url(url)
    return lake._replace(pin=pin).around(lake.path) if lake.kind and pin else url


def _masked_link(link: str) -> str:
    hidden = _USER.sub(_masked_user, link)
    if hidden == link:
        hidden = _BROKEN_USER.sub(_masked_user, link)
    http = re.search(r"https?://", hidden) is not None
    hidden = (_MATRIX if http else _OTHER_MATRIX).sub(_masked_values, hidden)
    return (_QUERY if http else _OTHER_QUERY).sub(_masked_values, hidden)


def _masked_user(found: re.Match[str]) -> str:
    user, colon, password = found[0][:-1].partition(":")
    _keep(password if colon else user)
    return f"{MASK}@"


def _masked_values(found: re.Match[str]) -> str:
    pairs = [pair.partition("=") for pair in re.split("[&#]", found[0])]
    for name, equals, value in pairs:
        _keep(value if equals else name)
    return "&".join(f"{name}={MASK}" if equals else MASK for name, equals, _ in pairs if name)


def _keep(secret: str) -> None:
    """Let a secret be masked wherever it stands, as it is written or decoded."""
    for form in dict.fromkeys((secret, unquote(secret), quote(secret, safe=""))):
        if form not in _known and _tells(form):
            _known[form] = None
    for oldest in list(_known)[:-MOST_SECRETS]:
        del _known[oldest]


def _tells(secret: str) -> bool:
    """Return whether letters are a secret's alone: a number or a short word stands elsewhere."""
    plain = secret.isdigit() or (len(secret) < 12 and secret.isalpha() and secret.islower())
    return len(secret) >= 6 and not plain and MASK not in secret


def _masked_pair(found: re.Match[str]) -> str:
    _keep(found[0].removeprefix(found[1]))
    return f"{found[1]}{MASK}"


def _decoded(url: str) -> str:
    plain = unquote(url)
    shown = shown_url(plain)
    return url if shown == plain else shown
