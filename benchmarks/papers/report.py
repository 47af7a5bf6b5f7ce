"""The evaluation's page: tables with several figures to a cell, and drawings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TITLE = "How good, how fast: every system of the papers"


@dataclass(frozen=True)
class Cell:
    """One cell: its lines, whether it is the best of its row, and why a printed figure is wrong."""

    oracle: float | None = None
    blind: float | None = None
    paper: float | None = None
    best_oracle: bool = False
    best_blind: bool = False
    why: str = ""
    text: str = ""


@dataclass(frozen=True)
class PaperTable:
    """A table of the page.

    Attributes
    ----------
    title, caption : str
    columns : list of str
        Heads of the columns after the first.
    rows : list of (str, list of Cell)
    digits : int
        After the decimal point.
    averages : list of Cell
        The mean of every column over the rows where all systems have a value; none if empty.

    """

    title: str
    caption: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    digits: int = 2
    averages: list[Cell] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Why printed figures cannot be right, one sentence each."""
        found = dict.fromkeys(
            f"{name}, {column}: {cell.why}"
            for name, cells in self.rows
            for column, cell in zip(self.columns, cells, strict=True)
            if cell.why
        )
        return list(found)


class Drawing(NamedTuple):
    """A figure of the page."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class SuiteSection:
    """What the page says of one suite."""

    title: str
    text: list[str]
    """Paragraphs."""
    items: list[PaperTable | Drawing]
    machine: str
    """Where it was measured."""


def render_evaluation(parts: Mapping[str, SuiteSection], protocols: Mapping[str, str]) -> str:
    """Return one self-contained HTML page.

    Parameters
    ----------
    parts
        By the name of the suite.
    protocols
        Name of each protocol and what it means.

    """
    machine = " — ".join(dict.fromkeys(part.machine for part in parts.values()))
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["fixed"] = fixed
    return pages.get_template("evaluation.html").render(
        title=TITLE, parts=parts, protocols=protocols, machine=machine
    )


def fixed(number: float, digits: int) -> str:
    """Return a number with so many digits after the point, fewer where it is large."""
    size = abs(number)
    fewer = 0 if size >= 1000 else min(digits, 1) if size >= 100 else digits
    return f"{round(number, fewer) + 0.0:,.{fewer}f}"  # no minus before 0
