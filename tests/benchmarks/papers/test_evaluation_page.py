import json
import re

import numpy as np
import pytest

from benchmarks.harness.measure import machine
from benchmarks.harness.rows import write_rows
from benchmarks.harness.systems import SYSTEMS
from benchmarks.papers.evaluate import SCHEMA
from benchmarks.papers.fits import MEASURES
from benchmarks.papers.page import PARTS, write_report
from benchmarks.papers.suites import BSGD_SYSTEMS, IMDH_SYSTEMS
from distsvc.errors import InputNotFoundError
from distsvc.metrics import INDICES
from tests.report.reports import Page

random = np.random.default_rng(0)


def made_row(suite, experiment, name, system, protocol, point=None, seed=0, n=100):
    row = {key: float(random.uniform(0.1, 0.9)) for key in INDICES}
    return row | machine() | {
        "suite": suite, "experiment": experiment, "set": name, "system": system,
        "protocol": protocol, "point": json.dumps(point or {}), "seed": seed, "n": n, "rows": n,
        "d": 4, "classes": 3, "n_clusters": 5, "nmi_geometric": float(random.uniform()),
        "unlabelled": 0.0, "training_seconds": 0.1, "clustering_seconds": 0.2,
        "total_seconds": float(random.uniform(0.1, 9.0)), "peak_mb": 300.0, "before_mb": 100.0,
        "note": "",
    }  # fmt: skip


def protocols(system):
    entry = SYSTEMS[system]
    known = {"oracle": entry.grid or entry.oracle is not None, "blind": entry.blind is not None}
    return [name for name, has in known.items() if has]


def bsgd_rows():
    return [
        made_row("bsgd", protocol, name, system, protocol)
        for name in ("flame", "spiral", "shuttle")
        for system in BSGD_SYSTEMS
        for protocol in protocols(system)
    ]


def imdh_rows():
    rows = [
        made_row("imdh", "table 2", name, system, protocols(system)[0], n=n)
        for name, n in (("optdigits", 5620), ("pendigits", 10_992), ("letter", 20_000))
        for system in IMDH_SYSTEMS
    ]
    return rows + [
        made_row("imdh", figure, name, system, protocols(system)[0], {figure: value}, seed)
        for figure, values in {
            "depth": (3, 8),
            "bandwidth": (0.5, 1.0),
            "alpha": (0.1, 1.0),
        }.items()
        for name in ("optdigits", "pendigits")
        for value in values
        for system in ("iMDH", "iMDH_k")
        for seed in (0, 1)
    ]


def peers_rows():
    return [
        made_row("peers", "growth", name, system, protocols(system)[0], n=n)
        for name in ("gaussians", "rings")
        for system in ("level tree", "k-means")
        for n in (1000, 10_000)
    ]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluation")
    for name, rows in (("bsgd", bsgd_rows()), ("imdh", imdh_rows()), ("peers", peers_rows())):
        write_rows(folder / f"{name}.parquet", rows, SCHEMA)
    return folder, write_report(folder)


def test_the_page_has_every_suite_table_and_figure(out):
    _, paths = out
    assert [path.name for path in paths] == ["bsgd.md", "imdh.md", "peers.md", "report.html"]
    page = paths[-1].read_text()
    tags = Page(page).tags
    assert tags.count("section") == 3
    # 2 of regret and time, 6 of sensitivity, 2 of growth
    assert tags.count("svg") == 10
    # 9 indices and times, Pham et al. (2016), conclusions, differences, shuttle;
    # NMI, ARI, t-tests of both, differences, seconds; peers
    assert tags.count("table") == 20
    assert page.count(f"Measured on {machine()['day']} with distsvc ") == 20 + 10
    for text in (*BSGD_SYSTEMS, *IMDH_SYSTEMS, "oracle", "blind", machine()["cpu"]):
        assert text in page
    assert "https:" not in page  # nothing is fetched
    assert not re.search(r'(src|href)="(?!#)', page)


def test_printed_figures_stand_beside_ours_and_impossible_ones_are_marked(out):
    page, text = ((out[0] / name).read_text() for name in ("report.html", "bsgd.md"))
    assert re.search(r'class="paper wrong" title="[^"]*0\.63[78][^"]*">0\.03<', page)  # flame, FSVC
    purity = text[text.index("## Purity") :].split("##")[1]
    assert re.search(r"distsvc \S+ \([0-9a-f]+(-dirty)?\)", text), "the commit"
    (flame,) = [line for line in purity.splitlines() if line.startswith("| flame")]
    assert "(0.03!)" in flame
    assert "(0.86)" in flame
    assert "no clustering of these classes is below" in page
    assert re.search(r"aggregation, FSVC: one cluster of all rows: 0\.21", text)


def test_a_fit_that_failed_is_said(tmp_path):
    rows = bsgd_rows()
    for column in MEASURES:
        rows[0][column] = None
    rows[0]["note"] = "ValueError: too <many> rows"
    write_rows(tmp_path / "bsgd.parquet", rows, SCHEMA)
    write_report(tmp_path)
    assert "too &lt;many&gt; rows" in (tmp_path / "report.html").read_text()


def test_nothing_to_report(tmp_path):
    with pytest.raises(InputNotFoundError, match=r"has none of bsgd\.parquet, imdh\.parquet"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert set(PARTS) == {"bsgd", "imdh", "linear", "peers"}
