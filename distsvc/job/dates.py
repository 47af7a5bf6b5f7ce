"""Dates in the texts of a job file: ``{run_date}``, days around it, formats and ranges."""

import datetime
import re

RUN_DATE_PATTERN = re.compile(
    r"\{run_date(?P<days>[+-]\d{1,5}d)?(?P<to>\.\.run_date(?P<end>[+-]\d{1,5}d)?)?"
    r"(?::(?P<format>[^{}]*))?\}"
)
MOST_DAYS = 3660
"""Maximum number of days in the range of a path, and in a backfill."""

DAY_FORMS = "{run_date}, {run_date-7d}, {run_date:%Y/%m/%d} or {run_date-7d:%Y%m%d}"


def parse_day(text: str) -> datetime.date:
    """Return the day of ``YYYY-MM-DD``; ValueError for any other text."""
    day = datetime.date.fromisoformat(text)
    if day.isoformat() != text:
        raise ValueError(f"expected YYYY-MM-DD, found {text!r}")
    return day


def names_day(text: str) -> bool:
    """Return True if a text contains a ``{run_date}`` placeholder."""
    return "{run_date" in text


def fill_date(text: str, day: datetime.date) -> str:
    """Return a text with all dates filled in, such as "out/2026-11-20" for "out/{run_date}".

    ValueError if the text has a range of days, such as ``{run_date-6d..run_date}``.
    """
    for found in RUN_DATE_PATTERN.finditer(text):
        if found["to"]:
            raise ValueError(f"must be one day, {DAY_FORMS}, found the range {found[0]!r}")
    return fill_each_date(text, day)[0]


def fill_each_date(text: str, day: datetime.date) -> list[str]:
    """Return one text for each day of the range in a text, in the order of the days.

    "{run_date-1d..run_date}.csv" becomes ["2026-11-19.csv", "2026-11-20.csv"]. A text without a
    range becomes a list of one text. Equal texts are returned once.
    """
    ranges = [found for found in RUN_DATE_PATTERN.finditer(text) if found["to"]]
    ends = [(_shifted(day, one["days"]), _shifted(day, one["end"])) for one in ranges]
    first, last = ends[0] if ends else (day, day)
    if any(one != ends[0] for one in ends):
        raise ValueError(f"must not have two different ranges of days, found {text!r}")
    if not 0 <= (last - first).days < MOST_DAYS:
        raise ValueError(f"must have a range of 1 to {MOST_DAYS} days, found {ranges[0][0]!r}")

    def replacement(found: re.Match[str], number: int) -> str:
        at = first + datetime.timedelta(number) if found["to"] else _shifted(day, found["days"])
        return at.strftime(found["format"]) if found["format"] else at.isoformat()

    days = range((last - first).days + 1)
    each = [RUN_DATE_PATTERN.sub(lambda found, n=n: replacement(found, n), text) for n in days]  # type: ignore[misc]
    for one in each:
        if names_day(one):
            raise ValueError(
                f"must give the date as {DAY_FORMS}, or a range {{run_date-6d..run_date}}, found "
                f"{one!r}"
            )
    return list(dict.fromkeys(each))


def _shifted(day: datetime.date, days: str | None) -> datetime.date:
    try:
        return day + datetime.timedelta(int(days[:-1])) if days else day
    except OverflowError:
        raise ValueError(f"must give a day of the years 1 to 9999, found {day} {days}") from None
