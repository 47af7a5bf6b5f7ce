"""Which fits a split makes, which of their answers are compared, and on which rows."""

import numpy as np
import pytest

from benchmarks.harness.rows import only
from benchmarks.quality import stability, without_labels
from benchmarks.quality.stability import (
    ABOUT,
    FACTOR,
    KINDS,
    METHODS,
    changed,
    comparisons,
    dealt,
    means,
    rows_of_split,
)
from benchmarks.quality.without_labels import tried_method

N = 40


@pytest.fixture
def iris(toy):
    """The rows of `toy` in the place of iris."""
    without_labels.sample.cache_clear()
    yield toy
    without_labels.sample.cache_clear()


def numbered(n=N):
    """Return rows (n, 2), the first column the number of the row, the second without variance."""
    return np.column_stack([np.arange(1.0, n + 1.0), np.zeros(n)])


def fit(seed, name, labels, nmi=0.5, note="", half="tune", of="iris", chance=None):
    """Return the row of a fit to a set of N rows."""
    about = dict.fromkeys(ABOUT) | {"group": "bsgd", "set": of, "half": half, "n": N}
    k = None if labels is None else len(np.unique(labels))
    answer = {"labels": labels, "k": k, "nmi": nmi, "agreement": chance, "note": note}
    return about | {"classes": 3, "method": "ours", "seed": seed, "fit": name} | answer


