"""The figures of a history."""

import pytest

from distsvc.report.content.night import Night
from distsvc.report.figures import nights as figures
from distsvc.report.figures.drawing import MAX_NAMED_CLUSTERS
from tests.report.reports import texts


def night(day: int, **facts) -> Night:
    date = f"2026-11-{day:02d}"
    return Night(job="shop", date=date, output=f"/out/{date}", **{"run_id": "r", **facts})


def test_only_measures_with_values_are_drawn():
    told = [night(1, rows=600, clusters=3), night(2, rows=650, clusters=3, moved=0.1)]
    drawn = texts(figures.trends(told))
    names = [name for name, _, _ in figures.MEASURES]
    assert [one for one in drawn if one in names] == [
        "rows",
        "clusters",
        "rows moved to another cluster",
    ]
    assert [one for one in drawn if one.startswith("2026")] == ["2026-11-01", "2026-11-02"]


def test_shares_that_are_all_zero_have_no_other_tick():
    told = [night(day, outside=0.0) for day in (1, 2)]
    assert [one for one in texts(figures.trends(told)) if "%" in one] == ["0\u00a0%"]


@pytest.mark.parametrize("n_nights", [1, 2, 30])
def test_bands_have_their_id_and_latest_name(n_nights):
    sizes = {0: 500, 7: 400, 9: 30}
    told = [
        night(d, sizes=sizes, page_names={7: "rare buyers from abroad"}) for d in range(1, n_nights)
    ]
    told.append(
        night(n_nights, sizes=sizes, page_names={0: "guests", 7: "rare buyers from overseas"})
    )
    drawn = texts(figures.river(told))
    assert {"0 guests", "7 rare buyers from over…", "9"} <= set(drawn)
    assert "others" not in drawn


def test_joined_clusters_are_one_band():
    told = [night(day, sizes=dict.fromkeys(range(30), 10)) for day in (1, 2)]
    assert "others" in texts(figures.river(told))


def test_bands_are_the_largest_clusters_last_night_and_overall():
    sizes = {one: 100 + one for one in range(20)}
    told = [night(day, sizes=sizes) for day in range(1, 9)]
    odd = night(9, sizes=dict.fromkeys(range(50, 60), 1000))
    last = night(10, sizes={0: 900, 30: 700, 1: 10})
    half = MAX_NAMED_CLUSTERS // 2
    assert figures.bands(told) == [*range(20 - MAX_NAMED_CLUSTERS, 20)]
    found = figures.bands([*told, odd, last])
    assert {0, 1, 30} < set(found)
    assert not set(found) & set(range(50, 60)), "one odd night takes no band from those that stay"
    assert len(found) == 2 * half
