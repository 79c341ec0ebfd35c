"""What pytest runs for `scripts/mutants`: mutants alone. Each takes a guard out, and fails if that goes well.

A mutant is a test named `test_mutant…`, once for each guard of its table; with a parameter `mutant` that is
False the code is as it should be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

NAME = "test_mutant"


def is_mutant(item: pytest.Item) -> bool:
    """Tell whether a test takes a guard out."""
    values = getattr(item, "callspec", None)
    return item.name.startswith(NAME) and (values is None or values.params.get("mutant") is not False)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave all others out."""
    others = [item for item in items if not is_mutant(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if is_mutant(item)]
