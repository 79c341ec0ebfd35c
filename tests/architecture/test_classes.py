"""A class stays one thing: few bases of ours, few fields; what is cut by inheritance counts as one class."""

from __future__ import annotations

import ast
from functools import cache

from tests.architecture.test_dependencies import MODULES

BASES_MAX = 2
FIELDS_MAX = 15
# Those that had more when this was first measured. A number may only go down, and an entry go.
FIELDS: dict[str, int] = {
    "cli.top.screen.Top": 16,
    "consumer.internals.Internals": 26,
    "endpoint.entra.token_source.TokenSource": 17,
    "intake.poll_loop.PollLoop": 22,
    "lanes.held.Held": 31,
    "lanes.inbox.Inbox": 18,
    "lanes.piles.Pile": 19,
    "lanes.routing.Router": 23,
    "members.supervisor.Supervisor": 25,
    "outputs.one_producer.OneProducer": 18,
    "outputs.unacknowledged.Unacknowledged": 20,
    "spark.engine.follow.Follower": 20,
    "spark.engine.group.group.Group": 18,
    "telemetry.bus.EventBus": 18,
    "transactions.loop.TransactionLoop": 21,
    "transactions.saving.TransactionSaver": 17,
    "workers.hub.Hub": 17,
    "workers.processes.inbox.ChildInbox": 21,
    "workers.processes.run.BatchRun": 19,
    "workers.processes.workers.ProcessWorkers": 18,
    "workers.tasks.tasks.InboxTasks": 19,
}


@cache
def _classes() -> dict[str, tuple[str, ast.ClassDef]]:
    """Return the classes of the package by name, each with its module."""
    return {
        node.name: (module, node)
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def _bases(node: ast.ClassDef) -> list[str]:
    names = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
    return [name for name in names if name in _classes() and name != node.name]


def _fields(node: ast.ClassDef) -> set[str]:
    """Return what `__init__` sets, that of the bases included."""
    found = {name for base in _bases(node) for name in _fields(_classes()[base][1])}
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            found |= {
                target.attr
                for target in ast.walk(function)
                if isinstance(target, ast.Attribute)
                and isinstance(target.ctx, ast.Store)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            }
    return found


def _all() -> list[tuple[str, ast.ClassDef]]:
    return [
        (f"{module}.{node.name}", node)
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]


def test_a_class_has_few_bases_of_ours() -> None:
    """Parts are held, not inherited: a base may be an interface or the common half of a few kinds."""
    found = {name: len(_bases(node)) for name, node in _all()}
    assert {name: count for name, count in found.items() if count > BASES_MAX} == {}


def test_no_class_name_is_there_twice() -> None:
    """A name is searched for, in code and in tracebacks, and finds one thing."""
    assert [name for name, node in _all() if _classes()[name.rpartition(".")[2]][1] is not node] == []


def test_a_class_has_few_fields() -> None:
    """One with more holds several things: each of them is a class, with its own fields."""
    found = {name: len(_fields(node)) for name, node in _all()}
    assert {name: count for name, count in found.items() if count > FIELDS.get(name, FIELDS_MAX)} == {}