def fits(*seeds, **others):
    """Return the fits of splits: all find the halves of the table, but those that are given."""
    names = dict.fromkeys(name for one, other, _ in KINDS.values() for name in (one, other))
    usual = np.repeat([0, 1], N // 2)
    given = {name.replace("_", " "): labels for name, labels in others.items()}
    return [fit(seed, name, given.get(name, usual)) for seed in seeds for name in names]


def test_halves_and_quarter_are_nested_and_in_the_order_of_the_table():
    X = numbered()
    samples = {name: rows[:, 0].tolist() for name, (rows, _) in changed(X, 3).items()}
    assert sorted(samples["half"] + samples["other half"]) == samples["all"] == X[:, 0].tolist()
    assert (len(samples["half"]), len(samples["quarter"])) == (20, 10)
    assert set(samples["quarter"]) <= set(samples["half"])
    assert all(rows == sorted(rows) for name, rows in samples.items() if "row" not in name)
    assert len(samples["bootstrap"]) == N
    assert 10 < len(set(samples["bootstrap"])) < N
    assert samples["half"] == (np.sort(dealt(N, 3)[:20]) + 1.0).tolist()
    assert samples["half"] != changed(X, 4)["half"][0][:, 0].tolist()


def test_one_row_more_is_a_copy_or_lies_between_a_row_and_another():
    X = np.repeat(numbered(), 2, axis=0)
    found = changed(X, 0)
    copied, new = found["copied row"][0], found["new row"][0]
    assert len(copied) == len(new) == 2 * N + 1
    np.testing.assert_array_equal(copied[:-1], X)
    np.testing.assert_array_equal(new[:-1], X)
    assert (copied[-1] == X).all(axis=1).any()
    assert abs(new[-1, 0] - copied[-1, 0]) == 0.5


def test_one_column_that_varies_is_scaled_for_the_fit_and_for_the_labels():
    X = numbered()
    for seed in range(4):
        learned, asked = changed(X, seed)["scaled column"]
        np.testing.assert_array_equal(learned, X * [FACTOR, 1.0])
        np.testing.assert_array_equal(asked, learned)


def test_sizes_are_compared_on_the_rows_that_both_fits_learned_from():
    other = np.repeat([0, 1], N // 2)
    other[dealt(N, 0)[N // 4 :]] = 2
    rows = comparisons(fits(0, quarter=other))
    ari = {row["kind"]: row["ari"] for row in rows}
    assert list(ari) == list(KINDS)
    assert set(ari.values()) == {1.0}
    assert [row["k"] for row in rows if row["kind"] == "quarter and all"] == [3]
    elsewhere = comparisons(fits(0, half=other))
    differing = {row["kind"] for row in elsewhere if row["ari"] < 1.0}
    assert differing == {"halves", "half and all"}


def test_seeds_are_compared_pair_by_pair_on_all_rows():
    rows = only(comparisons(fits(0, 1, 2)), kind="seeds")
    assert [(row["seed"], row["other_seed"]) for row in rows] == [(0, 1), (0, 2), (1, 2)]
    assert {row["ari"] for row in rows} == {1.0}


def test_a_fit_that_failed_has_no_index_but_a_note():
    found = fits(0)
    for one in found:
        if one["fit"] == "other half":
            one |= {"labels": None, "k": None, "nmi": None, "note": "ValueError: no"}
    (row,) = only(comparisons(found), kind="halves")
    assert (row["ari"], row["nmi"], row["nmi_other"], row["note"]) == (
        None,
        0.5,
        None,
        "ValueError: no",
    )
    (line,) = [one for one in means([row]) if (one["group"], one["half"]) == ("bsgd", "all")]
    assert (line["ari"], line["nmi"], line["flips"]) == (None, 0.5, None)


def test_means_tell_how_often_one_answer_is_one_cluster():
    one = np.zeros(N, int)
    rows = comparisons(fits(0, half=one))
    rows += comparisons(fits(1, half=one, other_half=one))
    found = {(line["kind"], line["group"], line["half"]): line for line in means(rows)}
    line = found["halves", "bsgd", "tune"]
    assert (line["same_k"], line["flips"], line["one_cluster"]) == (0.5, 0.5, 0.5)
    assert (line["ari"], line["ari_error"]) == (pytest.approx(0.5), pytest.approx(0.5))
    assert ("halves", "bsgd", "confirm") not in found
    assert found["bootstrap", "all", "all"]["flips"] == 0.0


def test_agreement_is_compared_with_the_halves_that_have_the_same_answer(tmp_path):
    one, usual = np.zeros(N, int), np.repeat([0, 1], N // 2)
    names = ("half", "other half")
    same = [fit(0, name, usual, chance=0.9) for name in names]
    other = [
        fit(1, name, labels, chance=chance)
        for name, labels, chance in zip(names, (usual, one), (0.3, 1.0), strict=True)
    ]
    rows = [stability.compared("halves", *pair, np.arange(N)) for pair in (same, other)]
    found = stability.fifths([*rows, rows[0] | {"kind": "seeds"}])
    assert [(row["from"], row["fits"]) for row in found] == [(0.2, 1), (0.8, 3)]
    assert [row["measured"] for row in found] == [0.0, pytest.approx(2.0 / 3.0)]
    assert found[1]["said"] == pytest.approx(2.8 / 3.0)
    stability.draw(tmp_path / "calibration.png", found)
    assert (tmp_path / "calibration.png").stat().st_size > 5000


@pytest.mark.parametrize("method", ["k-means", "GMM", "iMDH"])
def test_all_rows_are_labelled_after_every_fit(method, iris):
    fits_of_split = rows_of_split(None, "iris", method, 0)
    assert [row["fit"] for row in fits_of_split] == list(changed(iris[0], 0))
    assert all(len(row["labels"]) == len(iris[0]) for row in fits_of_split)
    rows = comparisons(fits_of_split)
    assert min(row["ari"] for row in rows) > 0.9
    assert {(row["group"], row["half"], row["k"]) for row in rows} == {("bsgd", "tune", 3)}
    assert min(row["nmi"] for row in rows) > 0.9


def test_a_fit_that_fails_says_why():
    model, found = tried_method(METHODS, "k-means", numbered(3), 5, 0)
    assert model is None
    assert found["k"] is None
    assert found["note"].startswith("ValueError: n_samples=3 should be >= n_clusters=5")
