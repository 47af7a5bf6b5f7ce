import copy
import itertools
import json
import math
import re

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from test_page import Page, make_report
from test_tree import texts

from distsvc.report import figures, levels
from distsvc.report.page import render_page


def make_tree(n_clusters, n_weak=0, shares=None, lowest=0.3, parents="root", seed=0):
    """Make a tree whose clusters have given shares and tops falling to the lowest one."""
    rng = np.random.default_rng(seed)
    n = n_clusters + n_weak
    shares = [1 / n_clusters] * n_clusters if shares is None else list(shares)
    shares = np.array(shares + [0.01] * n_weak) / (sum(shares) + 0.01 * n_weak)
    births = np.r_[np.geomspace(1, lowest, n_clusters), rng.uniform(0.2, 1, n_weak) * lowest]
    branches = []
    for i in range(n):
        kept = i < n_clusters
        parent = None if i == 0 else {
            "root": 0, "chain": i - 1, "random": int(rng.integers(min(i, n_clusters))),
        }[parents if kept else "random"]  # fmt: skip
        death = 0.0
        if i:
            low, high = branches[parent]["death"], branches[parent]["birth"]
            births[i] = np.clip(births[i], low + 0.3 * (high - low), high)
            death = low + (births[i] - low) * rng.uniform(*((0.02, 0.3) if kept else (0.7, 0.95)))
        branches.append({
            "id": 10 + i, "parent": parent, "birth": float(births[i]), "death": float(death),
            "z": None if i == 0 else round(rng.uniform(3, 9) if kept else rng.uniform(0, 1), 3),
            "kept": kept, "label": i if kept else None, "own": shares[i],
        })  # fmt: skip
    for i in reversed(range(n)):
        complete_branch(branches, i)
    for branch in branches:
        del branch["own"]
        branch["parent"] = None if branch["parent"] is None else 10 + branch["parent"]
    return {"top": 1.0, "branches": branches, "n_hidden": 0}


def complete_branch(branches, i):
    """Add the mass and the profile, with a step wherever another branch merges."""
    branch = branches[i]
    below = [child for child in branches if child["parent"] == i]
    first = max([child["death"] for child in below], default=branch["death"])
    grid = branch["birth"] + (first - branch["birth"]) * np.linspace(0, 1, 12)
    grid = np.sort([*grid, *(child["death"] for child in below), branch["death"]])[::-1]
    grown = np.clip((branch["birth"] - grid) / max(branch["birth"] - first, 1e-300), 0.02, 1)
    share = branch["own"] * grown
    for child in below:
        share = share + child["mass"] * (grid <= child["death"])
    branch["mass"] = 1.0 if i == 0 else float(share[-1])
    branch["profile"] = np.column_stack([grid, share]).tolist()


TREES = {
    "one": make_tree(1),
    "two": make_tree(2),
    "spiral": make_tree(3, shares=[0.34, 0.33, 0.33], lowest=0.8),
    "r15": make_tree(15, lowest=0.7),
    "nested": make_tree(9, parents="random", n_weak=5),
    "chain": make_tree(20, parents="chain"),
    "d31": make_tree(31, parents="random", lowest=0.8),
    "birch": make_tree(120, parents="random", lowest=0.5),
    "shuttle": make_tree(13, shares=[0.8] + [0.2 / 12] * 12, lowest=1e-4),
    "shallow": make_tree(5, shares=[0.96, 0.01, 0.01, 0.01, 0.01], lowest=1e-9),
    "bumps": make_tree(2, n_weak=150),
    "one of many": make_tree(1, n_weak=12),
}


def make_levels(tree="spiral", doubts=()):
    tree = copy.deepcopy(TREES[tree] if isinstance(tree, str) else tree)
    k = sum(branch["kept"] for branch in tree["branches"])
    return {
        "tree": tree,
        "models": [
            {"gamma": 2.0**i, "C": 2.0, "n_support_vectors": 200, "n_splits": 7 + i,
             "supports": i > 0, "n_components": 2 + i, "chosen": i == 2}
            for i in range(4)
        ],
        "candidates": [
            {"n_clusters": n, "votes": 1 / (1 + abs(n - k)), "support": 0.75 / (1 + abs(n - k)),
             "z": None if n == 1 else 12.0 / n, "winner": n == k}
            for n in range(max(1, k - 3), k + 4)
        ],
        "granularity": [
            {"name": name, "n_clusters": n, "support": 0.75, "rows": rows, "chosen": n == k}
            for name, n, rows in (
                ("coarse", max(1, k - 1), 3000), ("default", k, 10_000), ("fine", k + 2, 58_000)
            )
        ],
        "why": ["All models agree.", "The weakest valley has z = 3.1."],
        "doubts": list(doubts),
    }  # fmt: skip


