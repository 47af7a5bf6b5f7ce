"""Ids belong to a lineage: none is reused, and a returning cluster gets its own."""

import numpy as np
import pytest

from tests.jobs.shop import FIRST, SECOND, THIRD, rows

pytestmark = pytest.mark.usefixtures("quick_page")

ALL, TWO, OTHER = (300, 200, 100), (300, 200), (300, 200, 0, 150)


def night(shop, date, sizes, **sections):
    """Run a night with `sizes` rows around each centre; return the clusters' ids and the report."""
    X, y = rows(*sizes, seed=int(date[-2:]))
    if not (shop.folder / "in" / f"{date}.parquet").exists():
        shop.table(date, X)
    model = {"n_clusters": sum(n > 0 for n in sizes)}
    report = shop.run(date, **({"model": model} | sections))
    return shop.ids(date, y), report


@pytest.mark.parametrize(("memory", "gone", "back"), [(2, 2, True), (2, 3, False), (0, 1, False)])
def test_a_returning_cluster_gets_its_id_back(shop, memory, gone, back):
    more = {"continuity": {"memory": memory}, "names": {"2": "rare"}}
    night(shop, "2026-03-01", ALL, **more)
    for number in range(gone):
        ids, report = night(shop, f"2026-03-0{2 + number}", TWO, **more)
        assert ids == {0: 0, 1: 1}
        assert any("table has the id 2, named 'rare'; the" in one for one in report.warnings)
    date = f"2026-03-0{2 + gone}"
    ids, report = night(shop, date, ALL, **more)
    assert ids == {0: 0, 1: 1, 2: 2 if back else 3}
    [story] = [one for one in report.lineage.clusters if one.id == ids[2]]
    assert (story.event == "returned", story.is_new) == (back, not back)
    assert not back or (story.jaccard > 0.9 and not story.has_ended)


def test_a_cluster_far_from_all_earlier_ones_is_new(shop):
    """The first night's model gives its rows the label of the cluster that has ended."""
    night(shop, FIRST, ALL)
    night(shop, SECOND, TWO)
    X, y = rows(*ALL, seed=7)
    shop.table(THIRD, X + np.where(y == 2, 20.0, 0.0)[:, None] * [0.0, 1.0])
    report = shop.run(THIRD)
    assert shop.ids(THIRD, y) == {0: 0, 1: 1, 2: 3}
    assert "returned" not in {one.event for one in report.lineage.clusters}


def test_a_repeated_night_names_the_later_ones_to_repeat(shop):
    for date in FIRST, SECOND, THIRD:
        night(shop, date, TWO)
    _, report = night(shop, FIRST, TWO, overwrite=True, model={"n_clusters": 2, "seed": 9})
    [text] = [text for text in report.warnings if "later nights continued" in text]
    assert f"continued: {SECOND} ({shop.out(SECOND)}), {THIRD} ({shop.out(THIRD)}); to" in text
    assert "--overwrite" in text
    for date, n_stale in (SECOND, 1), (THIRD, 0), (SECOND, 1):
        _, report = night(shop, date, TWO, overwrite=True, model={"n_clusters": 2, "seed": n_stale})
        assert (
            len([text for text in report.warnings if "later nights continued" in text]) == n_stale
        )


def test_a_late_night_names_later_ones_unless_it_has_no_model_of_its_own(shop):
    for date in FIRST, THIRD:
        night(shop, date, TWO)
    for mode in "assign", "refit":
        model, named = {"n_clusters": 2, "mode": mode}, f"an earlier run, not this run: {THIRD} ("
        _, report = night(shop, SECOND, TWO, overwrite=True, model=model)
        assert any(named in text for text in report.warnings) == (mode == "refit")


def test_ids_that_can_not_be_reserved_give_a_warning(shop, monkeypatch):
    from distsvc.errors import OutputPermissionError
    from distsvc.storage.publishing.lineages import Lineage

    def refuse(*_):
        raise OutputPermissionError("the folder can't be written")

    night(shop, FIRST, TWO)
    monkeypatch.setattr(Lineage, "claim", refuse)
    monkeypatch.setattr(Lineage, "enter", refuse)
    ids, report = night(shop, SECOND, ALL)
    assert ids[2] == 2
    assert any(text.startswith("ids of new clusters could not") for text in report.warnings)
