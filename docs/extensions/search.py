"""Scores of words, by which `docs/static/scorer.js` ranks the results of a search.

Sphinx's own index says only on which pages a word stands. This extension writes
`_static/scores.js`: for each word its score (BM25) in every page and section that has it, and the
synonyms of `docs/static/synonyms.txt`.

A comment below a heading, `<!-- questions: ... -->`, lists questions that the section answers, in
the words of people who don't know ours. It is not shown. Its words count like a heading's, by the
square root of their number.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

STATIC = Path(__file__).parents[1] / "static"
SYNONYMS = STATIC / "synonyms.txt"
FILE = "scores.js"
QUESTIONS = re.compile(r"^<!-- questions:\s(.*?)\s-->$", re.MULTILINE | re.DOTALL)
FILLERS = frozenset((STATIC / "fillers.txt").read_text(encoding="utf-8").split())
"""Words that say nothing about the subject of a query or a section."""
HEADING_WEIGHT = 12
"""Weight of a word in a heading or a question, in occurrences in the text."""
SATURATION = 6
"""Frequency at which a word has half of its highest score: k1 of BM25."""
LENGTH_WEIGHT = 0.75
"""Share of the excess length of a place that divides frequencies in its text: b of BM25."""
DEVELOPER_WEIGHT = 0.3
"""Weight of pages without questions, which are not written for users."""
SYNONYM_WEIGHT = 0.5
"""Weight of synonyms, and of words alike."""
STEM_LENGTH = 5
"""Letters from which a word is alike to a longer one that begins with it."""

Words = list[str]


class Place(NamedTuple):
    """The words of a page or a section."""

    heading: Words
    questions: Words
    text: Words


def scores(places: Mapping[str, Place]) -> dict[str, dict[str, float]]:
    """Return for each word the places that have it, with its score there."""
    mean = sum(len(place.text) for place in places.values()) / len(places)
    frequencies: dict[str, dict[str, float]] = defaultdict(dict)
    for name, (heading, questions, text) in places.items():
        excess = max(0.0, len(text) / mean - 1)  # a list of links is no better for being short
        for word, count in Counter(text).items():
            frequencies[word][name] = count / (1 + LENGTH_WEIGHT * excess)
        weights = Counter(set(heading))
        for word, count in Counter(questions).items():
            weights[word] += math.sqrt(count)
        for word, weight in weights.items():
            frequencies[word][name] = frequencies[word].get(name, 0) + HEADING_WEIGHT * weight
    return {
        word: {
            name: round(math.log(1 + len(places) / len(found)) * of / (of + SATURATION), 2)
            for name, of in found.items()
        }
        for word, found in frequencies.items()
    }


def pages_of(sections: Mapping[str, Place]) -> dict[str, Place]:
    """Return the words of pages, from the words of their sections (`page#anchor`)."""
    found: dict[str, Place] = {}
    for place, section in sections.items():
        page = found.setdefault(place.partition("#")[0], Place([], [], []))
        for words, more in zip(page, section, strict=True):
            words += more
    return found


def weights(pages: Mapping[str, Place]) -> dict[str, float]:
    """Return the weights of pages that are not for users."""
    return {page: DEVELOPER_WEIGHT for page, place in pages.items() if not place.questions}


def numbered(places: Mapping[str, Place]) -> dict[str, Any]:
    """Return the names of places, and the scores by their numbers, which take less space."""
    numbers = {place: n for n, place in enumerate(places)}
    words = {
        word: {numbers[place]: score for place, score in found.items()}
        for word, found in scores(places).items()
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


def words_of(text: str) -> Words:
    """Return the words of a text, in lower case; k-means is also kmeans."""
    compounds = ["".join(parts) for parts in re.findall(r"\b(\w+)-(\w+)\b", text)]
    return [word.lower() for word in [*re.findall(r"\w+", text), *compounds]]


def telling(words: Words) -> Words:
    """Return the words without fillers, unless all are fillers."""
    return [word for word in words if word not in FILLERS] or words


def place_of(heading: str, questions: str, text: str, stem: Callable[[str], str]) -> Place:
    """Return the stems of a section; a query of fillers alone can match headings and questions."""
    words = words_of(heading), words_of(questions), telling(words_of(text))
    return Place(*([stem(word) for word in of] for of in words))


def take_questions(app: Sphinx, doctree: nodes.document) -> None:
    """Move the questions of sections from comments, which the site would have, to the sections."""
    from docutils import nodes

    for comment in list(doctree.findall(nodes.raw)):
        found = QUESTIONS.fullmatch(comment.astext().strip())
        if found:
            comment.parent["questions"] = found[1]
            comment.parent.remove(comment)


def text_of(section: nodes.section) -> str:
    """Return the text of a section without its heading and its subsections."""
    from docutils import nodes

    own = [node for node in section[1:] if not isinstance(node, nodes.section)]
    return " ".join(text.astext() for node in own for text in node.findall(nodes.Text))


def content(doctrees: Mapping[str, nodes.document]) -> dict[str, Any]:
    """Return all that the search knows of the pages of a site."""
    from docutils import nodes
    from sphinx.search.en import SearchEnglish

    stem = SearchEnglish({}).stem
    sections, headings = {}, {}
    for page, doctree in doctrees.items():
        for section in doctree.findall(nodes.section):
            place = f"{page}#{section['ids'][0]}"
            headings[place] = section[0].astext()
            texts = headings[place], section.get("questions", ""), text_of(section)
            sections[place] = place_of(*texts, stem)
    pages = pages_of(sections)
    return {
        "pages": numbered(pages),
        "sections": numbered(sections),
        "weights": weights(pages),
        "headings": headings,
        "synonyms": synonyms(stem),
        "synonymWeight": SYNONYM_WEIGHT,
        "stemLength": STEM_LENGTH,
        "fillers": sorted(FILLERS),
    }


def write(app: Sphinx, error: Exception | None) -> None:
    """Write scores, headings and synonyms beside the pages of a site."""
    if error or app.builder.name != "html":
        return
    doctrees = {page: app.env.get_doctree(page) for page in sorted(app.env.found_docs)}
    text = json.dumps(content(doctrees), separators=(",", ":"), sort_keys=True)
    (Path(app.outdir) / "_static" / FILE).write_text(f"const SCORES = {text};\n", "utf-8")


def load(app: Sphinx, page: str, *_: Any) -> None:
    """Load the scores on the page of the search."""
    if page == "search":
        app.add_js_file(FILE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-read", take_questions)
    app.connect("html-page-context", load)
    app.connect("build-finished", write, priority=400)  # before links are checked
    return {"parallel_read_safe": True}
