"""Delivery exactly once: what is refused, the producer's properties, and how the parts are joined.

Made before any thread of the run exists.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.client import open_consumer, open_producer
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.endpoint.properties.names import in_one_spelling
from ehkafka.endpoint.silent import SILENT
from ehkafka.errors import ConfigurationError, HandlerFailedError
from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.batch import with_limit
from ehkafka.outputs.delivery import Delivery
from ehkafka.outputs.properties import TRANSACTION_TIMEOUT_MS, transactional_properties
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.recovery.policy import DeadLetter
from ehkafka.transactions.committing import TransactionalCommits
from ehkafka.transactions.group_commits import GroupCommits
from ehkafka.transactions.held import HeldOutputs
from ehkafka.transactions.loop import TransactionLoop
from ehkafka.transactions.probe import probe
from ehkafka.transactions.producer import TransactionalProducer
from ehkafka.wording import ended

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from confluent_kafka import Consumer, Producer
    from confluent_kafka.cimpl import TopicPartition as KafkaPartition

    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.records import TopicPartition
    from ehkafka.run.assembly import Assembly
    from ehkafka.run.options import AppOptions

# A caller waits for its commit so much longer than the broker lets a transaction be open.
SLACK_S = 2.0
LOST_S = 0.5
READ_BACK_S = 3.5


class ExactlyOnce(Delivery):
    """Delivers by transactions, each with outputs and the group's commit."""

    is_exactly_once = True

    def __init__(self, run: Assembly) -> None:
        """Raise `ConfigurationError` for what cannot be sent exactly once."""
        app, emit = run.app, run.bus.emit
        check_exactly_once(app)
        self._app = app
        self._fatal = run.fail
        # No worker waits for room: its record could be the one that holds all the others back.
        super().__init__(Unacknowledged(waits=False))
        self._id = transactional_id(app)
        properties = transactional_properties(app.endpoint, app.settings, self._id)
        is_compressed = str(properties.get("compression.type", "none")).lower() != "none"
        self._held = HeldOutputs(self.outputs, app.clock.now_s, are_sizes_known=not is_compressed)
        self._group = GroupCommits(self._read, app.clock.now_s)
        timeout_s = properties[TRANSACTION_TIMEOUT_MS] / 1000
        self._producer = TransactionalProducer(
            self._open_client,
            emit=emit,
            make_watch=lambda: CredentialWatch(app.endpoint.credential, emit),
            transactional_id=self._id,
            timeout_s=timeout_s,
            is_stopping=run.is_stopping,
        )
        self._loop = TransactionLoop(
            self._held,
            self._producer,
            emit=emit,
            fatal=run.fail,
            on_death=run.worker_died,
            group=self._group,
            is_id_shared=app.settings.instance_id is not None,
            busy=busy_codes(is_event_hubs=app.endpoint.is_event_hubs),
            timeout_s=timeout_s,
        )
        self._wait_s = timeout_s + SLACK_S
        self._commits: TransactionalCommits | None = None

    def commits(self, ledger: CommitLedger, epochs: Mapping[TopicPartition, int]) -> TransactionalCommits:
        """Return what carries the run's commits out. `epochs` are those that are ours now."""
        self._group.epochs = epochs
        self._commits = TransactionalCommits(self._loop, ledger.acknowledged, wait_s=self._wait_s)
        return self._commits

    def refuse_letter(self, topic: str, where: str, error: str) -> None:
        """End the run: a dead letter is refused permanently."""
        self.has_failed = True
        self._fatal(
            HandlerFailedError(
                f"The dead letter of {where} is refused by {topic!r}: {ended(error)} The dead letter and "
                f"its record are one transaction, so commits stop before this offset. Fix the topic."
            )
        )

    def start(self) -> None:
        """Open the producer and start the thread."""
        settings, topic = self._app.settings, self._app.topics[0]
        is_preview = settings.exactly_once == "preview"
        try:
            self._loop.start(
                (lambda client: probe(client, self._open_consumer, settings.group, topic))
                if is_preview
                else None
            )
        except BaseException:
            self._producer.give_up()
            raise

    def stop(self, timeout_s: float) -> None:
        """Stop the thread."""
        self.outputs.close()
        self._loop.stop(timeout_s)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is that of the transactions."""
        return self._loop.owns(thread)

    @property
    def problem(self) -> str | None:
        """The reason why the start or a transaction waits."""
        return self._producer.start_problem or self._loop.problem

    def waiting_epochs(self) -> set[Epoch]:
        """Return those with refused outputs; no other output is waited for: a commit takes it along."""
        return set() if self.has_failed else self._held.refusals.waiting_epochs()

    def lowest(self) -> dict[Epoch, int]:
        """Return below which offsets commits stay: refused outputs wait for decisions."""
        return self._held.refusals.lowest()

    def is_over_bound(self) -> bool:
        """Tell whether something must be committed first."""
        return self.outputs.is_over_bound()

    def end(self, epochs: Sequence[Epoch], _timeout_s: float) -> None:
        """Drop what is left of ended epochs. Poll thread."""
        self._held.end(epochs)

    def undecided(self) -> set[TopicPartition]:
        """Return the partitions of transactions that are not over."""
        return self._loop.undecided()

    def is_old(self, partition: TopicPartition, commit: KafkaPartition | None) -> bool:
        """Tell whether a commit is older than one of ours."""
        return self._group.is_old(partition, commit)

    def lost(self) -> None:
        """Have a transaction aborted that is not being committed. Poll thread."""
        if self._commits is not None:
            self._commits.end_unwanted(LOST_S)

    def _open_client(self, callbacks: dict[str, Any], limit: Mapping[str, int]) -> Producer:
        # Anew for each client: the key may have changed since.
        properties = transactional_properties(self._app.endpoint, self._app.settings, self._id)
        return open_producer(with_limit(properties, limit), **callbacks)

    def _open_consumer(self, group: str) -> Consumer:
        """Return a consumer that joins no group, but may ask for what one has committed."""
        properties = {**self._app.consumer_properties(), "group.id": group, "log_level": 0}
        properties.pop("group.instance.id", None)
        return open_consumer(properties, logger=SILENT)

    def _read(self, partitions: Sequence[KafkaPartition]) -> Sequence[KafkaPartition]:
        """Return the group's commits; wait for the end of a transaction that is being committed."""
        consumer = self._open_consumer(self._app.settings.group)
        try:
            return consumer.committed([*partitions], timeout=READ_BACK_S)
        finally:
            consumer.close()


