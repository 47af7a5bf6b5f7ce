"""From the rows of the suites to tables: ours, every system as we ran it, the papers' figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import StatisticsError, correlation, mean, variance
from typing import TypeVar

from benchmarks.harness.rows import Row, mean_of
from benchmarks.papers.published import (
    cited,
    impossible,
    indices,
    printed,
    slips,
    systems,
    trivial,
)
from benchmarks.papers.report import Cell, PaperTable
from benchmarks.papers.suites import (
    AS_PRINTED,
    BSGD_SETS,
    BSGD_SYSTEMS,
    CHOSEN_BY,
    IMDH_SETS,
    IMDH_SYSTEMS,
)
from distsvc.metrics import INDICES

PROTOCOLS = {
    "oracle": "The known classes helped: they chose the settings from a grid, or told the number "
    "of clusters. That is how the papers compare, and no user can do it: whoever has the classes "
    "needs no clusters.",
    "blind": "Nothing but the table: defaults, no classes. That is what a user gets.",
}
TESTED = IMDH_SYSTEMS[:6]
"""The systems of Table 2 of Hofmeyr (2021)."""

SECONDS = {
    "training_seconds": "Seconds of training",
    "clustering_seconds": "Seconds of clustering",
    "total_seconds": "Processor seconds in all",
}


T = TypeVar("T")
Means = dict[tuple[str, str, str], float]


def means(rows: Iterable[Row], value: str) -> Means:
    """Return the mean over seeds of a column, by set, system and protocol."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row[value] is not None:
            found[row["set"], row["system"], row["protocol"]].append(row[value])
    return {key: mean(values) for key, values in found.items()}


def comparison(
    title: str,
    caption: str,
    found: Means,
    paper: Mapping[tuple[str, str], float],
    systems: Sequence[str],
    direction: str,
    why: Mapping[tuple[str, str], str] | None = None,
    digits: int = 2,
) -> PaperTable:
    """Return sets down, systems across; a cell has both protocols and the printed figure."""
    sets = list(dict.fromkeys(key[0] for key in found))
    shown = [s for s in systems if any(key[1] == s for key in found)]
    rows = []
    for name in sets:
        cells = []
        bests = {
            protocol: _best([found.get((name, s, protocol)) for s in shown], direction)
            for protocol in PROTOCOLS
        }
        for system in shown:
            oracle, blind = (found.get((name, system, protocol)) for protocol in PROTOCOLS)
            figure = paper.get((name, system))
            cells.append(
                Cell(
                    oracle, blind, figure,
                    _is(oracle, bests["oracle"], digits), _is(blind, bests["blind"], digits),
                    (why or {}).get((name, system), ""),
                )
            )  # fmt: skip
        rows.append((name, cells))
    return PaperTable(title, caption, list(shown), rows, digits, _averages(rows, direction, digits))


def _averages(rows: list[tuple[str, list[Cell]]], direction: str, digits: int) -> list[Cell]:
    """Return the means of the columns, over the sets where the column has the value.

    The paper's mean is over the same sets.
    """
    columns = list(zip(*(cells for _, cells in rows), strict=True))

    def bests(which: str) -> tuple[list[float | None], list[bool]]:
        values = [mean_of(getattr(cell, which) for cell in column) for column in columns]
        whole = [all(getattr(c, which) is not None for c in column) for column in columns]
        best = _best([v for v, w in zip(values, whole, strict=True) if w], direction)
        return values, [w and _is(v, best, digits) for v, w in zip(values, whole, strict=True)]

    (oracle, best_oracle), (blind, best_blind) = bests("oracle"), bests("blind")
    paper = [mean_of(cell.paper for cell in column) for column in columns]
    cells = zip(oracle, blind, paper, best_oracle, best_blind, strict=True)
    return [Cell(*values) for values in cells]


def _best(values: Iterable[float | None], direction: str) -> float | None:
    known = [value for value in values if value is not None]
    if not known or not direction:
        return None
    return min(known) if direction == "lower" else max(known)


def _is(value: float | None, best: float | None, digits: int) -> bool:
    """Return True if a value is the best, or cannot be told from it by the digits shown."""
    return value is not None and best is not None and abs(value - best) < 0.5 * 10.0**-digits


def of_experiments(rows: Sequence[Row], experiments: tuple[str, ...]) -> list[Row]:
    """Return the rows of some experiments, in their order."""
    return [row for row in rows if row["experiment"] in experiments]


