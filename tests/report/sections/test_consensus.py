import re

import pytest

from tests.report.reports import make_levels_report, make_report, page_text, rendered

pytestmark = pytest.mark.usefixtures("undrawn")


def test_order_of_the_sections():
    report = make_levels_report("r15", doubts=["The models hardly agree.", "Try iMDH."])
    report["warnings"] = ["max_iter was reached"]
    html = rendered(report)
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "Warnings", "Cluster sizes", "What each cluster is", "Inside or outside", "Doubts",
        "Why 15 clusters", "Validity indices", "Time and memory", "How to run it again",
    ]  # fmt: skip
    assert "Doubts The models hardly agree. Try iMDH. Why 15 clusters" in page_text(report)
    for other in (make_report(), make_levels_report()):
        assert 'id="doubts"' not in rendered(other)
    assert "Why" not in page_text(make_report())


def test_tables_of_candidates_granularities_and_models():
    report = make_levels_report("spiral")
    html, text = rendered(report), page_text(report)
    assert "1 90.0 % 1.5 % 25.0 % – 2 90.0 % 3.0 % 37.5 % 6.0 3 90.0 % 4.5 % 75.0 % 4.0 4" in text
    assert "Clusters Quality Votes Neighbours separated Support z 1" in text
    bars = re.findall(r'style="width:(\S+)%" role="img" aria-label="(\S+\s%)', html)
    assert bars[:3] == [("33.3", "33.3\u00a0%"), ("50.0", "50.0\u00a0%"), ("100.0", "100\u00a0%")]
    best = re.findall(r'<tr class="best">(.*?)</tr>', html, flags=re.DOTALL)
    assert [re.sub(r"<.*?>|\u00a0", "", row) for row in best] == [
        "390.0%4.5%75.0%4.0", "default · this run375.0%10,000", "4422009yes · drawn above",
    ]  # fmt: skip
    assert "coarse 2 75.0 % 3,000 default · this run 3 75.0 % 10,000 fine 5" in text
    assert "<summary>The 4 models</summary>" in html
    assert "2 1 2 200 7 no 3 2 2 200 8 yes" in text


def test_equal_granularities_are_one_sentence():
    report = make_levels_report()
    for row in report["levels"]["granularity"]:
        row["n_clusters"] = 3
    text = page_text(report)
    assert "The granularities coarse, default and fine all give 3 clusters." in text
    assert "Coarser or finer" not in text
    report["levels"]["granularity"] = report["levels"]["granularity"][:1]
    assert "ranularit" not in page_text(report)
