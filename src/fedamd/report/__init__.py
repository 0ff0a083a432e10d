"""Tables, figures and the page about runs. The package is a function too: `fedamd.report("runs/one")`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class _Callable(ModuleType):
    """`fedamd.report` names both this package and the function a user calls; Python binds the name to the package."""

    def __call__(self, runs: Path | str | Sequence[Path | str], out: Path | str | None = None) -> Path:
        from fedamd.report.write import report

        return report(runs, out)


sys.modules[__name__].__class__ = _Callable
