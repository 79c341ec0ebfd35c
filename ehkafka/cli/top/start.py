"""Starts `ehkafka top`: reads the token, asks once, and only then takes the terminal."""

from __future__ import annotations

import http.client
import importlib.util
import sys
from typing import TYPE_CHECKING, Final

from ehkafka.cli.door import Door
from ehkafka.cli.top.asked import Asked
from ehkafka.errors import ConfigurationError, EndpointError, MissingExtraError
from ehkafka.http import Http

if TYPE_CHECKING:
    from pathlib import Path

ANSWER_S: Final = 5.0


def top(url: str, token_file: Path | None) -> None:
    """Show an app until `q`. Raises what is wrong before the terminal is taken."""
    if importlib.util.find_spec("textual") is None:
        raise MissingExtraError("ehkafka top needs textual. Run: pip install 'ehkafka[top]'")
    door = Door(url, Http(token_file=token_file).read_token(), ANSWER_S)
    asked = Asked(door)
    answer = asked.state()
    if answer.status == http.client.UNAUTHORIZED:
        raise door.failure(answer)
    if answer.status == http.client.FORBIDDEN:
        raise ConfigurationError(f"{door.url} lets nobody in. {answer.text}")
    if not answer.is_ok or "snapshot" not in answer.body:
        raise EndpointError(f"{door.url} answered {answer.status} and shows no app: {answer.text}")
    if not sys.stdout.isatty():
        raise ConfigurationError("ehkafka top needs a terminal. For programs there is GET /snapshot.")
    from ehkafka.cli.top.screen import Top  # noqa: PLC0415 - an extra

    Top(asked, answer.body).run()
