"""Registration: what an app learns before it starts, by decorators and calls. `App`'s part for that.

Checks each thing at once, so that a mistake is an exception where it stands. Starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.arguments import names_of_caller, payload_of
from ehkafka.handlers.batch import BatchSpec
from ehkafka.handlers.spec import HandlerSpec, check_decorated, must_have_own_topics
from ehkafka.positions.start import check_start
from ehkafka.recovery.policy import letter_topics
from ehkafka.settings.option import takes_options
from ehkafka.wording.calling import must_answer, must_be_callable, must_take, named, plainly

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal, Unpack

    from ehkafka.app import decorators, keywords
    from ehkafka.app.configuration import Configuration
    from ehkafka.app.life import Life
    from ehkafka.events import Hook

Function = TypeVar("Function", bound="Callable[..., Any]")
SEVERAL = ("middleware", "on_start", "on_stop")
PARTITION_HOOKS = ("on_assigned", "on_revoked", "on_lost", "on_idle")
ALONE = ("on_error", "on_worker_start", "on_worker_stop", *PARTITION_HOOKS)


class Registration:
    """Handlers, middleware and hooks of one app."""

    _configuration: Configuration
    _life: Life

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
        """Inner: the topics to which handlers send dead letters, sorted."""
        return tuple(sorted(letter_topics(spec.on_failure for spec in self._specs)))

    @property
    def registered(self) -> tuple[str, ...]:
        """Inner: what was registered, each in a few words; another process of the program has the same."""
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
    @takes_options(HandlerSpec, "records")
    def handler(self, *topics: str, **options: object) -> Callable[[Function], Function]:
        """Register a function `(record)`, or a class with `process(record)`, as the topics' handler.

        A parameter with a type, such as `(reading: Reading)` or `(record: Record, reading: Reading)`, gets
        the decoded payload; a payload that does not fit it is a `RejectRecord` before the handler is called.
        A class gets one instance for each partition, with `open(partition)` and `close(reason)` around it
        where it has them. Raises `ConfigurationError`.

        - `*topics`: the topics to handle. Without any, the endpoint's own (`EntityPath`).
        """
        return self._registering(HandlerSpec, topics, options)

    @plainly
    @takes_options(BatchSpec, "batches")
    def batch_handler(
        self, *topics: str, **options: Unpack[keywords.BatchHandlerOptions]
    ) -> decorators.BatchHandlerDecorator:
        """Register a function `(batch)` as the topics' handler, called with many records at once.

        A function that returns has finished every record for which it called neither
        `batch.fail(record, error)` nor `batch.skip(record, reason)`; see `Batch`. One that raises has
        finished nothing: which of several records failed is unknown, so these are passed again in halves,
        which costs no attempt, until only the record that fails is left. That one is treated as any failed
        record: `retry`, then `on_failure`. `RetryLater` retries the whole batch later. Middleware gets the
        batch in place of a record. Raises `ConfigurationError`.

        - `*topics`: the topics to handle. Without any, the endpoint's own (`EntityPath`).
        """
        return self._registering(BatchSpec, topics, options)

    def _registering(
        self, kind: type[HandlerSpec], topics: tuple[str, ...], options: Mapping[str, Any]
    ) -> Callable[[Function], Function]:
        """Return what registers a function with these options."""
        is_batch = kind is BatchSpec
        check_decorated(topics, "batch_handler" if is_batch else "handler")
        if options.get("start") is not None:
            check_start(options["start"])
        named = topics or self._configuration.own_topics()

        def register(function: Function) -> Function:
            self._life.must_be_new("batch handler" if is_batch else "handler")
            asked = {name: options.get(name) for name in ("value", "decoder")}
            raw, names = options.get("raw") is True, names_of_caller()
            payload = payload_of(function, **asked, raw=raw, batch=is_batch, names=names)
            self._add(kind(topics=named, function=function, payload=payload, **options))
            return function

        return register

    def _add(self, spec: HandlerSpec) -> None:
        must_have_own_topics(spec, self._specs)
        self._specs.append(spec)

    @plainly
    def use(self, middleware: decorators.Middleware) -> decorators.Middleware:
        """Wrap every handler in a function; the first one used is the outermost.

        - `middleware` (required): a function `(record, call_next)` that returns `call_next(record)`. Around
          `async def` handlers it is an `async def`, too, and awaits that. A batch handler's gets the `Batch`.
        """
        return self._take("middleware", middleware, "record", "call_next")

    @plainly
    def on_start(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function in the thread that starts the app: the broker is reached, no record came yet.

        An `async def` runs with `loop="caller"` on the loop that entered the app, else on one that is made
        for it, lives until the stop, and is that of all async handlers, too: what it opens serves them.

        - `function` (required): takes no arguments. What it raises ends the start.
        """
        return self._take("on_start", function)

    @plainly
    def on_stop(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function after the last record, if the on_start functions ran; last registered first.

        It runs in the thread that stops the app, an `async def` on the loop of those of `on_start`.

        - `function` (required): takes no arguments.
        """
        return self._take("on_stop", function)

    @plainly
    def on_worker_start(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function in each worker thread before its first record.

        For `async def` handlers it runs once in the handler's event loop, and may be an `async def` itself.

        - `function` (required): takes no arguments.
        """
        return self._take("on_worker_start", function)

    @plainly
    def on_worker_stop(self, function: decorators.Hook) -> decorators.Hook:
        """Call a function in each worker thread, or event loop, after its last record.

        - `function` (required): takes no arguments.
        """
        return self._take("on_worker_stop", function)

    @plainly
    def on_error(self, function: decorators.ErrorHook) -> decorators.ErrorHook:
        """Let a function hear of errors and answer them.

        - `function` (required): takes `(kind, partition, record, error)`. `kind` is `"handler"` (called on
          the worker's thread) or `"connection"` (partition and record are None; called for errors that
          librdkafka keeps trying to fix). It returns `"continue"` (a failed record is then on hold: its key
          waits, nothing is committed past it), `"stop"`, or None to leave the decision to `on_failure`.
        """
        return self._take("on_error", function, "kind", "partition", "record", "error")

    @plainly
    def on_assigned(self, function: decorators.PartitionHook) -> decorators.PartitionHook:
        """Call a function on the hook thread before the first record of an assignment.

        - `function` (required): takes the `TopicPartition`.
        """
        return self._take("on_assigned", function, "partition")

    @plainly
    def on_revoked(self, function: decorators.RevokeHook) -> decorators.RevokeHook:
        """Call a function after the last record of an assignment.

        - `function` (required): takes `(partition, reason)`; the reason is `"revoked"` or `"stopped"`.
        """
        return self._take("on_revoked", function, "partition", "reason")

    @plainly
    def on_lost(self, function: decorators.PartitionHook) -> decorators.PartitionHook:
        """Call a function when a partition was lost: another member may have it already.

        - `function` (required): takes the `TopicPartition`.
        """
        return self._take("on_lost", function, "partition")

    @plainly
    def on_idle(self, function: decorators.PartitionHook) -> decorators.PartitionHook:
        """Call a function once when nothing has come for `idle_s` and all is finished.

        - `function` (required): takes the `TopicPartition`.
        """
        return self._take("on_idle", function, "partition")

    @plainly
    def add_hook(self, hook: Hook) -> None:
        """Hand every event of the catalogue (`ehkafka.events`) to a hook, before the start.

        - `hook` (required): has `on_event(event)`, called on the telemetry thread; it may block or raise.
        """
        self._life.must_be_new("hook")
        if isinstance(hook, type) or not callable(getattr(hook, "on_event", None)):
            raise ConfigurationError(
                f"add_hook: {named(hook)} has no method on_event(event): give an object with that method."
            )
        must_take(hook.on_event, ("event",), "add_hook: on_event")
        self._event_hooks.append(hook)

    def _take(self, name: str, function: Function, *arguments: str) -> Function:
        self._life.must_be_new(name)
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
