"""Maximum numbers of items that a report and its page show."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PageLimits:
    """Limits of what a report and its page show, such as the rows of a table.

    Items beyond a limit are folded away, counted, sampled or left out.
    """

    rows: int = 20  # rows of a table before the rest is folded away, unless the rest is one row
    clusters: int = 60  # largest clusters with a card and a place in the comparison of columns
    cards: int = 6  # cards that are not folded away
    numbered: int = 100  # clusters with a number in a figure
    columns: int = 24  # columns in the table of clusters
    explained: float = 0.01  # minimum `ColumnPart.explained` of an informative column
    compiled: float = 1.0  # longest compilation that is not mentioned, in seconds
    levels: int = 12  # levels of a category; all other levels are counted as one
    changes: int = 6  # listed differences between two answers
    names: int = 8  # ids or columns in a sentence or a table's cell
    history_ids: int = 5  # ids in a cell of the history's table
    nights: int = 31  # latest nights of the history that are not folded away
    listed_rows: int = 5_000  # rows of a table whose labels are in the page
    drawn_rows: int = 3_000  # rows in a figure; a larger table is sampled
    node_rows: int = 300  # rows in the picture of a split
    terms: int = 40  # columns in a cluster's condition in the table's units
    branches: int = 40  # branches of a level tree; more if there are more clusters
    profile_points: int = 40  # points of a branch's outline
    grid_points: int = 120  # points on each axis of a boundary's picture
    vector_components: int = 20  # principal components that describe a vector
    name: int = 60  # characters of a name
    column_name: int = 40  # characters of a column in a cluster's name
    warning: int = 110  # characters of a warning that is not folded away


PAGE_LIMITS = PageLimits()
