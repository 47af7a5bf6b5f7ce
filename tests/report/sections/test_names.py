"""Names of clusters: high and low, categories, and words that make names unique."""

import pytest

from distsvc.report.content.parts import ProfileColumn, ProfilePart, Spread
from distsvc.report.sections import names as naming
from distsvc.report.sections.names import words


def column(name="bytes", inside=9.0, outside=(1.0, 2.0, 3.0), low=8.0, high=None, present=None):
    lower, median, upper = outside
    return ProfileColumn(
        column=name, apart=0.9, low=low, high=high, present=present,
        inside=Spread(lower=inside, median=inside, upper=inside, share=0.9),
        outside=Spread(lower=lower, median=median, upper=upper, share=0.1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (column(), "high bytes"),
        (column("log(bytes)"), "high bytes"),
        (column(inside=0.5, low=None, high=0.9), "low bytes"),
        (column(inside=9.0, low=8.0, high=10.0), "high bytes"),
        (column(inside=0.5, low=0.1, high=0.9), "low bytes"),
        (column(inside=2.0, low=1.5, high=2.5), "medium bytes"),
        (column("encrypted", inside=0.0, low=0.0, high=0.0), "encrypted = 0"),
        (column("country=DE", inside=1.0, low=1.0, present=True), "country=DE"),
        (column("country=DE", inside=0.0, low=0.0, present=False), "not country=DE"),
        (column("log(share(city))", inside=-0.5, outside=(-3.0, -2.0, -1.0)), "common city"),
        (column("log(share(city))", inside=-4.0, outside=(-3.0, -2.0, -1.0)), "rare city"),
        (column("log()"), "high log()"),
        (column("a\n" + "b" * 99), "high a " + "b" * 24 + "…" + "b" * 13),
    ],
)
def test_words_of_a_column(told, expected):
    assert words(told) == expected


def names(profiles, **earlier):
    return {
        label: ", ".join(one.text for one in each)
        for label, each in naming.names(profiles, **earlier).items()
    }


def profile(label, *columns):
    return ProfilePart(label=label, rows=10, columns=list(columns), typical=[])


def test_high_dates_are_late():
    high, low = column("opened"), column("opened", inside=0.5, low=None, high=0.9)
    found = [one.model_copy(update={"unit": "date"}) for one in (high, low)]
    assert [words(one) for one in found] == ["late opened", "early opened"]


def test_two_columns_make_a_name():
    low = column("duration", inside=0.1, low=None, high=0.5)
    assert names([profile(7, column(), low, column("errors")), profile(2)]) == {
        7: "high bytes, low duration",
        2: "",
    }


def test_equal_names_get_more_columns_then_ranges():
    far, near = column(inside=20.0, low=18.0, high=25.0), column(inside=9.0, low=8.0, high=10.0)
    other = column("errors"), column("rows"), column("errors", low=None, high=1.0, inside=0.0)
    found = names([
        profile(0, far, other[1], other[0]), profile(1, near, other[1], other[2]),
        profile(2, far), profile(3, near),
    ])  # fmt: skip
    assert found == {
        0: "high bytes, high rows, high errors",
        1: "bytes 8 to 10, high rows, low errors",
        2: "bytes 18 to 25",
        3: "bytes 8 to 10",
    }


def test_a_high_cluster_gets_a_range_if_another_one_is_higher():
    far, near = column(inside=20.0, low=18.0), column(inside=9.0, low=8.0, high=19.0)
    wide, rows, errors = column(inside=9.0, low=8.0), column("rows"), column("errors")
    assert names([profile(0, far, rows), profile(1, near, errors)]) == {
        0: "high bytes, high rows",
        1: "bytes 8 to 19, high errors",
    }
    assert names([profile(0, far, rows), profile(1, wide, errors)]) == {
        0: "high bytes, high rows",
        1: "high bytes, high errors",
    }
    low, lower = (column(inside=x, low=x - 0.1, high=x + 0.1) for x in (0.5, 0.2))
    assert names([profile(0, low), profile(1, lower, rows)]) == {
        0: "bytes 0.4 to 0.6",
        1: "low bytes, high rows",
    }
    between = [column(inside=x, low=x - 0.2, high=x + 0.2) for x in (1.5, 2.5)]
    assert names([profile(0, between[0], rows), profile(1, between[1], errors)]) == {
        0: "bytes 1.3 to 1.7, high rows",
        1: "bytes 2.3 to 2.7, high errors",
    }


def test_equal_names_by_frequency_get_percentages():
    often, less = (
        column("log(share(city))", inside=value, outside=(-3.0, -2.0, -1.9))
        for value in (-0.5, -1.0)
    )
    found = names([profile(0, often), profile(1, less)])
    assert [name.replace("\u00a0", " ") for name in found.values()] == [
        "city with 60.7 % of the rows",
        "city with 36.8 % of the rows",
    ]


def test_the_same_words_in_another_order_are_the_same_name():
    rows = column("rows")
    found = names([profile(0, column(), rows, column("errors")), profile(1, rows, column())])
    assert found[0] == "high bytes, high rows, high errors"
    assert found[1] == "high rows, high bytes"


def test_a_cluster_keeps_an_earlier_name_that_is_still_true():
    """Its columns may have another order, and its range other ends."""
    rows, low = column("rows"), column("duration", inside=0.1, low=None, high=0.5)
    near, far = column(inside=9.0, low=8.0, high=10.0), column(inside=20.0, low=18.0, high=25.0)
    profiles = [profile(0, near, low), profile(1, far, rows)]
    earlier = naming.names(profiles)
    before = {0: "bytes 8 to 10, low duration", 1: "high bytes, high rows"}
    assert names(profiles) == before
    moved = column(inside=9.5, low=8.5, high=11.0)
    now = [profile(0, low, column("errors"), moved), profile(1, rows, column("errors"), far)]
    assert names(now) != before
    assert names(now, earlier=earlier) == before
    gone = [profile(0, low, column(inside=11.0, low=9.0, high=12.0)), profile(1, rows, far)]
    assert names(gone, earlier=earlier) == {
        0: "low duration, bytes 9 to 12",
        1: "high bytes, high rows",
    }
    assert names([profile(2, rows, far)], earlier=earlier) == {2: "high rows, high bytes"}


def test_a_name_has_the_column_that_sets_the_cluster_apart_from_a_like_one():
    """Both clusters are in the ranges of the first two columns, whose words differ by chance."""
    rows, early = column("rows"), column("opened", inside=0.5, low=None, high=0.9)
    medium = column(inside=2.0, low=1.0, high=4.0)
    wide = column(inside=2.1, low=None, high=4.0, outside=(2.2, 3.0, 4.0))
    late = column("opened", inside=9.0, low=8.0)
    assert names([profile(0, medium, rows, early), profile(1, wide, rows, late)]) == {
        0: "medium bytes, high rows, low opened",
        1: "low bytes, high rows, high opened",
    }


def test_a_new_name_is_not_that_of_a_cluster_that_keeps_it():
    rows, errors = column("rows"), column("errors")
    earlier = naming.names([profile(0, column(), rows)])
    now = [profile(3, rows, column(), errors), profile(0, rows, column(), errors)]
    assert names(now, earlier=earlier) == {
        0: "high bytes, high rows",
        3: "high rows, high bytes, high errors",
    }
    higher = [
        profile(3, column(inside=20.0, low=18.0), errors),
        profile(0, column(high=10.0), rows),
    ]
    assert names(higher, earlier=earlier)[0] == "bytes 8 to 10, high rows"
