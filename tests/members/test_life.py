"""Members from start to stop, as processes: what ends them, what starts them again, and that none is left."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.waiting import must_stay, wait_until
from tests.members.conftest import LIMIT_S, MAIN, SHOP, is_there, wait_until_gone

if TYPE_CHECKING:
    from collections.abc import Callable

# The socket alone has to do: what the kernel was asked for at the start is taken back.
WITHOUT_KERNEL = """
    import ctypes
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
"""
# When both are ready: the embedded broker refuses commits while its group is being formed.
PRODUCING = """
    def produce():
        from confluent_kafka import Producer
        while sum(one.is_ready for one in app.snapshot().members) < 2:
            time.sleep(0.05)
        producer = Producer(endpoint.client_properties())
        for number in range(40):
            producer.produce("orders", key=f"k{number}", value=b"{}", partition=number % 4)
        producer.flush(10)

    if __name__ == "__main__":
        threading.Thread(target=produce, daemon=True).start()
"""
AFTERWARDS = """
    if __name__ == "__main__":
        print("SUM", app.snapshot().finished_records, app.state)
"""
SLOW = SHOP.replace(
    'print(f"HANDLED', r'print(f"BEGUN {record.where}\n", end=""); time.sleep(2); print(f"HANDLED'
)


def test_members_share_the_work_and_stop_together(start: Callable) -> None:
    """One broker, every record once; hooks run in each member; each line has its member's number."""
    program = start(parts=(SHOP, PRODUCING, MAIN, AFTERWARDS))
    members = program.wait_until_ready()
    program.wait_for("HANDLED", 40, LIMIT_S)
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 0
    assert "SUM 40 stopped" in program.stdout
    handled = re.findall(r"^\[(\d)\] HANDLED (orders\[\d\]@\d+) (\d+)$", program.stdout, re.MULTILINE)
    assert len(handled) == len({where for _, where, _ in handled}) == 40
    for word in ("STARTED", "ENDED"):
        found = re.findall(rf"^\[(\d)\] {word} (\d+)$", program.stdout, re.MULTILINE)
        assert {int(number): int(pid) for number, pid in found} == members
        assert len(found) == 2
    of_members = [line for line in program.stderr.splitlines() if "Consuming orders" in line]
    assert sorted(line[:4] for line in of_members) == ["[1] ", "[2] "]
    wait_until_gone(*members.values())


ON_TWO_CORES = """
    if __name__ == "__main__":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
"""
WITH_PROCESSES = SHOP.replace("workers=4", "workers=ehkafka.Processes(1)")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize(
    ("shop", "pin", "is_pinned"),
    [(SHOP, None, True), (SHOP, "0", False), (WITH_PROCESSES, None, False)],
    ids=["as many as cores", "not wanted", "worker processes"],
)
def test_two_members_on_two_cores_keep_to_one_each(
    start: Callable, monkeypatch: pytest.MonkeyPatch, shop: str, pin: str | None, is_pinned: bool
) -> None:
    """So that the system does not put both on one for a moment; a member that comes again has the same."""
    if pin is not None:
        monkeypatch.setenv("EHKAFKA_PIN_MEMBERS", pin)
    program = start(parts=(shop, ON_TWO_CORES, MAIN))
    members = program.wait_until_ready()
    both = set(sorted(os.sched_getaffinity(0))[:2])
    cores = {number: os.sched_getaffinity(pid) for number, pid in members.items()}
    if not is_pinned:
        assert list(cores.values()) == [both, both]
        return
    assert [len(its) for its in cores.values()] == [1, 1]
    assert set.union(*cores.values()) == both
    os.kill(members[2], signal.SIGKILL)
    again = program.wait_until_ready(3)
    assert again[2] != members[2]
    assert os.sched_getaffinity(again[2]) == cores[2]


@pytest.mark.parametrize(
    ("parts", "is_suspended"),
    [((SHOP, MAIN), True), ((SHOP, WITHOUT_KERNEL, MAIN), False)],
    ids=["kernel", "socket"],
)
def test_no_member_outlives_its_supervisor(
    start: Callable, parts: tuple[str, ...], *, is_suspended: bool
) -> None:
    """A suspended member runs no Python, so the kernel ends it; where no kernel helps, its socket's end."""
    program = start(parts=parts)
    members = program.wait_until_ready()
    if is_suspended:
        os.kill(members[1], signal.SIGSTOP)
    program.process.kill()
    program.process.wait()
    wait_until_gone(*members.values())


