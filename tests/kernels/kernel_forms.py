"""Do a small job with every rule; print the kernels that have more than one form, or another one.

Kernels are what the cache keeps. Pieces of them are compiled into each that calls them, for its
types, where the cache has none yet.
"""

import importlib
import pkgutil
import sys
from pathlib import Path

from numba.core.registry import CPUDispatcher

import distsvc.kernels
from distsvc.kernels import ahead
from tests.small_runs import FORMS, fit, small_job, three_clusters, write_table


def main(folder: Path) -> None:
    table = write_table(folder / "t.parquet", three_clusters(1500, 3))
    for form, model in {**FORMS, "passes": FORMS["linear-svdd"] | {"memory_rows": 1000}}.items():
        fit(small_job(table, model), folder / form).label()
    found = 0
    for module in pkgutil.iter_modules(distsvc.kernels.__path__):
        name = f"distsvc.kernels.{module.name}"
        for kernel in vars(importlib.import_module(name)).values():
            if getattr(kernel, "__module__", "") == name and _is_kept(kernel):
                found += bool(kernel.signatures)
                if len(kernel.signatures) > 1:
                    print(f"{name}.{kernel.__name__} has {len(kernel.signatures)}")
    for name, form in ahead.FORMS.items():
        for types in ahead.kernel_named(name).signatures:
            if types != ahead.signature(form):
                print(f"{name} was called with {types}, not {form}")
    print(f"{found} kernels were called")


def _is_kept(kernel: object) -> bool:
    return isinstance(kernel, CPUDispatcher) and kernel.stats.cache_path is not None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
