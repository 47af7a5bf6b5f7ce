"""Word frequencies from which `docs/static/scorer.js` ranks the results of a search.

Sphinx's own index says only on which pages a word stands. The frequencies in sections and in pages
are written beside it, as `_static/frequencies.js`, with the synonyms of `docs/static/synonyms.txt`.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

SYNONYMS = Path(__file__).parents[1] / "static" / "synonyms.txt"
FILE = "frequencies.js"
TITLE_WEIGHT = 20
"""Weight of a word in the title of a page, in occurrences in the text."""
HEADING_WEIGHT = 12
"""Weight of a word in any other heading, in occurrences in the text."""
LENGTH_WEIGHT = 0.75
"""Share of the excess length of a place that divides its frequencies: b of BM25."""

Words = list[str]


class Place(NamedTuple):
    """The words of a page or a section."""

    title: Words
    """Title of a page; empty for its later sections."""
    headings: Words
    text: Words


def frequencies(places: Mapping[str, Place]) -> dict[str, dict[str, float]]:
    """Return for each word the places that have it, with its weighted frequency there."""
    mean = sum(len(place.text) for place in places.values()) / len(places)
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for place, (title, headings, text) in places.items():
        counts = Counter(text)
        for weight, words in ((TITLE_WEIGHT, title), (HEADING_WEIGHT, headings)):
            counts.update({word: weight * n for word, n in Counter(words).items()})
        excess = max(0.0, len(text) / mean - 1)  # a list of links is no better for being short
        for word, count in counts.items():
            found[word][place] = round(count / (1 + LENGTH_WEIGHT * excess), 2)
    return dict(found)


def pages_of(sections: Mapping[str, Place]) -> dict[str, Place]:
    """Return the words of pages, from the words of their sections (`page#anchor`)."""
    found: dict[str, Place] = {}
    for place, section in sections.items():
        page = found.setdefault(place.partition("#")[0], Place([], [], []))
        for words, more in zip(page, section, strict=True):
            words += more
    return found


def numbered(places: Mapping[str, Place]) -> dict[str, Any]:
    """Return the names of places, and the frequencies by their numbers, which take less space."""
    numbers = {place: n for n, place in enumerate(places)}
    words = {
        word: {numbers[place]: of for place, of in found.items()}
        for word, found in frequencies(places).items()
    }
    return {"places": list(numbers), "words": words}


def synonyms(stem: Callable[[str], str]) -> dict[str, Words]:
    """Return the synonyms of each stem that has some."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in SYNONYMS.read_text(encoding="utf-8").splitlines():
        stems = {stem(word) for word in line.split()}
        for one in stems:
            found[one] |= stems - {one}
    return {one: sorted(others) for one, others in sorted(found.items())}


def compounds(text: str) -> Words:
    """Return each word with a hyphen as one word: kmeans for k-means."""
    return ["".join(parts) for parts in re.findall(r"\b(\w+)-(\w+)\b", text)]


def text_of(section: nodes.section) -> str:
    """Return the text of a section without its heading and its subsections."""
    from docutils import nodes

    own = [node for node in section[1:] if not isinstance(node, nodes.section)]
    return " ".join(text.astext() for node in own for text in node.findall(nodes.Text))


def write(app: Sphinx, error: Exception | None) -> None:
    """Write frequencies, headings and synonyms beside the pages of a site."""
    from docutils import nodes
    from sphinx.search.en import SearchEnglish

    if error or app.builder.name != "html":
        return
    language = SearchEnglish({})

    def stems(text: str) -> Words:
        words = [word.lower() for word in [*language.split(text), *compounds(text)]]
        return [language.stem(word) for word in words if word not in language.stopwords]

    sections, headings = {}, {}
    for page in sorted(app.env.found_docs):
        for number, section in enumerate(app.env.get_doctree(page).findall(nodes.section)):
            place = f"{page}#{section['ids'][0]}"
            headings[place] = section[0].astext()
            heading, text = stems(headings[place]), stems(text_of(section))
            sections[place] = Place([], heading, text) if number else Place(heading, [], text)
    content = {
        "pages": numbered(pages_of(sections)),
        "sections": numbered(sections),
        "headings": headings,
        "synonyms": synonyms(language.stem),
    }
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    (Path(app.outdir) / "_static" / FILE).write_text(f"const FREQUENCIES = {text};\n", "utf-8")


def load(app: Sphinx, page: str, *_: Any) -> None:
    """Load the frequencies on the page of the search."""
    if page == "search":
        app.add_js_file(FILE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", load)
    app.connect("build-finished", write, priority=400)  # before links are checked
    return {"parallel_read_safe": True}
