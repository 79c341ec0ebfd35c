"""What members have noted is shown by their supervisor, whichever of them answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.supervisor_port import Port

LIMIT_S = 30.0
FAILING = """
    import logging, os, threading
    import ehkafka

    endpoint = ehkafka.Endpoint.embedded({"orders": 4})
    app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest", stop_s=5, commit_interval_s=0.1)

    @app.handler("orders", workers=4, on_failure=ehkafka.Hold(), deadline_s=0.2)
    def handle(record):
        if record.value() == b"poison":
            raise ValueError("no luck")
        if record.value() == b"stuck":
            dead_end()

    def dead_end():
        threading.Event().wait(300.0)

    def produce():
        from confluent_kafka import Producer
        producer = Producer(endpoint.client_properties())
        producer.produce("orders", key="slow", value=b"stuck", partition=0)
        for partition in range(4):
            producer.produce("orders", key=f"bad-{partition}", value=b"poison", partition=partition)
        producer.flush(10)

    if __name__ == "__main__":
        logging.basicConfig(level=logging.INFO)
        threading.Thread(target=produce, daemon=True).start()
        app.run(members=2, members_min=2, http="127.0.0.1:0")
"""


def test_errors_and_stacks_of_all_members_are_shown(
    serve: Callable[[str], tuple[Any, Port]],
) -> None:
    """Each with its member; a call that is stuck with where it stands."""
    _, port = serve(FAILING)
    state: dict[str, Any] = {}

    def shown(holds: Callable[[dict[str, Any]], object]) -> None:
        def holds_now() -> bool:
            state.update(port.ask("/state")[1])
            return bool(holds(state))

        wait_until(holds_now, timeout_s=LIMIT_S)

    # The group may still move; a partition that came late brings its poison with it.
    shown(lambda now: {1, 2} <= {one["member"] for one in now["errors"] if "ValueError" in one["kind"]})
    shown(lambda now: {1, 2} <= {one["member"] for one in now["events"] if "Assigned" in one["sentence"]})
    assert {one["member"] for one in state["events"]} == {None, 1, 2}
    failed = next(one for one in state["errors"] if "ValueError" in one["kind"])
    assert 'raise ValueError("no luck")' in failed["stack"]
    shown(lambda now: any("dead_end" in one["stack"] for one in now["keys"] if one["key"] == "slow"))
    slow = next(one for one in state["keys"] if one["key"] == "slow")
    owners = {
        one["number"]: {part["partition"]["partition"] for part in one["snapshot"]["partitions"]}
        for one in state["snapshot"]["members"]
    }
    assert 0 in owners[slow["member"]]
    # Each member keeps one stack a second of a kind, so not every key has one.
    shown(lambda now: any("no luck" in one["stack"] for one in now["keys"] if one["key"] != "slow"))
    assert state["silent_members"] == []