def transactional_id(app: AppOptions) -> str:
    """Return the producer's transactional id: a static member's is the same at each start, others are new.

    No two pairs of group and instance have the same id, because it ends with the length of the instance's.
    """
    instance_id = app.settings.instance_id or secrets.token_hex(8)
    return f"ehkafka-{app.settings.group}-{instance_id}-{len(instance_id)}"


def check_exactly_once(app: AppOptions) -> None:
    """Refuse what cannot be sent exactly once. Raises `ConfigurationError` that names it and the fix."""
    for reason in (*_app_reasons(app), *(each for spec in app.specs for each in _spec_reasons(spec))):
        raise ConfigurationError(f"exactly_once: {reason}")


def _app_reasons(app: AppOptions) -> Iterator[str]:
    endpoint, settings = app.endpoint, app.settings
    if endpoint.is_embedded:
        yield (
            "the embedded broker keeps no offsets of transactions. Use a Kafka broker; ehkafka.testing.run "
            "runs such an app without transactions."
        )
    if endpoint.is_event_hubs and settings.exactly_once != "preview":
        yield (
            "Microsoft documents transactions of Event Hubs both as a preview, in the Premium and Dedicated "
            "tiers, and as unsupported. With exactly_once='preview', the app tries one transaction when it "
            "starts. Without exactly_once, outputs are sent at least once."
        )
    if app.mirror is not None:
        yield (
            "a mirror can contain finished records whose outputs no transaction has committed yet. An app "
            "that starts from the mirror would lose these outputs. Leave mirror= out."
        )
    asked: Mapping[str, Any] = in_one_spelling(settings.consumer, "App(consumer=…)")
    level = asked.get("isolation.level", endpoint.chosen("isolation.level") or "read_committed")
    if str(level).lower() != "read_committed":
        yield (
            f"isolation.level={level!r} would read records and commits of transactions that may still be "
            f"aborted. Leave isolation.level out."
        )


def _spec_reasons(spec: HandlerSpec) -> Iterator[str]:
    where = f"handler {spec.name!r}"
    policy = spec.on_failure
    if isinstance(policy, DeadLetter) and not isinstance(policy.to, str):
        yield (
            f"{where} has DeadLetter(…) with a function, which cannot be part of a transaction. Name a "
            f"topic, or use Hold(), Skip() or Stop()."
        )
    if spec.acknowledged == "before_next":
        yield (
            f"{where} is set to acknowledged='before_next', which would need one transaction for each "
            f"record of a key. Leave acknowledged= out: the outputs of a key keep their order anyway."
        )
    if spec.scope == "handler":
        yield (
            f"{where} is set to scope='handler', but transactions keep the order of a key's outputs only "
            f"within one partition. Leave scope= out."
        )
