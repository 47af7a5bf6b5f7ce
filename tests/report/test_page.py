import copy
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from distsvc.metrics import INDICES
from distsvc.report import figures
from distsvc.report.page import answer, megabytes, moment, render_page, seconds, value, write_page

VOID = {"meta", "link", "img", "br", "input", "hr"}


class Page(HTMLParser):
    """Elements, visible text and whether every tag is closed."""

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
        if self.open and self.open[-1] not in ("style", "title"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


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
                  "parameters": {"gamma": "auto", "nu": 0.02, "C": None, "average": True},
                  "fitted": {"gamma": 1.5, "n_support_vectors": 100, "n_iter": 300000}},
        "clusters": [{"label": k, "rows": size, "share": size / n_rows, "outliers": 0}
                     for k, size in enumerate(sizes)],
        "outliers": {"rows": outside, "share": outside / n_rows},
        "score_histogram": {"edges": np.linspace(-1, 2.1, 32).tolist(),
                            "counts": rng.integers(100, size=31).tolist()},
        "phases": [
            {"name": "scan", "seconds": 0.5, "rows": n_rows, "driver_peak_mb": 180.0,
             "worker_peak_mb": 1310.0},
            {"name": "fit", "seconds": 99.5, "rows": None, "driver_peak_mb": 210.0,
             "worker_peak_mb": None},
        ],
        "warnings": [],
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


@pytest.fixture(scope="module")
def html():
    return render_page(make_report(picture=True))


def test_order_of_the_page(html):
    headings = re.findall(r"<h2>(.*?)</h2>", html)
    assert headings == [
        "The clusters", "Cluster sizes", "Inside or outside", "Validity indices",
        "Time and memory", "What was run",
    ]  # fmt: skip


def test_numbers_and_texts(html):
    text = Page(html).text.replace("\u00a0", " ")
    for expected in (
        "3 clusters in 1,500 rows; 2.1 % of the rows lie outside every cluster.",
        "32 of 1,500 rows (2.1 %)",
        "of 1,507 rows read",
        "300,000",
        "not set",
        "Total, peak 1 min 40 s 210 MB 1.31 GB",
        "distsvc run jobs/rings.toml",
        'path = "data/rings.parquet"',
        "distsvc 0.1.0 · finished 2026-08-01 12:34 UTC",
        "domain of novelty, f ≥ 0",
        "support vector",
        "equilibrium",
        "row outside",
    ):
        assert expected in text, expected
    for title, direction, definition in INDICES.values():
        assert f"{title} {direction.capitalize()} is better. {definition}" in text


def test_page_is_self_contained_and_small(html):
    page = Page(html)
    assert len(html) < 1_500_000
    assert page.tags.count("svg") == 4
    assert not {"script", "link", "iframe", "object", "base"} & set(page.tags)
    for name, content in page.attributes:
        assert not name.startswith("on")
        if name in ("src", "href", "xlink:href", "data", "action"):
            assert content.startswith(("#", "data:image/png;base64,")), content
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)
    ids = [content for name, content in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = re.findall(r'(?:href="#|url\(#)([^")]+)', html)
    assert targets
    assert set(targets) <= set(ids)


def test_same_report_same_bytes(html):
    assert render_page(make_report(picture=True)) == html


def test_untrusted_text_is_escaped():
    evil = '<script>alert(1)</script>"&\x00\n$x_1$ 列 id="a" url(#b)'
    report = make_report(picture=True)
    report |= {"title": evil, "command": evil, "job_file": evil, "finished": evil}
    report["warnings"] = [evil]
    report["input"] |= {"path": evil, "format": evil, "columns": [evil, "b"]}
    report["sample"]["axes"] = [evil, evil]
    report["phases"][0]["name"] = evil
    report["model"]["parameters"] = {evil: evil}
    report["indices"][evil] = {"value": 1.0, "rows": 3}
    html = render_page(report)
    page = Page(html)
    assert "<script" not in html
    assert "script" not in page.tags
    in_figure = '<script>alert(1)</script>"& $x_1$ 列 id="a" url(#b)'  # no control characters
    assert page.text.count(in_figure) == 2  # both axis titles, not read as mathematics


def test_svg_text_is_escaped_in_well_formed_xml():
    sample = make_report()["sample"] | {"axes": ["<script>&", "]]>--<b>"]}
    svg = figures.plane(sample, [])
    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]
    assert {"<script>&", "]]>--<b>"} <= set(texts)
    assert "<script" not in svg


@pytest.mark.parametrize(
    ("n_clusters", "outside", "expected"),
    [
        (1, 0, "1 cluster in 1,500 rows; no row lies outside the cluster."),
        (3, 1500, "3 clusters in 1,500 rows; all of the rows lie outside every cluster."),
        (2, 15, "2 clusters in 1,500 rows; 1.0 % of the rows lie outside every cluster."),
    ],
)
def test_answer(n_clusters, outside, expected):
    report = make_report(n_clusters, outside=outside)
    assert answer(report).replace("\u00a0", " ") == expected


def test_all_rows_outside_and_one_cluster():
    report = make_report(1, outside=1500, picture=True)
    report["score_histogram"] = {"edges": [-3.0, -2.0, -1.0], "counts": [1490, 10]}
    report["picture"]["f"] = np.full((40, 40), -0.5).tolist()
    report["picture"]["equilibria"] = []
    text = Page(render_page(report)).text
    assert "domain of novelty" not in text
    assert "row outside" in text
    assert "boundary, f = 0" in text


