"""Drift from a fixed reference run, in addition to the previous run."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import CheckFailedError, DataError, InputNotFoundError
from distsvc.storage.publishing.retention import retain
from tests.jobs.shop import FIRST, SECOND, THIRD, rows
from tests.small_runs import forget

pytestmark = pytest.mark.usefixtures("quick_page")

STEP = 0.6


@pytest.fixture
def shop(shop):
    """Three nights, each shifted a little further."""
    for night, date in enumerate((FIRST, SECOND, THIRD)):
        shop.table(date, rows(300, 200, 100, seed=night, shift=STEP * night)[0])
    return shop


def nights(shop, **checks):
    reference = {"reference": str(shop.out(FIRST))}
    off = {"max_drift": False, "max_rows_moved": False}
    return [shop.run(date, continuity=reference, checks=off | checks)
            for date in (FIRST, SECOND, THIRD)]  # fmt: skip


def test_drift_from_the_reference_holds_a_night_back(shop):
    far = nights(shop)[2].reference.columns[0].index
    reference = {"reference": str(shop.out(FIRST))}
    with pytest.raises(CheckFailedError, match=r"max_reference_drift: the drift [(]population"):
        shop.run(THIRD, overwrite=True, continuity=reference, model={"seed": 1},
                 checks={"max_reference_drift": far - 0.1})  # fmt: skip


def test_a_reference_must_be_published_and_share_columns(shop, tmp_path):
    with pytest.raises(InputNotFoundError, match=r"continuity\.reference: no run is published at"):
        shop.run(FIRST, continuity={"reference": str(tmp_path / "none")})
    shop.run(FIRST)
    X, _ = rows(300, 200, 100)
    forget()
    path = shop.folder / "in" / f"{SECOND}.parquet"
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), path)
    off = {"previous": str(tmp_path / "none"), "reference": str(shop.out(FIRST))}
    with pytest.raises(DataError, match="its columns are 'x0', 'x1'"):
        shop.run(SECOND, continuity=off)


def test_gc_keeps_the_reference(shop):
    nights(shop)
    told = retain(str(shop.folder / "out"), 1)
    assert [one["date"] for one in told["removed"]] == []
    because = {one["date"]: one["because"] for one in told["kept"]}
    assert because[FIRST].endswith("uses this run as its reference")


def test_new_columns_hold_a_night_back(shop):
    shop.run(FIRST)
    X, y = rows(300, 200, 100, seed=1)
    forget()
    shop.table(SECOND, X, more=y.astype(float))
    with pytest.raises(CheckFailedError, match="same_columns: 1 new column: 'more', none exp"):
        shop.run(SECOND, checks={"same_columns": True})
    report = shop.run(SECOND, checks={"same_columns": {"limit": True, "level": "warn"}})
    assert any("1 new column: 'more'" in one for one in report.warnings)
