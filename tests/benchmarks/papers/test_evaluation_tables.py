import pytest

from benchmarks.papers import tables
from benchmarks.papers.page import markdown
from benchmarks.papers.report import Cell, PaperTable, SuiteSection, fixed
from benchmarks.papers.tables import comparison, growth_table, means, regrets


def row(name, system, protocol, value, **others):
    return {
        "set": name,
        "system": system,
        "protocol": protocol,
        "value": value,
        "note": "",
    } | others


ROWS = [
    row("iris", "SVC", "oracle", 0.7),
    row("iris", "SVC", "oracle", 0.9),
    row("iris", "SVC", "blind", 0.5),
    row("iris", "FSVC", "oracle", 0.6),
    row("flame", "SVC", "oracle", 0.2),
    row("flame", "FSVC", "oracle", 0.4),
    row("flame", "FSVC", "blind", None),
]


def table(**changes):
    given = {"paper": {("iris", "SVC"): 0.63}, "direction": "higher"} | changes
    found = means(ROWS, "value")
    return comparison("NMI", "", found, systems=("FSVC", "SVC", "iMDH"), **given)


def test_both_protocols_and_the_printed_figure_are_in_one_cell():
    made = table()
    assert made.columns == ["FSVC", "SVC"]
    assert [name for name, _ in made.rows] == ["iris", "flame"]
    cell = made.rows[0][1][1]
    assert (cell.oracle, cell.blind, cell.paper) == (pytest.approx(0.8), 0.5, 0.63)


def test_the_best_of_a_row_is_marked_by_protocol():
    iris, flame = (cells for _, cells in table().rows)
    assert [c.best_oracle for c in iris] == [False, True]
    assert [c.best_blind for c in iris] == [False, True]
    assert [c.best_oracle for c in flame] == [True, False]
    low = table(direction="lower").rows[0][1]
    assert [c.best_oracle for c in low] == [True, False]
    assert not any(c.best_oracle for _, cells in table(direction="").rows for c in cells)


def test_means_of_columns_and_their_best_only_where_all_sets_have_a_value():
    fsvc, svc = table().averages
    assert (fsvc.oracle, svc.oracle) == (pytest.approx(0.5), pytest.approx(0.5))
    assert fsvc.best_oracle
    assert svc.best_oracle
    assert svc.blind == 0.5
    assert not svc.best_blind  # flame has none


def test_impossible_figures_are_marked_and_listed():
    made = table(why={("iris", "SVC"): "0.63 cannot be"})
    assert made.rows[0][1][1].why == "0.63 cannot be"
    assert made.rows[0][1][0].why == ""
    assert made.reasons == ["iris, SVC: 0.63 cannot be"]


def test_regrets_are_0_for_the_best_and_1_for_the_worst():
    rows = [
        row(name, system, "oracle", value, experiment="table 2")
        for name, values in {
            "a": (0.2, 0.4, 0.6),
            "b": (0.5, 0.5, 0.5),
            "c": (0.9, 0.8, 0.1),
        }.items()
        for system, value in zip(("x", "y", "z"), values, strict=True)
    ]
    found = regrets(rows, "value", ("x", "y", "z"))
    assert found["x"] == [1.0, 0.0]
    assert found["y"] == [pytest.approx(0.5), pytest.approx(0.125)]
    assert found["z"] == [0.0, 1.0]


def test_growth_says_what_did_not_end_and_what_was_not_tried():
    about = {
        "normalized_mutual_information": 0.5, "total_seconds": 2.0, "peak_mb": 300.0,
        "before_mb": 100.0,
    }  # fmt: skip
    rows = [row("a", "x", "blind", 0, rows=1000, **about)]
    rows += [row("a", "y", "blind", 0, rows=1000, **about) | {"note": "not done in 300 s"}]
    rows += [row("a", "x", "blind", 0, rows=10_000, **about)]
    made = growth_table(rows)
    cells = {name: [cell.text for cell in cells] for name, cells in made.rows}
    assert cells == {
        "a, 1,000 rows": ["0.50\n2 s\n200 MB", "not done in 300 s"],
        "a, 10,000 rows": ["0.50\n2 s\n200 MB", "not tried"],
    }
    assert [cell.best_oracle for cell in made.rows[0][1]] == [True, False]


def test_speed_is_a_ratio_to_each_strategy():
    seconds = {"SVC": (50.0, 450.0), "BSGD-PNN": (0.5, 1.5), "BSGD-R": (0.5, 0.5)}
    rows = [
        row("shuttle", system, "oracle", 0, experiment="oracle", rows=43_500)
        | {"training_seconds": a, "clustering_seconds": b, "total_seconds": a + b}
        for system, (a, b) in seconds.items()
    ]
    made = tables.speed_table(rows)
    cells = dict(made.rows)
    assert [c.oracle for c in cells["SVC"][:3]] == [50.0, 450.0, 500.0]
    assert [c.text for c in cells["SVC"][3:]] == ["500", "250", "", ""]
    assert "43,500" in made.caption
    assert tables.speed_table(rows[:1]) is None


