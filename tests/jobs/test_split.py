"""A real split is seen the night it happens, whatever the answer of the nights before was."""

import numpy as np
import pytest

from tests.jobs.shop import FIRST, SECOND, THIRD, Shop
from tests.published_files import read_labels

pytestmark = pytest.mark.usefixtures("quick_page")

CENTRES = {  # rows, and visits a month, basket, discount in percent, returns
    "regulars": (560, (9.0, 40.0, 5.0, 2.0)),
    "parting": (490, (9.0, 40.0, 5.0, 2.0)),
    "hunters": (360, (3.0, 12.0, 30.0, 1.0)),
    "firms": (300, (6.0, 160.0, 15.0, 9.0)),
    "guests": (249, (2.0, 60.0, 20.0, 14.0)),
}
SPREAD = (0.5, 4.0, 2.0, 0.7)


def night(seed, parted):
    """Return 1,959 rows (n, 4), and the kind of each."""
    random = np.random.default_rng(seed)
    parts, names = [], []
    for kind, (n, centre) in CENTRES.items():
        moved = np.array([5.0, 25.0, 0.0, 0.0]) if parted and kind == "parting" else 0.0
        parts.append(random.normal(np.array(centre) + moved, SPREAD, (n, 4)))
        names += [kind] * n
    order = random.permutation(len(names))
    return np.concatenate(parts)[order], np.array(names)[order]


def test_a_quarter_of_the_customers_part_and_are_seen_the_same_night(tmp_path):
    shop = Shop(tmp_path)
    given = {"model": {"algorithm": "auto", "effort": "fast"}, "checks": {"max_drift": False}}
    kinds = {}
    for seed, date in enumerate([FIRST, SECOND, THIRD]):
        X, kinds[date] = night(seed, parted=date == THIRD)
        shop.table(date, X)
    job = shop.job_file(**given)
    text = job.read_text().replace("n_clusters = 3\n", "")
    shop.job_file = lambda **_: job
    job.write_text(text)
    for date in (FIRST, SECOND):
        assert len(shop.run(date).clusters) == 4
    report = shop.run(THIRD)
    assert len(report.clusters) == 5
    labels = read_labels(shop.out(THIRD))["label"].to_numpy()
    parted = kinds[THIRD] == "parting"
    values, counts = np.unique(labels[parted], return_counts=True)
    one = values[counts.argmax()]
    assert ((labels == one) != parted).sum() <= 20
