"""Keys of a user's own class that look at the app they are in: the engine holds no lock of its own then."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka

RECORDS = "a b a c a b d a b a"


class Curious:
    """A key that looks at the app whenever it is asked for anything."""

    app: Any = None

    def __init__(self, name: bytes) -> None:
        self.name = name

    def _look(self) -> None:
        if self.app is not None:
            self.app.snapshot()

    def __hash__(self) -> int:
        self._look()
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        self._look()
        return isinstance(other, Curious) and other.name == self.name

    def __str__(self) -> str:
        return self.name.decode()

    __repr__ = __str__


@pytest.mark.parametrize("how", ["express", "lanes", "handler", "batch", "tuple"])
def test_a_key_may_look_at_the_app(
    lab: Any, how: str, wait_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L7: the poll thread goes on, each record of a key is handled in order, and the stop is a good one."""
    lab.produce(RECORDS)
    handled: list[bytes] = []
    options: dict[str, Any] = {"order_by": _by_tuple if how == "tuple" else _by_curious}
    app = lab.app()
    if how == "batch":
        app.batch_handler("t", max_wait_s=0.01, unique_keys=True, **options)(
            lambda batch: handled.extend(record.key() for record in batch)
        )
    else:
        options |= {"scope": "handler"} if how == "handler" else {"express": how == "express"}
        app.handler("t", **options)(lambda record: handled.append(record.key()))
    monkeypatch.setattr(Curious, "app", app)
    app.start()
    wait_for(lambda: len(handled) == 10)
    lab.produce(RECORDS)
    wait_for(lambda: len(handled) == 20)
    wait_for(lambda: lab.committed() == 20)
    app.stop()


def test_a_key_whose_text_looks_at_the_app(lab: Any, recorder: Any, wait_for: Any, events: Any) -> None:
    """L8: also where keys are told: a pause, a retry, the snapshot, a stop that leaves records."""

    class Talkative(Curious):
        app: Any = None

        def __str__(self) -> str:
            self._look()
            return self.name.decode()

    lab.produce("a a a a a b")
    recorder.fail_at(0)
    app = lab.app(
        recorder,
        order_by=lambda record: Talkative(record.key()),
        on_failure=ehkafka.Hold(),
        parked_records_max=4,
        batch_records_max=2,
    )
    app.add_hook(events)
    Talkative.app = app
    app.start()
    wait_for(lambda: events.of(ehkafka.events.ParkedBudgetFull))
    assert app.health() is not None
    app.stop()


def _by_curious(record: Any) -> Curious:
    return Curious(record.key())


def _by_tuple(record: Any) -> tuple[Curious, int]:
    return Curious(record.key()), 1
