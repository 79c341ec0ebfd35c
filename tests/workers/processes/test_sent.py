"""The rules of order between a child's outputs, its claims and its parent's lanes, without a process.

Each rule has a mutant that takes its guard out and breaks the order.
"""

from __future__ import annotations

import inspect
import marshal
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import HoldHead
from ehkafka.outputs.book import NotSentError
from ehkafka.workers.processes import child, pipe
from ehkafka.workers.processes.batch import Batch
from ehkafka.workers.processes.run import BatchRun
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from collections.abc import Callable


class Posts:
    """Stands for the posting: notes what was sent for which record, and which was then the lane's head."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str]] = []
        self.sent_in_vain: list[tuple[int, str]] = []
        self.error: Exception | None = None
        self.awaited: set[int] = set()
        # Called before outputs are taken, in place of a wait for room.
        self.wait: Callable[[], object] = lambda: None

    def ended(self, lane: Any, made: Any) -> bool:
        """Take outputs."""
        self.wait()
        if self.error is not None and made:
            raise self.error
        self.sent += [(lane.head.offset(), one) for one in made]
        return lane.head.offset() in self.awaited

    def awaits(self, lane: Any) -> bool:
        """Tell whether its head waits."""
        return lane.head.offset() in self.awaited

    def failed(self, lane: Any, made: Any) -> None:
        """Take outputs of a call that raised."""
        self.sent_in_vain += [(lane.head.offset(), one) for one in made]


class Lent:
    """A batch of lanes that were lent, whose failures hold them."""

    def __init__(self, records: str, keys: str) -> None:
        self.bench = LaneBench()
        self.assignment = self.bench.assign()
        self.bench.receive(self.assignment, records)
        self.posts = Posts()
        self.failed: list[tuple[int, BaseException]] = []
        self.returned: list[Any] = []
        self.batch = Batch(on_failure=self._failed, hand_in=self.returned.append, posting=self.posts)  # type: ignore[arg-type]
        self.lanes = [self.bench.begin_key(key) for key in keys]
        for lane in self.lanes:
            self.batch.add(lane, lane.lend(9), 0)

    def _failed(self, lane: Any, error: BaseException) -> HoldHead:
        self.failed.append((lane.head.offset(), error))
        return HoldHead("held")

    def left(self, number: int = 0) -> list[int]:
        """The offsets that a lane still has."""
        return [message.offset() for message in self.lanes[number].messages()]


def test_each_output_is_of_its_own_record_in_the_order_of_its_lane() -> None:
    """Some of a batch send, some do not, over several lanes."""
    lent = Lent("a0 b1 a2 b3 a4", "ab")
    lent.batch.end_sending(0, ["x", "y"])
    lent.batch.end_sending(2, ["z"])
    lent.batch.end_sending(4, ["w"])
    lent.batch.end(5)
    assert lent.posts.sent == [(0, "x"), (0, "y"), (4, "z"), (3, "w")]
    assert lent.returned == lent.lanes
    assert lent.failed == []


def head_in_the_end(batch_kind: type[Batch] = Batch) -> int:
    """Send for a record; return which record was the head when its outputs were taken."""
    lent = Lent("a0 a1", "a")
    lent.batch.end_sending(0, ["x"])
    return lent.posts.sent[0][0]


def test_outputs_are_taken_before_their_record_ends() -> None:
    """Else a commit could pass it between the two."""
    assert head_in_the_end() == 0


def test_mutant_a_record_ends_before_its_outputs_are_taken(mutate: Callable[..., None]) -> None:
    """The lane moves on first."""
    moved = "self._report_started(part.lane)\n        part.lane.advance()"
    mutate(Batch, "_end_one", "self._report_started(part.lane)", moved)
    assert head_in_the_end() == 1


def test_what_cannot_be_sent_fails_its_record_and_nothing_behind_it_is_sent() -> None:
    """The partition is another's by now: what the child has run behind it counts for nothing here."""
    lent = Lent("a0 a1 b2", "ab")
    lent.posts.error = NotSentError("gone")
    lent.batch.end_sending(0, ["x"])
    lent.posts.error = None
    lent.batch.end_sending(1, ["y"])
    lent.batch.end_sending(2, ["z"])
    lent.batch.end(3)
    assert lent.posts.sent == [(2, "z")]
    assert [(offset, str(error)) for offset, error in lent.failed] == [(0, "gone")]
    assert lent.left() == [0, 1]


def test_a_record_whose_key_waits_is_left_to_its_outputs() -> None:
    """Its lane is handed in at its head, and other lanes go on."""
    lent = Lent("a0 b1", "ab")
    lent.posts.awaited.add(0)
    lent.batch.end_sending(0, ["x"])
    assert (lent.returned, lent.left()) == ([lent.lanes[0]], [0])
    lent.batch.end(2)
    assert lent.left(1) == []


def test_what_had_sent_before_it_failed_says_so_before_it_is_decided() -> None:
    """A letter is to say what was sent; and what was sent is not taken back."""
    lent = Lent("a0 a1", "a")
    seen: list[Any] = []
    lent.batch._on_failure = lambda _lane, _error: (  # type: ignore[assignment]
        seen.append(list(lent.posts.sent_in_vain)) or HoldHead("held")
    )
    lent.batch.fail(0, ValueError("no luck"), ["x"])
    assert seen == [[(0, "x")]]


