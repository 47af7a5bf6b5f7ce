"""Every system that is compared: how it is made, and the grid that the papers search for it.

| papers | here |
|---|---|
| SVC: LIBSVM and the complete graph (Pham et al. 2017, section 5.2) | `SVC`, with nu = 1 / (C n) |
| SVC labelled by Algorithm 3 (Pham, Le, Le and Tran 2016) | `SVC, Algorithm 3` |
| FSVC; p and epsilon | `FSVC`; ``merge_radius`` and ``ball_radius`` |
| SGD-LMOC (SGD-LMSVC in its paper) | `SGD-LMOC` |
| SGD-LMOC, BSGD-R, BSGD-PNN, BSGD-PRN as printed | `SGD-LMOC, as printed` and so on |
| BSGD-R, BSGD-PNN, BSGD-PRN with our options | the same |
| C-Means, Fuzzy C-Means (the same, figures 1 to 3) | `c-means`, `fuzzy c-means` |
| iMDH, iMDH_k, BICO, k-means, SPDC, dePDDP (Hofmeyr 2021) | the same |

A system that is given the number of classes, or whose settings are chosen by the classes, is run by
the protocol "oracle"; one that sees the table alone by the protocol "blind".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness.measure import timed
from distsvc.errors import ParameterError

Point = dict[str, Any]
"""Settings of a system by name, as its estimator takes them."""


POWERS = tuple(2.0**e for e in range(-5, 6, 2))
"""The grid of gamma and of C, Pham, Le and Dang (2017), section 5.2."""

TENTHS = tuple(round(0.1 * k, 1) for k in range(1, 11))
"""The grid of FSVC's two radii."""

GRID_ROWS = 2000
BALLS_ROWS = 1000
"""Rows on which the grid is searched where the cost grows with their square: SVC and SGD; FSVC."""

STARTS = 5
"""Of a mixture of Gaussians."""

BUDGET = 50
"""Of the support vectors: Pham, Le and Dang (2017), Tables 2 to 8."""


class Facts(NamedTuple):
    """What a system may be told of a fit."""

    n: int
    """Rows of the set."""
    classes: int
    budget: int
    """Support vectors, where a system has a budget."""


@dataclass(frozen=True)
class System:
    """One system.

    Attributes
    ----------
    name : str
        As the papers print it.
    make : callable
        ``make(facts, seed, **point)`` returns an estimator; `facts` are the `Facts` of the fit.
    grid : tuple of dict
        Points among which the classes choose by the protocol "oracle"; none when the system has no
        settings to be chosen.
    blind, oracle : dict or None
        The point of that protocol where there is no grid; None: the system has no such protocol.
    seeded : bool
        Whether a seed changes the answer; if not, one repetition is enough.
    grid_rows : int or None
        Most rows on which the grid is searched.
    sweep : tuple of dict
        Settings of the labelling that are tried for every point of the grid, on the same trained
        model.

    """

    name: str
    make: Callable[..., Any]
    grid: tuple[Point, ...] = ()
    blind: Point | None = field(default_factory=dict)
    oracle: Point | None = None
    seeded: bool = True
    grid_rows: int | None = None
    sweep: tuple[Point, ...] = ()

    @property
    def alone(self) -> tuple[str, Point]:
        """The protocol and the point where nothing is searched: blind, if the system can be."""
        return ("oracle", self.oracle or {}) if self.blind is None else ("blind", self.blind)


def support_vector(facts: Facts, seed: int, **point: Any) -> Any:
    """Return SGD-LMOC or one of BSGD-LMOC: C is C times n (Pham et al., 2016, section 4)."""
    from distsvc import SupportVectorClustering

    if "C" in point:
        point["C"] *= facts.n
    if point.get("solver") != "sgd":
        point["budget"] = facts.budget
    return SupportVectorClustering(random_state=seed, **{"labelling": "equilibria"} | point)


def printed_support_vector(facts: Facts, seed: int, **point: Any) -> Any:
    """Return SGD-LMOC or BSGD-LMOC with the settings of its paper; C as in `support_vector`."""
    from distsvc import SupportVectorClustering

    settings = {"budget": facts.budget} | point | {"C": point["C"] * facts.n}
    return SupportVectorClustering.published(random_state=seed, **settings)


def sphere(facts: Facts, seed: int, **point: Any) -> Any:
    """Return a model of the exact solver; C bounds the multipliers, whose sum is 1."""
    from distsvc import SupportVectorClustering

    if "C" in point:
        point["nu"] = min(1.0, 1.0 / (min(point.pop("C"), 1.0) * facts.n))
    return SupportVectorClustering(solver="exact", random_state=seed, **point)


