"""The section on memberships."""

from distsvc.report.content.parts import MembershipPart
from distsvc.report.figures import clusters as figures
from tests.report.reports import make_report, page_text

COUNTS = [0] * 8 + [30, 10] + [0] * 8 + [20, 40]


def with_membership():
    report = make_report(2)
    report["membership"] = {"meaning": "1 / r <of a centre>", "counts": COUNTS}
    return report


def test_shares_of_rows_by_membership():
    part = MembershipPart(meaning="a", counts=COUNTS)
    assert [part.above(p) for p in (0.0, 0.4, 0.45, 0.5, 0.9, 0.95, 1.0)] == [
        1.0, 1.0, 0.7, 0.6, 0.6, 0.4, 0.0,
    ]  # fmt: skip
    assert MembershipPart(meaning="a", counts=[0, 0]).above(0.5) == 0.0


def test_the_section(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "membership", lambda counts: drawn.append(counts) or "<svg/>")
    text = page_text(with_membership())
    assert "How sure each row's cluster is" in text
    assert "60.0 % of the rows have a membership of 0.9 or more" in text
    assert "1 / r <of a centre>" in text
    assert drawn == [COUNTS]
    assert "How sure" not in page_text(make_report(2))
