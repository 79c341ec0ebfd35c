"""Guards of keys on trial and of what a batch puts back, each taken out once: something must notice."""

from __future__ import annotations

from functools import partial
from typing import Any

from ehkafka.lanes.ending import Ending
from ehkafka.lanes.piles import Piles
from ehkafka.lanes.put_back import PutBack
from ehkafka.lanes.routing import Router
from ehkafka.lanes.trials import Trials
from ehkafka.lanes.waiting import Waiting
from tests.kit.mutant import Mutant, fails
from tests.lanes import test_trials
from tests.lanes.inbox_scenarios import a_key_overlaps_where_its_batch_was_put_back, mutant


def _tried(name: str, function: Any, guard: str, without: str, **more: Any) -> Mutant:
    chosen = {"keys": 3, "failing": 0.3, "is_batch": False, "is_unread": False, **more}
    return mutant(name, function, guard, without, **chosen)


TRIALS = [
    _tried(
        "trial: what goes to a consumer owns its key",
        Router.put,
        "self.trials.keys and self.trials.has_moved(inbox, entry, number)",
        "False",
    ),
    _tried("trial: several that go own their keys", Router.put_all, "if self.trials.keys:", "if False:"),
    _tried("trial: where it has gone is forgotten", Trials.has_moved, "held.behind = inbox, number", "pass"),
    _tried(
        "trial: what has gone stays where one failed",
        Router.pull_several,
        "owner = tried.behind",
        "owner = None",
    ),
    _tried("trial: more go while some run", Trials.go_on, "inbox.noted >= number", "True"),
    _tried("trial: no more go", Trials.go_on, "self._go_on(held)", "pass"),
    _tried("trial: more go though something waits in a pile", Trials._go_on, "router.piles.is_open and ", ""),
    _tried("trial: a failed record's key does not wait", Waiting._hold, "router.trials.take(held)", "pass"),
    _tried(
        "trial: a command finds a key that does not wait",
        Waiting.find,
        "owner[0] in self.held",
        "isinstance(owner[0], Held)",
    ),
    _tried(
        "pause: what has gone of a key on trial starts",
        Waiting.pause_key,
        "router.trials.end_key(epoch.owners, key)",
        "pass",
    ),
    _tried("stop: keys on trial go on", Piles.stop, "router.trials.end_all()", "pass"),
    _tried("end: keys on trial stay", Ending.end, "router.trials.end_all()", "pass"),
    _tried("put back: keys on trial", PutBack.put_back, "router.trials.end_all()", "pass", is_batch=True),
    _tried(
        "trial: records pass where all others have one home",
        Router._only_home,
        "self.trials.keys or ",
        "",
        is_narrow=True,
        is_unread=True,
    ),
    _tried(
        "trial: no retry of a key that waits again",
        Waiting._hold,
        "router.trials.take(held)\n        self.held[held] = None",
        "router.trials.take(held)",
    ),
    Mutant(
        "trial: begins while a partition drains",
        Trials._go_on,
        "all(entry[EPOCH].drain_limit is None for entry in first)",
        "True",
        partial(fails, test_trials.test_no_key_comes_on_trial_while_its_partition_drains),
    ),
    Mutant(
        "trial: begins beside what runs",
        Trials.begin,
        "held.key not in held.owners",
        "True",
        partial(fails, test_trials.test_nothing_of_a_key_goes_beside_its_running_record),
    ),
    Mutant(
        "drain: what waits of keys on trial counts as started",
        Ending.drain,
        "self._router.trials.end_all()",
        "pass",
        partial(fails, test_trials.test_a_drain_leaves_what_has_not_gone_to_a_consumer),
    ),
]

PUT_BACK = [
    Mutant(
        "put back: owners keep numbers that have changed",
        PutBack.put_back,
        "self._own_again(inbox)",
        "pass",
        a_key_overlaps_where_its_batch_was_put_back,
    ),
    mutant(
        "put back: a paused key's records pass those that wait",
        PutBack._is_elsewhere,
        "entry[EPOCH].owners[entry[KEY]][0] is not inbox",
        "False",
        is_batch=True,
    ),
    mutant(
        "put back: a stopped handler's records start again",
        PutBack._is_elsewhere,
        "self._router.piles.stopped is not None or",
        "",
        is_batch=True,
    ),
    mutant(
        "put back: records of ended epochs wait again",
        PutBack.put_back,
        "entry[EPOCH].ended or self._is_elsewhere",
        "self._is_elsewhere",
        is_batch=True,
    ),
    mutant(
        "put back: a drained partition's records start again",
        PutBack.put_back,
        "self._ending.sort_out(inbox)",
        "pass",
        is_batch=True,
    ),
]
