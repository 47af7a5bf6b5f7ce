import tempfile

import pytest
from jinja2 import Environment

from distsvc.errors import things
from distsvc.report import formats
from distsvc.report.formats import (
    compact,
    count,
    first_clause,
    listed,
    measured,
    megabytes,
    moment,
    number,
    one_line,
    percent,
    seconds,
    short_name,
    value,
)


def test_shares_durations_memory_values_and_times():
    assert [percent(x).replace("\u00a0", " ") for x in (0, 1, 0.02, 1e-6, 1 - 1e-9)] == [
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


def test_a_clause_that_goes_on_has_an_ellipsis():
    said = "extreme rows: id 7 (total = 5), id 8 (total = 6); ignored while learning"
    assert first_clause(said, 60) == "extreme rows: id 7, …"
    assert first_clause("not used: 'id' (an id); see there", 60) == "not used: 'id'"
    assert first_clause("one thing; another", 60) == "one thing"


def test_counts_and_lists():
    assert [count(x) for x in (None, 0, 1234567)] == ["–", "0", "1,234,567"]
    assert [compact(x) for x in (999_999, 1_234_567, 2.5e9)] == ["999,999", "1.235 M", "2.5 bn"]
    assert [things(n, "row") for n in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
    assert listed(["a"]) == "a"
    assert listed([1, 2, 3]) == listed([1, 2, 3], 3) == "1, 2 and 3"
    assert listed(range(9), 2) == "0, 1 and 7 more"


def test_values_that_hardly_vary_have_more_digits():
    assert [number(x, 0.05) for x in (47.3812, -8.6, 0.0)] == ["47.381", "−8.6", "0"]
    assert [number(x, 10.0) for x in (34.0, 0.25, 1234.5)] == ["34", "0.25", "1,234"]
    assert number(1_600_000_123.0, 100.0) == "1,600,000,123"
    assert number(-0.0) == number(-0.0, 0.5) == "0"
    assert number(1234.567, 0.5) == "1,234.57"
    assert number(0.1 + 0.2, 1e-17) == "0.3", "rounding errors are no digits"
    assert number(1e-20, 1e-25) == "1e−20"


def test_values_are_shown_in_the_unit_of_their_column():
    assert measured(1234.5) == number(1234.5)
    assert measured(19_000.0, "date") == "2022-01-08"
    assert measured(1.6e9, "time") == "2020-09-13 12:26"
    assert measured(19_000.0 * 86_400, "time") == "2022-01-08"
    assert measured(45_296.0, "clock") == "12:34:56"
    assert measured(7_500.0, "seconds") == "2\u00a0h\u00a005\u00a0min"
    assert measured(-30.0, "seconds") == "−30.0\u00a0s"
    assert measured(1e300, "date") == number(1e300)


def test_untrusted_text_is_one_line_and_short():
    assert one_line("a\n\tb\x00c  d", 20) == "a b c d"
    assert one_line("x" * 10, 10) == "x" * 10
    assert one_line("x" * 11, 10) == "x" * 9 + "…"
    assert short_name("a" * 10, 10) == "a" * 10
    assert short_name("a" * 99 + "_7", 10) == "aaaaaa…a_7"
    assert one_line(3, 10) == "3"


@pytest.fixture
def compilations(tmp_path, monkeypatch):
    """Names of the templates that are compiled during a test; the cache is empty at first."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    compile_template, names = Environment.compile, []

    def compiled(self, source, name=None, *args, **kwargs):
        names.append(name)
        return compile_template(self, source, name, *args, **kwargs)

    monkeypatch.setattr(Environment, "compile", compiled)
    return names


def uncached():
    return formats.template.__wrapped__("history.html")


def test_a_template_is_compiled_once_for_all_processes(compilations, tmp_path):
    uncached()
    (file,) = tmp_path.glob("_jinja2-cache-*/distsvc-*")
    uncached()
    assert compilations == ["history.html"]
    file.write_bytes(file.read_bytes()[:20])  # damaged
    uncached()
    uncached()
    assert compilations == 2 * ["history.html"]


def test_a_cache_that_can_not_be_written_is_not_needed(compilations, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    uncached()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    uncached()
    assert compilations == 2 * ["history.html"]


def full(*_, **__):
    raise OSError(28, "No space left on device")
