"""Warnings and doubts in one line each, with the line of a job file that helps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from distsvc.report.content.report import Report
from distsvc.report.formats import one_line

LONGEST = 110
"""Characters of a warning that is not folded."""

LONGEST_WHOLE, MOST_COLUMNS = 2_000, 12
NUMBER = r"[-−]?\d[\d,.]*(?:e[+-]?\d+)?"


class AdviceRow(NamedTuple):
    """A warning: its first clause, the whole of it where that is longer, and what helps.

    `toml` is a line of a job file, to stand in the section `where`.
    """

    line: str
    whole: str
    toml: str
    where: str


def rows(texts: Iterable[str], report: Report) -> list[AdviceRow]:
    """Return the lines of warnings, whose text is untrusted."""
    found = []
    for text in texts:
        whole = one_line(text, LONGEST_WHOLE)
        line = whole if len(whole) <= LONGEST else one_line(_first(whole), LONGEST)
        where, toml = _helping(whole, report)
        found.append(AdviceRow(line, "" if line == whole else whole, toml, where))
    return found


def _first(text: str) -> str:
    """Return the first clause of a sentence."""
    return re.split(r"; |: these |: row | \(", text, maxsplit=1)[0]


def _helping(text: str, report: Report) -> tuple[str, str]:
    """Return the section and the line that help, empty where none is known."""
    for words, where, line in ADVICE:
        if words in text:
            return where, line if isinstance(line, str) else line(text, report)
    return "", ""


def _with_columns(text: str, report: Report) -> str:
    """Return a list of all features and the first column that a warning names."""
    return _columns(report, [*report.input.columns, *re.findall(r"'(.+?)' \(", text)])


def _without_columns(text: str, report: Report) -> str:
    """Return a list of all features but those that a warning names."""
    named = set(re.findall(r"'(.+?)' (?:alone|makes up)", text))
    _, _, after = text.partition("carry no information: ")
    named |= set(after.split(", "))
    return _columns(report, [name for name in report.input.columns if _stored(name) not in named])


def _columns(report: Report, names: list[str]) -> str:
    """Return a list of the table's columns as TOML; nothing where it would be long.

    Features may be computed from columns: logarithms and categories, which the job file names.
    """
    stored = list(dict.fromkeys(map(_stored, names)))
    computed = [_stored(name) for name in names if _stored(name) != name]
    known = all(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", report.job_file) for name in computed)
    if not known or not 0 < len(stored) <= MOST_COLUMNS:
        return ""
    return f"columns = [{', '.join(map(_quoted, stored))}]"


def _stored(feature: str) -> str:
    """Return the column from which a feature is computed, or the feature itself."""
    found = re.fullmatch(r"(?:log|share)\((.+)\)|(.+?)=.*", feature)
    return feature if found is None else _stored(found.group(1) or found.group(2))


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _stand_ins(text: str, _: Report) -> str:
    found = re.search(r"missing_values = \[[^]]*\]", text)
    return found.group() if found else ""


def _far_value(text: str, _: Report) -> str:
    """Return the value of far rows as one that stands for missing ones, if all have the same."""
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
    ("not used as features", "input", _with_columns),
    ("missing values were replaced by", "preprocess", 'missing = "drop"'),
    ("may stand for missing values", "preprocess", _stand_ins),
    ("constant columns carry no information", "input", _without_columns),
    ("set aside, as far from all other rows", "preprocess", _far_value),
    ("alone divides clusters", "input", _without_columns),
    ("a few far rows decide the scale", "preprocess", 'scale = "robust"'),
    ("divides rows by their lengths", "preprocess", 'scale = "standard"'),
    ("Weak evidence", "model", 'effort = "thorough"'),
    ("how fine one looks", "model", 'granularity = "coarse"'),
    ("density may be the wrong way", "model", 'algorithm = "imdh"'),
    ("the job did not ask for so many", "model", _nu),
    ("no model can tell", "model", _found),
    ("no split is significant", "model", 'granularity = "fine"'),
    ("passes through a valley of the density", "model", "n_clusters = 2"),
    ("the origin lies among the rows", "model", 'algorithm = "linear-svdd"'),
    ("training ended before its tolerance", "model", _more_steps),
    ("share their id with another row", "checks", "unique_id = true"),
)
"""What a warning says, the section of the job file, and the line in it that helps."""
