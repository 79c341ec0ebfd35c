"""Keys by hand and the one port of a supervisor: an action goes to the member that has the key."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.supervisor_port import Port

LIMIT_S = 60.0
POISON = """
    import logging, os
    import ehkafka

    endpoint = ehkafka.Endpoint.embedded({"orders": 4})
    app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest", stop_s=5, commit_interval_s=0.1)

    @app.handler("orders", workers=2, on_failure=ehkafka.Hold())
    def handle(record):
        if record.key() == b"poison":
            raise ValueError("no luck")

    if __name__ == "__main__":
        logging.basicConfig(level=logging.INFO)
        app.run(members=2, members_min=2, http="127.0.0.1:0")
"""


def test_probes_state_and_metrics_are_those_of_all_members(serve: Callable[[str], tuple[Any, Port]]) -> None:
    """Ready needs as many as was asked for; each metric names its member."""
    running, port = serve(POISON)
    # The group may still move: a member that joins late takes partitions from the other one.
    wait_until(lambda: [port.ask(path)[0] for path in ("/live", "/startup", "/ready")] == [200, 200, 200])
    members = port.ask("/snapshot")[1]["members"]
    assert {one["number"] for one in members} == {1, 2}
    text = port.ask("/metrics")[1]
    assert 'member="1"' in text
    assert 'member="2"' in text
    first = running.members()[1]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: port.ask("/ready")[0] == 503)
    assert port.ask("/live")[0] == 200
    wait_until(lambda: port.ask("/ready")[0] == 200, timeout_s=LIMIT_S)


def test_an_action_reaches_the_member_that_has_the_key(serve: Callable[[str], tuple[Any, Port]]) -> None:
    """By its head and by its text; a handler stops in all; who is not here is said."""
    running, port = serve(POISON)
    act = lambda **asked: port.ask("/actions", asked)  # noqa: E731 - one line for each call below
    status, answer = act(do="skip", target="key", name="never")
    assert (status, answer["reason"]) == (404, "unknown")
    # Until the group has settled partition 3 may be on its way from one member to the other.
    wait_until(lambda: len(port.ask("/snapshot")[1]["partitions"]) == 4 and port.ask("/ready")[0] == 200)
    wait_until(lambda: act(do="pause", target="partition", name="orders/3")[0] == 200)
    assert act(do="pause", target="partition", name="orders/3")[1]["changed"] is False
    status, answer = act(do="pause", target="partition", name="orders/9")
    assert (status, answer["reason"]) == (404, "elsewhere")
    status, answer = act(do="stop", target="handler", name="handle")
    assert (status, answer["changed"], "2 of 2 members" in answer["text"]) == (200, True, True)
    assert act(do="start", target="handler", name="handle")[0] == 200
    wait_until(lambda: "Action: handler handle stopped" in running.stderr)
