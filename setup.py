"""The description that a package index shows: README, without what only the repository has.

An index has neither the picture nor the files to which links lead; links become their words. All
else about the package stands in `pyproject.toml`.
"""

import re
from pathlib import Path

from setuptools import setup

PICTURE = re.compile(r"<img [^>]*>\n+")
LINK_TO_FILE = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]+\)")

text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
setup(
    long_description=LINK_TO_FILE.sub(r"\1", PICTURE.sub("", text)),
    long_description_content_type="text/markdown",
)
