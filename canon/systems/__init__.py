"""One file per system, by chapter. As `canon.systems()` is also the list of their names, the package can be called."""

from __future__ import annotations

import sys
from types import ModuleType

from canon import registry


class _Systems(ModuleType):
    def __call__(self) -> list[str]:
        return [system.name for system in registry.SYSTEMS]


# Importing a system makes `canon.systems` this package, in place of the function that `import canon` offers.
sys.modules[__name__].__class__ = _Systems
