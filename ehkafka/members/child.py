"""The main function of a member: becomes one, imports the app, runs it, and says how that ended.

Started afresh by `process`, never forked. What the process is for is reported through its socket, and so is
everything secret. It ends with its supervisor: by the socket's end everywhere, and on Linux by the kernel as
well, which needs no Python to run.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import signal
import socket
import sys
import traceback
from binascii import a2b_base64
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.recipe import Recipe
from ehkafka.errors import ConfigurationError, EhkafkaError, EngineError, describe
from ehkafka.http.answers import OK, answered, brief_state_of, state_of
from ehkafka.http.journal import Journal
from ehkafka.members.cores import keep_to
from ehkafka.members.logs import writes_json
from ehkafka.members.orders import INTERRUPTED, Orders
from ehkafka.members.reference import MAIN, explained, imported
from ehkafka.members.serving import ORPHANED, Serving
from ehkafka.run import signals
from ehkafka.wording import ended
from ehkafka.wording.error_stack import place_of
from ehkafka.workers.processes.logs import is_set_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.http.answers import Answer
    from ehkafka.members.logs import Logs

_PR_SET_PDEATHSIG: Final = 1


def main(descriptor: int, supervisor: int) -> None:
    """Run a member. The arguments are the socket's descriptor and the process id of who started this."""
    os.set_inheritable(descriptor, False)
    orders = Orders()
    _die_with(supervisor)
    connection = socket.socket(fileno=descriptor)
    serving = Serving(connection, orders)
    boot = a2b_base64(serving.read_line())
    signals.orders = orders.taken
    serving.start()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # else a pipe gets what is printed late
    sys.exit(_ended_with(boot, serving))


def _die_with(supervisor: int) -> None:
    """Have the kernel end this process when the thread that has started it ends; see also `serving`."""
    with suppress(OSError, AttributeError):  # not on Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:  # it ended before that
        os._exit(ORPHANED)


def _ended_with(packed: bytes, serving: Serving) -> int:
    """Run the app and return the exit code, having said what ended it."""
    try:
        boot = pickle.loads(packed)  # noqa: S301 - the supervisor wrote it
        if boot["core"] is not None:
            keep_to(boot["core"])
        app = _app(boot)
        journal = Journal()
        if boot["keeps_journal"]:
            app.add_hook(journal)
        serving.routes = _routes(app, journal)
        try:
            app.run(**boot["run"])
        finally:
            serving.notify("/state", state_of(app, journal, ()))
    except KeyboardInterrupt:
        return INTERRUPTED
    except EhkafkaError as error:
        at = place_of(error if error.__cause__ is None else error.__cause__)
        serving.notify("/end", {"kind": type(error).__name__, "text": str(error), "place": at})
        return error.exit_code
    except BaseException as error:
        if writes_json():
            logging.getLogger("ehkafka").exception("The member failed.")
        else:
            traceback.print_exception(error)
        end = {"kind": EngineError.__name__, "text": describe(error), "place": place_of(error)}
        serving.notify("/end", end)
        return EngineError.exit_code
    return 0


def _app(boot: dict[str, Any]) -> Any:
    """Import the app and lay over it what the supervisor's has. Raises `ConfigurationError`."""
    logs: Logs | None = boot["logs"]
    if logs is not None and logs.is_first:
        logs.set_up(boot["number"])
    reference = boot["reference"]
    _become_like(boot["main"], reference.module)
    app = imported(reference)
    if logs is not None and not is_set_up():
        logs.set_up(boot["number"])
    _lay_over(app, boot)
    signals.known_ends = boot["ends"]
    if boot["registered"] is not None and app.registered != boot["registered"]:
        _refuse_other(reference, boot["registered"], app.registered)
    return app


def _become_like(main: Mapping[str, Any], module: str) -> None:
    """Look for modules where the supervisor does; import its main module if that has the app."""
    if module != MAIN:
        sys.path[:], sys.argv[:] = main["sys_path"], main["sys_argv"]
        os.chdir(main["dir"])
        return
    from multiprocessing import spawn  # noqa: PLC0415 - it brings much, and few members need it

    with explained(main.get("init_main_from_path", module)):
        spawn.prepare(dict(main))


def _lay_over(app: Any, boot: dict[str, Any]) -> None:
    endpoint = None
    try:
        changes = pickle.loads(boot["laid"])  # noqa: S301 - the supervisor wrote it
        if boot["endpoint"] is not None:
            factory, given = boot["endpoint"]
            endpoint = Endpoint.made_again(Recipe(factory, pickle.loads(given)))  # noqa: S301 - likewise
    except EhkafkaError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"A member cannot import what a setting names: {ended(describe(error))} Put the named object "
            f"at the top level of a module, not under `if __name__ == '__main__':`."
        ) from None
    if boot["instance_id"] is not None:
        changes["instance_id"] = boot["instance_id"]
    if endpoint is not None and not app.takes_endpoint:
        endpoint = None  # its code gave the same one
    app.configure(endpoint=endpoint, **changes)
    if boot["loan"] is not None:
        app.endpoint.borrow_broker(boot["loan"])


def _refuse_other(reference: Any, theirs: tuple[str, ...], ours: tuple[str, ...]) -> None:
    missing = ", ".join(sorted({*theirs} - {*ours}) or sorted({*ours} - {*theirs}))
    where = "under `if __name__ == '__main__':`" if reference.module == MAIN else "after the import"
    raise ConfigurationError(
        f"The app that a member imported as {reference} differs from the supervisor's in: {missing}. "
        f"Members do not run code {where}. Register everything at the top level of the module."
    )


def _routes(app: Any, journal: Journal) -> dict[str, Callable[[dict[str, Any]], Answer]]:
    """Return what answers the supervisor, by path."""

    def state(body: dict[str, Any]) -> Answer:
        if body["measure"]:
            app.measure()
        if body["values"] is None:
            return OK, brief_state_of(app)
        return OK, state_of(app, journal, app.keys.waiting(values=body["values"]))

    def report(body: dict[str, Any]) -> Answer:
        app.log_state(body["why"])
        return OK, {}

    actions = lambda body: answered(lambda: app.keys.act(body).as_dict())  # noqa: E731 - as the two above
    return {"/state": state, "/actions": actions, "/report": report}
