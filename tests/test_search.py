"""A search on the site leads to a page for users among the first three.

The order is that of the site's search on these sources: Sphinx's matches of words, parts of words
and headings, weighted and added up by `docs/static/scorer.js`.
"""

import math
import re
from pathlib import Path

import pytest

from docs.extensions import pages

ROOT = Path(__file__).parents[1]
SCORER = (ROOT / "docs/static/scorer.js").read_text()
WEIGHTS = [
    (pattern.replace("\\/", "/"), float(weight))
    for pattern, weight in re.findall(r"\[/(\^.*)/, ([\d.]+)\]", SCORER)
]
STOPWORDS = {"a", "the", "of", "to", "in", "by", "with", "for", "and", "is", "how", "do", "i", "my"}
QUERIES = {
    "exclude a column": "guide/columns",
    "skewed": "guide/columns",
    "Jupyter": "guide/python",
    "Slack": "operate/hooks",
    "GPU": "choose/when-not",
    "missing values": "guide/columns",
    "categories": "guide/columns",
    "DataFrame": "guide/python",
    "number of clusters": "guide/clusters",
    "outliers": "guide/outliers",
    "reasons": "guide/reasons",
    "S3": "operate/object-stores",
    "Delta Lake": "guide/lakes",
    "Iceberg": "guide/lakes",
    "CSV": "guide/inputs",
    "Zarr": "guide/inputs",
    "Airflow": "operate/deploy",
    "Kubernetes": "operate/deploy",
    "Docker": "operate/deploy",
    "exit code": "operate/exit-codes",
    "interrupted": "operate/interruptions",
    "backfill": "nights/backfill",
    "rollback": "nights/history",
    "drift": "nights/index",
    "ids of clusters": "nights/index",
    "unit changed": "nights/bad-night",
    "SQL": "nights/export",
    "DuckDB": "nights/export",
    "moved": "nights/export",
    "memory": "operate/clusters",
    "Prometheus": "operate/metrics",
    "HDBSCAN": "choose/from-hdbscan",
    "install": "start/install",
    "TLS": "operate/clusters",
    "names": "start/page",
    "held back": "nights/checks",
    "parquet files": "guide/inputs",
    "cluster ids change": "nights/index",
    "column renamed": "nights/bad-night",
    "too many clusters": "guide/clusters",
    "merge small clusters": "guide/clusters",
    "notebook": "guide/python",
    "pandas": "guide/python",
    "polars": "guide/python",
    "predict new rows": "nights/fourteen-nights",
    "log transform": "guide/columns",
    "scale columns": "guide/columns",
    "text columns": "guide/columns",
    "dates": "guide/columns",
    "outlier threshold": "guide/outliers",
    "confidence": "guide/how-sure",
    "membership": "guide/how-sure",
    "email alert": "operate/hooks",
    "cron": "operate/deploy",
    "systemd": "operate/deploy",
    "Slurm": "operate/deploy",
    "out of memory": "operate/clusters",
    "resume": "operate/interruptions",
    "delete old runs": "nights/retention",
    "publish a candidate": "nights/checks",
    "undo": "nights/history",
    "embeddings": "walks/embeddings",
    "credentials": "operate/object-stores",
    "random seed": "guide/python",
    "names of clusters": "start/page",
    "history": "nights/history",
    "export": "nights/export",
    "time series": "choose/when-not",
    "sample weights": "guide/python",
    "error messages": "operate/messages",
    "dashboard": "operate/clusters",
    "new category": "guide/columns",
    "join labels": "guide/python",
    "id column": "guide/columns",
    "which cluster moved": "nights/export",
    "rename cluster": "start/page",
    "null values": "guide/columns",
    "missing data": "guide/columns",
    "anomaly detection": "guide/outliers",
    "feature importance": "guide/reasons",
    "Athena": "nights/export",
    "schema change": "nights/bad-night",
    "monitoring": "operate/metrics",
    "MinIO": "operate/object-stores",
    "reproducible": "operate/clusters",
    "configuration file": "reference/job-file",
    "install without internet": "start/install",
    "score new data": "guide/python",
    "read result in DuckDB": "nights/export",
    "restart after kill": "operate/interruptions",
    "remove old results": "nights/retention",
    "glossary of terms": "how/glossary",
    "one-hot": "guide/columns",
    "parallel": "operate/clusters",
}


def texts() -> dict[str, str]:
    """Return the text of every page of the site, by its name there."""
    elsewhere = {page: source for source, page in pages.shown_elsewhere().items()}
    found = {}
    for path in (ROOT / "docs").glob("**/*.md"):
        name = path.relative_to(ROOT).as_posix()
        source = elsewhere.get(name, name)
        found[name.removeprefix("docs/").removesuffix(".md")] = (ROOT / source).read_text()
    return found


TEXTS = texts()
HEADINGS = {name: re.findall(r"(?m)^#+ (.*)$", text) for name, text in TEXTS.items()}


def stem(word: str) -> str:
    return re.sub(r"(ions?|ing|ed|es|s|d|ly)$", "", word) if len(word) > 4 else word


def words(text: str) -> list[str]:
    return [stem(word) for word in re.findall(r"\w+", text.lower()) if word not in STOPWORDS]


WORDS = {name: set(words(text)) for name, text in TEXTS.items()}
IN_HEADINGS = {name: set(words(" ".join(of))) for name, of in HEADINGS.items()}


def score_of_word(word: str, name: str) -> float:
    if word in IN_HEADINGS[name]:
        return 15.0
    if word in WORDS[name]:
        return 5.0
    if any(word in other for other in IN_HEADINGS[name]):
        return 7.0
    return 2.0 if len(word) > 2 and any(word in other for other in WORDS[name]) else 0.0


def weight(name: str) -> float:
    return next((of for pattern, of in WEIGHTS if re.match(pattern, name)), 1.0)


def results(query: str) -> list[str]:
    """Return the pages that have words of a query, the best first."""
    scores, lower = {}, query.lower()
    of_words = {word: {name: score_of_word(word, name) for name in TEXTS} for word in words(query)}
    rarity = {
        word: math.log1p(len(TEXTS) / max(1, sum(map(bool, found.values()))))
        for word, found in of_words.items()
    }
    for name in TEXTS:
        found = [of_words[word][name] for word in of_words]
        best = max(found) if all(found) else 0.0
        for heading in HEADINGS[name]:
            if lower in heading.lower() and 2 * len(lower) >= len(heading):
                best = max(best, 15.0 * len(lower) / len(heading) + 1.0)
        best += sum(rarity[word] * of_words[word][name] for word in of_words)
        if best:
            scores[name] = best * weight(name)
    return sorted(scores, key=lambda name: (-scores[name], HEADINGS[name][0]))


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_leads_to_its_page(query):
    assert QUERIES[query] in results(query)[:3]


def test_a_design_paper_is_never_before_a_page_for_users():
    for query in QUERIES:
        assert not results(query)[0].startswith("design/"), results(query)[:3]


def test_the_site_uses_the_scores():
    assert '"static" / "scorer.js"' in (ROOT / "docs/conf.py").read_text()
    assert WEIGHTS
