"""The fault rows: what goes wrong in each, on what it is tried, and by which tests."""

from __future__ import annotations

import re
from dataclasses import dataclass

from _environment import ROOT

# Tests of a row are those of its files, `tests/faults/test_row_NN_….py`, and what stands below its line.
# `Kafka`: an Apache Kafka broker, members as processes where they die; `embedded`: a broker in the process;
# `simulation`: the pure core alone, where nothing else can bring the fault about.
_TABLE = """
1 | SIGTERM under load | Kafka
    integration/test_members.py::test_sigterm_under_load_repeats_nothing
2 | members replaced one by one | Kafka
    members/test_rolling.py
    integration/test_members.py::test_a_static_member_restarts_without_a_rebalance
3 | SIGKILL under load, 20 times | Kafka
    integration/test_kill.py
4 | members join and leave at random | Kafka
    integration/test_members.py::test_a_storm_of_joins_and_leaves_loses_nothing
5 | each connection lives for about a second | Kafka
6 | a black hole for longer than the session | Kafka
7 | idle connections are closed | Kafka
8 | a slow, torn network | Kafka
9 | the broker is away for longer than a session (three brokers: below) | Kafka
    integration/test_outage.py
10 | commits are refused, by each error | embedded
    contract/test_app_commit_refusals.py
11 | the group forgets or fences a member | embedded
    contract/test_app_commit_refusals.py::test_a_member_that_the_group_forgot_rejoins_and_goes_on
    contract/test_app_commit_refusals.py::test_a_fenced_member_stops_and_says_what_to_do
12 | records are deleted before they are read | embedded
    contract/test_app_positions.py::test_row_12_ten_deletions_under_load_are_reported_to_the_record
13 | the token endpoint fails or hangs | Kafka
    integration/test_entra.py
14 | a handler far longer than max.poll.interval | embedded
    contract/test_app_backpressure.py::test_handlers_far_longer_than_the_poll_interval_cause_no_rebalance
15 | handlers that never return, keys by hand | embedded
    contract/test_app_keys.py::test_what_runs_is_neither_skipped_nor_retried_and_what_waits_behind_it_is_steered
16 | one record in a hundred fails, then each one | embedded
    contract/test_app_dead_letters.py::test_a_letter_is_the_record_and_says_where_it_comes_from_and_why
    contract/test_app_dead_letters.py::test_too_many_in_a_row_stop_the_app_and_say_why
17 | dead letters cannot be written | embedded
18 | a process is frozen and comes back | Kafka
19 | the wall clock jumps by an hour | embedded
20 | Blob Storage refuses, hangs, is slow | Kafka
21 | more is produced than handled, large records | both
    integration/test_prefetch_memory.py
    contract/test_app_backpressure.py
22 | all cores are busy with something else | Kafka
23 | partitions are added, a topic is made anew | Kafka
    integration/test_another_log.py
    integration/test_new_partitions.py
24 | quotas throttle fetches and commits | Kafka
    integration/test_throttling.py
25 | the log and scrapes of metrics hang | embedded
    telemetry/test_bus_problems.py
    contract/test_app_failures.py::test_event_hooks_that_raise_or_block_never_reach_the_data_path
    contract/test_app_http_life.py::test_clients_that_do_not_read_hold_nothing_up
26 | a random mixture of calls, retries and commands | embedded
    contract/test_app_at_random.py
27 | all kinds of workers, kills, a broker's restart | Kafka
28 | Spark: driver, executor, batch die | Kafka
    spark/engine/test_row_28.py
29 | half of the records is held, metadata are small | Kafka
30 | one key in twenty fails for ever | embedded
31 | stops of all kinds, handlers running | both
32 | SIGKILL while a member catches up | Kafka
33 | members under a supervisor are killed | Kafka
35 | each kind of workers under full load, kills | Kafka
36 | requests and answers of commits are lost | simulation
    simulation/test_seeds.py::test_no_seed_breaks_a_promise
"""


@dataclass(frozen=True)
class Row:
    """One kind of fault. `tests` are files, or single tests, from the root."""

    number: int
    fault: str
    tried_on: str
    tests: tuple[str, ...]

    def has(self, test: str) -> bool:
        """Tell whether a test, by its whole name, is one of this row's."""
        return any(test == one or test.startswith((f"{one}::", f"{one}[")) for one in self.tests)


def rows() -> list[Row]:
    """Return all of them, in order."""
    return [_row(*block.split("\n    ")) for block in re.split(r"\n(?=\d)", _TABLE.strip())]


def _row(head: str, *elsewhere: str) -> Row:
    number, fault, tried_on = map(str.strip, head.split("|"))
    own = sorted(ROOT.glob(f"tests/faults/test_row_{int(number):02}_*.py"))
    tests = [str(path.relative_to(ROOT)) for path in own] + [f"tests/{one}" for one in elsewhere]
    return Row(int(number), fault, tried_on, tuple(tests))
