"""Reports as JSON values, and their pages."""

import copy
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np

from distsvc.metrics import INDICES
from distsvc.report.content.report import Report
from distsvc.report.page import render_page

VOID = {"meta", "link", "img", "br", "input", "hr", "wbr"}
SVG = "{http://www.w3.org/2000/svg}"


class Page(HTMLParser):
    """The elements and the visible text of a page; an unclosed tag is an error."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title", "script"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def typed(report):
    """Return the report of JSON values."""
    return Report.parsed(report, "report.json")


def rendered(report):
    """Return the page of a report."""
    return render_page(typed(report))


def page_text(report):
    """Return the visible text of a report's page."""
    return Page(rendered(report)).text.replace("\u00a0", " ")


def said_first(html):
    """Return the answer at the top of a page."""
    (answer,) = re.findall(r'<p class="answer">(.*?)</p>', html, re.DOTALL)
    return " ".join(answer.replace("\u00a0", " ").split())


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def make_report(n_clusters=3, n_rows=1500, drawn=300, outside=32, picture=False):
    rng = np.random.default_rng(0)
    labels = np.arange(drawn) % n_clusters
    sizes = [n_rows // n_clusters] * n_clusters
    sizes[0] += n_rows - sum(sizes)
    outlier = np.arange(drawn) < round(drawn * outside / n_rows)
    report = {
        "title": "Two rings and a centre",
        "distsvc_version": "0.1.0",
        "command": "distsvc run jobs/rings.toml",
        "job_file": '[input]\npath = "data/rings.parquet"\n',
        "finished": "2026-08-01T12:34:56+00:00",
        "input": {"path": "data/rings.parquet", "format": "parquet", "n_rows": n_rows,
                  "n_rows_read": n_rows + 7, "n_features": 2, "columns": ["width", "height"]},
        "model": {"algorithm": "support-vector",
                  "parameters": {"gamma": "auto", "nu": 0.02, "C": None, "iterate": "average"},
                  "fitted": {"gamma": 1.5, "n_support_vectors": 100, "n_iter": 300000}},
        "clusters": [{"label": k, "rows": size, "share": size / n_rows, "outliers": 0}
                     for k, size in enumerate(sizes)],
        "outliers": {"rows": outside, "share": outside / n_rows},
        "score_histogram": {"edges": np.linspace(-1, 2.1, 32).tolist(),
                            "counts": rng.integers(100, size=31).tolist()},
        "phases": [
            {"name": "scan", "seconds": 0.5, "rows": n_rows, "driver_peak_mb": 180.0,
             "worker_peak_mb": 1310.0},
            {"name": "fit", "seconds": 99.5, "compile_seconds": 19.0, "rows": None,
             "driver_peak_mb": 210.0, "worker_peak_mb": None},
        ],
        "warnings": [],
        "checks": [],
        "sample": {"kind": "columns", "axes": ["width", "height"],
                   "x": rng.normal(size=drawn).tolist(), "y": rng.normal(size=drawn).tolist(),
                   "label": labels.tolist(), "outlier": outlier.tolist()},
        "indices": {name: {"value": 0.5, "rows": n_rows} for name in INDICES},
    }  # fmt: skip
    if picture:
        grid = np.linspace(-3, 3, 40)
        f = 1 - np.hypot(*np.meshgrid(grid, grid)) / 2
        report["picture"] = {
            "grid_x": grid.tolist(), "grid_y": grid.tolist(), "f": f.tolist(),
            "support_vectors": [[0.0, 1.0], [1.0, 0.0]], "equilibria": [[0.0, 0.0]],
        }  # fmt: skip
    return report


def make_profiles(labels, column="width"):
    """Return profiles of clusters, each with one column and two typical rows."""
    inside = {"lower": 1.0, "median": 2.0, "upper": 3.0, "share": 0.99}
    outside = {"lower": -50.0, "median": 0.25, "upper": 47.0, "share": 0.015}
    told = {"column": column, "apart": 0.975, "low": 1.0, "high": None}
    told |= {"inside": inside, "outside": outside}
    typical = [{"row": 12_345, "values": [2.125]}, {"row": 3, "values": [None]}]
    clusters = [{"label": k, "rows": 10, "columns": [told], "typical": typical} for k in labels]
    return {"rows": 900, "clusters": clusters}


def make_nodes(n_clusters, n_rows=4800, chain=False, names=("width", "height", "depth")):
    """Return nodes of a tree with k leaves; each split halves the largest, or cuts the last off."""
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


def make_level_tree(n_clusters, n_weak=0, shares=None, lowest=0.3, parents="root", seed=0):
    """Make a level tree; its clusters have the given shares, and tops that fall to `lowest`."""
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
    """Add the mass and the profile, which has a step where another branch merges."""
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
    "one": make_level_tree(1),
    "two": make_level_tree(2),
    "spiral": make_level_tree(3, shares=[0.34, 0.33, 0.33], lowest=0.8),
    "r15": make_level_tree(15, lowest=0.7),
    "nested": make_level_tree(9, parents="random", n_weak=5),
    "chain": make_level_tree(20, parents="chain"),
    "d31": make_level_tree(31, parents="random", lowest=0.8),
    "birch": make_level_tree(120, parents="random", lowest=0.5),
    "shuttle": make_level_tree(13, shares=[0.8] + [0.2 / 12] * 12, lowest=1e-4),
    "shallow": make_level_tree(5, shares=[0.96, 0.01, 0.01, 0.01, 0.01], lowest=1e-9),
    "bumps": make_level_tree(2, n_weak=150),
    "one of many": make_level_tree(1, n_weak=12),
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
            {"n_clusters": n, "standing": 1 / (1 + abs(n - k)), "votes": 0.9,
             "separated": 0.015 * n, "support": 0.75 / (1 + abs(n - k)),
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


def make_story(number, event="survived", before=100, after=100, others=(), jaccard=0.9):
    return {
        "id": number, "event": event, "jaccard": jaccard, "rows_before": before,
        "rows_after": after, "others": list(others),
    }  # fmt: skip


def make_moves(before, after, rows):
    """Return the moves of a table of rows (n_before, n_after) by earlier and present id."""
    pairs = [(one, other, int(n)) for one, row in zip(before, rows, strict=True)
             for other, n in zip(after, row, strict=True) if n]  # fmt: skip
    return {name: [pair[k] for pair in pairs] for k, name in enumerate(("before", "after", "rows"))}


def make_lineage(n_clusters=3, first=0):
    """Return a lineage in which the first cluster splits in two and the last disappears."""
    ids = [first + i for i in range(n_clusters + 1)]
    new = [ids[-1] + 1, ids[-1] + 2]
    kept, after = ids[1:-1], [*new, *ids[1:-1]]
    rows = np.zeros((len(ids), len(after)), int)
    rows[0, :2] = 600, 300
    for i in range(len(kept)):
        rows[i + 1, i + 2] = 500 - i
    stories = [make_story(ids[0], "split", 900, 0, new, 0.6667)]
    stories += [make_story(one, "survived", 500 - i, 500 - i) for i, one in enumerate(kept)]
    stories += [make_story(ids[-1], "disappeared", 0, 0, (), 0.0)]
    stories += [
        make_story(one, "split", 0, n, ids[:1], n / 900)
        for one, n in zip(new, (600, 300), strict=True)
    ]
    return {
        "path": "out/2026-07-31", "run_id": "r-0731", "mode": "refit", "because": [],
        "not_published": None, "rows": int(rows.sum()), "moved": float(900 / rows.sum()),
        "next_id": new[-1] + 1, "clusters": stories,
        "moves": make_moves(ids, after, rows),
    }  # fmt: skip


def make_assigned(n_clusters=3):
    return make_lineage() | {
        "mode": "assign", "moves": None, "moved": 0.0, "next_id": n_clusters,
        "clusters": [make_story(k, "survived", 10, 500) for k in range(n_clusters)],
    }  # fmt: skip


def make_drift(indices=(0.3, 0.12, 0.01), missing=0.0):
    columns = [
        {"column": f"column {i}", "index": index, "missing_before": 0.0, "missing_after": missing}
        for i, index in enumerate(indices)
    ]
    return {
        "columns": columns, "score": 0.0312, "score_rows": 1500,
        "outlier_share_before": 0.015, "outlier_share_after": 0.021,
    }  # fmt: skip


def make_check(name="max_outlier_share", state="passed", words=None):
    words = words or "21.0 % of the rows lie outside every cluster, at most 20 % expected"
    return {
        "name": name, "level": "warn" if state == "warned" else "error", "limit": [0.2],
        "found": 0.21, "state": state, "words": f"{name}: {words}",
    }  # fmt: skip


def make_night_report(n_clusters=3, lineage=None, checks=("passed",), first=0):
    """Return the report of a run with a previous run; if a check failed, it is held back."""
    lineage = lineage or make_lineage(n_clusters, first)
    ids = lineage["moves"]["after"] if lineage["moves"] else range(n_clusters)
    report = make_report(len(ids), n_rows=15_000)
    for row, one in zip(report["clusters"], ids, strict=True):
        row["label"] = one
    report["sample"]["label"] = [ids[k] for k in report["sample"]["label"]]
    checks = [make_check(state=state) for state in checks]
    parts = {"lineage": lineage, "drift": make_drift(), "checks": checks}
    return report | parts | {"held": any(check["state"] == "failed" for check in checks)}
