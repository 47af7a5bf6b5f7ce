import re

from distsvc.report.figures import drawing, tree
from tests.report.reports import make_report, make_tree_report, page_text, rendered, typed


def test_sections_with_and_without_a_tree():
    with_tree = re.findall(r"<h2>(.*?)</h2>", rendered(make_tree_report(3)))
    assert with_tree == [
        "Cluster sizes", "What each cluster is", "Rules", "How clear", "Why 3 clusters", "Splits",
        "Validity indices", "Time and memory", "How to run it again",
    ]  # fmt: skip
    without = rendered(make_report())
    for heading in ("Splits", "Why 3 clusters", "Rules", "How clear"):
        assert f"<h2>{heading}</h2>" not in without


def test_a_tree_without_splits():
    report = make_tree_report(1)
    report["tree"]["rules"] = [{"label": 0, "conditions": []}]
    html = rendered(report)
    text = page_text(report)
    assert "There is no split: all rows are in one cluster." in text
    assert "The split in numbers" not in text
    assert "1 cluster, at the elbow: 100 % left" in text
    assert "0 100 % any values" in text
    assert 'aria-label="The tree of splits"' not in html


def test_the_caption_counts_drawn_splits():
    text = page_text(make_tree_report(40))
    assert "The first 11 of 39 splits are drawn" in text
    assert "The 39 splits in numbers" in text
    assert "splits are drawn" not in page_text(make_tree_report(12))


def test_the_caption_says_where_a_cut_curve_ends():
    assert "The curve goes on to 128 clusters." in page_text(make_tree_report(3))
    assert "The curve goes on" not in page_text(make_tree_report(3, longest=30))
    report = make_tree_report(3)
    report["tree"]["curve"] |= {"clusters": [], "share": []}
    assert "Why 3 clusters" not in page_text(report)


def test_rules_are_chains_of_conditions_and_fold_away():
    assert "0 33.3 % 0.81 width + … < 0 and height ≥ 2 1 33.3 %" in page_text(make_tree_report(3))
    assert "<details><summary>20 more rules</summary>" in rendered(make_tree_report(40))
    assert " more rules</summary>" not in rendered(make_tree_report(20))


def test_figure_and_page_have_the_same_colours():
    report = make_tree_report(3)
    report["clusters"].reverse()
    html = rendered(report)
    colours = drawing.cluster_colours(typed(report).clusters)
    assert colours[2] == drawing.COLOURS[2]
    for label, colour in colours.items():
        swatch = (
            f'<span class="swatch" style="background:{drawing.variable(colour)}"></span>{label}<'
        )
        assert html.count(swatch) == 2
    drawn = tree.tree(typed(report).tree.nodes, typed(report).clusters)
    boxes = re.findall(r"fill: (#\w{6}); stroke: \1", drawn)
    assert set(colours.values()) == set(boxes) & set(drawing.COLOURS)