def test_a_record_that_has_sent_is_not_charged_with_the_death_that_follows() -> None:
    """Its call had ended; a record that had not is charged, as ever."""
    lent = Lent("a0 a1", "a")
    lent.batch.end_sending(0, ["x"])
    lent.batch.die(1, OSError("dead"))
    assert (lent.failed, lent.left()) == ([], [1])
    again = Lent("a0 a1", "a")
    again.batch.die(1, OSError("dead"))
    assert [offset for offset, _ in again.failed] == [0]


@pytest.mark.parametrize("word", ["sent", "failed"])
@pytest.mark.parametrize("records", ["a0", "a0 b1"])
def test_a_batch_is_taken_back_just_when_its_last_started_record_has_ended(word: str, records: str) -> None:
    """Nothing runs then: what has not started is handed back at once, as if it had never been lent."""
    lent = Lent(records, "ab"[: len(records.split())])
    if word == "sent":
        lent.batch.end_sending(0, ["x"])
    else:
        lent.batch.fail(0, ValueError("no luck"))
    lent.batch.keep_running(1)
    assert lent.returned == lent.lanes
    lent.batch.end(1)
    assert lent.returned == lent.lanes


# --- between the child and its parent ----------------------------------------------------------------


class Reports:
    """Stands for claims and answers of a child: what happened, in its order."""

    def __init__(self, claims: int) -> None:
        self.claims = claims
        self.words: list[str] = []

    def take_one(self) -> bool:
        """Give a claim."""
        self.words.append("claim")
        self.claims -= 1
        return self.claims >= 0

    def send(self, kind: bytes, body: bytes) -> None:
        """Take a frame."""
        number = marshal.loads(body)[0]
        self.words.append(f"{kind.decode()}{number}")


class OneEach:
    """Stands for an outbox: each record sends one."""

    def begin(self, message: Any) -> None:
        """Note nothing."""

    def end(self) -> list[str]:
        """Give the output."""
        return ["x"]


def reported(invoke: Callable[..., object] = lambda _message, _attempt: None) -> str:
    """Run a batch of one lane with two records, as a child does; return what the parent hears."""
    fields = (0, b"k", b"v", None, (1, 0), None)
    seen = Reports(2)
    lanes = (("t", 0, 1, (fields, fields)),)
    child._Batch(lanes, child._Calls(invoke, OneEach()), seen, seen).run()  # type: ignore[arg-type]
    return " ".join(seen.words)


def test_what_a_record_sends_is_reported_before_the_next_one_starts() -> None:
    """So whoever finds a claim gone finds in the pipe what all records before it have sent."""
    assert reported() == "claim o0 claim o1 d2"


def test_what_a_record_had_sent_before_it_failed_comes_with_the_failure() -> None:
    """One frame, so that none of the two is ever known without the other."""

    def fail(_message: Any, _attempt: int) -> None:
        raise ValueError("no luck")

    assert reported(fail) == "claim f0 claim d2"


def test_mutant_the_next_claim_is_taken_before_outputs_are_reported(mutate: Callable[..., None]) -> None:
    """They are kept for the batch's end: cheaper, but nobody would know them when the batch is taken back."""
    source = textwrap.dedent(inspect.getsource(child._Batch._run_lane))
    assert "self._answers.send(pipe.SENT" in source
    late = "self._claims.take_one(); self._answers.send(pipe.SENT"
    mutate(child._Batch, "_run_lane", "self._answers.send(pipe.SENT", late)
    assert reported() != "claim o0 claim o1 d2"


class Child:
    """Stands for a link to a child: what it says at each look, and how many claims it has left."""

    pid = 7

    def __init__(self, says: list[list[pipe.Frame]], claims: int) -> None:
        self.says = says
        self._claims = claims
        self.steps: list[str] = []
        self.ended = self.is_dead = False
        self.reader = self.claims = self

    def send_batch(self, *_batch: Any) -> None:
        """Take a batch."""

    def take_until(self, _ends_s: float) -> list[pipe.Frame]:
        """Say the next thing."""
        self.steps.append("wait")
        return self.says.pop(0)

    def take(self) -> list[pipe.Frame]:
        """Say what is in the pipe."""
        self.steps.append("read")
        return self.says.pop(0)

    def left(self) -> int:
        """Return how many claims are left."""
        return self._claims

    def take_back(self) -> int:
        """Give them back."""
        self.steps.append("claims")
        found, self._claims = self._claims, 0
        return found

    def kill(self) -> None:
        """End it."""
        self.steps.append("kill")

    def bury(self) -> str:
        """Say how it ended."""
        return "signal SIGKILL"