def bsgd_tables(rows: Sequence[Row]) -> list[PaperTable]:
    """Return the tables of Pham et al. (2017), the adjusted Rand index, and Pham et al. (2016)."""
    final = _in_order(of_experiments(rows, ("oracle", "blind")))
    tables = []
    for index in ("normalized_mutual_information", "adjusted_rand_index", "purity", "rand_index",
                  "compactness", "davies_bouldin"):  # fmt: skip
        about = INDICES[index]
        said = [slip.reason for slip in slips("pham-2017", index) if not slip.sets]
        if index == "rand_index":
            said.append(_trivial_figures())
        tables.append(
            comparison(
                f"{about.title}, {about.direction} is better",
                " ".join([about.definition, *said]),
                means(final, index),
                also_as_printed(printed("pham-2017", index)),
                BSGD_SYSTEMS,
                about.direction,
                also_as_printed(impossible("pham-2017", index)),
            )
        )
    for column, title in SECONDS.items():
        paper = also_as_printed(printed("pham-2017", column))
        caption = "Mean of the repetitions, one thread, compiled code in memory."
        found = means(final, column)
        tables.append(comparison(title, caption, found, paper, BSGD_SYSTEMS, "lower", digits=3))
    return [*tables, _first_paper(final), conclusions(final), differences(final)]


def also_as_printed(figures: Mapping[tuple[str, str], T]) -> dict[tuple[str, str], T]:
    """Return the paper's figures by set and system, also for the systems `AS_PRINTED`."""
    repeats = {
        (name, ours): figure
        for (name, system), figure in figures.items()
        for ours, theirs in AS_PRINTED.items()
        if theirs == system
    }
    return dict(figures) | repeats


CLAIMS = (
    ("Purity", "purity", "12 of 15"),
    ("NMI", "normalized_mutual_information", "10 of 15"),
    ("Compactness", "compactness", "11 of 15"),
    ("Davies-Bouldin index, where the paper takes larger for better", "davies_bouldin", "15 of 15"),
)
"""Index, and the number of sets on which the text says that BSGD is best (section 5.2)."""

RIVALS = "SVC", "SGD-LMOC", "FSVC"
VARIANTS = "BSGD-R", "BSGD-PNN", "BSGD-PRN"


def conclusions(rows: Sequence[Row]) -> PaperTable:
    """Return the conclusions of Pham et al. (2017), counted in their figures and in ours.

    A set counts if all systems have a value; figures are rounded to two digits, and a tie is won.
    """
    sources = {
        "": lambda index: printed("pham-2017", index),
        ", as printed": lambda index: _oracle(rows, index, ", as printed"),
        " and rivals as we run them": lambda index: _oracle(rows, index, ""),
    }
    lines = []
    for title, index, said in CLAIMS:
        higher = index != "compactness"
        found = [_wins(figures(index), higher) for figures in sources.values()]
        lines.append((f"{title}: BSGD is best", [Cell(text=said), *(Cell(text=t) for t in found)]))
    for title, column, first, second in (
        ("Training: BSGD-R is faster than BSGD-PNN", "training_seconds", "BSGD-R", "BSGD-PNN"),
        ("Training: BSGD-R is faster than BSGD-PRN", "training_seconds", "BSGD-R", "BSGD-PRN"),
        ("Training: BSGD-PRN is faster than BSGD-PNN", "training_seconds", "BSGD-PRN", "BSGD-PNN"),
        ("Training: BSGD-R is faster than SGD-LMOC", "training_seconds", "BSGD-R", "SGD-LMOC"),
        ("Clustering: BSGD-R is faster than SVC", "clustering_seconds", "BSGD-R", "SVC"),
    ):
        found = [_faster(figures(column), first, second) for figures in sources.values()]
        lines.append((title, [Cell(text="yes"), *(Cell(text=t) for t in found)]))
    heads = ["the text", "the printed figures", "ours, as printed", "ours, with our options"]
    caption = "Sets on which it holds, of those where all systems have a value; ties count as won."
    return PaperTable(f"Conclusions of {cited('pham-2017')}", caption, heads, lines)


