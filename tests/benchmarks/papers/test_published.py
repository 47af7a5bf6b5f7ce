"""The printed tables are whole, and what can't be right is found by computation."""

from itertools import combinations

import pytest

from benchmarks.datasets.catalogue import catalogue
from benchmarks.papers import published
from benchmarks.papers.published import (
    class_counts,
    impossible,
    indices,
    least_purity,
    least_rand_index,
    printed,
    sizes,
    systems,
    trivial,
)
from distsvc.metrics import INDICES

TABLES = [(paper, index) for paper in published.papers() for index in indices(paper)]
SECONDS = {"training_seconds", "clustering_seconds", "total_seconds"}
N_SETS = {"pham-2017": 15, "hofmeyr-2021": 30, "pham-2016": 11}


@pytest.mark.parametrize(("paper", "index"), TABLES)
def test_a_table_has_every_set_and_system(paper, index):
    figures = printed(paper, index)
    sets = list(dict.fromkeys(name for name, _ in figures))
    assert len(sets) == N_SETS[paper]
    assert list(figures) == [(name, system) for name in sets for system in systems(paper)]
    assert index in INDICES or index in SECONDS
    assert set(sets) - set(catalogue()) == ({"Yale", "isolet", "smartphone"} & set(sets))
    assert all(paper in catalogue()[name].used_by for name in set(sets) & set(catalogue()))


@pytest.mark.parametrize("paper", ["pham-2017", "hofmeyr-2021"])
def test_printed_sizes_are_the_catalogues_but_where_it_says_so(paper):
    differing = {
        name: size
        for name, size in sizes(paper).items()
        if name in catalogue()
        for one in [catalogue()[name]]
        for counts in [class_counts(paper, name)]
        if size != (sum(counts), one.features, len(counts))
    }
    assert set(differing) == {n for n, one in catalogue().items() if paper in one.printed}
    for name, size in differing.items():
        number = int(catalogue()[name].printed[paper].split()[0])
        assert number in size


IMPOSSIBLE_PURITY = {
    "aggregation": {"FSVC": 0.22},
    "compound": {"FSVC": 0.13},
    "flame": {"FSVC": 0.03},
    "jain": {"SVC": 0.37, "SGD-LMOC": 0.46, "FSVC": 0.69},
    "spiral": {"SVC": 0.09, "SGD-LMOC": 0.33},
    "abalone": {"FSVC": 0.03},
    "musk": {"SGD-LMOC": 0.68, "BSGD-R": 0.42, "BSGD-PNN": 0.64, "BSGD-PRN": 0.60},
    "shuttle": {"SVC": 0.06, "SGD-LMOC": 0.05, "FSVC": 0.06, "BSGD-R": 0.34, "BSGD-PRN": 0.42},
}
"""Found by hand."""


def test_purities_below_the_share_of_the_largest_class():
    found = impossible("pham-2017", "purity")
    expected = {(name, s): v for name, row in IMPOSSIBLE_PURITY.items() for s, v in row.items()}
    assert {figure: printed("pham-2017", "purity")[figure] for figure in found} == expected
    assert found["jain", "SVC"] == "the largest class has a share of 0.740"
    both = {figure for figure in expected if figure[1] in systems("pham-2016")}
    both = {(name, system) for name, system in both if name not in ("musk", "shuttle")}
    assert set(impossible("pham-2016", "purity")) == both


def test_rand_indices_that_no_clustering_has():
    assert impossible("pham-2017", "rand_index") == {
        ("flame", "FSVC"): "no clustering of these classes is below 0.461",
        ("spiral", "SVC"): "no clustering of these classes is below 0.331",
    }
    assert set(impossible("pham-2016", "rand_index")) == {("spiral", "SVC")}


@pytest.mark.parametrize(
    ("paper", "index"), [t for t in TABLES if t[1] not in ("purity", "rand_index", "total_seconds")]
)
def test_the_other_tables_are_within_their_ranges(paper, index):
    assert impossible(paper, index) == {}


@pytest.mark.parametrize(
    ("index", "value", "reason"),
    [
        ("normalized_mutual_information", 1.02, "never above 1"),
        ("normalized_mutual_information", -0.02, "never below 0"),
        ("adjusted_rand_index", 1.1, "never above 1"),
        ("rand_index", 1.01, "never above 1"),
        ("davies_bouldin", -1.0, "never below 0"),
        ("normalized_mutual_information", 1.004, None),
    ],
)
def test_figures_out_of_range(monkeypatch, index, value, reason):
    table = {"systems": ["A"], "step": 0.01, "values": {index: {"nowhere": [value]}}}
    monkeypatch.setattr(published, "_tables", lambda: {"x": table})
    found = impossible("x", index)
    assert found == ({} if reason is None else {("nowhere", "A"): f"{index} is {reason}"})


def test_rand_indices_that_need_no_clustering():
    found = trivial("pham-2017")
    assert found["musk", "SVC"] == found["musk", "FSVC"] == "rows alone: 0.2608"
    assert found["aggregation", "FSVC"] == "one cluster of all rows: 0.2165"
    assert ("musk", "SGD-LMOC") not in found
    assert trivial("hofmeyr-2021") == {}


def all_clusterings(n):
    """Yield every way to cluster n rows, as labels."""

    def extend(labels):
        if len(labels) == n:
            yield labels
            return
        for label in range(max(labels, default=-1) + 2):
            yield from extend([*labels, label])

    yield from extend([])


def class_sizes(n, most):
    if n == 0:
        yield ()
    for size in range(min(n, most), 0, -1):
        for rest in class_sizes(n - size, size):
            yield (size, *rest)


SMALL = [sizes for n in range(2, 8) for sizes in class_sizes(n, n)]


@pytest.mark.parametrize("counts", SMALL, ids=str)
def test_no_clustering_is_below_the_bounds_and_one_has_them(counts):
    y = [k for k, size in enumerate(counts) for _ in range(size)]
    pairs = list(combinations(range(len(y)), 2))
    lowest_rand, lowest_purity = 2.0, 2.0
    for labels in all_clusterings(len(y)):
        agreed = sum((labels[i] == labels[j]) == (y[i] == y[j]) for i, j in pairs)
        lowest_rand = min(lowest_rand, agreed / len(pairs))
        clusters = [[y[i] for i in range(len(y)) if labels[i] == label] for label in set(labels)]
        most = sum(max(map(rows.count, rows)) for rows in clusters)
        lowest_purity = min(lowest_purity, most / len(y))
    assert least_rand_index(counts) == pytest.approx(lowest_rand, abs=1e-12)
    assert least_rand_index(counts[::-1]) == least_rand_index(counts)
    assert least_purity(counts) == pytest.approx(lowest_purity, abs=1e-12)
