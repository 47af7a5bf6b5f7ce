import pytest

from distsvc.report.content.model_parts import Curve
from distsvc.report.content.report import ClusterRow
from distsvc.report.figures import tree
from tests.report.reports import make_nodes, make_tree_report, texts, typed


def typed_nodes(nodes):
    report = make_tree_report(1)
    report["tree"]["nodes"] = nodes
    return typed(report).tree.nodes


def drawn_tree(nodes):
    clusters = [ClusterRow(label=label, rows=1, share=0.1) for label in range(len(nodes))]
    svg = tree.tree(typed_nodes(nodes), clusters)
    return [text.replace("\u00a0", " ") for text in texts(svg)]


def test_every_split_and_cluster_of_a_small_tree_is_drawn():
    drawn = drawn_tree(make_nodes(3))
    assert sorted(drawn) == sorted([
        "1", "n = 4,800, 100 %", "−0.81 width − 0.41 height …",
        "2", "n = 2,400, 50.0 %", "−0.81 width − 0.41 height …",
        "0", "50.0 %", "1", "25.0 %", "2", "25.0 %",
    ])  # fmt: skip


def test_directions_are_cut_to_their_room():
    terms = typed_nodes(make_nodes(2))[0].direction
    assert tree.direction(terms) == "−0.81 width − 0.41 height − 0.27 depth"
    assert tree.direction(terms, others=1).endswith(" − 0.27 depth …")
    assert tree.direction(terms, 0, 2) == "−0.81 width − 0.41 height …"
    assert tree.direction([], 0, 2) == ""


@pytest.mark.parametrize(
    ("chosen", "longest", "by", "expected", "end"),
    [
        (9, 128, "elbow", "9 clusters, at the elbow: 11.1 % left", 30),
        (20, 128, "n_clusters", "20 clusters, as asked for: 5.0 % left", 60),
        (12, 16, "<b>$x$\nown", "12 clusters, <b>$x$ own: 8.3 % left", 16),
        (1, 1, "elbow", "1 cluster, at the elbow: 100 % left", 1),
    ],
)
def test_the_chosen_number_of_clusters_is_marked(chosen, longest, by, expected, end):
    clusters = list(range(1, longest + 1))
    shares = [1 / k for k in clusters]
    curve = Curve(clusters=clusters, share=shares, chosen=chosen, by=by)
    drawn = texts(tree.curve(curve))
    assert expected in [text.replace("\u00a0", " ") for text in drawn]
    assert tree.shown_clusters(curve) == end


def test_the_most_important_splits_are_drawn():
    nodes = typed_nodes(make_nodes(40))
    ranks = [place.panel.rank for place in tree._places(nodes) if place.panel]
    assert sorted(ranks) == list(range(1, 12))


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
def test_a_split_with_few_or_odd_values_is_drawn(change):
    nodes = make_nodes(2)
    nodes[0] |= change
    assert {"0", "1", "50.0 %"} <= set(drawn_tree(nodes))