def _oracle(rows: Sequence[Row], index: str, suffix: str) -> dict[tuple[str, str], float]:
    """Return our means by set and the paper's name of a system, those with a suffix where any."""
    found = means(rows, index)
    sets = dict.fromkeys(key[0] for key in found)
    names = {s: s + suffix if s + suffix in BSGD_SYSTEMS else s for s in (*RIVALS, *VARIANTS)}
    return {
        (name, system): found[name, ours, "oracle"]
        for name in sets
        for system, ours in names.items()
        if (name, ours, "oracle") in found
    }


def _wins(figures: Mapping[tuple[str, str], float], higher: bool) -> str:
    sign, won, known = (1.0 if higher else -1.0), 0, 0
    for name in dict.fromkeys(name for name, _ in figures):
        values = {s: figures.get((name, s)) for s in (*RIVALS, *VARIANTS)}
        if None in values.values():
            continue
        known += 1
        best = {s: round(sign * v, 2) for s, v in values.items() if v is not None}
        won += max(best[s] for s in VARIANTS) >= max(best[s] for s in RIVALS)
    return f"{won} of {known}"


def _faster(figures: Mapping[tuple[str, str], float], first: str, second: str) -> str:
    both = [
        (figures[name, first], figures[name, second])
        for name in dict.fromkeys(name for name, _ in figures)
        if (name, first) in figures and (name, second) in figures
    ]
    return f"{sum(a <= b for a, b in both)} of {len(both)}"


NEAR = 0.05
"""Largest difference of an index that counts as near the printed figure."""


def differences(rows: Sequence[Row], paper: str = "pham-2017") -> PaperTable:
    """Return the differences of our figures from the printed ones, a cell each."""
    names = {s: s for s in systems(paper)} | (AS_PRINTED if paper == "pham-2017" else {})
    protocols = ("oracle", "blind")
    lines = []
    for index in indices(paper):
        if index not in INDICES:
            continue
        ours_as = "nmi_geometric" if paper == "hofmeyr-2021" and index == CHOSEN_BY else index
        found, figures = means(rows, ours_as), printed(paper, index)
        cells = []
        for ours, theirs in names.items():
            pairs = [
                (found[name, ours, protocol], figure)
                for (name, system), figure in figures.items()
                for protocol in protocols
                if system == theirs and (name, ours, protocol) in found
                if protocol == "oracle" or (name, ours, "oracle") not in found
            ]
            cells.append(Cell(text=_difference(pairs)))
        lines.append((INDICES[index].title, cells))
    caption = (
        f"Mean absolute difference, cells within {NEAR:g}, and the correlation over the sets. "
        "Means that agree can hide cells that do not."
    )
    title = f"Differences from the figures of {cited(paper)}"
    return PaperTable(title, caption, list(names), lines)


def _difference(pairs: Sequence[tuple[float, float]]) -> str:
    if not pairs:
        return "–"
    gaps = [abs(a - b) for a, b in pairs]
    near = sum(gap <= NEAR for gap in gaps)
    try:
        r = f"r {correlation(*zip(*pairs, strict=True)):.2f}"
    except StatisticsError:  # fewer than two sets, or equal figures
        r = "r –"
    return f"{mean(gaps):.3f}, {near} of {len(pairs)}, {r}"


def _trivial_figures() -> str:
    """Say which printed Rand indices need no clustering."""
    found = [f"{name}, {system}: {what}" for (name, system), what in trivial("pham-2017").items()]
    return f"Printed figures that say nothing, since others have them too: {'; '.join(found)}."


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """Return rows with the small sets first, as the paper has them."""
    return sorted(rows, key=lambda row: BSGD_SETS.index(row["set"]))


def _first_paper(rows: Sequence[Row]) -> PaperTable:
    """Return Table 1 of Pham et al. (2016), whose systems are both labelled by Algorithm 3."""
    pairs = (("SVC", "SVC, Algorithm 3"), ("SGD-LMOC", "SGD-LMOC"))
    indices = ("total_seconds", "purity", "rand_index", "compactness", "davies_bouldin")
    titles = SECONDS | {name: about.title for name, about in INDICES.items()}
    sets = dict.fromkeys(name for name, _ in printed("pham-2016", "purity"))
    found = {index: means(rows, index) for index in indices}
    here = [name for name in sets if any(key[0] == name for key in found["purity"])]
    lines = []
    for name in here:
        cells = []
        for index, (theirs, ours) in [(i, p) for i in indices for p in pairs]:
            figure = printed("pham-2016", index).get((name, theirs))
            why = impossible("pham-2016", index).get((name, theirs), "")
            oracle = found[index].get((name, ours, "oracle"))
            cells.append(Cell(oracle, None, figure, why=why))
        lines.append((name, cells))
    columns = [f"{titles[i]}, {theirs}" for i in indices for theirs, _ in pairs]
    caption = "Both labelled by Algorithm 3, settings chosen by the classes; the paper's beneath."
    return PaperTable(f"Table 1 of {cited('pham-2016')}: SVC and SGD-LMOC", caption, columns, lines)


