"""The senders of a run: for outputs and dead letters of its records, and for `app.producer`.

Made before any thread of the run exists; the app opens and closes what `app.producer` sends.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ehkafka.endpoint.properties.advice import producer_advice
from ehkafka.endpoint.properties.layers import letter_properties
from ehkafka.handlers.output_types import check_output_types
from ehkafka.outputs.own_producer import OwnProducer
from ehkafka.recovery.letters.letters import LetterTargets
from ehkafka.recovery.letters.target import LetterTopic
from ehkafka.recovery.wiring import check_recovery
from ehkafka.run.at_least_once import AtLeastOnce

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from ehkafka.outputs.delivery import Delivery
    from ehkafka.outputs.sender import OutputSender
    from ehkafka.recovery.letters.target import LetterTarget
    from ehkafka.run.assembly import Assembly
    from ehkafka.run.exactly_once import ExactlyOnce
    from ehkafka.run.reach import Reach

    AnyDelivery: TypeAlias = AtLeastOnce | ExactlyOnce

# Letters that are not acknowledged by then belong to records that are redelivered.
LETTERS_S = 0.5


class Sending:
    """The senders of one run."""

    def __init__(self, run: Assembly) -> None:
        """Raise `ConfigurationError` for what cannot be sent."""
        self._clock = run.app.clock
        self.delivery = make_delivery(run)
        self.letters = make_letters(run, self.delivery)
        self.messages = OwnProducer(
            run.app.endpoint, run.app.settings, emit=run.bus.emit, on_death=run.worker_died
        )
        self._stop_jumps: Callable[[], object] = lambda: None

    def start(self, reach: Reach) -> None:
        """Open the producer of outputs. Raises `ConfigurationError` or `EndpointError`."""
        self._stop_jumps = self._clock.on_jump(self._wake)
        if self.delivery is not None:
            reach.wait(self.delivery.start)

    def stop(self) -> None:
        """Stop; records whose outputs or dead letters are not safe soon are handled again."""
        if self.delivery is not None:
            self.delivery.stop(LETTERS_S)
        self.letters.stop(LETTERS_S)
        self._stop_jumps()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one that sends."""
        return self.messages.owns(thread) or any(one.owns(thread) for one in self._for_records())

    def problems(self) -> Iterator[str | None]:
        """Yield what is wrong, while something waits for it."""
        for one in (*self._for_records(), *self.letters.refused, self.messages):
            yield one.problem

    def check(self) -> None:
        """Report what waits for too long. Poll thread, now and then."""
        self.letters.check()

    def _wake(self) -> None:
        for one in self._for_records():
            one.wake()

    def _for_records(self) -> tuple[LetterTarget | Delivery, ...]:
        return *self.letters.targets, *filter(None, [self.delivery])


def make_delivery(run: Assembly, sender_of: Callable[[], OutputSender] | None = None) -> AnyDelivery | None:
    """Return what sends outputs and dead letters to topics, not started; None if none is sent.

    `sender_of` is called if any exists, and may return a sender that runs. Raises `ConfigurationError`.
    """
    app = run.app
    check_output_types(app.specs)
    if app.settings.exactly_once:
        from ehkafka.run.exactly_once import ExactlyOnce  # noqa: PLC0415 - few apps have it

        return ExactlyOnce(run)
    if not (app.output_topics or app.letter_topics):
        return None
    properties = letter_properties(app.endpoint, app.settings.consumer)
    for advice in producer_advice(app.endpoint, properties):
        run.bus.emit(advice)
    return AtLeastOnce(run, sender_of)


def make_letters(run: Assembly, delivery: AnyDelivery | None) -> LetterTargets:
    """Return what makes the targets of dead letters. Raises `ConfigurationError`."""
    app = run.app
    check_recovery(app.specs, app.settings.on_parked_full)

    def to_topic(topic: str) -> LetterTopic:
        assert delivery is not None
        refuse = delivery.refuse_letter
        return LetterTopic(
            topic,
            delivery.outputs,
            problem=lambda: delivery.problem,
            refused=None if refuse is None else partial(refuse, topic),
            emit=run.bus.emit,
            clock=app.clock.now_s,
        )

    return LetterTargets(to_topic, emit=run.bus.emit, history=app.history, clock=app.clock)
