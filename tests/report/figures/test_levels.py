import copy
import itertools

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from distsvc.report.content.model_parts import LevelTreePart
from distsvc.report.figures import drawing, levels
from tests.report.reports import TREES, make_level_tree, make_levels_report, page_text, texts


def typed(tree):
    return LevelTreePart.model_validate(TREES[tree] if isinstance(tree, str) else tree)


def svg_of(tree, colours=None):
    return levels.level_tree(typed(tree), colours or {})


def hills(tree):
    return typed(tree).branches


def draw(tree):
    """Return the figure with its layout, so that its parts can be measured."""
    with mpl.rc_context(drawing.STYLE):
        figure = levels.level_tree.__wrapped__(typed(tree), dict.fromkeys(range(200), "#0072b2"))
        FigureCanvasAgg(figure).draw()
    return figure


def drawn_texts(tree):
    return texts(svg_of(tree))


def boxes(figure):
    """Return the extent of every visible text."""
    renderer = figure.canvas.get_renderer()
    visible = [
        text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()
    ]
    return {text: text.get_window_extent(renderer) for text in visible}


def assert_no_overlap(figure):
    found = boxes(figure)
    for text, box in found.items():
        assert min(box.x0, box.y0) >= 0, text
        assert box.x1 <= figure.bbox.x1, text
        assert box.y1 <= figure.bbox.y1, text
    for (text, a), (other, b) in itertools.combinations(found.items(), 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert min(width, height) < 0.5, (text, other)


@pytest.mark.parametrize("name", TREES)
def test_texts_do_not_overlap(name):
    assert_no_overlap(draw(TREES[name]))


@settings(max_examples=15, deadline=None, phases=[Phase.generate])  # shrinking draws for minutes
@given(
    n_clusters=st.integers(1, 45),
    n_weak=st.integers(0, 20),
    lowest=st.floats(-300, 0).map(lambda exponent: 10.0**exponent),
    skew=st.floats(0, 3),
    parents=st.sampled_from(["root", "chain", "random"]),
    seed=st.integers(0, 9),
    z=st.one_of(st.none(), st.floats(width=64)),
    label=st.integers(-9, 10**9),
)
def test_texts_do_not_overlap_in_any_tree(
    n_clusters, n_weak, lowest, skew, parents, seed, z, label
):
    shares = 1.0 / np.arange(1, n_clusters + 1) ** skew
    tree = make_level_tree(n_clusters, n_weak, shares / shares.sum(), lowest, parents, seed)
    tree["branches"][-1] |= {"z": z, "label": label}
    room = levels._width(levels.drawn_hills(hills(tree))) - levels.AXIS_WIDTH - 2 * levels.MARGIN
    slots = list(levels._layout(levels.drawn_hills(hills(tree)), room).each())
    ends = [(slot.left, slot.left + slot.width) for slot in slots]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
    assert ends[0][0] >= 0
    assert slots[0].end == pytest.approx(room)
    assert_no_overlap(draw(tree))


@pytest.mark.parametrize("name", ["spiral", "r15", "nested", "d31"])
def test_every_cluster_has_its_label_and_every_valley_its_z(name):
    drawn = drawn_texts(TREES[name])
    branches = TREES[name]["branches"]
    for branch in branches:
        if branch["kept"]:
            assert str(branch["label"]) in drawn
        if branch["z"] is not None:
            assert {f"{branch['z']:.1f}", f"z = {branch['z']:.1f}"} & set(drawn)
    assert sum(text.isdecimal() for text in drawn) == sum(b["kept"] for b in branches)


def test_hills_are_as_wide_as_their_share_of_the_rows():
    tree = make_level_tree(3, shares=[0.5, 0.3, 0.2])
    slots = list(levels._layout(hills(tree), 6.0).each())
    unit = (6.0 - 2 * levels.GAP) / 1.0
    widths = {slot.hill.label: slot.width for slot in slots}
    assert widths == pytest.approx({0: 0.5 * unit, 1: 0.3 * unit, 2: 0.2 * unit})
    root = slots[0]
    assert root.edges(0.0, 2) == pytest.approx((0, 6))
    half = next(level for level, share in tree["branches"][0]["profile"] if share >= 0.25)
    left, right = root.edges(half, 0)
    assert (right - left) / root.width == pytest.approx(root.own[root.levels == half][0])


def test_rows_that_join_below_a_valley_widen_the_common_ground():
    tree = {"top": 1.0, "branches": [
        {"id": 1, "parent": None, "birth": 1.0, "death": 0.0, "mass": 1.0, "z": None, "kept": True,
         "label": 0, "profile": [[1.0, 0.1], [0.6, 0.3], [0.5, 0.6], [0.0, 1.0]]},
        {"id": 2, "parent": 1, "birth": 0.9, "death": 0.5, "mass": 0.3, "z": 4.0, "kept": True,
         "label": 1, "profile": [[0.9, 0.1], [0.5, 0.3]]},
    ]}  # fmt: skip
    root = levels._layout(hills(tree), 5.0)
    unit = 5.0 - levels.GAP
    assert root.width == pytest.approx(0.7 * unit)
    assert root.children[0].width == pytest.approx(0.3 * unit)
    assert root.edges(0.5, 0) == pytest.approx((0.2 * unit, 0.5 * unit))
    assert root.edges(0.5, 1) == pytest.approx((0.2 * unit, 5))
    assert root.edges(0.0, 1) == pytest.approx((0, 5))


def test_a_hill_has_its_colour_down_to_where_another_cluster_merges():
    weak = {"parent": 1, "mass": 0.1, "kept": False, "label": None}
    tree = {"branches": [
        {"id": 1, "birth": 1.0, "mass": 1.0, "kept": True, "label": 0},
        {"id": 2, "birth": 0.8, "death": 0.7, **weak},
        {"id": 3, "parent": 1, "birth": 0.6, "death": 0.5, "mass": 0.2, "kept": True, "label": 1},
        {"id": 4, "birth": 0.4, "death": 0.2, **weak},
    ]}  # fmt: skip
    axes = draw(tree).axes[0]
    scale = levels.Scale(hills(tree))
    pieces = []
    for piece in axes.collections:
        heights = [path.vertices[:, 1] for path in piece.get_paths() if len(path.vertices)]
        for height in heights:
            steps = np.sign(np.diff(height))
            assert np.count_nonzero(np.diff(steps[steps != 0])) <= 2  # down one side, up the other
            pieces.append((mpl.colors.to_hex(piece.get_facecolor()[0]), height.min(), height.max()))
    expected = [
        ("#0072b2", scale(0.5), scale(1.0)), (drawing.JOINED, -levels.GROUND, scale(0.5)),
        (drawing.WEAK, scale(0.7), scale(0.8)), ("#0072b2", scale(0.5), scale(0.6)),
        (drawing.WEAK, scale(0.2), scale(0.4)),
    ]  # fmt: skip
    assert [colour for colour, *_ in pieces] == [colour for colour, *_ in expected]
    assert np.array([ends for _, *ends in pieces]) == pytest.approx(
        np.array([ends for _, *ends in expected], float)
    )


def test_narrow_hills_are_widened():
    slots = list(levels._layout(hills(TREES["shallow"]), 4.0).each())
    widths = [slot.width for slot in slots]
    assert min(widths) >= levels.NARROWEST
    assert widths[0] > 1
    assert slots[0].end == pytest.approx(4.0)


def test_the_largest_clusters_and_the_clearest_other_hills_are_drawn():
    shown = levels.drawn_hills(hills(TREES["birch"]))
    assert len(shown) == levels.MAX_CLUSTERS
    kept = {hill.id for hill in shown}
    assert all(hill.parent is None or hill.parent in kept for hill in shown)
    least = min(hill.mass for hill in shown)
    left_out = [hill for hill in hills(TREES["birch"]) if hill.id not in kept]
    assert all(hill.mass <= least for hill in left_out)
    text = page_text(make_levels_report("birch"))
    assert (
        "Each of the 120 coloured hills is a cluster, its label on top. The 36 with most rows"
        in text
    )

    shown = levels.drawn_hills(hills(TREES["bumps"]))
    weak = sorted((hill.z for hill in shown if not hill.kept), reverse=True)
    everyone = sorted((b["z"] for b in TREES["bumps"]["branches"] if not b["kept"]), reverse=True)
    assert weak == everyone[: levels.MAX_WEAK]
    report = make_levels_report("bumps")
    report["levels"]["tree"]["n_hidden"] = 7
    assert "151 weaker hills are not drawn." in page_text(report)


def test_clusters_inside_a_weak_hill_join_its_parent():
    tree = copy.deepcopy(TREES["chain"])
    tree["branches"][1] |= {"kept": False, "label": None}
    joins = levels._joins(hills(tree))
    first, second, third = tree["branches"][:3]
    assert joins[second["id"]] == third["death"]
    assert joins[first["id"]] == second["death"]
    assert joins[tree["branches"][-1]["id"]] == -1


@pytest.mark.parametrize("change", [{"profile": []}, {"profile": [[0.5, 0.1]]}, {"z": -1e300}])
@pytest.mark.parametrize("which", [0, 1])
def test_branches_with_an_odd_profile_or_z_are_drawn(change, which):
    tree = copy.deepcopy(TREES["two"])
    tree["branches"][which] |= change
    svg = svg_of(tree)
    assert {"0", "1"} <= set(texts(svg))
    assert "nan" not in svg
    assert_no_overlap(draw(tree))
