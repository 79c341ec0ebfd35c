"""Routes: each handler with its inboxes, workers and outlet, from what the user registered and set.

`make_route` is called before any thread of the run exists, and starts nothing. `Routes` has those of one run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.handlers.spec import is_batch
from ehkafka.intake.route import Route
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.order import KeyReader
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.properties import output_bytes_max
from ehkafka.records import record_type, sending_type
from ehkafka.recovery.failures import Failures
from ehkafka.recovery.pending import PendingAnswers
from ehkafka.recovery.policy import DeadLetter
from ehkafka.recovery.refused_outputs import RefusedOutputs
from ehkafka.run.pools import HandlerParts, cores_for, inbox_of, size_of
from ehkafka.run.resizing import Resizing
from ehkafka.workers.call_times import CallTimes
from ehkafka.workers.hub import Hub
from ehkafka.workers.processes.option import Processes
from ehkafka.workers.rate import Pace

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from ehkafka.errors import EhkafkaError
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.delivery import Delivery
    from ehkafka.records import Record, TopicPartition
    from ehkafka.recovery.letters.letters import LetterTargets
    from ehkafka.run.assembly import Assembly
    from ehkafka.workers.attempt_clock import OverdueAttempt


class Routes:
    """The handlers of one run. The app's thread starts and stops them, any thread reads."""

    def __init__(self, run: Assembly, letters: LetterTargets, delivery: Delivery | None) -> None:
        self._clock = run.app.clock
        self.all = [make_route(run, spec, letters, delivery) for spec in run.app.specs]
        self.by_topic = {topic: route for route in self.all for topic in route.topics}
        self.resizing = Resizing(self.all, run.bus.emit)
        self._stop_jumps: Callable[[], object] = lambda: None

    def start(self) -> None:
        """Start the workers; where some do not start, none is left. Raises what their set-up raises."""
        self._stop_jumps = self._clock.on_jump(self._wake)
        started: list[Route] = []
        try:
            for route in self.all:
                started.append(route)
                route.workers.start()
        except BaseException:
            for route in started:
                route.workers.stop(1.0)
            raise
        self.resizing.start()

    def stop(self) -> None:
        """Wake nothing any more. The workers end with the drain, by `shutdown`."""
        self._stop_jumps()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is a worker's."""
        return any(route.workers.owns(thread) for route in self.all)

    def problems(self) -> Iterator[str | None]:
        """Yield nothing: what handlers wait for is in the snapshot."""
        yield from ()

    def check(self) -> None:
        """Let workers look after themselves. Poll thread, now and then."""
        for route in self.all:
            route.workers.check()

    def _wake(self) -> None:
        # All that sleep until some time. The poll thread comes by itself, within its longest wait.
        for route in self.all:
            route.hub.wake(route.hub.inboxes.all_inboxes())

    def measure(self) -> None:
        """Have workers count from now on how long their calls take."""
        for route in self.all:
            if route.hub.call_times is None:
                route.hub.call_times = CallTimes()

    @property
    def received_records(self) -> int:
        """How many records they have been given."""
        return sum(route.hub.tally.received_records for route in self.all)

    def has_received(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Tell whether all up to these next_offsets is in inboxes, or has gone through them."""
        hubs = [route.hub for route in self.all]
        return all(any(hub.has_received(where, end) for hub in hubs) for where, end in ends.items())

    def overdue(self) -> tuple[OverdueAttempt, ...]:
        """Return the calls on threads that run for longer than their handler's deadline."""
        clocks = [route.attempts for route in self.all if route.attempts is not None]
        return tuple(attempt for clock in clocks for attempt in clock.overdue())

    def next_due_s(self) -> float | None:
        """Return when the next retry, token, batch or deferral's deadline is due; None where nothing is."""
        dues = [route.hub.earliest_due_s() for route in self.all]
        dues += [one.earliest_due_s() for route in self.all if (one := route.deferrals) is not None]
        return min((due for due in dues if due is not None), default=None)

    def is_at_rest(self, *, letters: bool) -> bool:
        """Tell whether no record runs, deferred ones apart, and none is left that could run now.

        With `letters` none may wait for its dead letter to be safe either.
        """
        due_s = self.next_due_s()
        if due_s is not None and due_s <= self._clock.now_s():
            return False
        deferred = {
            held for route in self.all if route.deferrals is not None for held in route.deferrals.held()
        }
        return all(route.hub.is_at_rest(deferred, letters=letters) for route in self.all)

    def stacks(self) -> dict[str, str]:
        """Return where each busy worker is, by name."""
        return {name: stack for route in self.all for name, stack in route.workers.stacks().items()}


def make_route(
    run: Assembly, spec: HandlerSpec, letters: LetterTargets, delivery: Delivery | None = None
) -> Route:
    """Return a handler with its inboxes and workers. Raises `ConfigurationError`."""
    if is_batch(spec):
        spec.check_backlog(run.app.settings)
    make_record = record_type(spec.headers, event_hubs=run.app.endpoint.is_event_hubs)
    outlet = rules = None
    if delivery is not None and spec.to:
        rules = _refused_outputs(run, delivery, spec, letters, make_record)
        outlet = _make_outlet(run, delivery, spec, rules)
        make_record = sending_type(make_record, outlet)
    keys = KeyReader(spec.order_by, null_key=spec.null_key, wrap=None if spec.raw else make_record)
    hub = _hub(run, spec, keys)
    if rules is not None and run.may_hold:
        rules.hold = hub.hold_key
    failures = _failures(run, spec, hub, letters, make_record)
    deferrals = _deferrals(run, hub, failures)
    if outlet is not None:
        deferrals.on_end = outlet.answered
    workers, attempts = HandlerParts(
        run=run,
        spec=spec,
        hub=hub,
        keys=keys,
        failures=failures,
        deferrals=deferrals,
        make_record=make_record,
        outlet=outlet,
    ).pool()
    opening = (_open_instance(spec), _close_instance) if spec.is_class else (None, None)
    own = (spec.name, attempts, deferrals, *opening, spec.deadline_s or 0.0, spec.auto, failures.attempts)
    name = f"{spec.name}({', '.join(spec.topics)})"
    return Route(name, spec.topics, hub, keys, workers, *own)


def _hub(run: Assembly, spec: HandlerSpec, keys: KeyReader) -> Hub:
    now_s = run.app.clock.now_s
    pace = None if spec.rate_limit is None else Pace(spec.rate_limit, now_s)
    return Hub(_inboxes(spec, keys), now_s, pace)


def _inboxes(spec: HandlerSpec, keys: KeyReader) -> Inboxes:
    """Return a handler's inboxes. Keys may stay unread where no code of the user's reads or sets them."""
    # Child processes run at the same time whatever the calls: one alone would leave the cores to nothing.
    is_apart = isinstance(spec.workers, Processes)
    read_keys = None if keys.calls_user_code or spec.raw or is_apart else keys.keys
    number, kind, cores = size_of(spec), inbox_of(spec), cores_for(spec)
    return Inboxes(number, spec.scope, make_inbox=kind, read_keys=read_keys, cores=cores)


def _failures(
    run: Assembly, spec: HandlerSpec, hub: Hub, letters: LetterTargets, make_record: type[Record]
) -> Failures:
    failures = Failures(
        handler=spec.name,
        policy=spec.on_failure,
        retry=spec.retry,
        emit=run.bus.emit,
        fatal=run.fail,
        ask=run.app.on_error,
        raw=spec.raw,
        make_record=make_record,
        group=run.app.settings.group,
        post_letter=letters.of_records(spec.on_failure, hub.answer),
        finished_records=hub.count_finished,
        history=run.app.history,
        now_s=run.app.clock.wall_s,
        words=run.stop_words,
    )
    if isinstance(spec.on_failure, DeadLetter):
        hub.inboxes.waiting.divert = failures.divert
    return failures


def _deferrals(run: Assembly, hub: Hub, failures: Failures) -> PendingAnswers:
    return PendingAnswers(
        answer=hub.answer,
        failures=failures,
        emit=run.bus.emit,
        history=run.app.history,
        clock=run.app.clock.now_s,
        is_running=hub.is_running,
    )


def _refused_outputs(
    run: Assembly, delivery: Delivery, spec: HandlerSpec, letters: LetterTargets, make_record: type[Record]
) -> RefusedOutputs:
    """Return a handler's rules for what the broker refuses."""

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
        outputs=delivery.outputs,
    )
    letters.refused.append(rules)
    return rules


def _make_outlet(run: Assembly, delivery: Delivery, spec: HandlerSpec, rules: RefusedOutputs) -> Outlet:
    return Outlet(
        delivery.outputs,
        handler=spec.name,
        topics=spec.to,
        bytes_max=output_bytes_max(run.app.endpoint, run.app.settings),
        judge=rules,
        before_next=spec.acknowledged == "before_next",
        is_async=spec.is_async and not is_batch(spec),
        refuses_whole_batches=delivery.is_exactly_once,
    )


def _open_instance(spec: HandlerSpec) -> Callable[[Epoch], None]:
    """Return what gives an epoch its instance of a class handler. Runs on the hook thread."""

    def open_instance(epoch: Epoch) -> None:
        instance = spec.function()
        epoch.context = instance
        if (opens := getattr(instance, "open", None)) is not None:
            opens(epoch.partition)

    return open_instance


def _close_instance(epoch: Epoch, reason: str) -> None:
    instance, epoch.context = epoch.context, None
    if instance is not None and (closes := getattr(instance, "close", None)) is not None:
        closes(reason)