def test_a_second_signal_leaves_at_once(start: Callable) -> None:
    """What was not finished is named, and the exit code is as for an app of one process."""
    program = start(parts=(SLOW.replace("sleep(2)", "sleep(30)"), PRODUCING, MAIN))
    members = program.wait_until_ready()
    program.wait_for("BEGUN", 8, LIMIT_S)
    program.signal(signal.SIGTERM)
    program.wait_for("Draining", 2, LIMIT_S)
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 1  # the program does not catch the error; the command says 4
    assert "UnfinishedError: Member" in program.stderr
    wait_until_gone(*members.values())


def test_ctrl_c_reaches_all_processes_and_is_taken_once(start: Callable) -> None:
    """A terminal sends it to the whole group: what runs is finished all the same."""
    program = start(parts=(SLOW, PRODUCING, MAIN))
    program.wait_until_ready()
    program.wait_for("BEGUN", 8, LIMIT_S)
    os.killpg(program.process.pid, signal.SIGINT)
    # The embedded broker takes no commit while its group moves, so who leaves later may name its last one.
    assert program.end(LIMIT_S) == 0 or "UnfinishedError: Member" in program.stderr
    begun = re.findall(r"BEGUN (orders\S+)", program.stdout)
    assert sorted(begun) == sorted(re.findall(r"HANDLED (orders\S+)", program.stdout))


def test_a_member_that_is_not_live_is_killed_and_started_again(start: Callable) -> None:
    """Only where that was asked for; the supervisor stops no other for it."""
    program = start(parts=(SHOP, MAIN.replace("members=2", "members=2, hung_s=2")))
    before = program.wait_until_ready()
    os.kill(before[1], signal.SIGSTOP)
    program.wait_for_match(rf"Member 1 \(process {before[1]}\) has not been live for", 1, LIMIT_S)
    after = program.wait_until_ready(3)
    assert after[2] == before[2]
    assert not is_there(before[1])
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 0


def test_members_that_stood_still_with_their_supervisor_are_left_alone(start: Callable) -> None:
    """As on a laptop that was closed: what they answered last is old, and says nothing against them."""
    program = start(parts=(SHOP, MAIN.replace("members=2", "members=2, hung_s=2")))
    before = program.wait_until_ready()
    processes = (program.process.pid, *before.values())
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(4.0)
    for pid in processes:
        os.kill(pid, signal.SIGCONT)
    must_stay(lambda: "has not been live" not in program.stderr, for_s=4.0)
    assert program.members() == before
    assert all(map(is_there, before.values()))
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 0


# Into its socket to the supervisor, once.
NONSENSE = """
    @app.on_start
    def talk():
        import socket
        if os.path.exists("said"):
            return
        open("said", "w").close()
        for fd in map(int, os.listdir("/proc/self/fd")):
            try:
                one = socket.socket(fileno=os.dup(fd))
            except OSError:
                continue
            if one.family == socket.AF_UNIX and not one.getpeername():
                one.sendall(b"nonsense\\n")
"""


def test_a_member_that_says_nonsense_is_killed_and_started_again(start: Callable) -> None:
    """The supervisor and the other member go on."""
    program = start(parts=(SHOP, NONSENSE, MAIN))
    said = r"Member \d ended \(signal SIGKILL: it sent an unknown message .+ It restarts in"
    program.wait_for_match(said, 1, LIMIT_S)
    program.wait_until_ready()
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 0


def test_a_member_that_does_not_stop_is_killed(start: Callable) -> None:
    """At the end of stop_s and some seconds; the rest ends in order, and the exit code tells."""
    program = start(parts=(SHOP.replace("stop_s=5", "stop_s=1"), MAIN))
    members = program.wait_until_ready()
    os.kill(members[1], signal.SIGSTOP)
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 1
    assert "UnfinishedError: Member 1: it ended by signal SIGKILL." in program.stderr
    assert f"[2] ENDED {members[2]}" in program.stdout


@pytest.mark.parametrize(
    ("raising", "code"),
    [
        ("raise ValueError('bad order')", 1),
        ("raise ehkafka.errors.ConfigurationError('Set the shop up first.')", 2),
        ("raise ehkafka.errors.FencedError('Another one runs.')", 5),
    ],
)
def test_codes_that_starting_again_would_not_cure_end_all(start: Callable, raising: str, code: int) -> None:
    """With that code, the member's number and its words."""
    failing = SHOP.replace('print(f"HANDLED', raising + '; print(f"HANDLED')
    if code != 1:
        failing = SHOP.replace('print("STARTED"', raising + '; print("STARTED"')
    program = start("run", "shop:app", "--members", "2", parts=(failing, FILLED))
    assert program.end(LIMIT_S) == code
    last = [line for line in program.stderr.splitlines() if line.startswith("ehkafka: ")]
    assert len(last) == 1
    assert re.match(r"ehkafka: Member \d: .*(bad order|Set the shop up|Another one runs)", last[0])
    assert "shop.py:" in last[0]


