import copy
import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from test_page import Page, make_report

from distsvc.report import figures, tree
from distsvc.report.page import answer, render_page

SVG = "{http://www.w3.org/2000/svg}"


def make_nodes(n_clusters, n_rows=4800, chain=False, names=("width", "height", "depth")):
    """Split the cluster with most rows in the middle, or the last one off, until there are k."""
    rng = np.random.default_rng(0)
    rows, leaves = {1: n_rows}, [1]
    ranks = {}
    while len(leaves) < n_clusters:
        split = leaves[-1] if chain else max(leaves, key=lambda i: (rows[i], -i))
        ranks[split] = len(ranks) + 1
        rows |= {2 * split: rows[split] // 2, 2 * split + 1: rows[split] - rows[split] // 2}
        leaves.remove(split)
        leaves += [2 * split, 2 * split + 1]
    labels = {i: label for label, i in enumerate(sorted(leaves, key=lambda i: (-rows[i], i)))}
    x = np.linspace(-3, 3, 61)
    nodes = []
    for i in sorted(rows):
        node = {"id": i, "parent": i // 2 or None, "rows": rows[i], "share": rows[i] / n_rows}
        if i in labels:
            node["label"] = labels[i]
        else:
            y = np.exp(-2 * (x - 1.5) ** 2) + np.exp(-2 * (x + 1.5) ** 2)
            sample = np.round(rng.choice([-1.5, 1.5], 30) + rng.normal(0, 0.4, 30), 3)
            below = [label for leaf, label in labels.items() if is_below(leaf, i)]
            node |= {
                "below": 2 * i, "above": 2 * i + 1, "rank": ranks[i], "gain": 0.5 / ranks[i],
                "valley": 0.125, "split": 0.0, "others": 4,
                "direction": [{"column": name, "weight": -0.81 / (j + 1)}
                              for j, name in enumerate(names)],
                "density": {"x": x.tolist(), "y": y.tolist()},
                "sample": {"x": sample.tolist(), "label": rng.choice(below, 30).tolist()},
            }  # fmt: skip
        nodes.append(node)
    return nodes


def is_below(node, ancestor):
    while node > ancestor:
        node //= 2
    return node == ancestor


def make_tree_report(n_clusters, longest=128, **kwargs):
    report = make_report(n_clusters, n_rows=12_000, outside=0)
    for row in report["clusters"]:
        del row["outliers"]
    report["outliers"] |= {"defined": False, "meaning": "Each row has a <cluster>."}
    report["score_histogram"] |= {
        "title": "distance to the nearest hyperplane", "boundary": None, "heading": "How clear",
    }  # fmt: skip
    clusters = list(range(1, longest + 1))
    report["tree"] = {
        "nodes": make_nodes(n_clusters, **kwargs),
        "curve": {"clusters": clusters, "share": [1 / k for k in clusters],
                  "chosen": n_clusters, "by": "elbow"},
        "rules": [{"label": k, "conditions": [f"0.81 width + … < {k}", "height ≥ 2"]}
                  for k in range(n_clusters)],
    }  # fmt: skip
    return report


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def drawn_tree(nodes):
    clusters = [{"label": label} for label in range(len(nodes))]
    return [text.replace("\u00a0", " ") for text in texts(tree.tree(nodes, clusters))]


def page_text(report):
    return Page(render_page(report)).text.replace("\u00a0", " ")


def test_sections_with_and_without_a_tree():
    with_tree = re.findall(r"<h2>(.*?)</h2>", render_page(make_tree_report(3)))
    assert with_tree == [
        "The clusters", "Cluster sizes", "The splits", "How many clusters", "Rules", "How clear",
        "Validity indices", "Time and memory", "What was run",
    ]  # fmt: skip
    without = render_page(make_report())
    for heading in ("The splits", "How many clusters", "Rules", "How clear"):
        assert f"<h2>{heading}</h2>" not in without


@pytest.mark.parametrize(("n_clusters", "chain"), [(2, False), (10, True), (40, False)])
def test_page_is_well_formed_and_the_same_again(n_clusters, chain):
    report = make_tree_report(n_clusters, chain=chain)
    before = copy.deepcopy(report)
    html = render_page(report)
    assert report == before
    assert render_page(report) == html
    ids = [content for name, content in Page(html).attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = re.findall(r'(?:href="#|url\(#)([^")]+)', html)
    assert set(targets) <= set(ids)


def test_no_split_is_said_in_words():
    report = make_tree_report(1)
    report["tree"]["rules"] = [{"label": 0, "conditions": []}]
    html = render_page(report)
    text = page_text(report)
    assert "There is no split: all rows are in one cluster." in text
    assert "in numbers" not in text
    assert "1 cluster, at the elbow: 100 % left" in text
    assert "0 100 % any values" in text
    assert 'aria-label="The tree of splits"' not in html


def test_every_split_and_cluster_of_a_small_tree_is_drawn():
    drawn = drawn_tree(make_nodes(3))
    assert sorted(drawn) == sorted([
        "1", "n = 4,800, 100 %", "−0.81 width − 0.41 height …",
        "2", "n = 2,400, 50.0 %", "−0.81 width − 0.41 height …",
        "0", "50.0 %", "1", "25.0 %", "2", "25.0 %",
    ])  # fmt: skip


@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize("n_clusters", [12, 13, 40, 128])
def test_clusters_below_the_drawn_splits_are_counted(n_clusters, chain):
    drawn = drawn_tree(make_nodes(n_clusters, n_rows=10**6, chain=chain))
    assert sum(text.startswith("n = ") for text in drawn) == tree.MAX_LEAVES - 1
    bundles = [int(text.split()[0]) for text in drawn if text.endswith(" clusters")]
    single = tree.MAX_LEAVES - len(bundles)
    assert sum(bundles) + single == n_clusters
    assert all(bundle > 1 for bundle in bundles)
    if n_clusters == 12:
        assert bundles == []
    elif chain:
        assert bundles == [n_clusters - 11]


def test_the_most_important_splits_are_drawn():
    nodes = make_nodes(40)
    text = page_text(make_tree_report(40))
    places = tree._places(nodes)
    assert sorted(place.node["rank"] for place in places if place.split) == list(range(1, 12))
    assert tree.shown_splits(nodes) == 11
    assert "The first 11 of 39 splits are drawn" in text
    assert "The 39 splits in numbers" in text
    assert "splits are drawn" not in page_text(make_tree_report(12))


@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize("n_clusters", [2, 5, 12, 40])
def test_what_is_on_one_level_lies_apart(n_clusters, chain):
    places = tree._places(make_nodes(n_clusters, n_rows=10**6, chain=chain))
    for level in range(max(place.level for place in places) + 1):
        row = [place for place in places if place.level == level]
        assert all(a.right <= b.left for a, b in itertools.pairwise(row))
    narrowest = min(place.right - place.left for place in places) * tree._leaf_width(places)
    assert narrowest > tree.CHIP_WIDTH


def test_numbers_of_the_splits():
    text = page_text(make_tree_report(3))
    assert "Split Rows Removes Valley Direction" in text
    assert "1 4,800 50.0 % 0.12 −0.81 width − 0.41 height − 0.27 depth and 4 more" in text
    assert "sample of 4,800." in text


def test_directions_fit_their_room():
    node = make_nodes(2)[0] | {"others": 0}
    assert tree.direction(node) == "−0.81 width − 0.41 height − 0.27 depth"
    assert tree.direction(node, 2) == "−0.81 width − 0.41 height …"
    assert tree.direction(node, 2, 15) == "−0.81 width …"
    assert tree.direction(node, 2, 9) == "−0.81 wi…"
    wide = node | {"direction": [{"column": "列" * 50, "weight": 0.5}]}
    assert tree.direction(wide, 2, 11) == "0.50 列列…"
    assert tree.direction(node | {"direction": []}, 2, 11) == ""


@pytest.mark.parametrize(
    ("chosen", "longest", "by", "expected", "end"),
    [
        (9, 128, "elbow", "9 clusters, at the elbow: 11.1 % left", 30),
        (20, 128, "n_clusters", "20 clusters, as asked for: 5.0 % left", 60),
        (12, 16, "<b>$x$\nown", "12 clusters, <b>$x$ own: 8.3 % left", 16),
        (1, 1, "elbow", "1 cluster, at the elbow: 100 % left", 1),
    ],
)
def test_chosen_number_of_clusters_is_marked(chosen, longest, by, expected, end):
    clusters = list(range(1, longest + 1))
    drawn = texts(tree.curve(clusters, [1 / k for k in clusters], chosen, by))
    assert expected in [text.replace("\u00a0", " ") for text in drawn]
    assert tree.shown_clusters(clusters, chosen) == end


def test_a_cut_curve_is_said_to_go_on():
    assert "The curve goes on to 128 clusters." in page_text(make_tree_report(3))
    assert "The curve goes on" not in page_text(make_tree_report(3, longest=30))
    report = make_tree_report(3)
    report["tree"]["curve"] |= {"clusters": [], "share": []}
    assert "How many clusters" not in page_text(report)


def test_rules_are_chains_and_fold_away():
    assert "0 33.3 % 0.81 width + … < 0 and height ≥ 2 1 33.3 %" in page_text(make_tree_report(3))
    assert "<details><summary>20 more</summary>" in render_page(make_tree_report(40))
    assert " more</summary>" not in render_page(make_tree_report(20))


def test_colours_are_those_of_the_page():
    report = make_tree_report(3)
    report["clusters"].reverse()
    html = render_page(report)
    colours = figures.cluster_colours(report["clusters"])
    assert colours[2] == figures.COLOURS[0]
    for label, colour in colours.items():
        swatch = f'<span class="swatch" style="background:{colour}"></span>{label}<'
        assert html.count(swatch) == 2
    drawn = tree.tree(report["tree"]["nodes"], report["clusters"])
    boxes = re.findall(r"fill: (#\w{6}); stroke: \1", drawn)
    assert set(colours.values()) == set(boxes) & set(figures.COLOURS)


def test_no_row_is_outside_where_that_is_not_defined():
    report = make_tree_report(25)
    assert answer(report) == "25 clusters in 12,000 rows."
    text = page_text(report)
    assert "utside" not in text
    assert "boundary" not in text
    assert "Cluster Rows Share 0 480 4.0 %" in text
    assert "All 12,000 100 %" in text
    assert "Each row has a <cluster>." in text
    assert "distance to the nearest hyperplane" in text
    assert "decision value" not in text


def test_meaning_replaces_the_sentence_only():
    report = make_report()
    report["outliers"]["meaning"] = "Far from everything."
    text = page_text(report)
    assert "Far from everything." in text
    assert "negative decision value" not in text
    assert "2.1 % of the rows lie outside every cluster" in text
    assert "Cluster Rows Share Outside" in text


def test_boundary_of_the_scores():
    edges, counts = [0.0, 1.0, 2.0], [3, 4]
    usual = texts(figures.score_histogram([-1.0, 1.0], [3]))
    assert "boundary, f = 0" in usual
    titled = texts(figures.score_histogram(edges, counts, 0.5, "distance " * 12))
    assert "boundary, 0.5" in titled
    assert sum(text.startswith("distance") for text in titled) == 2  # lines
    plain = figures.score_histogram(edges, counts, None, "distance")
    assert not any("boundary" in text for text in texts(plain))
    assert figures.GREY not in plain
    assert figures.score_histogram([1.0, 1.0], [3], None)


def test_one_column_without_boundary():
    report = make_tree_report(2)
    report["input"] |= {"n_features": 1, "columns": ["pressure"]}
    report["sample"] |= {"kind": "single", "axes": ["pressure", "distance"]}
    text = page_text(report)
    assert "the column's value to the right and distance upwards" in text
    assert "boundary" not in text


def test_projection_without_outside():
    report = make_tree_report(2)
    report["sample"] |= {"kind": "pca", "explained": [0.4, 0.2], "beyond": 3}
    text = page_text(report)
    assert "The two hold 60.0 % of the variance (40.0 % and 20.0 %)" in text
    assert "3 more lie beyond the frame." in text


def test_untrusted_text_is_escaped():
    evil = '<script>alert(1)</script>"&\x00\n$x_1$ 列 id="a" url(#b)'
    report = make_tree_report(3, names=[evil, "b" * 5000])
    report["tree"]["curve"]["by"] = evil
    report["tree"]["rules"][0]["conditions"] = [evil, "c" * 5000]
    report["outliers"]["meaning"] = evil
    report["score_histogram"] |= {"title": evil, "heading": evil}
    html = render_page(report)
    page = Page(html)
    assert "<script" not in html
    assert "script" not in page.tags
    assert "c" * 500 not in html
    assert "b" * 100 not in html
    assert "and 4 more" in page.text
    in_table = '−0.81 <script>alert(1)</script>"& $x_1$ 列 id="a" url(#b)'
    assert page.text.count(in_table) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"sample": {"x": [], "label": []}},
        {"sample": {"x": [0.0], "label": [1]}},
        {"sample": {"x": [0.0] * 5, "label": [99] * 5}},
        {"density": {"x": [], "y": []}},
        {"density": {"x": [0.0, 0.0], "y": [0.0, 0.0]}, "sample": {"x": [], "label": []}},
        {"density": {"x": [], "y": []}, "sample": {"x": [0.0], "label": [0]}, "rows": 1},
        {"split": 50.0, "direction": [], "others": 0},
    ],
)
def test_little_to_draw(change):
    nodes = make_nodes(2)
    nodes[0] |= change
    drawn = drawn_tree(nodes)
    assert {"0", "1", "50.0 %"} <= set(drawn)