def test_three_hundred_clusters():
    report = make_report(300, n_rows=3_000_000_000, drawn=3000, outside=10**6)
    text = Page(render_page(report)).text.replace("\u00a0", " ")
    assert "300 clusters in 3,000,000,000 rows; < 0.1 % of the rows" in text
    assert "280 more 2,800,000,000 93.3 %" in text
    assert "The 20 largest clusters; the other 280 hold 93.3 % of the rows." in text
    assert "3,000 of 3,000,000,000 rows" in text


def test_rows_left_out_of_the_picture_are_counted():
    report = make_report()
    report["sample"]["beyond"] = 7
    text = Page(render_page(report)).text
    assert "7 more lie outside and beyond the frame." in text


def test_projection_says_what_it_shows():
    report = make_report()
    report["input"]["n_features"] = 9
    report["sample"] |= {"kind": "pca", "axes": ["first", "second"], "explained": [0.44, 0.17]}
    report["clusters"].append({"label": 3, "rows": 1, "share": 0.001, "outliers": 0})
    text = Page(render_page(report)).text.replace("\u00a0", " ")
    assert "300 of 1,500 rows, on the first two principal components of the 9 columns." in text
    assert "61.0 % of the variance of the rows inside (44.0 % and 17.0 %)" in text
    assert "1 cluster has no row here" in text


def test_one_column():
    report = make_report()
    report["input"] |= {"n_features": 1, "columns": ["pressure"]}
    report["sample"] |= {"kind": "single", "axes": ["pressure", "decision value"]}
    del report["indices"]
    text = Page(render_page(report)).text
    assert "rows of 1 column clustered" in text
    assert "the decision value upwards" in text
    assert "Validity indices" not in text


@pytest.mark.usefixtures("undrawn")
def test_indices_not_defined_unknown_or_with_error():
    report = make_report()
    report["indices"] = {
        "own_index": {"value": 2.0, "rows": 5},
        "davies_bouldin": {"value": math.nan, "rows": 1500},
        "purity": {"value": None, "rows": 1500},
        "compactness": {"value": 1.2345, "rows": 1500, "error": 0.0021},
    }
    html = render_page(report)
    text = Page(html).text
    assert text.count("not defined") == 2
    assert "1.234 ± 0.002" in text
    assert text.index("Compactness") < text.index("Purity") < text.index("own_index")


@pytest.mark.usefixtures("undrawn")
def test_many_and_long_column_names_fold_away():
    report = make_report()
    report["input"]["columns"] = ["x" * 5000] + [f"column {i}" for i in range(199)]
    html = render_page(report)
    assert "<details><summary>200 columns</summary>" in html
    assert "<details" not in render_page(make_report())


@pytest.mark.usefixtures("undrawn")
def test_warnings_come_before_the_picture():
    report = make_report()
    report["warnings"] = ["max_iter was reached"]
    html = render_page(report)
    assert html.index("max_iter was reached") < html.index("The clusters</h2>")
    assert 'role="alert"' in html
    assert 'role="alert"' not in render_page(make_report())


def test_nothing_to_draw():
    report = make_report(outside=0)
    report |= {"clusters": [], "phases": []}
    report["score_histogram"] = {"edges": [0.0], "counts": []}
    report["sample"] |= {key: [] for key in ("x", "y", "label", "outlier")}
    text = Page(render_page(report)).text
    assert "No rows to draw." in text
    assert "No clusters." in text


def test_report_is_not_changed():
    report = make_report(picture=True)
    before = copy.deepcopy(report)
    render_page(report)
    assert report == before


@pytest.mark.usefixtures("undrawn")
def test_page_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")
    write_page(make_report(), path)
    assert path.read_text(encoding="utf-8").endswith("</html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]

    def fail(*_):
        raise OSError("disk full")

    path.write_text("before")
    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_page(make_report(), path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_user_settings_of_matplotlib_do_not_matter():
    import matplotlib as mpl

    phases = make_report()["phases"]
    usual = figures.phase_costs(phases)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        assert figures.phase_costs(phases) == usual
        assert mpl.rcParams["font.size"] == 30


def test_colours():
    assert len(set(figures.COLOURS)) == 20
    colours = figures.cluster_colours([{"label": label} for label in range(45)])
    assert colours[0] == colours[20] == colours[40]


def test_formats():
    assert [figures.percent(x).replace("\u00a0", " ") for x in (0, 1, 0.02, 1e-6, 1 - 1e-9)] == [
        "0 %", "100 %", "2.0 %", "< 0.1 %", "> 99.9 %",
    ]  # fmt: skip
    assert [seconds(x).replace("\u00a0", " ") for x in (0.02, 12.3, 59.97, 125, 7380)] == [
        "0.02 s", "12.3 s", "1 min 00 s", "2 min 05 s", "2 h 03 min",
    ]  # fmt: skip
    assert [megabytes(x).replace("\u00a0", " ") for x in (None, 999.4, 1510.0)] == [
        "–", "999 MB", "1.51 GB",
    ]  # fmt: skip
    assert [value(x) for x in (None, True, 1000, 0.1 + 0.2, [1, 2.5], "x")] == [
        "not set", "true", "1,000", "0.3", "1, 2.5", "x",
    ]  # fmt: skip
    assert moment("yesterday") == "yesterday"
    assert moment("2026-08-01T12:34:56") == "2026-08-01 12:34"
