import json

from benchmarks.harness.systems import SYSTEMS
from benchmarks.papers.fits import Fit
from benchmarks.papers.suites import (
    BSGD_SYSTEMS,
    IMDH_SYSTEMS,
    SUITES,
    SuiteOptions,
    best_points,
    bsgd_final,
    bsgd_grid,
    imdh_fits,
)  # fmt: skip


def grid_row(point, nmi, *, system="BSGD-R", name="iris", seed=0):
    point = json.dumps(point, sort_keys=True)
    return {
        "experiment": "grid", "set": name, "system": system, "point": point, "seed": seed,
        "normalized_mutual_information": nmi,
    }  # fmt: skip


def test_every_system_of_the_papers_has_fits_of_each_protocol_it_knows():
    named = {
        "SVC", "FSVC", "SGD-LMOC", "BSGD-R", "BSGD-PNN", "BSGD-PRN", "iMDH", "iMDH_k", "BICO",
        "k-means", "SPDC", "dePDDP", "c-means", "fuzzy c-means",
    }  # fmt: skip
    assert named <= {*BSGD_SYSTEMS, *IMDH_SYSTEMS}
    rows = [
        grid_row(fit.point, 0.5, system=fit.system)
        for fit in bsgd_grid(SuiteOptions(("iris",), 1, True))
    ]
    final = bsgd_final(SuiteOptions(("iris",), 1), rows)
    seen = {(f.system, f.protocol) for f in final + imdh_fits(SuiteOptions(("churn",), 1))}
    for system in {*BSGD_SYSTEMS, *IMDH_SYSTEMS}:
        entry = SYSTEMS[system]
        assert ((system, "blind") in seen) == (entry.blind is not None)
        assert ((system, "oracle") in seen) == bool(entry.grid or entry.oracle is not None)


def test_the_best_point_has_the_highest_nmi():
    good, failed = {"gamma": 2.0, "C": 1.0}, {"gamma": 8.0, "C": 1.0}
    rows = [grid_row(failed, None), grid_row(good, 0.6), grid_row({"gamma": 0.5, "C": 1.0}, 0.5)]
    assert best_points(rows) == {("iris", "BSGD-R"): good}


def test_the_winner_is_fit_with_other_seeds_on_all_rows_and_scored_in_full():
    point = {"gamma": 2.0, "C": 1.0, "labelling": "complete-graph"}
    final = bsgd_final(SuiteOptions(("iris",)), [grid_row(point, 1.0, system="SVC")])
    (svc,) = [f for f in final if (f.system, f.protocol) == ("SVC", "oracle")]
    assert svc == Fit("oracle", "iris", "SVC", "oracle", point, 0, whole=True)
    assert {f.seed for f in bsgd_grid(SuiteOptions())} == {0}
    assert [f.seed for f in final if (f.system, f.protocol) == ("level tree", "blind")] == [
        *range(1, 6)
    ]


def test_quick_is_smaller_in_every_way():
    quick, full = SuiteOptions(quick=True), SuiteOptions()
    for suite in SUITES.values():
        some, all_ = suite.first(quick), suite.first(full)
        assert 0 < len(some) < len(all_) / 10
        assert {f.set for f in some} < {f.set for f in all_}
        assert {f.system for f in some} == {f.system for f in all_}
