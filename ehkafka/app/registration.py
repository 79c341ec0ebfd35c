"""Registration: what an app learns before it starts, by decorators and calls. `App`'s part for that.

Checks each thing at once, so that a mistake is an exception where it stands. Starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.arguments import names_of_caller, payload_of
from ehkafka.handlers.spec import (
    Acknowledged,
    HandlerSpec,
    check_decorated,
    must_answer,
    must_be_callable,
    must_have_own_topics,
    named,
    topics_of,
)
from ehkafka.lanes.order import NullKey, Scope, by_key
from ehkafka.positions.start import check_start
from ehkafka.recovery.policy import FailurePolicy, Stop, letter_topics
from ehkafka.recovery.retry import NO_RETRY, Retry, RetryFunction
from ehkafka.wording.calling import must_take, plainly, renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from datetime import timedelta
    from typing import Literal, Unpack

    from ehkafka.app import decorators, keywords
    from ehkafka.app.configuration import Configuration
    from ehkafka.codecs.codec import Decoder
    from ehkafka.events import Hook
    from ehkafka.headers import HeaderMode
    from ehkafka.positions.start import Start
    from ehkafka.records import Record
    from ehkafka.workers.auto import WorkersOption

Function = TypeVar("Function", bound="Callable[..., Any]")
SEVERAL = ("middleware", "on_start", "on_stop")
PARTITION_HOOKS = ("on_assigned", "on_revoked", "on_lost", "on_idle")
ALONE = ("on_error", "on_worker_start", "on_worker_stop", *PARTITION_HOOKS)


class Registration:
    """Handlers, middleware and hooks of one app."""

    _configuration: Configuration

    def __init__(self) -> None:
        self._specs: list[HandlerSpec] = []
        # Functions by what they were registered for; where one is wanted, the last one counts.
        self._hooks: dict[str, list[Callable[..., Any]]] = {name: [] for name in (*SEVERAL, *ALONE)}
        self._event_hooks: list[Hook] = []

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of all handlers, sorted."""
        return tuple(sorted({topic for spec in self._specs for topic in spec.topics}))

    @property
    def letter_topics(self) -> tuple[str, ...]:
        """The topics to which handlers send dead letters, sorted."""
        return tuple(sorted(letter_topics(spec.on_failure for spec in self._specs)))

    @property
    def output_topics(self) -> tuple[str, ...]:
        """The topics to which handlers send outputs, sorted."""
        return tuple(sorted({topic for spec in self._specs for topic in spec.to}))

    @property
    def registered(self) -> tuple[str, ...]:
        """What was registered, each in a few words: another process of the same program has the same."""
        found = [f"handler {spec.name} of {', '.join(spec.topics)}" for spec in self._specs]
        found += [f"{name} {named(one)}" for name, functions in self._hooks.items() for one in functions]
        # The command's own hooks are nothing of the program's.
        theirs = [
            type(hook) for hook in self._event_hooks if not type(hook).__module__.startswith("ehkafka.")
        ]
        return tuple(sorted([*found, *(f"event hook {kind.__qualname__}" for kind in theirs)]))

    @overload
    def handler(
        self, *topics: str, raw: Literal[False] = ..., **options: Unpack[keywords.HandlerOptions]
    ) -> decorators.HandlerDecorator: ...
    @overload
    def handler(
        self, *topics: str, raw: Literal[True], **options: Unpack[keywords.RawHandlerOptions]
    ) -> decorators.RawHandlerDecorator: ...
    @plainly
    def handler(
        self,
        *topics: str,
        order_by: Callable[[Any], Hashable] = by_key,
        scope: Scope = "partition",
        null_key: NullKey = "spread",
        workers: WorkersOption = 16,
        raw: bool = False,
        headers: HeaderMode = "auto",
        start: Start | None = None,
        max_age: timedelta | None = None,
        retry: Retry | RetryFunction = NO_RETRY,
        on_failure: FailurePolicy | None = None,
        deadline_s: float | None = None,
        rate_limit: float | None = None,
        to: str | Sequence[str] | None = None,
        acknowledged: Acknowledged = "before_commit",
        value: Any = None,
        decoder: Decoder | None = None,
    ) -> Callable[[Function], Function]:
        """Register a function `(record)`, or a class with `process(record)`, as the topics' handler.

        A parameter with a type, such as `(reading: Reading)` or `(record: Record, reading: Reading)`, gets
        the decoded payload; a payload that does not fit it is a `RejectRecord` before the handler is called.
        A class gets one instance for each partition, with `open(partition)` and `close(reason)` around it
        where it has them. Raises `ConfigurationError`.

        - `*topics`: the topics to handle. Without any, the endpoint's own (`EntityPath`).

        Order

        - `order_by` (default `by_key`): the key of a record, as a function of it. Records of equal keys are
          handled one after another, in order; others at the same time.
        - `scope` (default `"partition"`): where equal keys count as one: within a `"partition"`, or in all
          partitions and topics of the `"handler"`.
        - `null_key` (default `"spread"`): how records without a key are ordered: `"spread"` not at all,
          `"partition"` as one key of their partition.

        Workers

        - `workers` (default `16`): how many records run at the same time: on threads, or as tasks of one
          event loop for an `async def`. `"auto"` or `Auto(2, 64)`: as many as the app finds to be of use.
          `Processes(4)`: in 4 processes, for what is bound by the CPU.

        Records

        - `raw` (default `False`): pass confluent's `Message` itself instead of a `Record`.
        - `headers` (default `"auto"`): how `Record.properties` decodes: `"auto"` (AMQP values or text on
          Event Hubs, text elsewhere), `"amqp"`, or `"raw"` for the bytes; `ehkafka.headers.modes` has the
          rules.
        - `value` (a type, default `None`): what a payload is decoded to. `None`: the type of the
          annotation, if there is one.
        - `decoder` (a function, default `None`): decodes the payload, called with its bytes, or with these
          and the record. `None`: JSON, text or bytes, as the type wants it.
        - `start` (default `None`): where partitions of these topics begin. `None`: as the app's `start` says.
        - `max_age` (a timedelta, default `None`): skip older records of these topics. `None`: as the app's
          `max_age` says.

        Failure and outputs

        - `retry` (default `Retry(attempts=1)`): when a record whose handler raised is retried. Its key
          waits meanwhile, others do not.
        - `on_failure` (default `None`): what happens when no attempt is left: `Stop()`, `Hold()`, `Skip()` or
          `DeadLetter(…)`. `None`: `Stop()`.
        - `to` (default `None`): the topic, or topics, that it sends to: what it returns goes to the first
          one, a `Send` where it says. All of a call is sent once it has ended well, what `record.send(…)` was
          given, too. `None`: it sends nothing.
        - `acknowledged` (default `"before_commit"`): what waits for the broker's acknowledgement of a
          record's outputs: its commit, or `"before_next"`: the next record of its key as well.

        Limits

        - `deadline_s` (seconds, default `None`): how long one call may take. Then a coroutine is cancelled, a
          process is ended, and the attempt has failed; a thread cannot be stopped, so it is reported and
          health turns red. `None`: no limit.
        - `rate_limit` (calls per second, default `None`): how many calls may start, retries included; at once
          after a rest a tenth of it, 1 at least. `None`: no limit.
        """
        check_decorated(topics, "handler")
        if start is not None:
            check_start(start)
        named = topics or self._configuration.own_topics()

        def register(function: Function) -> Function:
            self._must_be_new("handler")
            asked = {"value": value, "decoder": decoder, "raw": raw is True, "names": names_of_caller()}
            spec = HandlerSpec(
                topics=named,
                function=function,
                order_by=order_by,
                scope=scope,
                null_key=null_key,
                workers=workers,
                raw=raw,
                headers=headers,
                start=start,
                max_age=max_age,
                retry=retry,
                on_failure=Stop() if on_failure is None else on_failure,
                deadline_s=deadline_s,
                rate_limit=rate_limit,
                to=topics_of(to),
                acknowledged=acknowledged,
                payload=payload_of(function, **asked),
            )
            self._add(spec)
            return function

        return register

    @renamed(
        batch_records_max="max_records",
        batch_bytes_max="max_bytes",
        wait_s_max="max_wait_s",
    )
    @plainly
    def batch_handler(
        self,
        *topics: str,
        batch_records_max: int = 500,
        batch_bytes_max: int | None = None,
        wait_s_max: float = 1.0,
        workers: int = 4,
        order_by: Callable[[Record], Hashable] = by_key,
        scope: Scope = "partition",
        null_key: NullKey = "spread",
        headers: HeaderMode = "auto",
        start: Start | None = None,
        max_age: timedelta | None = None,
        retry: Retry | RetryFunction = NO_RETRY,
        on_failure: FailurePolicy | None = None,
        to: str | Sequence[str] | None = None,
        value: Any = None,
        decoder: Decoder | None = None,
    ) -> decorators.BatchHandlerDecorator:
        """Register a function `(batch)` as the topics' handler, called with many records at once.

        A function that returns has finished every record for which it called neither `batch.fail(record,
        error)` nor `batch.skip(record, reason)`; see `Batch`. One that raises has finished nothing: nobody
        knows which of several records failed, so these are passed again in halves, which costs no attempt,
        until the record that fails is alone. That one is treated as any failed record: `retry`, then
        `on_failure`. `RetryLater` retries the whole batch later. Middleware gets the batch in place of a
        record. Raises `ConfigurationError`.

        - `*topics`: the topics to handle. Without any, the endpoint's own (`EntityPath`).

        Size: a batch starts when it is full, when its time is over, and at a stop or revoke

        - `batch_records_max` (records, default `500`): a batch is full with so many.
        - `batch_bytes_max` (bytes of values, default `None`): a batch is full with so many. `None`: no limit.
        - `wait_s_max` (seconds, default `1.0`): how long a batch waits after its first record came; 0: not at
          all.

        Order

        - `order_by` (default `by_key`): the key of a record, as a function of it. Records of equal keys are
          handled one after another, in order; others at the same time.
        - `scope` (default `"partition"`): where equal keys count as one: within a `"partition"`, or in all
          partitions and topics of the `"handler"`.
        - `null_key` (default `"spread"`): how records without a key are ordered: `"spread"` not at all,
          `"partition"` as one key of their partition.

        Workers

        - `workers` (default `4`): how many batches run at the same time: on threads, or as tasks of one event
          loop for an `async def`.

        Records

        - `headers` (default `"auto"`): how `Record.properties` decodes: `"auto"` (AMQP values or text on
          Event Hubs, text elsewhere), `"amqp"`, or `"raw"` for the bytes; `ehkafka.headers.modes` has the
          rules.
        - `value` (a type, default `None`): what a payload is decoded to. `None`: the type of the
          annotation, if there is one.
        - `decoder` (a function, default `None`): decodes the payload, called with its bytes, or with these
          and the record. `None`: JSON, text or bytes, as the type wants it.
        - `start` (default `None`): where partitions of these topics begin. `None`: as the app's `start` says.
        - `max_age` (a timedelta, default `None`): skip older records of these topics. `None`: as the app's
          `max_age` says.

        Failure and outputs

        - `retry` (default `Retry(attempts=1)`): when a record that failed is retried. Its key waits
          meanwhile, others do not.
        - `on_failure` (default `None`): what happens when no attempt is left: `Stop()`, `Hold()`, `Skip()` or
          `DeadLetter(…)`. `None`: `Stop()`.
        - `to` (default `None`): the topic, or topics, that it sends to, as for `handler`; what it returns has
          keys of its own, and all records of the batch wait for it. `None`: it sends nothing.
        """
        # What batches need is not for the many apps without any.
        from ehkafka.handlers.batch import BatchSpec  # noqa: PLC0415

        check_decorated(topics, "batch_handler")
        if start is not None:
            check_start(start)
        named = topics or self._configuration.own_topics()

        def register(function: Function) -> Function:
            self._must_be_new("batch handler")
            asked = {"value": value, "decoder": decoder, "batch": True, "names": names_of_caller()}
            self._add(
                BatchSpec(
                    topics=named,
                    function=function,
                    batch_records_max=batch_records_max,
                    batch_bytes_max=batch_bytes_max,
                    wait_s_max=wait_s_max,
                    order_by=order_by,
                    scope=scope,
                    null_key=null_key,
                    workers=workers,
                    headers=headers,
                    start=start,
                    max_age=max_age,
                    retry=retry,
                    on_failure=Stop() if on_failure is None else on_failure,
                    to=topics_of(to),
                    payload=payload_of(function, **asked),
                )
            )
            return function

        return register

    def _add(self, spec: HandlerSpec) -> None:
        must_have_own_topics(spec, self._specs)
        self._specs.append(spec)

    @plainly
    def use(self, middleware: decorators.Middleware) -> decorators.Middleware:
        """Wrap every handler in `middleware(record, call_next)`; the first one used is the outermost.

        Around `async def` handlers it is an `async def`, too, and awaits `call_next(record)`.
        """
        return self._take("middleware", middleware, "record", "call_next")

    @plainly
    def on_start(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function in the thread that starts the app: the broker is reached, no record came yet.

        An `async def` runs with `loop="caller"` on the loop that entered the app, else on one that is made
        for it, lives until the stop, and is that of all async handlers, too: what it opens serves them.
        """
        return self._take("on_start", function)

    @plainly
    def on_stop(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function after the last record, if the on_start functions ran; last registered first.

        It runs in the thread that stops the app, an `async def` on the loop of those of `on_start`.
        """
        return self._take("on_stop", function)

    @plainly
    def on_worker_start(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function in each worker thread before its first record.

        For `async def` handlers it runs once in the handler's event loop, and may be an `async def` itself.
        """
        return self._take("on_worker_start", function)

    @plainly
    def on_worker_stop(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function in each worker thread, or event loop, after its last record."""
        return self._take("on_worker_stop", function)

    @plainly
    def on_error(self, function: decorators.ErrorHook) -> decorators.ErrorHook:
        """Let `function(kind, partition, record, error)` hear of errors and answer them.

        `kind` is `handler` (called on the worker's thread) or `connection` (partition and record are
        None; called for errors that librdkafka keeps trying to fix). It may answer `"continue"` (a
        failed record is then held: its key waits, nothing is committed past it), `"stop"`, or None to
        leave the decision to `on_failure`.
        """
        return self._take("on_error", function, "kind", "partition", "record", "error")

    @plainly
    def on_assigned(self, function: decorators.PartitionHook) -> decorators.PartitionHook:
        """Call `function(partition)` on the hook thread before the first record of an assignment."""
        return self._take("on_assigned", function, "partition")

    @plainly
    def on_revoked(self, function: decorators.RevokeHook) -> decorators.RevokeHook:
        """Call `function(partition, reason)` after the last record; reason: `revoked` or `stopped`."""
        return self._take("on_revoked", function, "partition", "reason")

    @plainly
    def on_lost(self, function: decorators.PartitionHook) -> decorators.PartitionHook:
        """Call `function(partition)` when a partition was lost: another member may have it already."""
        return self._take("on_lost", function, "partition")

    @plainly
    def on_idle(self, function: decorators.PartitionHook) -> decorators.PartitionHook:
        """Call `function(partition)` once when nothing has come for `idle_s` and all is finished."""
        return self._take("on_idle", function, "partition")

    @plainly
    def add_hook(self, hook: Hook) -> None:
        """Hand every event of the catalogue (`ehkafka.events`) to `hook.on_event(event)`."""
        self._must_be_new("hook")
        if isinstance(hook, type) or not callable(getattr(hook, "on_event", None)):
            raise ConfigurationError(
                f"add_hook: {named(hook)} has no method on_event(event): give an object that has one."
            )
        must_take(hook.on_event, ("event",), "add_hook: on_event")
        self._event_hooks.append(hook)

    def _take(self, name: str, function: Function, *arguments: str) -> Function:
        self._must_be_new(name)
        if name in (*PARTITION_HOOKS, "on_error"):
            must_answer(function, arguments, name)
        else:
            must_be_callable(function, name)
            what = f"middleware {named(function)}" if name == "middleware" else name
            must_take(function, arguments, what)
        if name in ALONE:
            self._hooks[name].clear()
        self._hooks[name].append(function)
        return function

    def _must_be_new(self, what: str) -> None:
        """Refuse a change of what runs. Raises `ConfigurationError`."""
        raise NotImplementedError
