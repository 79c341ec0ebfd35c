"""An app whose outputs go through a proxy that answers for the broker, and the judgement over them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

import ehkafka
from ehkafka import DeadLetter, Retry
from tests.contract.outputs_order import problems
from tests.integration.sent import Sent, inputs_of
from tests.kit.events import Events
from tests.kit.topic_read import read_all, read_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tests.kit.faults.kafka_proxy import KafkaProxy

MODES = ("at least once", "exactly once")
MARK = b"#marked#"
MARKED_KEY = b"key-3"
KEYS = 20
# Event Hubs takes no shorter sessions.
EVENT_HUBS_GROUP = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}


class Answering(Sent):
    """One app whose outputs go through the proxy, and the judgement over them."""

    def __init__(self, stage: Any, proxy: KafkaProxy, mode: str, *, bytes_max: int | None = None) -> None:
        super().__init__(stage, {} if bytes_max is None else {"max.message.bytes": f"{bytes_max}"})
        self.proxy, self.events = proxy, Events()
        self.is_exact = mode == "exactly once"
        self.calls: Counter[tuple[int, int]] = Counter()
        # What a record's output is made of its place; by default this goes where its key goes.
        self.send: Callable[[Any, bytes], Any] = lambda _record, place: place
        # Whose outputs have what the proxy looks for.
        self.marked: set[tuple[int, int]] = set()

    def made(self, *, is_event_hubs: bool = False) -> ehkafka.App:
        """Return the app, with a second attempt and letters."""
        endpoint = ehkafka.Endpoint.kafka(self.proxy.address)
        options: dict[str, Any] = {"exactly_once": self.is_exact}
        if is_event_hubs:
            endpoint = dataclasses.replace(endpoint, kind="event-hubs")
            options = {"consumer": EVENT_HUBS_GROUP, "exactly_once": "preview" if self.is_exact else False}
        policy = {"retry": Retry(attempts=2, first_s=0.05), "on_failure": DeadLetter(self.dead)}
        app = self.app(self.handle, endpoint=endpoint, workers=8, **policy, **options)
        app.add_hook(self.events)
        return app

    def handle(self, record: Any) -> Any:
        """Send the place, and what the proxy looks for if it is marked."""
        place = record.partition(), record.offset()
        self.calls[place] += 1
        return self.send(record, b"%d:%d" % place + (b" " + MARK if place in self.marked else b""))

    def produce(self, count: int) -> None:
        """Produce so many, each key's in turn."""
        self.load.put_all(*[b"key-%d" % (number % KEYS) for number in range(count)])

    def mark_one(self) -> tuple[int, int]:
        """Choose the record whose output the proxy looks for: one in the middle of its key's."""
        found = [one for one in self.inputs() if one.key() == MARKED_KEY]
        message = found[len(found) // 2]
        self.marked = {(message.partition(), message.offset())}
        return message.partition(), message.offset()

    def inputs(self) -> list[Any]:
        """Return what the stage's topic holds."""
        return read_messages(self.stage.broker.bootstrap, self.stage.topic)

    def place_of(self, number: int) -> tuple[int, int]:
        """Return where the record is that was produced so late."""
        of_key = [one for one in self.inputs() if one.key() == b"key-%d" % (number % KEYS)]
        return of_key[number // KEYS].partition(), of_key[number // KEYS].offset()

    def replaced(self) -> list[Any]:
        """Return what tells of a producer that was given up."""
        return [event for event in self.events if type(event).__name__.endswith("ProducerReplaced")]

    def wrong(self, sent: list[tuple[bytes, bytes]], without: Collection[tuple[int, int]] = ()) -> list[str]:
        """Return what is wrong with these outputs, where all but those of some records must be there."""
        gone = {b"%d:%d" % place for place in without}
        inputs = {
            key: [one for one in places if one not in gone] for key, places in inputs_of(self.stage).items()
        }
        return problems({key: kept for key, kept in inputs.items() if kept}, sent, repeats=not self.is_exact)

    def judge(self, *, without: set[tuple[int, int]], repeats_max: int) -> None:
        """See that every other output is there in order, none more often than so many times again."""
        found = read_all(self.stage.broker.bootstrap, self.out)
        sent = [(key, value.partition(b" ")[0]) for key, value in found]
        wrong = self.wrong(sent, without)
        assert wrong == [], f"FACT: outputs are lost, repeated or out of order: {wrong[:20]}"
        assert max(Counter(sent).values()) <= 1 + (0 if self.is_exact else repeats_max)
        assert set(self.calls.values()) == {1}
