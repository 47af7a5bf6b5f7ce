"""What the benchmarks compute from the rows of fits."""

import numpy as np
import pytest

from benchmarks import NAMES, benchmark
from benchmarks.harness.measure import publish
from benchmarks.methods.calls import HERE, CallTimer, compared
from benchmarks.quality.blind import PEER, beside_peer
from benchmarks.quality.blind_large import choice
from benchmarks.quality.given_k import beside_best
from benchmarks.quality.membership import at_least, calibration_error, in_cluster_of_class
from benchmarks.quality.structureless import GENERATORS
from benchmarks.quality.without_labels import (
    GROUPS,
    means_of_groups,
    pairs_of_seeds,
    shares,
    with_earlier,
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_says_in_one_line_what_it_measures(name):
    assert benchmark(name).__doc__.splitlines()[0].endswith(".")


def test_answers_that_differ_in_the_numbers_of_clusters_only_are_the_same():
    one = np.repeat([0, 1, 2], 50)
    found = pairs_of_seeds({0: one, 1: 7 - one, 2: np.repeat([0, 1], 75)})
    assert (found["seeds"], found["pairs"], found["different"]) == (3, 3, 2)
    assert found["least"] < 0.9
    assert pairs_of_seeds({0: one * 0, 1: one * 0 + 3})["different"] == 0


def row(group, name, half, method, nmi, seed=0):
    about = {"group": group, "set": name, "half": half, "method": method, "seed": seed}
    return about | {"nmi": nmi, "ari": nmi / 2.0}


def test_shares_of_pairs_are_over_all_pairs_of_a_group():
    rows = [
        {"group": group, "set": name, "half": half, "method": "ours", "pairs": 10, "different": k}
        for group, name, half, k in (
            ("bsgd", "iris", "tune", 4), ("bsgd", "car", "confirm", 0), ("shapes", "a", "tune", 10),
        )
    ]  # fmt: skip
    found = {(line["group"], line["half"]): line["ours"] for line in shares(rows, GROUPS)}
    assert found["bsgd", "all"] == 0.2
    assert found["bsgd", "tune"] == 0.4
    assert found["all", "all"] == pytest.approx(14 / 30)
    assert ("shapes", "confirm") not in found
    rows.append(rows[0] | {"method": "other", "group": "tables"})
    lines = {line["group"]: line for line in shares(rows, GROUPS) if line["half"] == "tune"}
    assert (lines["tables"]["ours"], lines["tables"]["other"]) == (None, 0.4)


def test_what_did_not_run_again_stays_in_the_result(tmp_path):
    rows = [row("bsgd", name, "tune", method, 0.5) for name in "ab" for method in ("ours", "Ward")]
    publish(tmp_path, "result", [*rows, row("bsgd", "a", "tune", "gone", 0.5)])
    fresh = [row("bsgd", "b", "tune", "ours", nmi, seed) for seed, nmi in ((1, 0.7), (0, 0.6))]
    found = with_earlier(tmp_path / "result.csv", fresh, ["b", "a"], ["Ward", "ours"])
    assert [(r["set"], r["method"], r["seed"], r["nmi"]) for r in found] == [
        ("b", "Ward", 0, 0.5),
        ("b", "ours", 0, 0.6),
        ("b", "ours", 1, 0.7),
        ("a", "Ward", 0, 0.5),
        ("a", "ours", 0, 0.5),
    ]
    publish(tmp_path, "result", found)
    assert with_earlier(tmp_path / "none.csv", fresh, ["b"], ["ours"]) == fresh[::-1]


def test_means_are_over_sets_and_stand_beside_the_peer():
    rows = [row("bsgd", "iris", "tune", "ours", nmi, seed) for seed, nmi in enumerate((0.6, 0.8))]
    rows += [row("shapes", name, "tune", "ours", 1.0, seed) for name in "ab" for seed in (0, 1)]
    rows += [row("shapes", name, "tune", PEER, 0.5) for name in "ab"]
    rows.append(row("bsgd", "iris", "tune", PEER, 0.5))
    rows.append(row("shapes", "the peer alone", "tune", PEER, 0.1))
    found = {line["group"]: line for line in beside_peer(rows, "ours")}
    assert found["bsgd"]["nmi"] == pytest.approx(0.2)
    assert found["all"]["nmi"] == pytest.approx(0.9 - 0.5)
    assert found["all"]["ari"] == pytest.approx(0.45 - 0.25)


def test_ours_stand_beside_the_best_peer_of_each_group_not_beside_each_other():
    scores = {"ours": 0.7, "iMDH_k": 0.9, "Ward": 0.6, "Genie": 0.8}
    rows = [row("bsgd", "iris", "tune", name, nmi) for name, nmi in scores.items()]
    means = [line for line in means_of_groups(rows, GROUPS) if line["half"] == "all"]
    lines = [one for one in beside_best(means) if (one["group"], one["index"]) == ("bsgd", "nmi")]
    assert [line["best_peer"] for line in lines] == ["Genie", "Genie"]
    assert [line["less"] for line in lines] == pytest.approx([-0.1, 0.1])


@pytest.mark.parametrize(("auto", "too_low"), [(0.39, 0), (0.37, 1), (None, None)])
def test_the_choice_may_be_a_little_below_the_worse_family(auto, too_low):
    found = choice({"set": "letter", "ours": 0.4, "iMDH": 0.5, "auto": auto})
    assert (found["worse_is"], found["worse"], found["better"]) == ("ours", 0.4, 0.5)
    assert found["too_low"] == too_low


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_makes_other_rows_from_another_seed(name):
    one, same, other = (GENERATORS[name](np.random.default_rng(s), 200) for s in (0, 0, 1))
    assert one.shape[0] == 200
    assert np.isfinite(one).all()
    assert (one.std(axis=0) > 0.0).all()
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_rows_of_a_membership_and_the_cluster_of_their_class():
    labels, y = np.array([0, 0, 0, 1, 1]), np.array([7, 7, 3, 3, 3])
    right = in_cluster_of_class(labels, y)
    assert right.tolist() == [True, True, False, True, True]
    own = np.array([1.0, 0.9, 0.85, 0.5, 0.55])
    found = at_least(own, right, 0.8)
    assert (found["rows"], found["right"]) == (0.6, pytest.approx(2 / 3))
    assert found["membership"] == pytest.approx(2.75 / 3)
    expected = abs(1.9 - 2.0) + abs(0.85 - 0.0) + abs(1.05 - 2.0)
    assert calibration_error(own, right) == pytest.approx(expected / 5)


def test_calls_are_timed_in_every_version_that_has_them():
    with CallTimer(HERE) as now, CallTimer(HERE) as other:
        assert {"level tree: fit, 1,000 rows", "imdh: cut, 10,000 rows"} <= set(now.offered)
        name = "metrics.purity, 10,000 rows"
        row = compared(name, {"now": now, "other": other}, 1)
        assert row["over other"] == pytest.approx(row["now"] / row["other"])
        assert 0.0 < row["now"] < 10_000.0
        other.offered.remove(name)
        row = compared(name, {"now": now, "other": other}, 1)
        assert (row["call"], row["other"], row["over other"]) == (name, None, None)
