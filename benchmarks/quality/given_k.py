"""Clustering with the number of clusters given: ours beside what people use for that.

Every method gets the prepared columns and the number of classes. Labels only score. Standard errors
are those over seeds; what has no seed has none.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from itertools import product
from pathlib import Path

from benchmarks.harness.measure import measured, publish
from benchmarks.harness.rows import Row, grouped, only, pivot, show
from benchmarks.harness.systems import prepare
from benchmarks.papers.suites import IMDH_SETS
from benchmarks.quality.without_labels import (
    ALL,
    GROUPS,
    SCORES,
    Families,
    about_sample,
    by_set,
    common,
    fits_of,
    known,
    means_of_groups,
    method,
    names_of,
    sample,
    scored,
    systems_of,
    tried_method,
    with_earlier,
)

K_GROUPS = GROUPS | {"imdh": IMDH_SETS}
METHODS: Families = {
    "ours": {"ours": method("level tree, K")},
    "auto": {"auto": method("auto, K")},
    "imdh": {"iMDH_k": method("iMDH_k, ours")},
    "kmeans": {"k-means": method("k-means", n_init=10, init="k-means++")},
    "ward": {"Ward": method("Ward")},
    "gmm": {"GMM": method("GMM")},
    "genie": {"Genie": method("Genie")},
    "spectral": {"spectral": method("spectral")},
}
OURS = ("ours", "auto", "iMDH_k")


def given_k(options: Namespace) -> None:
    """Clustering into as many clusters as there are classes: the sets of `blind`, and iMDH's.

    k-means has ten starts, the mixture of Gaussians five and full covariances, Genie and Ward have
    their defaults. Spectral clustering has the graph of the ten nearest neighbours; with its
    default, a Gaussian of gamma = 1, it does not end in minutes on many columns. Of the 27 tables
    of the group imdh, as of all sets, 3,000 rows at most are used, drawn once; mnist's pixels are
    30 principal components of those. What a method had on a set the last time it ran stays in the
    result until it runs there again; the column `day` tells when.
    """
    sets = [name for group in K_GROUPS.values() for name in group]
    names = known(options.sets, sets, "set")
    fits = fits_of(options, METHODS)
    tasks = [(options.data, name, *fit) for name, fit in product(names, fits)]
    begin = partial(prepare, systems_of(fits, METHODS))
    rows = measured(rows_of_fit, tasks, options.processes, begin)
    rows = with_earlier(options.out / "given_k.csv", rows, sets, names_of(METHODS))
    report(rows)
    publish(options.out, "given_k", rows)


def rows_of_fit(data: Path, name: str, what: str, seed: int | None) -> list[Row]:
    """Return the row of the result that is about one fit; one that fails has a note instead."""
    X, y, _ = sample(data, name)
    about = about_sample(K_GROUPS, data, name) | {"method": what, "seed": seed}
    model, found = tried_method(METHODS, what, X, about["classes"], seed)
    scores = dict.fromkeys(SCORES) if model is None else scored(y, model.labels_)
    return [about | scores | found]


def report(rows: list[Row]) -> None:
    """Print the tables set by set, the means over groups, and ours beside the best of the peers."""
    for group, index in product(K_GROUPS, ("nmi", "ari")):
        wide = by_set(rows, group, index)
        show(f"{index.upper()} on {group}, means over seeds", wide)
    show("Seconds of a fit", pivot(rows, ("set", "n", "d", "classes"), "method", "seconds"))
    for row in rows:
        if row["nmi"] is None:
            print(f"  {row['set']}, {row['method']}: {row['note']}")
    show("Means over the sets", only(means_of_groups(rows, K_GROUPS), half=ALL))
    lines = beside_best(only(means_of_groups(common(rows), K_GROUPS), half=ALL))
    show("Ours beside the best of the peers; bar: above 0 in every group", lines)


def beside_best(means: list[Row]) -> list[Row]:
    """Return by how much ours exceed the best peer of each group, in NMI and ARI."""
    lines = []
    for (group,), alike in grouped(means, ("group",)).items():
        of = {row["method"]: row for row in alike}
        peers = [name for name in of if name not in OURS]
        for what, index in product((name for name in OURS if name in of), ("nmi", "ari")):
            best = max(peers, key=lambda name: of[name][index], default=None)
            if best is not None:
                less = of[what][index] - of[best][index]
                lines.append(
                    {"group": group, "method": what, "index": index, "mean": of[what][index]}
                    | {"best_peer": best, "its_mean": of[best][index], "less": less}
                )
    return lines
