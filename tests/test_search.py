"""A search on the site leads to a page for users among the first three.

The order is that of the site's search, `docs/static/scorer.js`, on the sources of the pages.
"""

import math
import re
from collections import defaultdict
from pathlib import Path

import pytest

from docs.extensions import pages, search

ROOT = Path(__file__).parents[1]
SCORER = (ROOT / "docs/static/scorer.js").read_text()
WEIGHTS = [
    (pattern.replace("\\/", "/"), float(weight))
    for pattern, weight in re.findall(r"\[/(\^.*)/, ([\d.]+)\]", SCORER)
]
SATURATION, SYNONYM_WEIGHT, STEM_LENGTH = (
    float(re.search(rf"const {name} = ([\d.]+);", SCORER)[1])
    for name in ("SATURATION", "SYNONYM_WEIGHT", "STEM_LENGTH")
)
FILLERS = set(re.findall("[a-z]+", re.search(r"FILLERS = .*?\n(.*?)\.split", SCORER, re.S)[1]))
STOPWORDS = set(re.findall(r"\w+", "a the of to in by with for and is it how do i my what should"))
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


def words(text: str, fillers: set[str] = frozenset()) -> list[str]:
    found = [*re.findall(r"\w+", text.lower()), *search.compounds(text.lower())]
    found = [word for word in found if word not in STOPWORDS]
    telling = [word for word in found if word not in fillers]
    return [stem(word) for word in telling or found]


def sections(text: str) -> list[search.Place]:
    """Return the words of each section of a page; the first has the title."""
    title, first, *parts = re.split(r"(?m)^#+ (.*)$", text)[1:]
    later = zip(parts[::2], parts[1::2], strict=True)
    return [
        search.Place(words(title), [], words(first)),
        *(search.Place([], words(head), words(body)) for head, body in later),
    ]


SECTIONS = {
    f"{name}#{number}": section
    for name, text in texts().items()
    for number, section in enumerate(sections(text))
}
PLACES = (search.pages_of(SECTIONS), SECTIONS)
INDEXES = [(len(places), search.frequencies(places)) for places in PLACES]
SYNONYMS = search.synonyms(stem)


def is_alike(one: str, other: str, is_known: bool) -> bool:
    short, long = sorted((one, other), key=len)
    if is_known:
        return len(short) >= STEM_LENGTH and long.startswith(short)
    return short in long if len(short) > 3 else len(short) > 2 and long.startswith(short)


def scores_of_word(word: str, n_places: int, frequencies: dict) -> dict[str, float]:
    key = next((one for one in SYNONYMS if is_alike(one, word, True)), word)
    synonyms = SYNONYMS.get(word) or SYNONYMS.get(key, [])
    is_known = bool(synonyms) or word in frequencies
    alike = [one for one in frequencies if one != word and is_alike(one, word, is_known)]
    stems = [(word, 1.0), *((one, SYNONYM_WEIGHT) for one in [*synonyms, *alike])]
    best = defaultdict(float)
    for one, weight in stems:
        found = frequencies.get(one, {})
        for place, frequency in found.items():
            rarity = math.log(1 + n_places / len(found))
            score = weight * rarity * frequency / (frequency + SATURATION)
            best[place] = max(best[place], score)
    return best


def scores(query: str, index: tuple[int, dict]) -> dict[str, float]:
    sums = defaultdict(float)
    for word in dict.fromkeys(words(query, FILLERS)):
        for place, score in scores_of_word(word, *index).items():
            sums[place] += score
    return sums


def weight(name: str) -> float:
    return next((of for pattern, of in WEIGHTS if re.match(pattern, name)), 1.0)


def results(query: str) -> list[str]:
    """Return the pages that have words of a query, the best first."""
    of_pages, of_sections = (scores(query, index) for index in INDEXES)
    best = defaultdict(float)
    for place, score in of_sections.items():
        page = place.partition("#")[0]
        best[page] = max(best[page], score)
    return sorted(of_pages, key=lambda page: -(of_pages[page] + best[page]) * weight(page))


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_leads_to_its_page(query):
    assert QUERIES[query] in results(query)[:3]


def test_a_design_paper_is_never_before_a_page_for_users():
    for query in QUERIES:
        assert not results(query)[0].startswith("design/"), results(query)[:3]


def test_a_word_has_its_synonyms_in_both_directions():
    assert stem("rollback") in SYNONYMS[stem("undo")]
    assert stem("undo") in SYNONYMS[stem("rollback")]


def test_the_site_uses_the_scores_and_the_frequencies():
    settings = (ROOT / "docs/conf.py").read_text()
    assert '"static" / "scorer.js"' in settings
    assert '"docs.extensions.search"' in settings
    assert WEIGHTS
