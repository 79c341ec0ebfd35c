"""The stages of the integration tests, for faults between members and a real broker.

Rows are scaled for a quick run: durations by ten or more, bounds alike.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

# Tests are no package: the module is loaded by its path.
_SPEC = importlib.util.spec_from_file_location(
    "integration_stage", Path(__file__).parents[1] / "integration" / "conftest.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
_stage = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_stage)

stage_on = _stage.stage_on
eventually = _stage.eventually
