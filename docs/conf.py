"""The documentation's settings: `make docs` builds it, strictly and offline, into build/docs."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from distsvc import __version__  # noqa: E402

project = "distsvc"
version = release = __version__
copyright = "the distsvc developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_copybutton",
    "docs.extensions.pages",
    "docs.extensions.formulas",
    "docs.extensions.links",
    "docs.extensions.search",
]
exclude_patterns = ["extensions", "static"]
root_doc = "index"
smartquotes = False

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

autodoc_typehints = "none"  # docstrings have the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"
default_role = "literal"
python_use_unqualified_type_names = True
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"distsvc {__version__}"
html_static_path = ["static"]
html_css_files = ["distsvc.css"]
html_copy_source = False
html_search_scorer = str(Path(__file__).parent / "static" / "scorer.js")
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def of_others(app, what, name, member, skip, options):
    """Leave out what a class has from another package, such as scikit-learn."""
    member = getattr(member, "fget", None) or getattr(member, "func", None) or member
    home = getattr(member, "__module__", None) or ""
    return True if callable(member) and not home.startswith("distsvc") else None


def setup(app):
    """Register the settings that are functions."""
    app.connect("autodoc-skip-member", of_others)