def make_levels_report(tree="spiral", **kwargs):
    found = make_levels(tree, **kwargs)
    report = make_report(max(1, sum(branch["kept"] for branch in found["tree"]["branches"])))
    return report | {"levels": found}


def draw(tree):
    """Return the figure itself, laid out, where its parts are to be measured."""
    with mpl.rc_context(figures.STYLE):
        figure = levels.level_tree.__wrapped__(tree, dict.fromkeys(range(200), "#0072b2"))
        FigureCanvasAgg(figure).draw()
    return figure


def drawn_texts(tree):
    return texts(levels.level_tree(tree, {}))


def page_text(report):
    return Page(render_page(report)).text.replace("\u00a0", " ")


def boxes(figure):
    """Return the extent of every text that can be seen."""
    renderer = figure.canvas.get_renderer()
    visible = [
        text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()
    ]
    return {text: text.get_window_extent(renderer) for text in visible}


def assert_texts_lie_apart(figure):
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
def test_texts_lie_apart(name):
    assert_texts_lie_apart(draw(TREES[name]))


@pytest.mark.parametrize("z", [4.56, 45.6, -45.6, 4560.0])
@pytest.mark.parametrize("name", ["r15", "d31"])
def test_zs_of_valleys_as_deep_as_one_another_lie_apart(name, z):
    tree = copy.deepcopy(TREES[name])
    root = tree["branches"][0]["id"]
    for branch in tree["branches"][1:]:
        branch |= {"parent": root, "death": 0.0, "z": z}
    assert_texts_lie_apart(draw(tree))


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
def test_any_tree_is_drawn_with_its_texts_apart(
    n_clusters, n_weak, lowest, skew, parents, seed, z, label
):
    shares = 1.0 / np.arange(1, n_clusters + 1) ** skew
    tree = make_tree(n_clusters, n_weak, shares / shares.sum(), lowest, parents, seed)
    tree["branches"][-1] |= {"z": z, "label": label}
    room = levels.width(tree) - levels.BESIDE - 2 * levels.MARGIN
    slots = list(levels._walk(levels._layout(levels.drawn_hills(levels.hills(tree)), room)))
    ends = [(slot.left, slot.left + slot.width) for slot in slots]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
    assert ends[0][0] >= 0
    assert slots[0].end == pytest.approx(room)
    assert_texts_lie_apart(draw(tree))


@pytest.mark.parametrize("name", ["spiral", "r15", "nested", "d31"])
def test_every_cluster_has_its_number_and_its_z(name):
    drawn = drawn_texts(TREES[name])
    branches = TREES[name]["branches"]
    for branch in branches:
        if branch["kept"]:
            assert str(branch["label"]) in drawn
        if branch["z"] is not None:
            assert {f"{branch['z']:.1f}", f"z = {branch['z']:.1f}"} & set(drawn)
    assert sum(text.isdecimal() for text in drawn) == sum(b["kept"] for b in branches)


def test_hills_are_as_wide_as_their_share_of_the_rows():
    tree = make_tree(3, shares=[0.5, 0.3, 0.2])
    slots = list(levels._walk(levels._layout(levels.hills(tree), 6.0)))
    unit = (6.0 - 2 * levels.GAP) / 1.0
    widths = {slot.hill.label: slot.width for slot in slots}
    assert widths == pytest.approx({0: 0.5 * unit, 1: 0.3 * unit, 2: 0.2 * unit})
    root = slots[0]
    assert root.edges(0.0, 2) == pytest.approx((0, 6))
    half = next(level for level, share in tree["branches"][0]["profile"] if share >= 0.25)
    left, right = root.edges(half, 0)
    assert (right - left) / unit == pytest.approx(root.hill.shares[root.hill.levels == half][0])


