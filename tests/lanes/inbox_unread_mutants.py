"""Guards of records whose keys are unread, each taken out once: random histories must notice."""

from __future__ import annotations

from functools import partial
from typing import Any

from ehkafka.lanes.balance import Balance
from ehkafka.lanes.ending import Ending
from ehkafka.lanes.epoch import Epoch
from ehkafka.lanes.piles import Piles
from ehkafka.lanes.routing import Router
from ehkafka.lanes.unread import Unread
from ehkafka.lanes.waiting import Waiting
from tests.kit.mutant import Mutant, fails
from tests.lanes import test_unread
from tests.lanes.inbox_scenarios import mutant


def _unread(name: str, function: Any, guard: str, without: str, **more: Any) -> Mutant:
    chosen = {"is_unread": True, "is_narrow": True, "is_batch": False, "is_shared": False, **more}
    return mutant(name, function, guard, without, **chosen)


UNREAD_MUTANTS = [
    _unread("unread: begins while another inbox has some", Unread._begin, "not inbox.is_empty()", "False"),
    _unread("unread: begins though something waits in a pile", Unread._begin, " or router.piles.all()", ""),
    _unread(
        "unread: begins while a partition drains", Unread._begin, "epoch.drain_limit is not None", "False"
    ),
    _unread(
        "unread: what runs owns no key",
        Unread.end,
        "entry[EPOCH].owners[entry[KEY]] = inbox, number",
        "pass",
        keys=1,
        failing=0,
    ),
    _unread(
        "unread: what is read is not known to the epoch", Unread._read, "epoch.put_into_order(its)", "pass"
    ),
    _unread(
        "unread: what is read is in no order",
        Epoch.put_into_order,
        "entries and self.order and _offset_of(entries[0]) < _offset_of(self.order[-1])",
        "False",
    ),
    _unread("unread: runs are not looked at", Epoch.oldest, "if not self.runs:", "if True:"),
    _unread(
        "unread: nothing finishes",
        Unread.note,
        "tally.finish(end - first, sum(run.sizes[first:end]))",
        "pass",
    ),
    Mutant(
        "unread: a result of an ended epoch counts",
        Unread.note,
        "if epoch.ended:",
        "if False:",
        partial(fails, test_unread.test_what_ends_after_its_epoch_counts_for_nothing),
    ),
    Mutant(
        "unread: a record that waited ends above runs and is not known",
        Epoch.note_finished,
        "and not runs",
        "",
        partial(fails, test_unread.test_what_ends_above_a_record_that_waits_is_known_to_commits),
    ),
    Mutant(
        "unread: what ends above a record that waits is not known",
        Unread.note,
        "if epoch.order:",
        "if False:",
        partial(fails, test_unread.test_what_ends_above_a_record_that_waits_is_known_to_commits),
    ),
    _unread("fail: what runs stays in a run", Waiting.fail, "router.unread.read_running(inbox)", "pass"),
    _unread("fail: unread ones of the key stay", Unread._take_out, "if not wanted or", "if True or"),
    _unread("fail: read ones of the key stay", Unread.pull, "pulled.get(router.name_of(part))", "None"),
    _unread("fail: the queue keeps what was pulled", Unread.pull, "inbox.empty_queue()", "list(inbox.q)"),
    _unread("fail: keys in the inbox stay", Router.pull_several, "if is_unread or", "if"),
    _unread("receive: records of a waiting key run", Unread.receive, "if router.held or", "if"),
    _unread("receive: records of a key in slow start run", Unread.receive, " or router.slow.keys:", ":"),
    _unread("pause: keys stay unread", Waiting.pause_key, "router.unread.end()", "pass"),
    _unread("stop: keys stay unread", Piles.stop, "router.unread.end()", "pass"),
    _unread("hold back: keys stay unread", Piles.hold_back, "self._router.unread.end()", "pass", failing=0),
    _unread("drain: keys stay unread", Ending.drain, "self._router.unread.end()", "pass"),
    _unread("end: keys stay unread", Ending.end, "router.unread.end()", "pass"),
    Mutant(
        "width: keys stay unread",
        Balance._set_width,
        "router.unread.end()",
        "pass",
        partial(fails, test_unread.test_behind_a_call_that_takes_long_keys_are_read_and_others_go_on),
    ),
]
