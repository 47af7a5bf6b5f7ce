"""Where the pages' templates are, and how text gets into them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template


@functools.cache
def template(name: str, **filters: Callable[..., Any]) -> Template:
    """Return the template of that name; what it is given is escaped, and must be there.

    A process compiles it once, for each set of filters.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)