def test_rows_that_join_late_widen_the_common_ground():
    tree = {"top": 1.0, "branches": [
        {"id": 1, "parent": None, "birth": 1.0, "death": 0.0, "mass": 1.0, "z": None, "kept": True,
         "label": 0, "profile": [[1.0, 0.1], [0.6, 0.3], [0.5, 0.6], [0.0, 1.0]]},
        {"id": 2, "parent": 1, "birth": 0.9, "death": 0.5, "mass": 0.3, "z": 4.0, "kept": True,
         "label": 1, "profile": [[0.9, 0.1], [0.5, 0.3]]},
    ]}  # fmt: skip
    root = levels._layout(levels.hills(tree), 5.0)
    unit = 5.0 - levels.GAP
    assert root.width == pytest.approx(0.3 * unit)
    assert root.children[0].width == pytest.approx(0.3 * unit)
    assert root.edges(0.5, 1) == pytest.approx((0.2 * unit, 0.8 * unit + levels.GAP))
    assert root.edges(0.25, 1) == pytest.approx((0.1 * unit, 0.9 * unit + levels.GAP))
    assert root.edges(0.0, 1) == pytest.approx((0, 5))


def test_a_hill_has_its_colour_down_to_where_another_cluster_merges():
    weak = {"parent": 1, "mass": 0.1, "kept": False, "label": None}
    tree = {"branches": [
        {"id": 1, "birth": 1.0, "kept": True, "label": 0},
        {"id": 2, "birth": 0.8, "death": 0.7, **weak},
        {"id": 3, "parent": 1, "birth": 0.6, "death": 0.5, "mass": 0.2, "kept": True, "label": 1},
        {"id": 4, "birth": 0.4, "death": 0.2, **weak},
    ]}  # fmt: skip
    axes = draw(tree).axes[0]
    scale = levels.Scale(levels.hills(tree))
    pieces = []
    for piece in axes.collections:
        heights = [path.vertices[:, 1] for path in piece.get_paths() if len(path.vertices)]
        for height in heights:
            steps = np.sign(np.diff(height))
            assert np.count_nonzero(np.diff(steps[steps != 0])) <= 2  # down one side, up the other
            pieces.append((mpl.colors.to_hex(piece.get_facecolor()[0]), height.min(), height.max()))
    expected = [
        ("#0072b2", scale(0.5), scale(1.0)), (levels.JOINED, -levels.GROUND, scale(0.5)),
        (levels.WEAK, scale(0.7), scale(0.8)), ("#0072b2", scale(0.5), scale(0.6)),
        (levels.WEAK, scale(0.2), scale(0.4)),
    ]  # fmt: skip
    assert [colour for colour, *_ in pieces] == [colour for colour, *_ in expected]
    assert np.array([ends for _, *ends in pieces]) == pytest.approx(
        np.array([ends for _, *ends in expected], float)
    )


def test_narrow_hills_are_widened():
    slots = list(levels._walk(levels._layout(levels.hills(TREES["shallow"]), 4.0)))
    widths = [slot.width for slot in slots]
    assert min(widths) >= levels.NARROWEST
    assert widths[0] > 1
    assert slots[0].end == pytest.approx(4.0)


def test_weak_clusters_are_high_enough_to_be_seen():
    for name in ("shuttle", "shallow", "birch"):
        shown = levels.drawn_hills(levels.hills(TREES[name]))
        scale = levels.Scale(shown)
        assert scale(0) == 0
        assert scale(1.0) == pytest.approx(levels.HEIGHT)
        heights = scale([hill.birth for hill in shown if hill.kept])
        assert min(heights) > 0.07 * levels.HEIGHT
        assert {"highest", "none"} <= set(scale.ticks().values())


def test_the_largest_clusters_and_the_clearest_of_the_others_are_drawn():
    shown = levels.drawn_hills(levels.hills(TREES["birch"]))
    assert len(shown) == levels.MAX_CLUSTERS
    kept = {hill.id for hill in shown}
    assert all(hill.parent is None or hill.parent in kept for hill in shown)
    least = min(hill.mass for hill in shown)
    left_out = [hill for hill in levels.hills(TREES["birch"]) if hill.id not in kept]
    assert all(hill.mass <= least for hill in left_out)
    text = page_text(make_levels_report("birch"))
    assert (
        "Each of the 120 coloured hills is a cluster, its label on top. The 36 with most rows"
        in text
    )

    shown = levels.drawn_hills(levels.hills(TREES["bumps"]))
    weak = sorted((hill.z for hill in shown if not hill.kept), reverse=True)
    everyone = sorted((b["z"] for b in TREES["bumps"]["branches"] if not b["kept"]), reverse=True)
    assert weak == everyone[: levels.MAX_WEAK]
    report = make_levels_report("bumps")
    report["levels"]["tree"]["n_hidden"] = 7
    assert "151 weaker hills are not drawn." in page_text(report)


