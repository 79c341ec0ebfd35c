"""What the server leaves in the program's log: nothing of uvicorn's own, and nothing of others' is lost."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

UVICORN = "uvicorn.error"


def test_uvicorn_says_nothing_of_start_and_end(
    serve: Callable[..., Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Press CTRL+C to quit` would be wrong here; a server of the program's own is heard all the same."""
    caplog.set_level(logging.INFO)
    for name in ("uvicorn", UVICORN):  # whatever servers of other tests have set
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
        caplog.set_level(logging.INFO, name)
    client = serve()
    assert client.ask("/live").status == 200
    logging.getLogger(UVICORN).info("of another server")
    client.site.stop()
    assert [one.getMessage() for one in caplog.records if one.name == UVICORN] == ["of another server"]
    assert logging.getLogger(UVICORN).filters == []


def test_what_is_wrong_with_the_server_is_logged(
    serve: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """An error of a route, with its stack."""
    client = serve()
    client.served.not_live = lambda: 1 / 0
    assert client.ask("/live").status == 500
    client.site.stop()
    assert [one.levelname for one in caplog.records if one.name == UVICORN] == ["ERROR"]
