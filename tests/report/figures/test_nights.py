"""The figures of a history."""

import numpy as np
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


def test_wide_bands_have_their_id():
    told = [night(d, sizes={0: 500, 7: 400, 9: 10 if d < 5 else 600}) for d in range(1, 9)]
    drawn = texts(figures.river(told))
    assert {"0", "7", "9"} <= set(drawn)
    drawn = texts(figures.river([night(d, sizes={0: 900, 7: 900, 9: 10}) for d in range(1, 9)]))
    assert {"0", "7"} <= set(drawn)
    assert "9" not in drawn


@pytest.mark.parametrize("n_nights", [1, 2, 3, 30])
def test_wide_bands_have_the_name_given_by_the_job(n_nights):
    names = {0: "regulars", 7: "rare buyers from abroad", 9: "guests"}
    sizes = {0: 500, 7: 400, 9: 30}
    told = [night(d, sizes=sizes, names=names) for d in range(1, n_nights + 1)]
    told[0] = told[0].model_copy(update={"names": {0: "old name"}} if n_nights > 1 else {})
    drawn = texts(figures.river(told))
    assert "0 regulars" in drawn
    assert "7 rare buyers from ab…" in drawn
    assert not any("guests" in one for one in drawn)
    assert figures.cluster_names(told) == names


def test_the_latest_name_of_a_page_decides():
    names, sizes = {0: "low x", 7: "high x"}, {0: 500, 7: 400}
    told = [night(1, sizes=sizes, page_names=names)]
    told += [night(2, sizes=sizes, page_names={7: "high 2"})]
    assert figures.page_names(told) == {0: "low x", 7: "high 2"}


def test_a_name_lies_inside_its_band():
    days, half = np.arange(40.0), 0.2
    low = np.where(days < 20, 0.1, 0.3)
    x, y = figures._place(days, low, low + 0.2, [], half)
    inside = (days >= x - 39 * half) & (days <= x + 39 * half)
    assert (low[inside] < y).all()
    assert (low[inside] + 0.2 > y).all()
    assert figures._place(days, low, low + 0.2, [], 0.4) is None


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


def test_an_id_is_written_where_its_band_is_wide_for_several_nights():
    """The widest night does not count if the band is narrow around it, or steep."""
    days = np.arange(365.0)
    low, high = np.full(365, 0.2), np.full(365, 0.3)
    high[100] = 0.9
    low[200:], high[200:] = 0.2 + 0.2 * (days[200:] - 200), 0.4 + 0.2 * (days[200:] - 200)
    x, y = figures._place(days, low, high, [])
    reach = figures.NIGHTS.edge_gap * 365
    assert y == pytest.approx(0.25)
    assert x + reach < 200
    high[:] = low + 0.01
    high[50:55] = 0.9
    assert figures._place(days, low, high, []) is None, "four nights are narrower than a number"