# Into the one broker, from each member.
FILLED = """
    @app.on_start
    def fill():
        from confluent_kafka import Producer
        producer = Producer(endpoint.client_properties())
        for number in range(8):
            producer.produce("orders", key=f"k{number}", value=b"{}", partition=number % 4)
        producer.flush(10)
"""


def test_other_codes_restart_the_member_alone(start: Callable) -> None:
    """An app that stops itself, and an unexpected error; a loop is said once to be one."""
    ending = SHOP.replace('print("STARTED"', 'os._exit(7); print("STARTED"')
    program = start(parts=(ending, MAIN))
    program.wait_for_match(r"Member 1 ended \(exit code 7\). It restarts in 0\.2 s", 1, LIMIT_S)
    program.wait_for_match(r"ERROR.*Member 1 has ended 5 times in a row soon after", 1, LIMIT_S)
    program.signal(signal.SIGTERM)
    program.end(LIMIT_S)
    assert program.stderr.count("Member 1 has ended 5 times") == 1


def test_a_broker_that_is_away_at_the_start_ends_all(start: Callable) -> None:
    """Before any member is started."""
    elsewhere = SHOP.replace(
        'endpoint = ehkafka.Endpoint.embedded({"orders": 4})',
        'endpoint = ehkafka.Endpoint.kafka("127.0.0.1:1")',
    ).replace("stop_s=5", "connect_s=1")
    program = start("run", "shop:app", "--members", "2", parts=(elsewhere,))
    assert program.end(LIMIT_S) == 3
    assert "Starting 2 members" not in program.stderr


def test_orphans_are_reaped_where_they_fall_to_the_supervisor(start: Callable) -> None:
    """As process 1, or as a subreaper: worker processes of a killed member leave no zombies."""
    reaping = """
        import ctypes
        if __name__ == "__main__":
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    """
    of_processes = SHOP.replace("workers=4", "workers=ehkafka.Processes(2)")
    program = start(parts=(of_processes, reaping, MAIN))
    members = program.wait_until_ready()
    grandchildren = children_of(members[1])
    assert len(grandchildren) == 2
    os.kill(members[1], signal.SIGKILL)
    program.wait_until_ready(3)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in grandchildren), timeout_s=LIMIT_S)
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 0


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(one) for of_thread in found for one in of_thread]


TOUCHED_S = 0.2
TOUCHED_OFTEN = f"""
    from ehkafka.run import health_file
    health_file.TOUCHED_EVERY_S = {TOUCHED_S}
"""


def test_the_health_file_is_touched_while_all_are_live(start: Callable, tmp_path: Path) -> None:
    """Again and again; not while a member does not answer."""
    main = MAIN.replace("members=2", "members=2, health_file='live'")
    program = start(parts=(SHOP, TOUCHED_OFTEN, main))
    members = program.wait_until_ready()
    file = tmp_path / "live"
    wait_until(file.exists, timeout_s=LIMIT_S)
    seen = file.stat().st_mtime
    wait_until(lambda: file.stat().st_mtime > seen, timeout_s=LIMIT_S)
    os.kill(members[2], signal.SIGSTOP)
    wait_until(lambda: time.time() - file.stat().st_mtime > 20 * TOUCHED_S, timeout_s=LIMIT_S)
    os.kill(members[2], signal.SIGCONT)
    wait_until(lambda: time.time() - file.stat().st_mtime < 2 * TOUCHED_S, timeout_s=LIMIT_S)
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 0


def test_a_hang_up_without_a_terminal_replaces_members_one_by_one(start: Callable) -> None:
    """Each has a new process when it is over, and there was always one that worked."""
    program = start()
    before = program.wait_until_ready()
    program.signal(signal.SIGHUP)
    program.wait_for("Replaced 2 members in", 1, LIMIT_S)
    after = program.members()
    assert {1, 2} == set(after)
    assert not set(before.values()) & set(after.values())
    lines = program.stderr
    second = lines.index("Stopping (replaced)", lines.index("Stopping (replaced)") + 1)
    assert lines.index(f"Member 1 (process {after[1]}) is ready") < second
    assert "It restarts in" not in lines
    must_stay(lambda: program.process.poll() is None, for_s=0.5)
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 0
