"""The page, opened on the double of its server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.page_shown import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def shown(browser_page: Any) -> Iterator[Shown]:
    """Return what serves a state and opens the page on it."""
    opened = Shown(browser_page)
    yield opened
    opened.close()