class Pool:
    """Stands for the pool that a run asks."""

    deadline_s: float | None = None
    is_given_up = False
    exchange: Any = None

    def __init__(self) -> None:
        self.exchange = self
        self.settings = self
        self.batch_s = 0.0
        self.call_times = None
        self.deaths: list[bool] = []
        self.time_s = 0.0

    def now_s(self) -> float:
        """Return the time that a test says."""
        return self.time_s

    def takes_aside(self, _frame: Any) -> bool:
        """Take none."""
        return False

    def on_child_death(self, _pid: int, _how: str, was_running: bool) -> None:
        """Note it."""
        self.deaths.append(was_running)

    def note(self, *_what: Any) -> None:
        """Note nothing."""

    settle = wake_one = note_work = note


def sent(number: int) -> pipe.Frame:
    """Return the word that a record has sent."""
    return pipe.Frame(pipe.SENT, marshal.dumps((number, [str(number)])))


def done(started: int) -> pipe.Frame:
    """Return the word that a batch has ended."""
    return pipe.Frame(pipe.DONE, marshal.dumps((started, 0.0)))


def run(lent: Lent, one: Child, pool: Pool | None = None) -> Pool:
    """See a batch to its end; one that is looked at has always taken too long."""
    pool = pool or Pool()
    BatchRun(pool, one, lent.batch, pool).run()  # type: ignore[arg-type]
    return pool


def taken_back() -> Lent:
    """Take a batch back whose first record has sent, and whose second one runs, since the last look."""
    lent = Lent("a0 b1 c2", "abc")
    run(lent, Child([[], [sent(0)], [sent(1), done(2)]], claims=1))
    return lent


def test_outputs_are_read_after_the_claims_were_taken_back() -> None:
    """What is counted as finished by its claim alone has been looked for in the pipe."""
    lent = taken_back()
    assert lent.posts.sent == [(0, "0"), (1, "1")]
    assert lent.left(2) == [2]


def test_mutant_outputs_are_read_before_the_claims_are_taken_back(mutate: Callable[..., None]) -> None:
    """The record ended in between: it counts as finished, and what it sent is dropped."""
    mutate(BatchRun, "run", "frames += reader.take()", "later = reader.take(); reader.says[0][:0] = later")
    assert (0, "0") not in taken_back().posts.sent


def steps_while_it_sends() -> list[str]:
    """Let a batch that takes too long tell of one record after another; return where its parent looks."""
    lent = Lent("a0 b1 c2", "abc")
    one = Child([[sent(0)], [], [sent(1)], [done(2)]], claims=1)
    run(lent, one)
    return one.steps


def test_a_batch_that_takes_too_long_is_taken_back_while_it_tells_of_its_records() -> None:
    """Each of its records is quick to tell, and the last one would still keep the others waiting."""
    assert steps_while_it_sends() == ["wait", "claims", "read", "wait", "wait"]


def test_mutant_a_batch_is_taken_back_only_while_nothing_comes(mutate: Callable[..., None]) -> None:
    """As long as its records tell of themselves, a partition that is being cut would wait for all of them."""
    mutate(BatchRun, "run", "if not has_ended and", "if not frames and not has_ended and")
    assert steps_while_it_sends()[:2] == ["wait", "wait"]


def test_what_a_dead_child_had_said_counts() -> None:
    """It died between two records: the first one's outputs are sent, and nobody is charged."""
    lent = Lent("a0 b1", "ab")
    one = Child([[], [sent(0)], []], claims=1)
    one.is_dead = True
    pool = run(lent, one)
    assert (lent.posts.sent, lent.failed, pool.deaths) == ([(0, "0")], [], [False])
    assert lent.returned == lent.lanes


def steps_after_a_wait_for_room(says: list[list[pipe.Frame]]) -> list[str]:
    """Wait for longer than the deadline to send what a record has sent; return where its parent looks."""
    pool, lent = Pool(), Lent("a0 b1", "ab")
    pool.deadline_s, pool.batch_s = 5.0, 0.0

    def wait() -> None:
        pool.time_s += 10.0

    lent.posts.wait = wait
    one = Child(says, claims=0)
    run(lent, one, pool)
    return one.steps


def test_a_wait_for_room_is_not_charged_to_the_record_that_runs() -> None:
    """Its child may have waited for its parent meanwhile, with its outputs half in the pipe."""
    assert "kill" not in steps_after_a_wait_for_room([[], [sent(0)], [sent(1), done(2)]])


def test_a_child_in_which_nothing_runs_is_not_overdue() -> None:
    """Its last record has sent and ended; the word that its batch has ended is on its way."""
    pool, lent = Pool(), Lent("a0", "a")
    pool.deadline_s = 5.0
    one = Child([[], [sent(0)], [], [done(1)]], claims=0)
    before = one.take_until

    def take_until(ends_s: float) -> list[pipe.Frame]:
        pool.time_s += 10.0
        return before(ends_s)

    one.take_until = take_until  # type: ignore[method-assign]
    run(lent, one, pool)
    assert "kill" not in one.steps


def test_mutant_a_wait_for_room_is_the_running_records(mutate: Callable[..., None]) -> None:
    """The child is killed for what its parent has waited for."""
    mutate(BatchRun, "_take_frames", "self._since_s += self._pool.now_s() - began_s", "pass")
    assert "kill" in steps_after_a_wait_for_room([[], [sent(0)], [sent(1), done(2)]])
