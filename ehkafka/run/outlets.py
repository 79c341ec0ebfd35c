"""The ways out of a run's handlers: an outlet for each, and its rules for what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from ehkafka.outputs.unacknowledged import Unacknowledged
    from ehkafka.records import Record
    from ehkafka.recovery.letters.letters import Letters
    from ehkafka.run.options import AppOptions


class Outlets:
    """Makes them, before any thread of the run exists."""

    def __init__(
        self,
        app: AppOptions,
        outputs: Unacknowledged,
        *,
        emit: Callable[[Event], None],
        words: StopWords = STOP_WORDS,
        may_hold: bool = True,
        refuses_whole_batches: bool = False,
    ) -> None:
        """`words` are what an error that stops the run says.

        Not `may_hold`: nothing may wait for the next start, see `RefusedOutputs`.
        """
        self._app = app
        self._outputs = outputs
        self._emit = emit
        self._words = words
        self._may_hold = may_hold
        self._refuses_whole_batches = refuses_whole_batches
        self._kinds = TopicKinds((spec.to for spec in app.specs), emit)
        # The app stops because of an output or of its sender: nothing waits for acknowledgements. Set once,
        # by the thread that decides on it.
        self.has_failed = False

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

        rules = RefusedOutputs(
            handler=spec.name,
            policy=spec.on_failure,
            retry=spec.retry,
            emit=self._emit,
            fatal=give_up,
            make_record=make_record,
            raw=spec.raw,
            group=self._app.settings.group,
            way=letters.way(spec.on_failure),
            words=self._words,
            may_hold=self._may_hold,
        )
        return Outlet(
            self._outputs,
            handler=spec.name,
            topics=spec.to,
            bytes_max=output_bytes_max(self._app.endpoint, self._app.settings),
            judge=rules,
            before_next=spec.acknowledged == "before_next",
            is_async=spec.is_async and not is_batch(spec),
            kinds=self._kinds,
            refuses_whole_batches=self._refuses_whole_batches,
        )
