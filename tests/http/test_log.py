"""What the server leaves in the program's log: nothing of uvicorn's own, and nothing of others' is lost."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

UVICORN = "uvicorn.error"


class Kept(logging.Handler):
    """What a logger itself takes, whatever servers of other tests have set above it."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text."""
        self.texts.append(record.getMessage())


def test_uvicorn_says_nothing_of_start_and_end(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Press CTRL+C to quit` would be wrong here; a server of the program's own is heard all the same."""
    logger, found = logging.getLogger(UVICORN), Kept()
    monkeypatch.setattr(logger, "handlers", [found])
    monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(logger, "propagate", False)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        client = serve()
        assert client.ask("/live").status == 200
        logger.info("of another server")
        client.site.stop()
    finally:
        logger.setLevel(before)
    assert found.texts == ["of another server"]
    assert logger.filters == []


def test_what_is_wrong_with_the_server_is_logged(
    serve: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """An error of a route, with its stack."""
    client = serve()
    client.served.not_live = lambda: 1 / 0
    assert client.ask("/live").status == 500
    client.site.stop()
    assert [one.levelname for one in caplog.records if one.name == UVICORN] == ["ERROR"]
