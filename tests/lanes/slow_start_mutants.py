"""Guards of keys in slow start and of what a batch puts back, each taken out once: something must notice."""

from __future__ import annotations

from functools import partial
from typing import Any

from ehkafka.lanes import put_back
from ehkafka.lanes.ending import Ending
from ehkafka.lanes.piles import Piles
from ehkafka.lanes.routing import Router
from ehkafka.lanes.slow_start import SlowStart
from ehkafka.lanes.waiting import Waiting
from tests.kit.mutant import Mutant, fails
from tests.lanes import test_slow_start
from tests.lanes.inbox_scenarios import a_key_overlaps_where_its_batch_was_put_back, mutant


def _tried(name: str, function: Any, guard: str, without: str, **more: Any) -> Mutant:
    chosen = {"keys": 3, "failing": 0.3, "is_batch": False, "is_unread": False, **more}
    return mutant(name, function, guard, without, **chosen)


SLOW_START = [
    _tried(
        "slow start: what goes to a consumer owns its key",
        Router.put,
        "self.slow.keys and self.slow.has_moved(inbox, entry, number)",
        "False",
    ),
    _tried("slow start: several that go own their keys", Router.put_all, "if self.slow.keys:", "if False:"),
    _tried(
        "slow start: where it it went is forgotten",
        SlowStart.has_moved,
        "held.behind = inbox, number",
        "pass",
    ),
    _tried(
        "slow start: what has gone stays where one failed",
        Router.pull_several,
        "owner = tried.behind",
        "owner = None",
    ),
    _tried("slow start: more go while some run", SlowStart.go_on, "inbox.noted >= number", "True"),
    _tried("slow start: no more go", SlowStart.go_on, "self._go_on(held)", "pass"),
    _tried(
        "slow start: more go though a pile waits",
        SlowStart._go_on,
        "router.piles.is_open and ",
        "",
    ),
    _tried(
        "slow start: a failed record's key does not wait", Waiting._hold, "router.slow.take(held)", "pass"
    ),
    _tried(
        "slow start: a command finds a key that does not wait",
        Waiting.find,
        "owner[0] in self.held",
        "isinstance(owner[0], Held)",
    ),
    _tried(
        "pause: what has gone of a key in slow start starts",
        Waiting.pause_key,
        "router.slow.end_key(epoch.owners, key)",
        "pass",
    ),
    _tried("stop: keys in slow start go on", Piles.stop, "router.slow.end_all()", "pass"),
    _tried("end: keys in slow start stay", Ending.end, "router.slow.end_all()", "pass"),
    _tried("put back: keys in slow start", put_back.put_back, "router.slow.end_all()", "pass", is_batch=True),
    _tried(
        "slow start: records pass where all others have one home",
        Router._only_home,
        "self.slow.keys or ",
        "",
        is_narrow=True,
        is_unread=True,
    ),
    _tried(
        "slow start: no retry of a key that waits again",
        Waiting._hold,
        "router.slow.take(held)\n        self.held[held] = None",
        "router.slow.take(held)",
    ),
    Mutant(
        "slow start: begins while a partition drains",
        SlowStart._go_on,
        "all(entry[EPOCH].drain_limit is None for entry in first)",
        "True",
        partial(fails, test_slow_start.test_no_key_starts_slowly_while_its_partition_drains),
    ),
    Mutant(
        "slow start: begins beside what runs",
        SlowStart.begin,
        "held.key not in held.owners",
        "True",
        partial(fails, test_slow_start.test_nothing_of_a_key_goes_beside_its_running_record),
    ),
    Mutant(
        "drain: what waits of keys in slow start counts as started",
        Ending.drain,
        "self._router.slow.end_all()",
        "pass",
        partial(fails, test_slow_start.test_a_drain_leaves_what_has_not_gone_to_a_consumer),
    ),
]

PUT_BACK = [
    Mutant(
        "put back: owners keep numbers that have changed",
        put_back.put_back,
        "inbox, max(number, owners[key][1])",
        "owners[key]",
        a_key_overlaps_where_its_batch_was_put_back,
    ),
    mutant(
        "put back: a paused key's records pass those that wait",
        put_back._is_elsewhere,
        "entry[EPOCH].owners[entry[KEY]][0] is not inbox",
        "False",
        is_batch=True,
    ),
    mutant(
        "put back: a stopped handler's records start again",
        put_back._is_elsewhere,
        "router.piles.stopped is not None or",
        "",
        is_batch=True,
    ),
    mutant(
        "put back: records of ended epochs wait again",
        put_back.put_back,
        "entry[EPOCH].ended or _is_elsewhere",
        "_is_elsewhere",
        is_batch=True,
    ),
    mutant(
        "put back: a drained partition's records start again",
        put_back.put_back,
        "inboxes.ending.sort_out(inbox)",
        "pass",
        is_batch=True,
    ),
]
