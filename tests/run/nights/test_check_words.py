from types import SimpleNamespace as Stand

import pytest

from distsvc.job.config import ChecksConfig
from distsvc.run.labelling.ids import IdReport
from distsvc.run.nights.checks import CHECKS, Measured, checked

FOUND = {
    "rows": 900, "clusters": 45, "outlier_share": 0.21, "rows_moved": 0.5, "drift": 0.9123,
    "drifted": "a {} b", "agreement": 0.2, "ids": IdReport(4, 1, 0, "a"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("check", "limit", "found", "words"),
    [
        ("min_rows", 1000, {}, "900 rows, at least 1,000 expected"),
        ("max_outlier_share", 0.2, {},
         "21.0 % of the rows lie outside every cluster, at most 20 % expected"),
        ("max_outlier_share", 0.2, {"outlier_share": 0.2002},
         "20.02 % of the rows lie outside every cluster, at most 20 % expected"),
        ("max_outlier_share", 0.2, {"outlier_share": 0.2},
         "20.0 % of the rows lie outside every cluster, at most 20 % expected"),
        ("max_outlier_share", 0.29, {"outlier_share": None},
         "not measured, at most 29 % expected"),
        ("clusters", [2, 40], {}, "45 clusters, 2 to 40 expected"),
        ("clusters", [3, 3], {"clusters": 1}, "1 cluster, 3 expected"),
        ("max_rows_moved", 0.3, {},
         "50.0 % of the rows have another id than before, at most 30 % expected"),
        ("max_drift", 0.25, {},
         "the population stability index of column 'a {} b' is 0.912, at most 0.25 expected"),
        ("max_drift", 0.25, {"drift": 0.2500001},
         "the population stability index of column 'a {} b' is 0.2500001, at most 0.25 expected"),
        ("min_agreement", 0.3, {}, "the agreement of the models is 0.20, at least 0.3 expected"),
        ("unique_id", True, {},
         "5 rows share their id with another or have none, at most 0 expected"),
        ("unique_id", True, {"ids": IdReport(4, 0, 3, "a")},
         "4 rows share their id with another (among one in 8 ids, which were compared) or have "
         "none, at most 0 expected"),
        ("unique_id", True, {"ids": None}, "not measured, at most 0 expected"),
    ],
)  # fmt: skip
def test_words_tell_what_was_found_and_the_limit(check, limit, found, words):
    config = ChecksConfig.model_validate({check: limit})
    (part,) = checked(config, measured(**(FOUND | found)))
    assert part.words == f"{check}: {words}"
    assert part.name == check


def measured(rows, clusters, outlier_share, rows_moved, drift, drifted, agreement, ids):
    counts = Stand(n_rows=rows, n_clusters=clusters)
    labelled = Stand(counts=counts, outlier_share=outlier_share, ids=ids)
    columns = [Stand(index=drift, column=drifted)]
    return Measured(labelled, Stand(moved=rows_moved), Stand(columns=columns), agreement)


def test_the_keys_of_a_job_are_all_checks():
    assert list(ChecksConfig.model_fields) == [check.name for check in CHECKS]
