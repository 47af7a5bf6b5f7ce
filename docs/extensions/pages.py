"""Pages in plain Markdown: what is read here is as readable in the repository as on the site.

- The links of a list on an index page are the table of contents below it.
- A page that says "This page is [DESIGN.md](../../DESIGN.md)." shows that file, which lies outside
  `docs/`. Links to the file lead to the page.
- A comment `<!-- generated: commands -->` is where that function of `docs.extensions.generated`
  writes.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.extensions import generated

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
FENCED = re.compile(r"^(```|:::).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
LISTED = re.compile(r"^- \[[^\]]*\]\(([^)\s#]+)\.(?:md|rst)\)", re.MULTILINE)
ELSEWHERE = re.compile(r"^This page is \[[^\]]*\]\(([^)\s]+)\)\.$", re.MULTILINE)
GENERATED = re.compile(r"^<!-- generated: ([-\w]+) -->$", re.MULTILINE)


def shown_elsewhere() -> dict[str, str]:
    """Return the files outside `docs/` that pages show, and those pages, from the top."""
    found = {}
    for page in DOCS.glob("**/*.md"):
        named = ELSEWHERE.search(page.read_text(encoding="utf-8"))
        if named:
            name = page.relative_to(ROOT).as_posix()
            found[posixpath.normpath(posixpath.join(posixpath.dirname(name), named[1]))] = name
    return found


def relinked(text: str, source: str, page: str, pages: dict[str, str]) -> str:
    """Return the text of a file with its links as they are to be on a page elsewhere.

    Parameters
    ----------
    text : str
        Markdown.
    source, page : str
        The file that the links start from, and the page that shows the text; from the top.
    pages : dict
        Pages that show files outside `docs/`, by those files.

    """

    def led(link: re.Match[str]) -> str:
        path, _, anchor = link[1].partition("#")
        if "://" in path or not path:
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        target = pages.get(target, target)
        path = posixpath.relpath(target, posixpath.dirname(page))
        return f"]({path}#{anchor})" if anchor else f"]({path})"

    return LINK.sub(led, text)


def outside_fences(text: str, change: Any) -> str:
    """Return a text that is changed but for its blocks of code."""
    done, last = [], 0
    for fence in FENCED.finditer(text):
        done += [change(text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*done, change(text[last:])])


def contents(text: str) -> str:
    """Return a hidden table of contents of the pages that a list links to."""
    listed = LISTED.findall(text)
    return "\n".join(["", ":::{toctree}", ":hidden:", "", *listed, ":::", ""]) if listed else ""


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Change what was read of a page before it is parsed."""
    path = app.env.doc2path(name)
    if not str(path).endswith(".md"):
        return
    page = source_page = Path(path).relative_to(ROOT).as_posix()
    text = source[0]
    pages = app.env.shown_elsewhere  # type: ignore[attr-defined]
    elsewhere = ELSEWHERE.search(text)
    if elsewhere:
        listed = contents(text)
        source_page = next(file for file, at in pages.items() if at == page)
        app.env.note_dependency(str(ROOT / source_page))
        text = (ROOT / source_page).read_text(encoding="utf-8") + listed
    elif name.rpartition("/")[2] == "index":
        text += contents(text)
    text = GENERATED.sub(lambda one: getattr(generated, one[1].replace("-", "_"))(), text)
    source[0] = outside_fences(text, lambda part: relinked(part, source_page, page, pages))


def begin(app: Sphinx) -> None:
    """Find the files that pages show."""
    app.env.shown_elsewhere = shown_elsewhere()  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", begin)
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
