"""A check of the built pages: links lead somewhere, and nothing is loaded from elsewhere.

What it finds is a warning, which `make docs` turns into an error.
"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """What a page can be linked by, links to, and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = {""}
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loads.append(given[LOADED[tag]])


def faults(folder: Path) -> tuple[int, list[str]]:
    """Return how many links the pages of a folder have, and a line for each that is wrong."""
    built = [path for path in folder.glob("**/*.html") if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in built}
    n_links, found = 0, []
    for path, page in pages.items():
        name = path.relative_to(folder)
        for link in page.loads:
            if urlsplit(link).netloc:
                found.append(f"{name}: loads {link} from elsewhere")
        for link in page.links + page.loads:
            parts = urlsplit(link)
            n_links += 1
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file() or (target in pages and anchor not in pages[target].ids):
                found.append(f"{name}: {link} leads nowhere")
    return n_links, found


def check(app: Sphinx, error: Exception | None) -> None:
    """Check the pages that were built."""
    from sphinx.util import logging

    logger = logging.getLogger(__name__)
    if error is None and app.builder.format == "html":
        n_links, found = faults(Path(app.outdir).resolve())
        for fault in found:
            logger.warning(fault)
        logger.info("%d links checked, %d lead nowhere", n_links, len(found))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
