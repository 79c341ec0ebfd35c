"""`ehkafka top`: finds the app and its token, asks once, and only then takes the terminal."""

from __future__ import annotations

import http.client
import importlib.util
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ehkafka.cli.app_path import load_app
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.door import USUAL_URL, Door
from ehkafka.cli.exits import ended_by_signals, note
from ehkafka.cli.options import TokenFile
from ehkafka.cli.settings.given import Given
from ehkafka.errors import ConfigurationError, EndpointError, MissingExtraError
from ehkafka.http import Http
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from ehkafka import App
    from ehkafka.cli.door import Answer
    from ehkafka.cli.top.here import AppHere

ANSWER_S: Final = 5.0
# What has no slashes and ends with a name and no port: a module and its app, or a file of Python.
_NAMED: Final = re.compile(r"(?!\w+://).*(?:\.py|:[^\W\d]\w*)", re.DOTALL)
# An address that stands for all of a machine's: here it is asked at this one.
_ALL: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is read here, nothing is bound
HERE_NOTE: Final = "The app runs in this process: q stops it."


cli = CommandLine()


@cli.command("top")
def top(
    where: Annotated[
        str,
        typer.Argument(metavar="[URL|MODULE:APP]", help="The address of a running app, or the app to start."),
    ] = USUAL_URL,
    *,
    token_file: TokenFile = None,
) -> None:
    r"""Watch a running app in the terminal: see which keys hold up a commit, and act on them.

    It shows the same as the app's page, from an app that was started with --http. Each action first shows a
    preview, and requires the app's token. The command needs the extra [top].

    With MODULE:APP, an app that has http= in its code is asked at that address, with its own token. Any
    other app is started in this process, joins its group and consumes until q stops it.

    \b
    Keys:
      1 to 8   blocking keys, dead letters, partitions, errors, events, members, handlers, process
      r s d    retry, skip, dead letter           p u      pause, resume
      x b      stop, start a handler              l g      read, redrive dead letters
      o        partitions by name, lag or age     n        dead letters of the next topic
      t        light or dark                      q        quit

    \b
    Examples:
      ehkafka top                                 the app at http://127.0.0.1:8080
      ehkafka top http://10.0.0.7:8080 --token-file /mnt/secrets/token
      ehkafka top shop.orders:app                 the app in a module, or in a file: shop/orders.py:app

    \b
    Environment:
      EHKAFKA_HTTP_TOKEN   the token, if --token-file is not given

    """
    if importlib.util.find_spec("textual") is None:
        raise MissingExtraError(f"ehkafka top needs textual. Run: {install('top')}")
    if not _NAMED.fullmatch(where):
        _show(Door(where, Http(token_file=token_file).read_token(), ANSWER_S))
        return
    app = _loaded(where)
    served = app.http
    if served is None or served.port == 0:
        _must_have_terminal()
        _show_here(app)
        return
    options = served if token_file is None else Http(token_file=token_file)
    try:
        _show(Door(_url_of(served), options.read_token(), ANSWER_S))
    except EndpointError as error:
        hint = f"Is the app running at this address? Start the app with: ehkafka run {where}"
        raise EndpointError(f"{error} {hint}") from None


def _loaded(where: str) -> App:
    given = Given.read(None)
    app = load_app(where)
    given.apply(app)
    return app


def _url_of(served: Http) -> str:
    host = _ALL.get(served.host, served.host)
    return f"http://[{host}]:{served.port}" if ":" in host else f"http://{host}:{served.port}"


def _show_here(app: App) -> None:
    # An app elsewhere needs none of it.
    from ehkafka.cli.top.here import AppHere, terminal_left_alone  # noqa: PLC0415
    from ehkafka.cli.top.screen import Top  # noqa: PLC0415 - an extra

    here, screen = AppHere(app), None

    def end() -> None:
        if screen is None:
            raise KeyboardInterrupt
        screen.exit()

    with ended_by_signals(end):
        door = DoorHere(*here.open(), ANSWER_S)
        door.here = here
        try:
            screen = Top(door, _first_state(door), note=HERE_NOTE)
            with terminal_left_alone():
                screen.run()
        finally:
            note("stops the app, which finishes what has started.")
            here.close()


def _show(door: Door) -> None:
    state = _first_state(door)
    _must_have_terminal()
    from ehkafka.cli.top.screen import Top  # noqa: PLC0415 - an extra

    Top(door, state).run()


def _first_state(door: Door) -> dict[str, Any]:
    """Return what there is to show. Raises why there is nothing."""
    answer = door.state()
    if answer.status == http.client.UNAUTHORIZED:
        raise door.failure(answer)
    if answer.status == http.client.FORBIDDEN:
        raise ConfigurationError(f"The app at {door.url} shows nothing without its token. {answer.text}")
    if not answer.is_ok or "panels" not in answer.body:
        raise EndpointError(f"{door.url} answered {answer.status} and shows no app: {answer.text}")
    return answer.body


class DoorHere(Door):
    """The door of the app of this process, which knows when that has ended."""

    here: AppHere

    def state(self) -> Answer:
        """Return all that is shown."""
        try:
            return super().state()
        except EndpointError:
            if self.here.has_ended:
                raise EndpointError("The app has ended. Press q to see why.") from None
            raise


def _must_have_terminal() -> None:
    if not sys.stdout.isatty():
        raise ConfigurationError("ehkafka top needs a terminal. In a program, use GET /snapshot.")
