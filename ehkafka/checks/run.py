"""Goes through the steps: one probe at a time, never longer than its time-out, results reported as they come.

A step that did not apply holds no other up; one that failed holds up what needs it. Called on the caller's
thread; each probe runs on a daemon thread of its own. Turns what a probe returned or raised into a result
whose texts are clean, and never lets an error of a probe out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException

from ehkafka.checks import broker, group, kafka, login, mirror, network
from ehkafka.checks.inspection import GRACE_S, Inspection, Overdue, bounded
from ehkafka.checks.result import CheckResult, Finding, NotMeasured, Problem, Report, Status
from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EngineError, describe
from ehkafka.wording import seconds
from ehkafka.wording.answers import answer_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.checks.target import Target

    Probe = Callable[[Inspection, str | None], Finding]


class Key(NamedTuple):
    """A step by its name and what it looks at."""

    name: str
    subject: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.subject}" if self.subject else self.name


@dataclass(frozen=True, slots=True)
class Step:
    """`needs` must all be fine; of `needs_one`, if there are any, one is enough."""

    key: Key
    needs: tuple[Key, ...] = ()
    needs_one: tuple[Key, ...] = ()


SETTINGS = Key("settings")
TOKEN = Key("token")
AUTH = Key("auth")
GROUP = Key("group")


def steps_after_settings(
    addresses: Sequence[str | None], topics: Sequence[str], *, has_token: bool, has_mirror: bool = False
) -> tuple[Step, ...]:
    """Return the steps that follow the settings, for these addresses and topics."""
    named: Sequence[str | None] = topics or [None]
    token = [Step(TOKEN, (SETTINGS,))] if has_token else []
    open_doors = tuple(Key("kafka", address) for address in addresses)
    seen = tuple(Key("partitions", topic) for topic in named)
    return (
        *(step for address in addresses for step in _to_address(address)),
        *token,
        Step(AUTH, (SETTINGS, *(step.key for step in token)), open_doors),
        *(step for topic in named for step in _to_topic(topic)),
        Step(GROUP, (AUTH,), seen),
        *(Step(Key("offsets", topic), (Key("partitions", topic),)) for topic in named),
        Step(Key("clock"), (AUTH,)),
        Step(Key("commit"), (AUTH,), seen),
        *([Step(Key("mirror"), (SETTINGS,))] if has_mirror else []),
    )


def blocker(step: Step, statuses: Mapping[Key, Status]) -> Key | None:
    """Return the step that keeps this one from being tried, None when nothing does."""
    held_up = (Status.FAILED, Status.SKIPPED)
    for need in step.needs:
        if statuses.get(need, Status.SKIPPED) in held_up:
            return need
    if step.needs_one and all(statuses.get(need, Status.SKIPPED) in held_up for need in step.needs_one):
        return step.needs_one[0]
    return None


def _to_address(address: str | None) -> list[Step]:
    names = ("dns", "tcp", "tls", "kafka")
    befores = (SETTINGS, *(Key(name, address) for name in names))
    return [Step(Key(name, address), (before,)) for name, before in zip(names, befores, strict=False)]


def _to_topic(topic: str | None) -> list[Step]:
    return [
        Step(Key("topic", topic), (AUTH,)),
        Step(Key("partitions", topic), (Key("topic", topic),)),
    ]


PROBES: Mapping[str, Probe] = {
    "settings": login.settings,
    "dns": network.dns,
    "tcp": network.tcp,
    "tls": network.tls,
    "kafka": kafka.kafka,
    "token": login.token,
    "auth": login.auth,
    "topic": broker.topic,
    "partitions": broker.partitions,
    "group": group.group,
    "offsets": group.offsets,
    "clock": login.clock,
    "commit": group.commit,
    "mirror": mirror.mirror,
}


def run_checks(
    target: Target,
    *,
    timeout_s: float = 10.0,
    on_result: Callable[[CheckResult], None] = lambda _result: None,
) -> Report:
    """Check the way to the target step by step; `on_result` gets each result. Never raises for a failure.

    Each step has `timeout_s`. Writes one commit into the group `ehkafka-check`, and nothing else.
    """
    inspection = Inspection(target, timeout_s)
    results: dict[Key, CheckResult] = {}

    def take(step: Step) -> None:
        results[step.key] = result = _result(inspection, step, results)
        on_result(result)

    try:
        take(Step(SETTINGS))
        addresses: list[str | None] = [*inspection.addresses] or [None]
        mechanism = inspection.mechanism if inspection.properties else None
        wanted = {"has_token": mechanism == "OAUTHBEARER", "has_mirror": target.mirror is not None}
        for step in steps_after_settings(addresses, target.topics, **wanted):
            take(step)
    finally:
        inspection.close()
    return Report(
        endpoint=target.endpoint.name,
        group=target.group,
        topics=target.topics,
        results=tuple(results.values()),
    )


def _result(inspection: Inspection, step: Step, before: Mapping[Key, CheckResult]) -> CheckResult:
    obstacle = blocker(step, {key: result.status for key, result in before.items()})
    if obstacle is not None:
        return _made(inspection, step, Status.SKIPPED, f"needs {obstacle}")
    began_s = time.monotonic()
    inspection.begin_step()
    try:
        probe = PROBES[step.key.name]
        found = bounded(
            lambda: probe(inspection, step.key.subject), inspection.timeout_s + GRACE_S, step.key.name
        )
    except NotMeasured as reason:
        return _made(inspection, step, Status.NOT_MEASURED, str(reason), began_s=began_s)
    except Exception as error:
        return _made_of(inspection, step, error, began_s)
    return _made(inspection, step, Status.OK, found.text, began_s=began_s, facts=found.facts)


def _made_of(inspection: Inspection, step: Step, error: Exception, began_s: float) -> CheckResult:
    found = error if isinstance(error, Problem) else _unforeseen(inspection, error)
    return _made(
        inspection,
        step,
        Status.FAILED,
        found.text,
        fix=" ".join(filter(None, (found.fix, answer_to(found.text, step.key.name)))),
        began_s=began_s,
        exit_code=found.exit_code,
        facts=found.facts,
    )


def _unforeseen(inspection: Inspection, error: Exception) -> Problem:
    if isinstance(error, Overdue):
        inspection.give_up_client()
        return Problem(
            f"the step did not end within {seconds(inspection.timeout_s)}",
            "If the network is slow, raise --timeout. Otherwise check the server of this step.",
        )
    if isinstance(error, KafkaException):
        shown, _, cause = describe_error(error.args[0]).partition("): ")
        return Problem(f"{shown})", cause)
    return Problem(
        describe(error),
        "ehkafka did not expect this error: please report it.",
        exit_code=EngineError.exit_code,
    )


def _made(
    inspection: Inspection,
    step: Step,
    status: Status,
    text: str,
    *,
    fix: str | None = None,
    began_s: float | None = None,
    exit_code: int = 0,
    facts: Mapping[str, object] | None = None,
) -> CheckResult:
    clean = inspection.cleaner
    subject = step.key.subject
    return CheckResult(
        name=step.key.name,
        subject=None if subject is None else clean.text(subject),
        status=status,
        text=clean.text(text),
        fix=None if fix is None else clean.text(fix),
        duration_s=0.0 if began_s is None else time.monotonic() - began_s,
        exit_code=exit_code,
        facts=clean.facts(facts or {}),
    )