def speed_table(rows: Sequence[Row]) -> PaperTable | None:
    """Return the seconds of all systems on shuttle, and how many times BSGD's they are."""
    here = [r for r in of_experiments(rows, ("oracle",)) if r["set"] == "shuttle" and not r["note"]]
    columns = ("training_seconds", "clustering_seconds", "total_seconds")
    found = {c: {key[1]: v for key, v in means(here, c).items()} for c in columns}
    total = found["total_seconds"]
    if "BSGD-PNN" not in total:
        return None
    lines = []
    for system in (s for s in BSGD_SYSTEMS if s in total):
        cells = [Cell(found[c].get(system)) for c in columns]
        for other in ("BSGD-R", "BSGD-PNN", "BSGD-PRN", "BSGD-merge"):
            ratio = total[system] / total[other] if other in total else None
            cells.append(Cell(text="" if ratio is None else f"{ratio:.3g}"))
        lines.append((system, cells))
    heads = ["training, s", "clustering, s", "processor, s"]
    heads += [f"times {name}" for name in ("BSGD-R", "BSGD-PNN", "BSGD-PRN", "BSGD-merge")]
    n = here[0]["rows"]
    caption = f"All {n:,} rows, settings chosen by the classes, one thread, in one run."
    return PaperTable("Seconds on shuttle", caption, heads, lines, 3)


def imdh_tables(rows: Sequence[Row]) -> list[PaperTable]:
    """Return Table 2 of Hofmeyr (2021), in percent, and the seconds of a fit."""
    table = of_experiments(rows, ("table 2",))
    table = sorted(table, key=lambda row: IMDH_SETS.index(row["set"]))
    tables = []
    for index, title in (
        ("nmi_geometric", "NMI, percent, higher is better"),
        ("adjusted_rand_index", "Adjusted Rand index, percent, higher is better"),
    ):
        found = {key: 100.0 * value for key, value in means(table, index).items()}
        printed_as = "adjusted_rand_index" if index.startswith("adj") else CHOSEN_BY
        paper = {key: 100.0 * value for key, value in printed("hofmeyr-2021", printed_as).items()}
        tables.append(
            comparison(
                title, CAPTIONS[index], found, paper, IMDH_SYSTEMS, "higher", digits=1,
            )
        )  # fmt: skip
    for index, title in (("nmi_geometric", "NMI"), ("adjusted_rand_index", "ARI")):
        tables.append(significance(table, index, title))
    tables.append(differences(table, "hofmeyr-2021"))
    title, caption = "Processor seconds", "One fit and its labels, all threads together."
    seconds = means(table, "total_seconds")
    return [*tables, comparison(title, caption, seconds, {}, IMDH_SYSTEMS, "lower", digits=3)]


SIZES = (0.05, 0.01)
"""Sizes of the tests of Table 2 of Hofmeyr (2021): underlined, and bold."""


