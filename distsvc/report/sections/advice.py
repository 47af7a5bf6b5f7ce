"""Warnings and doubts in one line each, with the line of a job file that helps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from distsvc.report.content.report import Report
from distsvc.report.formats import one_line

LONGEST = 110
"""Maximum number of characters of a warning that is not folded."""

NUMBER = r"[-−]?\d[\d,.]*(?:e[+-]?\d+)?"


class AdviceRow(NamedTuple):
    """A warning: its first clause, the whole text if that is longer, and what helps.

    `toml` is a line for the section `where` of a job file.
    """

    line: str
    whole: str
    toml: str
    where: str


def rows(texts: Iterable[str], report: Report) -> list[AdviceRow]:
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
    """Return the key that leaves out the one column that divides clusters."""
    found = re.search(r"differ only in (.+)\. To ignore it", text)
    return f"exclude = [{_quoted(found.group(1))}]" if found else ""


def _missing(_: str, report: Report) -> str:
    """Return the policy for missing values that loses least."""
    takes_missing = report.model.algorithm in ("auto", "mixture")
    return f'missing = "{"auto" if takes_missing else "drop"}"'


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _stand_ins(text: str, _: Report) -> str:
    found = re.search(r"missing_values = \[[^]]*\]", text)
    return found.group() if found else ""


def _far_value(text: str, _: Report) -> str:
    """Return the value of far rows as a sentinel, if all have the same."""
    values = set(re.findall(rf" = ({NUMBER})\)", text))
    return f"missing_values = [{values.pop().replace(',', '')}]" if len(values) == 1 else ""


def _nu(_: str, report: Report) -> str:
    return f"nu = {max(report.outliers.share, 0.001):.2g}"


def _found(_: str, report: Report) -> str:
    return f"n_clusters = {len(report.clusters)}"


def _more_steps(_: str, report: Report) -> str:
    steps = report.model.parameters.get("max_iter")
    return f"max_iter = {10 * steps}" if isinstance(steps, int) else ""


ADVICE: tuple[tuple[str, str, str | Callable[[str, Report], str]], ...] = (
    ("missing values were replaced by", "preprocess", _missing),
    ("may stand for missing values", "preprocess", _stand_ins),
    ("set aside, as far from all other rows", "preprocess", _far_value),
    ("a few far rows decide the scale", "preprocess", 'scale = "robust"'),
    ("differ only in", "input", _without_column),
    ("divides rows by their lengths", "preprocess", 'scale = "standard"'),
    ("Weak evidence", "model", 'effort = "thorough"'),
    ("the job did not ask for so many", "model", _nu),
    ("no model can tell", "model", _found),
    ("passes through a valley of the density", "model", "n_clusters = 2"),
    ("the origin lies among the rows", "model", 'algorithm = "linear-svdd"'),
    ("training ended before its tolerance", "model", _more_steps),
    ("share their id with another row", "checks", "unique_id = true"),
)
"""Text of a warning, the section of the job file, and the line that helps."""
