"""Words of the page of every run: warnings, doubts, the caption of the picture, indices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from distsvc.metrics import INDICES, Index
from distsvc.report.content.report import ClusterRow, IndexValue, Report, Sample
from distsvc.report.figures import clusters as figures
from distsvc.report.figures.drawing import COLOURS
from distsvc.report.formats import Caption, count, one_line, percent

LONGEST = 110
"""Maximum number of characters of a warning that is not folded."""


class AdviceRow(NamedTuple):
    """A warning: its first clause, the whole text if that is longer, and what helps.

    `toml` are lines for the section `where` of a job file.
    """

    line: str
    whole: str
    toml: str
    where: str


def advice(texts: Iterable[str], report: Report) -> list[AdviceRow]:
    """Return the lines of warnings, whose text is untrusted."""
    found = []
    for text in texts:
        whole = one_line(text, 2_000)
        line = whole
        if len(whole) > LONGEST:  # its first clause
            line = one_line(re.split(r"; |: these |: row | \(", whole, maxsplit=1)[0], LONGEST)
        where, toml = _helping(whole, report)
        found.append(AdviceRow(line, "" if line == whole else whole, toml, where))
    return found


def _helping(text: str, report: Report) -> tuple[str, str]:
    """Return the section and the line that help, empty if none is known."""
    for words, where, line in ADVICE:
        if words in text:
            return where, line if isinstance(line, str) else line(text, report)
    return "", ""


def _without_column(text: str, _: Report) -> str:
    """Return the setting that excludes the single column that separates clusters."""
    found = re.search(r"differ only in (.+)\. To ignore it", text)
    return f"exclude = [{_quoted(found.group(1))}]" if found else ""


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _stand_ins(text: str, _: Report) -> str:
    """Return the setting for sentinels, with a policy for missing values if the text has one."""
    found = re.search(r"missing_values = \[[^]]*\]", text)
    more = '\nmissing = "median"' if "missing = 'median'" in text else ""
    return found.group() + more if found else ""


def _far_rows(text: str, _: Report) -> str:
    """Return the setting that the text advises: logarithms of columns, else a robust scale."""
    found = re.search(r": use preprocess\.log = \[([^]]*)\]", text)
    names = re.findall(r"'([^']*)'", found.group(1)) if found else []
    return f"log = [{', '.join(map(_quoted, names))}]" if names else 'scale = "robust"'


def _nu(_: str, report: Report) -> str:
    return f"nu = {max(report.outliers.share, 0.001):.2g}"


def _found(_: str, report: Report) -> str:
    return f"n_clusters = {len(report.clusters)}"


def _more_steps(_: str, report: Report) -> str:
    steps = report.model.parameters.get("max_iter")
    return f"max_iter = {10 * steps}" if isinstance(steps, int) else ""


ADVICE: tuple[tuple[str, str, str | Callable[[str, Report], str]], ...] = (
    ("may stand for missing values", "preprocess", _stand_ins),
    ("extreme values decide the scale", "preprocess", _far_rows),
    ("differ only in", "input", _without_column),
    ("divides rows by their lengths", "preprocess", 'scale = "standard"'),
    ("Weak evidence", "model", 'effort = "thorough"'),
    ("the job did not ask for so many", "model", _nu),
    ("no model can tell", "model", _found),
    ("the origin lies among the rows", "model", 'algorithm = "linear-svdd"'),
    ("training ended before its tolerance", "model", _more_steps),
)
"""Text of a warning, the section of the job file, and the line that helps."""


def warnings(report: Report) -> list[AdviceRow]:
    """Return the warnings for the top of the page: all but doubts, which have their own part."""
    doubts = report.levels.doubts if report.levels else []
    return advice([one for one in report.warnings if one not in doubts], report)


def doubts(report: Report) -> list[AdviceRow]:
    """Return reasons to doubt the answer, or to try another tool."""
    found = report.levels.doubts if report.levels else []
    return advice([one for one in found if one.strip()][:12], report)


def caption(report: Report) -> Caption:
    """Return the rows that the picture shows, their plane, and the rows that are left out."""
    sample, some = report.sample, report.clusters
    n_rows, drawn = report.input.n_rows, len(sample.x)
    rows = f"All {count(drawn)}" if drawn >= n_rows else f"{count(drawn)} of {count(n_rows)}"
    sentences = [f"{rows} rows, {_plane(report)}."]
    if sample.beyond:
        outside = "outside and " if report.outliers.defined else ""
        sentences.append(f"{count(sample.beyond)} more lie {outside}beyond the frame.")
    more = []
    if sample.explained:
        first, second = sample.explained
        more.append(
            f"The two components hold {percent(first + second)} of the variance"
            f"{' of the rows inside' if report.outliers.defined else ''} "
            f"({percent(first)} and {percent(second)})."
        )
    if sample.kind in ("pca", "clusters") and len(some) > 1:
        more.append("Clusters that overlap here may lie apart in other directions.")
    if len(some) > figures.MAX_NUMBERED:
        more.append(f"The {figures.MAX_NUMBERED} largest clusters are numbered.")
    if len(some) > len(COLOURS):
        more.append(
            f"Colours repeat after {len(COLOURS)} clusters, and a number that finds no room beside "
            "its cluster is left out."
        )
    return Caption(" ".join([*sentences, *_unseen(sample, some)]), " ".join(more))


def _plane(report: Report) -> str:
    sample = report.sample
    n_features = count(report.input.n_features)
    if sample.kind == "pca":
        return f"along the first two principal components of the {n_features} columns"
    if sample.kind == "clusters":
        return (
            f"along the two directions of the {n_features} columns in which the clusters lie "
            "farthest apart for their width"
        )
    if sample.kind == "single":
        score = one_line(sample.axes[1], 80)
        return f"the column's value to the right and the {score} upwards"
    return "by the two columns"


def _unseen(sample: Sample, some: Sequence[ClusterRow]) -> list[str]:
    unseen = len({row.label for row in some} - set(sample.label))
    if not unseen:
        return []
    return [f"{count(unseen)} cluster{' has' if unseen == 1 else 's have'} no row here."]


def indices(found: Mapping[str, IndexValue]) -> list[tuple[Index, IndexValue]]:
    """Return indices with their descriptions; indices of `distsvc.metrics` come first."""
    names = [name for name in INDICES if name in found]
    names += [name for name in found if name not in INDICES]
    return [(INDICES.get(name, Index(name, "", "")), found[name]) for name in names]


def index_value(entry: IndexValue) -> str:
    """Format a validity index, with its standard error where it has one."""
    if entry.value is None:
        return "not defined"
    return f"{entry.value:,.4g}" + (f" ± {entry.error:.1g}" if entry.error else "")
