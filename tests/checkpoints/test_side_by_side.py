"""Several blobs at a time: no more than the store takes, and an error ends it once all calls have ended."""

from __future__ import annotations

import threading

import pytest

from ehkafka.checkpoints.mirror.side_by_side import side_by_side


def never() -> bool:
    """Go on."""
    return False


@pytest.mark.parametrize("at_once", [1, 4])
def test_as_many_run_at_once_as_the_store_takes(at_once: int) -> None:
    """Each waits for so many others, in groups: with one fewer at a time this would not end."""
    together, done = threading.Barrier(at_once, timeout=10.0), list[int]()
    lock, running, most = threading.Lock(), [0], [0]

    def work(item: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        together.wait()
        with lock:
            running[0] -= 1
        done.append(item)

    assert side_by_side(work, range(40), at_once, never)
    assert sorted(done) == list(range(40))
    assert most[0] == at_once
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ehkafka-mirror")]


def test_an_error_is_raised_when_all_calls_have_ended_and_begins_no_other() -> None:
    """The one that is on its way may write still: what comes after must not run beside it."""
    begun, go_on, ended = list[int](), threading.Event(), list[int]()

    def work(item: int) -> None:
        begun.append(item)
        if item == 0:
            threading.Timer(0.1, go_on.set).start()
            raise SystemExit("the key is not there")
        assert go_on.wait(10.0)
        ended.append(item)

    with pytest.raises(SystemExit, match="the key is not there"):
        side_by_side(work, range(100), 2, never)
    assert sorted(begun) == [0, *ended]
    assert len(begun) <= 2


def test_nothing_begins_once_it_is_over() -> None:
    """A look-up waits: the rest stays for the next pass."""
    begun = list[int]()
    assert not side_by_side(begun.append, range(9), 3, lambda: True)
    assert side_by_side(begun.append, range(9), 1, lambda: len(begun) >= 4)
    assert begun == [0, 1, 2, 3]
