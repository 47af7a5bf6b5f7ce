"""The history page."""

import re

from distsvc.published.history import render_history
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.night import Night


def nights(n: int, job: str = "shop", **facts) -> list[Night]:
    days = [f"2026-{1 + i // 28:02d}-{1 + i % 28:02d}" for i in range(n)]
    told = {"run_id": "r", "rows": 600, "clusters": 2, "sizes": {0: 400, 1: 200}, **facts}
    return [Night(job=job, date=day, output=f"/out/{day}", **told) for day in days]


def words(page: str) -> str:
    text = re.sub(r"<(svg|style).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub("<[^>]*>", " ", text).split())


def test_every_night_has_a_line_the_latest_first():
    page = render_history(nights(PAGE_LIMITS.nights + 9), [""] * (PAGE_LIMITS.nights + 9))
    said = words(page)
    assert "History of shop" in said
    assert f"{PAGE_LIMITS.nights + 9} nights published, from 2026-01-01 to 2026-02-12." in said
    assert said.index("2026-02-12 600") < said.index("2026-01-01 600")
    assert "9 earlier nights" in said
    assert "<a href" not in page


def test_new_gone_and_held_are_listed():
    first, second, third = nights(3)
    second = second.model_copy(
        update={"new": [5], "back": [3], "gone": [1], "warned": ["max_rows"]}
    )
    held = Night(job="shop", date=third.date, output="/o", held=["r9"], odd="nothing is published")
    page = render_history([first, second, held], ["a.html", "b.html", ""])
    said = words(page)
    assert "2 nights published" in said
    assert "1 night with candidates that checks hold back. 1 cluster came, 1 cluster went" in said
    assert "5, 3 back" in said
    assert "max_rows warned" in said
    assert "nothing is published, held: r9" in said
    assert '2026-01-03</th><td colspan="10" class="state failed">nothing' in page, "beside its date"


def test_each_job_has_a_section_and_text_is_escaped():
    page = render_history(nights(2, "<b>a</b>") + nights(3, "b"), ["x.html?a=1&b=2"] * 5)
    assert "<h1>History</h1>" in page
    assert "<h2>&lt;b&gt;a&lt;/b&gt;</h2>" in page
    assert "<h2>b</h2>" in page
    assert 'href="x.html?a=1&amp;b=2"' in page
