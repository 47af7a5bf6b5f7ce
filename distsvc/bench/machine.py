"""What every measured row says of the machine: processor, cores, versions, day."""

from __future__ import annotations

import datetime
import os
import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("distsvc", "numpy", "numba", "scikit-learn", "pyarrow", "distributed", "fast-hdbscan")


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """Return the columns ``cpu``, ``cores``, ``versions`` and ``day``."""
    cpu = platform.processor() or platform.machine()
    try:
        facts = [line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines()]
        known = {fact[0].strip(): fact[1].strip() for fact in facts if len(fact) == 2}
        cpu = f"{known['model name']} (family {known['cpu family']}, model {known['model']})"
    except (OSError, KeyError):
        pass
    versions = [f"python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"cpu": cpu, "cores": os.cpu_count(), "versions": ", ".join(versions), "day": today}
