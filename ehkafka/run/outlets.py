"""A handler's outlet, and its rules for what the broker refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.handlers.spec import is_batch
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.properties import output_bytes_max
from ehkafka.recovery.kept_outputs import KeptOutputs
from ehkafka.recovery.refused_outputs import RefusedOutputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.decision import HoldHead
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.delivery import Delivery
    from ehkafka.records import Record
    from ehkafka.recovery.letters.letters import Letters
    from ehkafka.run.assembly import Assembly


def make_outlet(
    run: Assembly,
    delivery: Delivery,
    spec: HandlerSpec,
    letters: Letters,
    make_record: type[Record],
    hold: Callable[[Entry, HoldHead], None],
) -> Outlet:
    """Return a handler's outlet. Called before any thread of the run exists.

    `hold` starts nothing more of a record's key.
    """
    kept = KeptOutputs(delivery.outputs, hold) if run.may_hold else None
    letters.kept += filter(None, [kept])

    def give_up(error: EhkafkaError) -> None:
        delivery.has_failed = True
        run.fail(error)

    rules = RefusedOutputs(
        handler=spec.name,
        policy=spec.on_failure,
        retry=spec.retry,
        emit=run.bus.emit,
        fatal=give_up,
        make_record=make_record,
        raw=spec.raw,
        group=run.app.settings.group,
        target=letters.target(spec.on_failure),
        words=run.stop_words,
        kept=kept,
    )
    return Outlet(
        delivery.outputs,
        handler=spec.name,
        topics=spec.to,
        bytes_max=output_bytes_max(run.app.endpoint, run.app.settings),
        judge=rules,
        before_next=spec.acknowledged == "before_next",
        is_async=spec.is_async and not is_batch(spec),
        kinds=delivery.kinds,
        refuses_whole_batches=delivery.is_exactly_once,
    )