def test_colours_are_those_of_the_page():
    report = make_levels_report("bumps")
    report["clusters"].reverse()
    html = render_page(report)
    drawing = html[html.index('aria-label="Hills') : html.index("clusters run together")]
    fills = set(re.findall(r"fill: (#\w{6})", drawing))
    assert set(figures.COLOURS) & fills == set(figures.COLOURS[:2])
    assert {levels.WEAK, levels.JOINED} <= fills
    colours = figures.cluster_colours(report["clusters"])
    assert drawing.index(f"fill: {colours[0]}") < drawing.index(f"fill: {colours[1]}")


def test_one_cluster_keeps_its_colour_down_to_the_ground():
    drawn = levels.level_tree(TREES["one of many"], {0: "#d55e00"})
    assert levels.JOINED not in drawn
    assert "too weak for a cluster" in texts(drawn)
    dark, light = (
        levels.level_tree(TREES["one of many"], {0: shade}).count("#ffffff")
        for shade in ("#0072b2", "#f0a5b4")
    )
    assert dark >= light + levels.MAX_WEAK  # the zs on it
    text = page_text(make_levels_report("one of many"))
    assert "Why 1 cluster All models agree." in text
    assert "There is one cluster: no valley parts the rows clearly." in text
    assert "too weak for" not in texts(levels.level_tree(TREES["one"], {}))


def test_clusters_inside_a_weak_hill_are_joined_with_what_it_stands_on():
    tree = copy.deepcopy(TREES["chain"])
    tree["branches"][1] |= {"kept": False, "label": None}
    joins = levels._joins(levels.hills(tree))
    first, second, third = tree["branches"][:3]
    assert joins[second["id"]] == third["death"]
    assert joins[first["id"]] == second["death"]
    assert joins[tree["branches"][-1]["id"]] == -1


def test_long_profiles_are_thinned():
    tree = copy.deepcopy(TREES["two"])
    x = np.linspace(1, 0, 20_000)
    tree["branches"][0]["profile"] = np.column_stack([x, 1 - x]).tolist()
    root = levels.hills(tree)[0]
    assert len(root.levels) <= levels.MAX_POINTS + 2
    assert root.shares == pytest.approx(1 - root.levels, abs=1e-3)


@pytest.mark.parametrize(
    ("z", "expected"),
    [
        (3.14, "3.1"), (0.0, "0.0"), (-0.5, "−0.5"), (99.96, "100"), (998.0, "998"),
        (1e300, ">999"), (math.inf, ">999"), (-math.inf, "<−999"),
    ],
)  # fmt: skip
def test_z_is_short(z, expected):
    assert levels.z_text(z) == expected


@pytest.mark.usefixtures("undrawn")
def test_place_on_the_page():
    report = make_levels_report("r15", doubts=["The models hardly agree.", "Try iMDH."])
    report["warnings"] = ["max_iter was reached"]
    html = render_page(report)
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "Warning", "This table may need another tool", "The clusters", "Why 15 clusters",
        "Cluster sizes", "Inside or outside", "Validity indices", "Time and memory",
        "What was run",
    ]  # fmt: skip
    assert 'class="doubts" role="note"' in html
    assert "another tool The models hardly agree. Try iMDH. The clusters" in page_text(report)
    for other in (make_report(), make_levels_report()):
        assert 'class="doubts"' not in render_page(other)
    assert "Why" not in page_text(make_report())


@pytest.mark.usefixtures("undrawn")
def test_candidates_answers_and_models():
    report = make_levels_report("spiral")
    html, text = render_page(report), page_text(report)
    assert "Clusters Votes Support z 1 25.0 % – 2 37.5 % 6.0 3 75.0 % 4.0 4" in text
    bars = re.findall(r'style="width:(\S+)%" role="img" aria-label="(\S+\s%)', html)
    assert bars[:3] == [("33.3", "33.3\u00a0%"), ("50.0", "50.0\u00a0%"), ("100.0", "100\u00a0%")]
    best = re.findall(r'<tr class="best">(.*?)</tr>', html, flags=re.DOTALL)
    assert [re.sub(r"<.*?>|\u00a0", "", row) for row in best] == [
        "375.0%4.0", "default · this run375.0%10,000", "4422009yes · drawn above",
    ]  # fmt: skip
    assert "coarse 2 75.0 % 3,000 default · this run 3 75.0 % 10,000 fine 5" in text
    assert "<summary>The 4 models</summary>" in html
    assert "2 1 2 200 7 no 3 2 2 200 8 yes" in text


