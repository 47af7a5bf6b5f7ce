"""Maximum numbers of items that a report and its page show."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PageLimits:
    """Maximum numbers of shown items; others are folded away, counted, sampled or left out."""

    rows: int = 20  # rows of a table that are not folded away; a single further row is shown, too
    clusters: int = 60  # largest clusters that are compared and have cards; more would load slowly
    cards: int = 6  # cards that are not folded away
    numbered: int = 100  # clusters with a number in a figure
    columns: int = 24  # columns in the table of clusters
    explained: float = 0.01  # explained share of spread below which a column is not informative
    compiled: float = 1.0  # seconds of compilation that are not mentioned
    levels: int = 12  # levels of a column; its other levels are counted together
    changes: int = 6  # listed differences between two answers
    names: int = 8  # ids or columns in a sentence or a table's cell
    history_ids: int = 5  # ids in a cell of the history's table
    nights: int = 31  # latest nights of the history that are not folded away
    listed_rows: int = 5_000  # rows of a table whose labels are in the page
    drawn_rows: int = 3_000  # rows in a figure; a larger table is sampled
    node_rows: int = 300  # rows drawn at a split
    terms: int = 40  # columns in a condition in the table's units
    branches: int = 40  # branches of a level tree in the report; more if more are clusters
    profile_points: int = 40  # points of a branch's outline
    grid_points: int = 120  # points on each axis of a boundary's picture
    vector_components: int = 20  # principal components that describe a vector
    name: int = 60  # characters of a name
    column_name: int = 40  # characters of a column in a cluster's name
    warning: int = 110  # characters of a warning that is not folded away


PAGE_LIMITS = PageLimits()
