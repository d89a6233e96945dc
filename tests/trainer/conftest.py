"""Lets ``tests`` mean this folder: OpenRLHF's wheel installs a package of that name."""

import sys
from pathlib import Path
from types import ModuleType

_TESTS = str(Path(__file__).parents[1])
if _TESTS not in list(getattr(sys.modules.get("tests"), "__path__", ())):
    here = ModuleType("tests")
    here.__path__ = [_TESTS]
    sys.modules["tests"] = here
