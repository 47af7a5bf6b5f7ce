"""A search on the site leads to a page for users among the first three.

The order is that of the site's search, `docs/static/scorer.js`, on the sources of the pages.
"""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from docs.extensions import pages, search

ROOT = Path(__file__).parents[1]
FOR_USERS = ("start", "choose", "guide", "nights", "operate", "walks", "how")
PAGES = {
    "guide/columns": ["exclude a column", "skewed", "normalize data"],
    "guide/python": ["Jupyter", "DataFrame"],
    "operate/hooks": ["Slack", "email alert"],
    "choose/when-not": ["GPU", "time series"],
    "guide/clusters": ["number of clusters", "too many clusters", "merge clusters"],
    "guide/outliers": ["outliers", "outlier threshold"],
    "guide/reasons": ["reasons", "feature importance"],
    "operate/object-stores": ["S3", "credentials"],
    "guide/lakes": ["Delta Lake", "Iceberg"],
    "guide/inputs": ["CSV", "Zarr"],
    "operate/deploy": ["Airflow", "Kubernetes"],
    "operate/exit-codes": ["exit code"],
    "operate/interruptions": ["interrupted", "resume", "job stopped halfway"],
    "nights/backfill": ["backfill"],
    "nights/history": ["rollback", "undo"],
    "nights/index": ["drift", "ids of clusters"],
    "nights/bad-night": ["unit changed", "column renamed"],
    "nights/export": ["SQL", "DuckDB"],
    "operate/clusters": ["memory", "TLS"],
    "operate/metrics": ["Prometheus", "monitoring"],
    "choose/from-hdbscan": ["HDBSCAN"],
    "start/install": ["install", "install without internet"],
    "start/page": ["names", "names of clusters"],
    "nights/checks": ["held back", "publish a candidate"],
    "guide/how-sure": ["confidence", "membership"],
    "nights/retention": ["delete old runs", "remove old results"],
    "walks/embeddings": ["embeddings", "images"],
    "choose/algorithms": ["kmeans", "what algorithm should I use"],
    "performance/index": ["slow", "how long will it take"],
    "evaluation/index": ["how accurate is it"],
    "operate/messages": ["error messages"],
    "reference/job-file": ["configuration file"],
    "how/glossary": ["glossary of terms"],
}
QUERIES = {query: page for page, queries in PAGES.items() for query in queries}


def texts() -> dict[str, str]:
    """Return the text of every page of the site, by its name there."""
    elsewhere = {page: source for source, page in pages.shown_elsewhere().items()}
    found = {}
    for path in (ROOT / "docs").glob("**/*.md"):
        name = path.relative_to(ROOT).as_posix()
        source = elsewhere.get(name, name)
        found[name.removeprefix("docs/").removesuffix(".md")] = (ROOT / source).read_text()
    return found


def stem(word: str) -> str:
    return re.sub(r"(ions?|ing|ed|es|s|d|e|ly)$", "", word) if len(word) > 4 else word


def sections(text: str) -> list[search.Place]:
    """Return the words of each section of a page."""
    parts = re.split(r"(?m)^#+ (.*)$", text)[1:]
    return [
        search.place_of(
            heading, " ".join(search.QUESTIONS.findall(body)), search.QUESTIONS.sub("", body), stem
        )
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    ]


SECTIONS = {
    f"{name}#{number}": section
    for name, text in texts().items()
    for number, section in enumerate(sections(text))
}
PLACES = search.pages_of(SECTIONS)
INDEXES = [search.scores(places) for places in (PLACES, SECTIONS)]
SYNONYMS = search.synonyms(stem)


def is_mistyped(short: str, long: str) -> bool:
    at = next((n for n, letter in enumerate(short) if letter != long[n]), 0)
    return at > 0 and long[at + 1 :] in (short[at:], short[at + 1 :])


def is_alike(one: str, other: str, is_known: bool) -> bool:
    short, long = sorted((one, other), key=len)
    is_long = len(short) >= search.STEM_LENGTH
    if is_known:
        return is_long and long.startswith(short)
    if is_long and is_mistyped(short, long):
        return True
    return short in long if len(short) > 3 else len(short) > 2 and long.startswith(short)


def scores_of_word(word: str, index: dict) -> dict[str, float]:
    key = next((one for one in SYNONYMS if is_alike(one, word, True)), word)
    synonyms = SYNONYMS.get(word) or SYNONYMS.get(key, [])
    is_known = bool(synonyms) or word in index
    alike = [one for one in index if one != word and is_alike(one, word, is_known)]
    best = defaultdict(float)
    for one, weight in [(word, 1.0), *((o, search.SYNONYM_WEIGHT) for o in [*synonyms, *alike])]:
        for place, score in index.get(one, {}).items():
            best[place] = max(best[place], weight * score)
    return best


def scores(query: str, index: dict) -> dict[str, float]:
    sums = defaultdict(float)
    words = search.telling(search.words_of(query))
    for word in dict.fromkeys(map(stem, words)):
        for place, score in scores_of_word(word, index).items():
            sums[place] += score
    return sums


def results(query: str) -> list[str]:
    """Return the pages that have words of a query, the best first."""
    of_pages, of_sections = (scores(query, index) for index in INDEXES)
    best = defaultdict(float)
    for place, score in of_sections.items():
        page = place.partition("#")[0]
        best[page] = max(best[page], score)
    weights = search.weights(PLACES)
    return sorted(of_pages, key=lambda page: -(of_pages[page] + best[page]) * weights.get(page, 1))


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_leads_to_its_page(query):
    assert QUERIES[query] in results(query)[:3]


def test_a_design_paper_is_never_before_a_page_for_users():
    for query in QUERIES:
        assert not results(query)[0].startswith("design/"), results(query)[:3]


def test_a_word_has_its_synonyms_in_both_directions():
    assert stem("rollback") in SYNONYMS[stem("undo")]
    assert stem("undo") in SYNONYMS[stem("rollback")]


@pytest.mark.parametrize("page", [page for page in PLACES if page.startswith(FOR_USERS)])
def test_a_page_for_users_has_questions(page):
    assert PLACES[page].questions


def test_every_comment_with_questions_is_read():
    for page, text in texts().items():
        comments = re.findall(r"(?m)^<!-- question", text)
        assert len(comments) == len(search.QUESTIONS.findall(text)), page


def test_the_site_uses_the_scores():
    settings = (ROOT / "docs/conf.py").read_text()
    assert '"static" / "scorer.js"' in settings
    assert '"docs.extensions.search"' in settings
