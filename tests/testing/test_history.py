"""Histories in memory and on disk: nothing reported is lost, torn lines are survived, files merge by time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from ehkafka.records import TopicPartition
from tests.kit.checker import history_event as events
from tests.kit.checker.checker import Checker, check_history
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.checker.history import MemoryHistory
from tests.kit.checker.history_file import JsonLinesHistory, read_history

if TYPE_CHECKING:
    from pathlib import Path


P0 = TopicPartition("readings", 0)


def report_everything(history: Any) -> None:
    """Call every method of a recording history once, in an order without violation."""
    history.produced(P0, [5, 6, 8])
    history.assigned(P0, 1, "5")
    history.received(P0, 1, [5, 6, 8])
    for offset in (5, 6, 8):
        history.started(P0, 1, offset, b"\xff\x00key", 1)
        history.finished(P0, 1, offset, b"\xff\x00key", 1, "finished")
    history.commit_requested({P0: 7})
    history.commit_failed({P0: 7}, "timed out")
    history.commit_requested({P0: 9})
    history.commit_acknowledged({P0: 9})
    history.mirrored({P0: 9})
    history.jumped(P0, 1, 20)
    history.revoked(P0, 1, "stopped")


def strip(history: Any) -> list[Any]:
    """Return the events without time, process and worker."""
    return [
        (type(event), *(getattr(event, name) for name in event.__slots__ if name != "worker"))
        for event in history
    ]


def test_memory_file_and_checking_history_tell_the_same(tmp_path: Path) -> None:
    """One run, three ways to keep it, one verdict."""
    memory, checking = MemoryHistory(), CheckingHistory()
    with JsonLinesHistory(tmp_path / "run.jsonl") as file:
        for history in (memory, file, checking):
            report_everything(history)
        memory.dead_lettered(P0, 8)
        file.dead_lettered(P0, 8)
    read = list(read_history([tmp_path / "run.jsonl"]))
    assert type(read[0]) is events.ProcessStarted
    assert type(read[-1]) is events.ProcessStopped
    assert strip(read[1:-1]) == strip(memory.events)
    verdicts = [check_history(memory.events), check_history(read), checking.verdict(complete=True)]
    assert all(verdict.ok and verdict.finished == 3 for verdict in verdicts)
    assert len({verdict.summary() for verdict in verdicts}) == 1


def test_torn_last_line_is_reported_and_not_fatal(tmp_path: Path) -> None:
    """A process died in the middle of a write; everything before it counts."""
    path = tmp_path / "run.jsonl"
    history = JsonLinesHistory(path)
    report_everything(history)
    history.started(P0, 1, 8, b"k", 2)
    os.close(history._descriptor)
    content = path.read_bytes()
    start_of_last = content.rindex(b"\n", 0, -1) + 1
    whole = list(read_history([path]))
    for end in range(start_of_last + 1, len(content) - 1):
        path.write_bytes(content[:end])
        read = list(read_history([path]))
        assert read[:-1] == whole[:-1]
        assert type(read[-1]) is events.TornLine, content[start_of_last:end]
    assert check_history(read).torn_lines == 1
    assert check_history(read).ok
    path.write_bytes(content[:-1])  # only the newline is missing: the event is complete
    assert list(read_history([path])) == whole


def _write_until_killed(path: str, ready: Any) -> None:
    history = JsonLinesHistory(path)
    history.assigned(P0, 1, "0")
    offset = 0
    while True:
        history.received(P0, 1, [offset])
        history.started(P0, 1, offset, b"k", 1)
        history.finished(P0, 1, offset, b"k", 1, "finished")
        offset += 1
        if offset == 100:
            ready.set()


def test_kill_loses_nothing_and_two_processes_share_a_file(tmp_path: Path) -> None:
    """Two writers of one file are killed with SIGKILL at work; each line but their last ones is whole."""
    path, context = tmp_path / "run.jsonl", multiprocessing.get_context("spawn")
    witness = JsonLinesHistory(path)
    workers, flags = [], [context.Event(), context.Event()]
    for ready in flags:
        worker = context.Process(target=_write_until_killed, args=(str(path), ready), daemon=True)
        worker.start()
        workers.append(worker)
    for ready in flags:
        assert ready.wait(60)
    for worker in workers:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        witness.process_killed(worker.pid)
    witness.close()
    checker = Checker()
    for event in read_history([path]):
        checker.observe(event)
    verdict = checker.verdict()
    assert verdict.finished >= 100, verdict.report()
    assert verdict.protocol_breaches == verdict.order_violations == 0, verdict.report()
    # A write that crosses a page of the file can be cut there by the signal: at most one for each writer.
    assert verdict.torn_lines <= 2, verdict.report()
    assert verdict.duplicates >= 100  # both did the same offsets, and the history has them all


def _run_workers(history: Any, threads: int, records: int) -> None:
    def work(number: int) -> None:
        partition = TopicPartition("readings", number)
        history.assigned(partition, 1, "0")
        for offset in range(records):
            if offset % 10 == 0:
                history.received(partition, 1, range(offset, offset + 10))
            history.started(partition, 1, offset, number, 1)
            history.finished(partition, 1, offset, number, 1, "finished")
        history.commit_requested({partition: records})
        history.commit_acknowledged({partition: records})

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def test_checking_history_keeps_the_order_of_many_threads() -> None:
    """Calls of eight threads are judged in a valid order, and none is left out."""
    history = CheckingHistory()
    _run_workers(history, threads=8, records=5_000)
    verdict = history.verdict(complete=True)
    assert verdict.ok, verdict.report()
    assert (verdict.finished, verdict.commits_acknowledged) == (40_000, 8)
    assert not history._calls