def estimator(path: str, told: str = "", seeded: bool = True, **always: Any) -> Callable[..., Any]:
    """Return what makes an estimator that stands at ``module:name``, which is imported when made.

    Parameters
    ----------
    path
        ``sklearn.cluster:KMeans``.
    told
        The parameter that takes the number of classes, unless the point has it; none if empty.
    seeded
        Whether it takes a seed as ``random_state``.
    always
        Settings, unless the point has others.

    """

    def make(facts: Facts, seed: int, **point: Any) -> Any:
        settings = always | ({told: facts.classes} if told else {})
        settings |= {"random_state": seed} if seeded else {}
        return resolve_name(path)(**settings | point)

    return make


def hyperplanes(facts: Facts, seed: int, *, told: bool, published: bool, **point: Any) -> Any:
    """Return iMDH, or iMDH_k where it is told the number of classes."""
    from distsvc import IncrementalMDH

    make = IncrementalMDH.published if published else IncrementalMDH
    return make(n_clusters=facts.classes if told else None, random_state=seed, **point)


class Mixture:
    """A Gaussian mixture with full covariances, the best of five starts, that has labels."""

    def __init__(self, n_components: int, seed: int):
        self.n_components, self.random_state = n_components, seed

    def fit(self, X: np.ndarray) -> Mixture:
        """Fit the mixture and give every row its likeliest component."""
        from sklearn.mixture import GaussianMixture

        self._mixture = GaussianMixture(
            self.n_components, n_init=STARTS, random_state=self.random_state
        )
        self.labels_ = self._mixture.fit_predict(X)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the likeliest component (n,) of every row of X (n, d)."""
        return self._mixture.predict(X)


def mixture(facts: Facts, seed: int) -> Any:
    """Return a mixture of as many Gaussians as there are classes."""
    return Mixture(facts.classes, seed)


class Embedded:
    """HDBSCAN of UMAP's two coordinates of the rows, as people cluster vectors; it has labels."""

    def __init__(self, seed: int):
        from umap import UMAP

        self._umap = UMAP(n_neighbors=15, min_dist=0.0, n_components=2, random_state=seed)

    def fit(self, X: np.ndarray) -> Embedded:
        """Embed the rows and cluster them; noise has the label -1."""
        from sklearn.cluster import HDBSCAN

        places = self._umap.fit_transform(X)
        self.labels_ = HDBSCAN(min_cluster_size=max(len(X) // 100, 5), copy=True).fit_predict(
            places
        )
        return self


def embedded(facts: Facts, seed: int) -> Any:
    """Return HDBSCAN after UMAP, where umap-learn is installed."""
    return Embedded(seed)


def fuzzy(facts: Facts, seed: int, *, told: bool) -> Any:
    """Return fuzzy c-means, told the number of classes or with its default."""
    from distsvc.baselines import FuzzyCMeans

    return FuzzyCMeans(**({"n_clusters": facts.classes} if told else {}), random_state=seed)


WIDTHS = tuple({"gamma": g, "C": c} for g, c in product(POWERS, POWERS))
SPHERES = tuple({"gamma": g, "C": c} for g, c in product(POWERS, (*POWERS[:3], 1.0)))
GRAPHS = ({"bridging": True}, {"bridging": False})
RULES: tuple[Point, ...] = ({}, {"stopping": "step-norm"})
RADII = tuple({"merge_radius": p, "ball_radius": e} for p, e in product(TENTHS, TENTHS))
PAPERS = {"stopping": "step-norm", "bridging": False}


def _budgeted(name: str, maintenance: str) -> System:
    grid = tuple(
        {"maintenance": maintenance} | rule | point for rule, point in product(RULES, WIDTHS)
    )
    blind = {"maintenance": maintenance}
    return System(name, support_vector, grid, blind, sweep=GRAPHS)


def _as_printed(name: str, **settings: Any) -> System:
    grid = tuple(settings | point for point in WIDTHS)
    return System(
        f"{name}, as printed",
        printed_support_vector,
        grid,
        blind=None,
        oracle=settings | {"gamma": 2.0, "C": 2.0},
        grid_rows=GRID_ROWS if settings.get("solver") == "sgd" else None,
    )


def _exact(name: str, labelling: str, *, seeded: bool, sweep: tuple[Point, ...] = ()) -> System:
    blind = {"labelling": labelling} | ({"bridging": False} if labelling == "equilibria" else {})
    grid = tuple(blind | point for point in SPHERES)
    rows = BALLS_ROWS if sweep else GRID_ROWS
    return System(name, sphere, grid, blind, seeded=seeded, grid_rows=rows, sweep=sweep)


def _hyperplanes(name: str, *, published: bool) -> tuple[System, System]:
    blind = {"told": False, "published": published}
    told = blind | {"told": True}
    return (
        System(name, hyperplanes, blind=blind),
        System(name.replace("iMDH", "iMDH_k"), hyperplanes, blind=None, oracle=told),
    )


def _default(name: str, path: str, *, told: str = "", seeded: bool = True, **always: Any) -> System:
    """Return a system of which no setting is searched, told the number of classes or blind."""
    make = estimator(path, told, seeded, **always)
    return System(
        name, make, blind=None if told else {}, oracle={} if told else None, seeded=seeded
    )


K, NEIGHBOURS, SMALLEST = "n_clusters", "nearest_neighbors", {"min_cluster_size": 5}
K_MEANS = estimator("sklearn.cluster:KMeans", told=K)
SYSTEMS = {
    system.name: system
    for system in (
        _exact("SVC", "complete-graph", seeded=False),
        _exact("SVC, Algorithm 3", "equilibria", seeded=False),
        _exact("FSVC", "balls", seeded=True, sweep=RADII),
        System(
            "SGD-LMOC",
            support_vector,
            tuple({"solver": "sgd"} | PAPERS | point for point in WIDTHS),
            {"solver": "sgd"} | PAPERS,
            grid_rows=GRID_ROWS,
        ),
        _as_printed("SGD-LMOC", solver="sgd"),
        _as_printed("BSGD-R", maintenance="removal"),
        _as_printed("BSGD-PNN", maintenance="project-nearest"),
        _as_printed("BSGD-PRN", maintenance="project-random"),
        _budgeted("BSGD-R", "removal"),
        _budgeted("BSGD-PNN", "project-nearest"),
        _budgeted("BSGD-PRN", "project-random"),
        _budgeted("BSGD-merge", "merge"),
        _default("level tree", "distsvc:SupportVectorClustering"),
        _default("level tree, K", "distsvc:SupportVectorClustering", told=K),
        _default("auto", "distsvc:AutoClustering"),
        _default("auto, K", "distsvc:AutoClustering", told=K),
        System("c-means", K_MEANS, blind={"n_clusters": 8, "n_init": 10}, oracle={"n_init": 10}),
        System("fuzzy c-means", fuzzy, blind={"told": False}, oracle={"told": True}),
        *_hyperplanes("iMDH", published=True),
        *_hyperplanes("iMDH, ours", published=False),
        System("k-means", K_MEANS, blind=None, oracle={"n_init": 1, "init": "random"}),
        System("GMM", mixture, blind=None, oracle={}),
        _default("BICO", "distsvc.baselines:BICO", told=K),
        _default("SPDC", "distsvc.baselines:SPDC"),
        _default("dePDDP", "distsvc.baselines:DePDDP", seeded=False),
        _default("mini-batch k-means", "sklearn.cluster:MiniBatchKMeans", told=K, n_init=3),
        _default("BIRCH", "sklearn.cluster:Birch", told=K, seeded=False),
        _default("Ward", "sklearn.cluster:AgglomerativeClustering", told=K, seeded=False),
        _default("Genie", "genieclust:Genie", told=K, seeded=False),
        _default("spectral", "sklearn.cluster:SpectralClustering", told=K, affinity=NEIGHBOURS),
        _default("HDBSCAN", "sklearn.cluster:HDBSCAN", seeded=False, **SMALLEST, copy=True),
        _default("fast_hdbscan", "fast_hdbscan:HDBSCAN", seeded=False, **SMALLEST),
        System("UMAP, HDBSCAN", embedded, blind={}),
    )
}
"""Every system by its name."""


def made(system: str, facts: Facts, seed: int, **point: Any) -> Any:
    """Return the estimator of a system, with the settings of its protocol and these."""
    entry = SYSTEMS[system]
    return entry.make(facts, seed, **entry.alone[1] | point)


@lru_cache(maxsize=64)
def warm_up(system: str, n_columns: int) -> None:
    """Fit a system to random rows, so that loading and compiling are not in the times.

    A published boundary may have no rows. Then the kernels of its ascent are left out.
    """
    rows = np.random.default_rng(0).normal(size=(200, n_columns))
    with threadpool_limits(1), suppress(ParameterError):
        timed(made(system, Facts(200, 2, BUDGET), 0).fit, rows)


def prepare(systems: Iterable[str]) -> None:
    """Load the libraries of systems, compile the kernels, keep the process to one thread."""
    for system in systems:
        warm_up(system, 2)
    threadpool_limits(1)  # of the libraries that are loaded by now
