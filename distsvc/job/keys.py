"""The keys of a job file by their names, for command lines that complete them and hint at them."""

from __future__ import annotations

import difflib
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from distsvc.job.config import MODELS, Job


@cache
def known_keys() -> dict[str, tuple[str, ...]]:
    """Return every ``section.key`` with the words that it takes, none where it takes others.

    Those of ``[model]`` are the keys of all algorithms.
    """
    keys: dict[str, tuple[str, ...]] = {}
    for section, field in Job.model_fields.items():
        if section in ("columns", "names"):  # whose keys are columns and cluster ids
            continue
        models = [*MODELS.values()] if section == "model" else [field.annotation]
        for model in models:
            assert isinstance(model, type)
            assert issubclass(model, BaseModel)
            for key, of in model.model_fields.items():
                found = keys.get(f"{section}.{key}", ())
                keys[f"{section}.{key}"] = tuple(dict.fromkeys((*found, *_words(of.annotation))))
    return keys | {"model.algorithm": tuple(MODELS)}


def keys_named(name: str) -> list[str]:
    """Return the keys that an option is called like, such as ``--n-clusters`` or ``--seed``."""
    name = name.lstrip("-").replace("-", "_")
    return [key for key in known_keys() if name in (key, key.partition(".")[2])]


def keys_like(name: str) -> list[str]:
    """Return the keys whose name an option nearly has, such as ``--gama``."""
    names = [key.partition(".")[2] for key in known_keys()]
    name = name.lstrip("-").replace("-", "_")
    return [
        key for one in difflib.get_close_matches(name, names, 1, 0.75) for key in keys_named(one)
    ]


def _words(annotation: Any) -> tuple[str, ...]:
    """Return the texts among the literals of a type."""
    if get_origin(annotation) is Literal:
        return tuple(word for word in get_args(annotation) if isinstance(word, str))
    return tuple(word for part in get_args(annotation) for word in _words(part))