def test_failures_are_counted():
    notes = ["ValueError: no: 0.1", "ValueError: no: 0.2", "ValueError: else"]
    rows = [row("a", "x", "blind", None) | {"note": note} for note in notes]
    rows.append(rows[0] | {"set": "b"})
    assert tables.failures([*rows, *ROWS]) == [
        "3 fits of x (a, b): ValueError: no.",
        "1 fits of x (a): ValueError: else.",
    ]


def test_sets_without_rows_are_named():
    rows = [row("a", "x", "blind", None)]
    assert tables.absent(rows, ("a", "b", "c")) == ["Not run: b, c."]
    assert tables.absent(rows, ("a",)) == []


def test_markdown_of_a_cell():
    cells = [
        Cell(0.8, 0.5, 0.03, best_oracle=True, why="too low"),
        Cell(text="not tried"),
        Cell(blind=0.7),
    ]
    table = PaperTable("NMI", "Of all.", ["a", "b", "c"], [("iris", cells)])
    part = SuiteSection("T", ["Said."], [table], "one core")
    lines = markdown(part).splitlines()
    assert "| iris | **0.80** / 0.50 (0.03!) | not tried | – / 0.70 |" in lines
    assert "| | a | b | c |" in lines
    assert "Machine: one core" in lines


def test_numbers_have_as_many_digits_as_they_need():
    assert [fixed(x, 2) for x in (0.456, -0.004, 123.456, 12345.6)] == [
        "0.46", "0.00", "123.5", "12,346",
    ]  # fmt: skip


def as_run(name, system, index, value, seed=0):
    return row(name, system, "oracle", 0, seed=seed) | {index: value}


def test_a_conclusion_counts_the_sets_on_which_it_holds(monkeypatch):
    figures = {
        (name, system): value
        for name, values in {
            "a": (0.5, 0.5, 0.2, 0.1, 0.2, 0.504),
            "b": (0.9, 0, 0, 0, 0, 0),
        }.items()
        for system, value in zip((*tables.RIVALS, *tables.VARIANTS), values, strict=True)
    }
    assert tables._wins(figures, higher=True) == "1 of 2"  # .504 ties with .5
    assert tables._wins(figures, higher=False) == "2 of 2"
    del figures["b", "SVC"]
    assert tables._wins(figures, higher=True) == "1 of 1"
    assert tables._faster(figures, "BSGD-R", "BSGD-PNN") == "2 of 2"


def test_conclusions_are_also_of_the_systems_as_printed():
    index = "purity"
    rows = [as_run("a", system, index, 0.5) for system in (*tables.RIVALS, *tables.VARIANTS)]
    rows += [as_run("a", "BSGD-R, as printed", index, 0.3)]
    assert tables._oracle(rows, index, ", as printed")["a", "BSGD-R"] == 0.3
    assert tables._oracle(rows, index, ", as printed")["a", "SVC"] == 0.5
    assert tables._oracle(rows, index, "")["a", "BSGD-R"] == 0.5


def test_differences_are_cell_by_cell():
    assert tables._difference([(0.5, 0.5), (0.6, 0.9), (0.8, 0.82)]).startswith("0.107, 2 of 3, r ")
    assert tables._difference([(0.5, 0.4)]) == "0.100, 0 of 1, r –"
    assert tables._difference([]) == "–"


def test_t_tests_mark_what_is_not_below_the_best():
    index, found = "value", {}
    for system, values in {
        "iMDH": (0.70, 0.71, 0.72),
        "iMDH_k": (0.69, 0.71, 0.72),
        "BICO": (0.30, 0.31, 0.32),
        "dePDDP": (0.71,),
        "SPDC": (0.50,),
    }.items():
        found[system] = [as_run("a", system, index, v, s) for s, v in enumerate(values)]
    made = tables.significance([row for rows in found.values() for row in rows], index, "NMI")
    cells = dict(zip(made.columns, (cell.text for cell in made.rows[0][1]), strict=True))
    assert cells == {
        "iMDH": "71.0‡", "iMDH_k": "70.7‡", "BICO": "31.0", "k-means": "–", "SPDC": "50.0",
        "dePDDP": "71.0‡",
    }  # fmt: skip
    assert [cell.text for cell in made.rows[1][1]] == ["1", "1", "0", "0", "0", "1"]
