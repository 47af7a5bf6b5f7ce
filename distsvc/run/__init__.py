"""The job: plan, fit, label, publish. The package can be called: ``distsvc.run("job.toml")``.

Its name is that of the function in `distsvc.run.calling`, too. So the package itself takes the
call, and there is one object whatever is imported first.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature

    from distsvc.run.published import Run


class _Callable(ModuleType):
    """A package that is a function, too."""

    def __call__(self, job: Any, **options: Any) -> Run:
        from distsvc.run.calling import run

        return run(job, **options)

    @property
    def __signature__(self) -> Signature:
        """What help and editors show."""
        from inspect import signature

        from distsvc.run.calling import run

        return signature(run)


sys.modules[__name__].__class__ = _Callable
