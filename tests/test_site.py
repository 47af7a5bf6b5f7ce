"""What the documentation's build adds to its pages, and what it finds wrong with them."""

from docs.extensions import generated, links, pages


def test_links_lead_from_the_page_that_shows_a_file_elsewhere():
    text = "[a](docs/how/index.md) [b](jobs/iris.toml#x) [c](#here) [d](https://example.org)"
    shown = pages.relinked(text, "DESIGN.md", "docs/design/overview.md", {})
    assert shown == (
        "[a](../how/index.md) [b](../../jobs/iris.toml#x) [c](#here) [d](https://example.org)"
    )


def test_a_link_to_a_file_leads_to_the_page_that_shows_it():
    known = {"DESIGN.md": "docs/design/overview.md"}
    text = "[a](../../DESIGN.md#layers)"
    shown = pages.relinked(text, "docs/how/index.md", "docs/how/index.md", known)
    assert shown == "[a](../design/overview.md#layers)"


def test_code_is_left_as_it_is():
    text = "a\n```text\na\n```\na\n"
    assert pages.outside_fences(text, str.upper) == "A\n```text\na\n```\nA\n"


def test_the_contents_are_the_pages_that_a_list_links_to():
    text = "[x](no.md)\n\n- [A](a.md): one.\n- [B](b/index.md)\n- [C](c.rst)\n- [D](d.md#e)\n"
    assert pages.contents(text).split() == [
        ":::{toctree}", ":hidden:", "a", "b/index", "c", ":::"
    ]  # fmt: skip
    assert pages.contents("no list") == ""


def test_every_file_that_lies_elsewhere_has_one_page():
    shown = pages.shown_elsewhere()
    assert shown["CONTRIBUTING.md"] == "docs/contribute/index.md"
    assert all((pages.ROOT / name).is_file() for name in shown)


def test_a_built_page_with_wrong_links_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">b</a> <a href="#here">a</a> <a href="#no">n</a>'
        '<a href="gone.html">g</a> <a href="https://example.org">e</a>'
        '<script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1>')
    n_links, found = links.faults(tmp_path)
    assert n_links == 6
    assert found == [
        "a.html: loads https://example.org/x.js from elsewhere",
        "a.html: #no leads nowhere",
        "a.html: gone.html leads nowhere",
    ]


def test_values_of_keys_are_told_in_words():
    number = {"type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0}
    assert generated.values(number, {}) == "number above 0 up to 1"
    assert generated.values({"type": "integer", "minimum": 1000}, {}) == "whole number from 1,000"
    either = {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}
    assert generated.values(either, {}) == '`"a"`, `"b"`'
    two = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    assert generated.values(two, {}) == "2 values: text"


def test_the_first_sentence_goes_to_the_first_full_stop_before_a_capital():
    assert generated.first_sentence("C of eq. (3), at most 100. Below 1.") == (
        "C of eq. (3), at most 100."
    )
