"""Formats of numbers, times, untrusted text and long tables, as filters of the templates."""

import datetime
import functools
import math
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined, Template
from jinja2.bccache import Bucket

from distsvc.errors import things

TEMPLATES = Path(__file__).parent / "templates"

_EPOCH = datetime.datetime(1970, 1, 1)


def one_line(text: object, length: int) -> str:
    """Return untrusted text without line breaks and control characters, cut to a length."""
    clean = "".join(c if c.isprintable() else " " for c in str(text))
    clean = " ".join(clean.split())
    return clean if len(clean) <= length else clean[: length - 1] + "…"


def short_name(text: str, length: int) -> str:
    """Return a name as one line of at most `length` characters, shortened in its middle."""
    whole, end = one_line(text, sys.maxsize), length // 3
    return whole if len(whole) <= length else f"{whole[: length - end - 1]}…{whole[-end:]}"


def count(number: float | None) -> str:
    """Format a count with thousands separators."""
    return "–" if number is None else f"{number:,.0f}"


def compact(number: float) -> str:
    """Format a count in few characters, such as "9,500" or "1.234 M"."""
    for size, unit in ((1e9, " bn"), (1e6, " M")):
        if abs(number) >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number:,.0f}"


def number(value: float, width: float = 0.0) -> str:
    """Format a measured value with three digits, or with more if the column's spread is small.

    The text is precise to a tenth of `width`, the distance between the column's quartiles.
    """
    value += 0.0  # no minus before 0
    text = f"{value:.3g}" if abs(value) < 999.5 or abs(value) >= 1e7 else f"{value:,.0f}"
    if value and width:
        decimals, place = 1 - math.floor(math.log10(width)), math.floor(math.log10(abs(value)))
        if decimals + place >= 3:
            text = f"{value:,.{min(max(decimals, 0) + place + 1, sys.float_info.dig)}g}"
    return text.replace("-", "−")


def measured(value: float, unit: str = "", width: float = 0.0) -> str:
    """Format a value of a column in its unit: as a date, a time or a duration, else as a number."""
    if unit == "seconds":
        return seconds(value) if value >= 0.0 else f"−{seconds(-value)}"
    with suppress(OverflowError):
        if unit == "date":
            return str(_EPOCH.date() + datetime.timedelta(days=round(value)))
        if unit:
            time = _EPOCH + datetime.timedelta(seconds=round(value))
            if unit == "clock":
                return f"{time:%H:%M:%S}"
            return f"{time:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
    return number(value, width)


def listed(parts: Sequence[object], most: int = sys.maxsize) -> str:
    """Join parts as "a, b and c", or as "a, b and 3 more" if there are more than `most`.

    There must be at least one part.
    """
    shown = [str(part) for part in parts[:most]]
    if len(parts) > most:
        shown.append(f"{len(parts) - most:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def first_clause(text: str, length: int) -> str:
    """Return the first clause of a text, cut to a length."""
    first = re.split(r"; |: these |: row | \(", text, maxsplit=1)[0]
    goes_on = re.match(r" \([^)]*\), ", text[len(first) :])
    return one_line(f"{first}, …" if goes_on else first, length)


def percent(share: float) -> str:
    """Format a share so that rounding never claims "none" or "all"."""
    if 0 < share < 0.0005:
        return "< 0.1\u00a0%"
    if 0.9995 < share < 1:
        return "> 99.9\u00a0%"
    return f"{100 * share:.0f}\u00a0%" if share in (0, 1) else f"{100 * share:.1f}\u00a0%"


def seconds(duration: float) -> str:
    """Format a duration at a precision that suits its length."""
    if duration < 59.95:
        return f"{duration:.2f}\u00a0s" if duration < 10 else f"{duration:.1f}\u00a0s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes}\u00a0min\u00a0{rest:02d}\u00a0s"
    return f"{minutes // 60:,}\u00a0h\u00a0{minutes % 60:02d}\u00a0min"


def megabytes(size: float | None) -> str:
    """Format an amount of memory given in MB."""
    if size is None:
        return "–"
    return f"{size:,.0f}\u00a0MB" if size < 1000 else f"{size / 1000:,.2f}\u00a0GB"


def moment(text: str) -> str:
    """Format an ISO time to the minute; return any other text unchanged."""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = time.tzname()
    return f"{time:%Y-%m-%d %H:%M}" + (f" {zone}" if zone else "")


def inches(svg: str) -> float:
    """Return the width in inches of an SVG in points; 0 if there is no SVG."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
    return round(float(found[1]) / 72, 2) if found else 0.0


def value(content: object) -> str:
    """Format any parameter or fitted value."""
    if content is None:
        return "not set"
    if isinstance(content, bool):
        return str(content).lower()
    if isinstance(content, int):
        return f"{content:,}"
    if isinstance(content, float):
        return "not defined" if math.isnan(content) else f"{content:,.6g}"
    if isinstance(content, Sequence) and not isinstance(content, str):
        return ", ".join(value(item) for item in content)
    return str(content)


FILTERS: tuple[Callable[..., object], ...] = (
    count, first_clause, inches, listed, measured, megabytes, moment, number, one_line, percent,
    seconds, short_name, things, value,
)  # fmt: skip


class _CompiledTemplates(FileSystemBytecodeCache):
    """Jinja's cache on disk; its errors are ignored, because a missing cache only costs time."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a compiled template, unless it is missing or damaged."""
        try:
            super().load_bytecode(bucket)
        except Exception:
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store a compiled template if the disk has room."""
        with suppress(OSError):
            super().dump_bytecode(bucket)


@functools.cache
def template(name: str, **filters: Callable[..., object]) -> Template:
    """Return a template that escapes its values, with the filters `FILTERS` and `filters`."""
    cache = None
    with suppress(OSError, RuntimeError):  # no temporary folder that only this user can write
        cache = _CompiledTemplates(pattern=f"distsvc-{metadata.version('jinja2')}-%s.cache")
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        bytecode_cache=cache,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {one.__name__: one for one in FILTERS} | filters
    return environment.get_template(name)
