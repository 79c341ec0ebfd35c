"""The ways out of a run's handlers: an outlet over the book for each, and its rules for what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import OutputsSentInVain
from ehkafka.handlers.spec import is_batch
from ehkafka.outputs.kinds import TopicKinds
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.properties import output_bytes_max
from ehkafka.recovery.failures import STOP_WORDS, StopWords
from ehkafka.recovery.refused_outputs import RefusedOutputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import Event
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.outputs.book import OutputBook
    from ehkafka.outputs.claim import Claim
    from ehkafka.records import Record
    from ehkafka.recovery.letters.letters import Letters
    from ehkafka.run.options import AppOptions


class Outlets:
    """Makes them, before any thread of the run exists."""

    def __init__(
        self,
        app: AppOptions,
        book: OutputBook,
        *,
        emit: Callable[[Event], None],
        words: StopWords = STOP_WORDS,
        may_hold: bool = True,
        voids_failed: bool = False,
    ) -> None:
        """`words` are what an error that stops the run says.

        Not `may_hold`: nothing may wait for the next start, see `RefusedOutputs`. `voids_failed`: what a
        failed call had sent goes nowhere.
        """
        self._app = app
        self._book = book
        self._emit = emit
        self._words = words
        self._may_hold = may_hold
        self._voids_failed = voids_failed
        self._kinds = TopicKinds((spec.to for spec in app.specs), emit)
        # The app stops because of an output or of its sender: nobody waits for acknowledgements. Set once, by
        # the thread that decides on it.
        self.has_failed = False
        # By handler: what becomes of its refused outputs.
        self.rules: dict[Outlet, RefusedOutputs] = {}

    def outlet(
        self,
        spec: HandlerSpec,
        letters: Letters,
        make_record: type[Record],
        fatal: Callable[[EhkafkaError], None],
    ) -> Outlet:
        """Return a handler's way out."""

        def give_up(error: EhkafkaError) -> None:
            self.has_failed = True
            fatal(error)

        outlet = Outlet(
            self._book,
            handler=spec.name,
            topics=spec.to,
            bytes_max=output_bytes_max(self._app.endpoint, self._app.settings),
            before_next=spec.acknowledged == "before_next",
            is_async=spec.is_async and not is_batch(spec),
            report=None if self._voids_failed else _sent_in_vain,
            emit=self._emit,
            kinds=self._kinds,
            voids_failed=self._voids_failed,
        )
        self.rules[outlet] = RefusedOutputs(
            handler=spec.name,
            policy=spec.on_failure,
            retry=spec.retry,
            emit=self._emit,
            fatal=give_up,
            make_record=make_record,
            raw=spec.raw,
            group=self._app.settings.group,
            letters=letters,
            words=self._words,
            may_hold=self._may_hold,
        )
        return outlet


def _sent_in_vain(claim: Claim) -> Event:
    epoch, offset = claim.inputs[0]
    return OutputsSentInVain(epoch.partition, offset, claim.attempt, claim.posted, claim.acknowledged)
