"""The day of a run in a text: its forms, ranges of days, and what is refused."""

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.errors import JobFileError
from distsvc.job.dates import MOST_DAYS, fill_date, fill_each_date, names_day
from distsvc.job.file import EARLIER_NIGHTS, parse_job

DAY = datetime.date(2026, 3, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in/t.parquet", "in/t.parquet"),
        ("in/{run_date}", "in/2026-03-01"),
        ("in/{run_date:%Y/%m/%d}.csv", "in/2026/03/01.csv"),
        ("{run_date-1d}", "2026-02-28"),
        ("{run_date+31d}", "2026-04-01"),
        ("{run_date-7d:%Y%m%d}", "20260222"),
        ("{run_date-0d}", "2026-03-01"),
        ("year={run_date:%Y}/day={run_date-60d}", "year=2026/day=2025-12-31"),
        ("day >= '{run_date-6d}' and x < 3", "day >= '2026-02-23' and x < 3"),
        ("{run_date:}", "2026-03-01"),
        ("{other}", "{other}"),
        ("{run_date:week %V, 100%%}", "week 09, 100%"),
    ],
)
def test_forms(text, expected):
    assert fill_date(text, DAY) == expected
    assert fill_each_date(text, DAY) == [expected]


def test_a_range_is_each_of_its_days_in_order():
    found = fill_each_date("in/{run_date-2d..run_date}.csv", DAY)
    assert found == ["in/2026-02-27.csv", "in/2026-02-28.csv", "in/2026-03-01.csv"]
    assert fill_each_date("{run_date-1d..run_date-1d}", DAY) == ["2026-02-28"]
    assert fill_each_date("{run_date..run_date+1d:%d}", DAY) == ["01", "02"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{run_date-1d..run_date}/{run_date-2d..run_date}",
            "must not have two different ranges of days, found",
        ),
        ("{run_date..run_date-1d}", r"must have a range of 1 to 3660 days, found '\{run_date\.\."),
        (f"{{run_date-{MOST_DAYS}d..run_date}}", "must have a range of 1 to 3660 days"),
        (
            "{run_date-99999d}x{run_date-99999d..run_date}",
            "must have a range|must give a day of the years",
        ),
        ("{run_date+1}", r"must give the date as \{run_date\}"),
        ("{run_date-1d..run_dat}", "must give the date as"),
        ("{run_date-1d ..run_date}", "must give the date as"),
        ("{run_date:%Y", "must give the date as"),
        ("x{run_date-123456d}", "must give the date as"),
    ],
)
def test_wrong_ranges_of_days(text, message):
    with pytest.raises(ValueError, match=message):
        fill_each_date(text, DAY)


def test_a_day_that_is_no_date():
    with pytest.raises(ValueError, match="must give a day of the years 1 to 9999, found 0001"):
        fill_date("{run_date-99999d}", datetime.date(1, 1, 2))
    assert fill_date("{run_date-1d}", datetime.date(1, 1, 2)) == "0001-01-01"


def test_a_range_where_there_is_to_be_one_day():
    with pytest.raises(ValueError, match=r"must be one day, .* found the range '\{run_date-"):
        fill_date("{run_date-1d..run_date}", DAY)


DAYS = st.dates(datetime.date(1999, 1, 1), datetime.date(2099, 12, 31))


@settings(max_examples=60, deadline=None)
@given(st.text("{run_date}-+.:%Y17d", max_size=30), DAYS)
def test_nothing_of_a_date_is_left(text, day):
    try:
        found = fill_each_date(text, day)
    except ValueError as caught:
        found, said = [], str(caught)
    assert found or "found" in said
    assert not any(map(names_day, found))
    assert names_day(text) or found == [text]


# In a job


def job(**sections):
    content = {"input": {"path": "in"}, "output": {"path": "out"}} | sections
    return parse_job(content, run_date="2026-03-01")


def test_the_day_is_filled_in_in_every_text_of_three_sections():
    found = job(
        input={
            "path": "in/{run_date:%Y}/t.parquet",
            "columns": ["a{run_date:%m}", "b"],
            "id": "i{run_date-1d:%d}",
            "classes": "{run_date}",
            "where": "day == '{run_date-1d}'",
        },
        output={"path": "out/{run_date}"},
        preprocess={"scale": "minmax"},
    )
    assert found.input.model_dump(exclude_none=True) == {
        "path": "in/2026/t.parquet",
        "columns": ("a03", "b"),
        "exclude": (),
        "id": "i28",
        "classes": "2026-03-01",
        "where": "day == '2026-02-28'",
    }
    assert found.output.path == "out/2026-03-01"
    assert found.job.run_date == "2026-03-01"


def test_a_run_that_is_not_published_is_looked_for_a_month_back():
    found = job(continuity={"previous": "out/{run_date-1d}"}).continuity.previous
    assert found[:3] == ("out/2026-02-28", "out/2026-02-27", "out/2026-02-26")
    assert len(found) == EARLIER_NIGHTS
    assert job(continuity={"previous": "out/fixed"}).continuity.previous == ("out/fixed",)
    monthly = job(continuity={"previous": "out/{run_date-1d:%Y-%m}"}).continuity.previous
    assert monthly == ("out/2026-02", "out/2026-01")


@pytest.mark.parametrize(
    ("section", "key", "text"),
    [
        ("input", "where", "{run_date-1d..run_date} == x"),
        ("output", "path", "{run_date-1d..run_date}"),
        ("input", "id", "{run_date-1}"),
        ("continuity", "previous", "{run_date..}"),
    ],
)
def test_a_date_that_can_not_be_filled_in_names_its_key(section, key, text):
    given = {"input": {"path": "in"}, "output": {"path": "out"}}.get(section, {}) | {key: text}
    with pytest.raises(JobFileError, match=rf"^job: {section}\.{key} must ") as caught:
        job(**{section: given})
    assert text[:9] in str(caught.value)