def significance(rows: Sequence[Row], index: str, title: str) -> PaperTable:
    """Return Table 2 of Hofmeyr (2021) with its t-tests against the best system of each set."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["system"] in TESTED and row[index] is not None:
            values[row["set"]][row["system"]].append(100.0 * row[index])
    lines, leading = [], dict.fromkeys(TESTED, 0)
    for name, by_system in values.items():
        best = max(by_system.values(), key=mean)
        cells = []
        for system in TESTED:
            if system not in by_system:
                cells.append(Cell(text="–"))
                continue
            p = not_lower(by_system[system], best)
            leading[system] += p >= SIZES[1]
            mark = "‡" if p >= SIZES[0] else "†" if p >= SIZES[1] else ""
            cells.append(Cell(text=f"{mean(by_system[system]):.1f}{mark}"))
        lines.append((name, cells))
    lines.append(("sets with † or ‡", [Cell(text=str(leading[s])) for s in TESTED]))
    caption = (
        "‡: not significantly below the best system of the set in Welch's t-test of size 0.05; "
        "†: of size 0.01 only. The paper underlines the former, and prints both bold."
    )
    return PaperTable(f"{title} with t-tests", caption, list(TESTED), lines)


def not_lower(values: Sequence[float], best: Sequence[float]) -> float:
    """Return the p-value of Welch's one-sided t-test that a mean is not below the best one.

    A system without chance has one value, whose variance is 0.
    """
    from scipy.stats import t

    gap = mean(best) - mean(values)
    if gap <= 0.0:
        return 1.0
    errors = [(variance(v) / len(v), len(v) - 1) for v in (values, best) if len(set(v)) > 1]
    if not errors:
        return 0.0
    total = sum(error for error, _ in errors)
    return float(t.sf(gap / total**0.5, total**2 / sum(e**2 / n for e, n in errors)))


CAPTIONS = {
    "nmi_geometric": "Information that clusters and classes share, divided by the geometric mean "
    "of their entropies, which the paper's figures agree with. iMDH, SPDC and dePDDP find the "
    "number of clusters; the others are told that of the classes.",
    "adjusted_rand_index": "Rand index rescaled so that random labels score 0 on average.",
}


def regrets(rows: Sequence[Row], index: str, systems: Sequence[str]) -> dict[str, list[float]]:
    """Return the normalised regrets of every system over the sets (Hofmeyr, 2021, figure 2).

    The regret is the distance to the best system of the set, divided by the worst system's; sets on
    which all are equal have none.
    """
    found = means(of_experiments(rows, ("table 2",)), index)
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for (name, system, _), value in found.items():
        if system in systems:
            scores[name][system] = value
    regret: dict[str, list[float]] = {system: [] for system in systems}
    for by_system in scores.values():
        best, worst = max(by_system.values()), min(by_system.values())
        if len(by_system) == len(systems) and best > worst:
            for system, value in by_system.items():
                regret[system].append((best - value) / (best - worst))
    return {system: values for system, values in regret.items() if values}


def growth_table(rows: Sequence[Row]) -> PaperTable:
    """Return quality, seconds and memory of every peer at every size."""
    lines, systems = [], list(dict.fromkeys(row["system"] for row in rows))
    for name, size in dict.fromkeys((row["set"], row["rows"]) for row in rows):
        here = [row for row in rows if (row["set"], row["rows"]) == (name, size)]
        found = [(s, [row for row in here if row["system"] == s]) for s in systems]
        best = _best((_mean_nmi(fits) for _, fits in found), "higher")
        cells = [
            Cell(text=_growth_cell(fits), best_oracle=_is(_mean_nmi(fits), best, 2))
            for _, fits in found
        ]
        lines.append((f"{name}, {size:,} rows", cells))
    caption = "NMI, seconds, and peak memory in MB above that before the fit (means of the seeds)."
    return PaperTable("Ours and peers", caption, systems, lines)


def _growth_cell(fits: Sequence[Row]) -> str:
    if not fits:
        return "not tried"
    if any(row["note"] for row in fits):
        return next(row["note"] for row in fits if row["note"])
    seconds = mean(row["total_seconds"] for row in fits)
    peak = mean(row["peak_mb"] - row["before_mb"] for row in fits)
    shown = f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.2g}"
    return f"{_mean_nmi(fits):.2f}\n{shown} s\n{peak:,.0f} MB"


def _mean_nmi(fits: Sequence[Row]) -> float | None:
    return mean_of(row["normalized_mutual_information"] for row in fits if not row["note"])


def absent(rows: Sequence[Row], sets: Sequence[str]) -> list[str]:
    """Return one sentence that names the sets without rows, none if there are no such sets."""
    run = {row["set"] for row in rows}
    names = [name for name in sets if name not in run]
    return [f"Not run: {', '.join(names)}."] if names else []


def failures(rows: Sequence[Row]) -> list[str]:
    """Return one sentence for every system and kind of error that its fits raised."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row["note"]:
            kind = ": ".join(row["note"].split(": ")[:2])  # numbers of one fit come after
            found[row["system"], kind[:160]].append(row["set"])
    return [
        f"{len(sets):,} fits of {system} ({', '.join(dict.fromkeys(sets))}): {kind}."
        for (system, kind), sets in found.items()
    ]
