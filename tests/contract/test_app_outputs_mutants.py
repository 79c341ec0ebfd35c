"""The checker of outputs can fail: it finds what each rule of order is for, once that rule is taken out."""

from __future__ import annotations

import threading
import time
from itertools import chain
from typing import Any

import pytest

import ehkafka
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.output import Output, outputs_of
from ehkafka.outputs.sender import OutputSender
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.testing import ApiKey
from tests.contract.outputs_order import problems
from tests.kit.topic_read import read_all
from tests.kit.waiting import wait_until

INPUTS = {key: [b"%s%d" % (key, number) for number in range(30)] for key in (b"a", b"b", b"c")}


@pytest.fixture
def out(lab: Any) -> Any:
    """Return the lab with a topic for outputs, and each key's numbered records in `t`."""
    lab.broker.create_topic("out", 1)
    for number in range(30):
        lab.broker.produce("t", [(key, values[number]) for key, values in INPUTS.items()])
    return lab


class Gated:
    """An app that copies each record, once its gate is open."""

    def __init__(self, lab: Any, **options: Any) -> None:
        self.gate = threading.Event()
        self.calls: list[bytes] = []
        app_options = {name: options.pop(name) for name in ("drain_s", "consumer") if name in options}
        self.app = lab.app(None, **app_options)
        self.app.handler("t", to="out", **options)(self.handle)
        self.app.start()

    def handle(self, record: Any) -> bytes:
        """Send what came."""
        assert self.gate.wait(30.0)
        self.calls.append(record.value())
        value: bytes = record.value()
        return value


def handle_all(lab: Any, *codes: int, **options: Any) -> list[str]:
    """Let the broker answer the first requests with these codes; return what is wrong in the end."""
    gated = Gated(lab, **options)
    if codes:
        lab.broker.fail_next(ApiKey.PRODUCE, *codes)
    gated.gate.set()
    wait_until(lambda: lab.committed() == 90, timeout_s=30.0)
    gated.app.stop()
    return problems(INPUTS, read_all(lab.broker.bootstrap, "out"))


def crash_before_any_answer(lab: Any) -> list[str]:
    """Commit what may be while no output gets through, and go on with another member afterwards."""
    lab.broker.fail_next(ApiKey.PRODUCE, *[6] * 100_000)
    gated = Gated(lab, drain_s=0.1)
    gated.gate.set()
    wait_until(lambda: gated.app.snapshot().finished_records == 90)
    time.sleep(0.5)  # more than a commit's interval
    with pytest.raises(Exception, match="not acknowledged"):
        gated.app.stop(timeout_s=0.2)
    lab.broker.clear_failures(ApiKey.PRODUCE)
    return handle_all(lab)


def test_without_a_mutant_nothing_is_wrong(out: Any) -> None:
    """No output gets through to the first member; the next one sends all, in order."""
    assert crash_before_any_answer(out) == []


def test_mutant_the_watermark_does_not_wait(out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are committed whose outputs are nowhere."""
    monkeypatch.setattr(Unacknowledged, "lowest", lambda _self, **_how: {})
    assert any("are missing" in one for one in crash_before_any_answer(out))


@pytest.mark.parametrize("mutant", [False, True])
def test_mutant_a_new_producer_sends_in_another_order(
    out: Any, mutant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, but the last one first."""
    in_order = OutputSender._renew

    def backwards(self: OutputSender, *, is_fault: bool) -> None:
        in_order(self, is_fault=is_fault)
        added = self.outputs.added
        waiting = list(outputs_of([added.popleft() for _ in range(len(added))]))
        added.extend(chain.from_iterable(reversed(waiting)))

    if mutant:
        monkeypatch.setattr(OutputSender, "_renew", backwards)
    assert bool(handle_all(out, 47)) is mutant


@pytest.mark.parametrize("mutant", [False, True])
def test_mutant_the_later_ones_of_a_refused_outputs_key_do_not_wait(
    out: Any, mutant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They pass it."""
    if mutant:
        each_its_own = property(lambda output: (output.topic, output.key, output.value))
        monkeypatch.setattr(Output, "group", each_its_own)
    # With its batch and then alone: it waits for its next try.
    retry = ehkafka.Retry(attempts=5, first_s=0.5)
    assert bool(handle_all(out, 87, 87, 87, 87, retry=retry)) is mutant


@pytest.mark.parametrize("mutant", [False, True])
def test_mutant_the_keys_next_record_does_not_wait(
    out: Any, mutant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `acknowledged="before_next"` no second record of a key starts before the first answer."""
    if mutant:
        monkeypatch.setattr(Outlet, "_put_and_wait", lambda _self, call: call.put())
    gated = Gated(out, acknowledged="before_next")
    out.broker.delay_next(ApiKey.PRODUCE, 2.0)
    gated.gate.set()
    wait_until(lambda: len(gated.calls) >= 3)
    time.sleep(0.3)
    started = len(gated.calls)
    assert (started > 3) is mutant
    wait_until(lambda: out.committed() == 90, timeout_s=30.0)
    gated.app.stop()