@pytest.mark.usefixtures("undrawn")
def test_granularities_that_agree_are_one_sentence():
    report = make_levels_report()
    for row in report["levels"]["granularity"]:
        row["n_clusters"] = 3
    text = page_text(report)
    assert "The granularities coarse, default and fine all give 3 clusters." in text
    assert "Coarser or finer" not in text
    report["levels"]["granularity"] = report["levels"]["granularity"][:1]
    assert "ranularit" not in page_text(report)


EMPTY = {"tree": {"branches": []}} | {
    part: [] for part in ("models", "candidates", "granularity", "why", "doubts")
}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("part", EMPTY)
def test_what_is_missing_has_no_heading(part):
    words = {
        "models": "The 4 models", "candidates": "considered", "granularity": "Coarser or finer",
        "why": "All models agree.", "doubts": "another tool",
    }  # fmt: skip
    report = make_levels_report(doubts=["Try iMDH."])
    found = report.pop("levels")
    without = {name: content for name, content in found.items() if name != part}
    for levels_found in (without, found | {part: EMPTY[part]}):
        text = page_text(report | {"levels": levels_found})
        assert {name for name in words if words[name] not in text} == {part} - {"tree"}
        assert "Why 3 clusters" in text


def test_nothing_is_drawn_without_branches():
    report = make_levels_report()
    assert 'aria-label="Hills' in render_page(report)
    for found in ({}, EMPTY):
        html = render_page(report | {"levels": found})
        assert 'aria-label="Hills' not in html
        assert "<h2>Why" not in html


@pytest.mark.parametrize(
    "change",
    [
        {"profile": []},
        {"profile": [[0.5, 0.1]]},
        {"profile": [[2.0, 5.0], [math.nan, 0.1], [0.2, -3.0]]},
        {"birth": 0.0, "death": 0.0},
        {"birth": 5.0, "death": 9.0},
        {"birth": math.nan, "mass": None},
        {"mass": 0.0, "z": math.nan},
        {"parent": 77, "z": -1e300},
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_odd_branches_are_made_good(change, which):
    tree = copy.deepcopy(TREES["two"])
    tree["branches"][which] |= change
    svg = levels.level_tree(tree, {})
    assert {"0", "1"} <= set(texts(svg))
    assert "nan" not in svg
    assert_texts_lie_apart(draw(tree))


def test_only_what_a_branch_must_have():
    tree = {"branches": [{"id": 3, "birth": 0.02}, {"id": 5, "birth": 0.01}]}
    assert "highest" in drawn_texts(tree)
    assert levels.width(tree) == levels.PHONE


def test_page_is_well_formed_and_the_same_again():
    report = make_levels_report("nested", doubts=["Try iMDH."])
    before = copy.deepcopy(report)
    html = render_page(report)
    assert report == before
    assert render_page(json.loads(json.dumps(report))) == html
    ids = [content for name, content in Page(html).attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = re.findall(r'(?:href="#|url\(#)([^")]+)', html)
    assert set(targets) <= set(ids)


def test_untrusted_text_is_escaped():
    evil = '<script>alert(1)</script>"&\x00\n$x_1$ 列 id="a" url(#b)'
    report = make_levels_report(doubts=[evil, "d" * 5000, " \n"])
    report["levels"]["why"] = [evil, "w" * 5000]
    report["levels"]["granularity"][0]["name"] = evil
    report["levels"]["tree"]["branches"][1]["label"] = "<b>$x$</b>"
    html = render_page(report)
    page = Page(html)
    assert "script" not in page.tags
    assert "<b>" not in html
    assert page.text.count('<script>alert(1)</script>"& $x_1$ 列 id="a" url(#b)') == 2
    assert "d" * 700 not in html
    assert "w" * 700 not in html
    section = html[html.index('class="doubts"') : html.index("The clusters</h2>")]
    assert section.count("<li>") == 2


def test_every_model_of_a_large_vote_is_listed_with_the_components_it_sees():
    report = make_levels_report("r15")
    models = [
        {"gamma": 2.0, "C": 2.0, "n_components": 40 + i, "n_support_vectors": 200, "n_splits": 7,
         "supports": True, "chosen": i == 23}
        for i in range(24)
    ]  # fmt: skip
    report["levels"]["models"] = models
    html = render_page(report)
    assert "<summary>The 24 models</summary>" in html
    assert all(f'<td class="n">{40 + i}</td>' in html for i in range(24))
    assert html.count("drawn above") == 1
