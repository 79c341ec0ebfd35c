"""What the pages show can be copied: names and links are there, the YAML is a trigger that KEDA knows."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from ehkafka.settings import Settings
from tests.kit.pages import PAGES, ROOT, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

GUIDES = ROOT / "docs"
LINKED = [*PAGES, *(ROOT / name for name in ("DESIGN.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]
README_BYTES_MAX = 6 * 1024
# Met in logs, settings and snapshots, and nowhere else in the field.
OUR_WORDS = ("lane", "chunk", "parked", "backlog", "watermark", "mirror", "witness")
# The page that explains them, the one that lists modules by their old names, figures, and generated ones.
NOT_LINKED = {"vocabulary.md", "benchmark-figures.md", "messages.md", "options.md"}
LINKED_TO_WORDS = [page for page in GUIDES.rglob("*.md") if page.name not in NOT_LINKED]
# "Apache Kafka" and "Azure Event Hubs" of KEDA 2.17's documentation, without other clouds' fields.
TRIGGER_FIELDS = {
    "kafka": {
        *("bootstrapServers", "consumerGroup", "topic", "lagThreshold", "activationLagThreshold"),
        *("offsetResetPolicy", "allowIdleConsumers", "scaleToZeroOnInvalidOffset", "excludePersistentLag"),
        *("limitToPartitionsWithLag", "ensureEvenDistributionOfPartitions", "version", "sasl", "tls"),
        "unsafeSsl",
    },
    "azure-eventhub": {
        *("eventHubNamespace", "eventHubName", "consumerGroup", "storageAccountName", "blobContainer"),
        *("checkpointStrategy", "unprocessedEventThreshold", "activationUnprocessedEventThreshold", "cloud"),
    },
}


def blocks(page: Path, language: str) -> list[str]:
    """Return the page's blocks of a language."""
    return [block.text for block in blocks_of(page) if block.language == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_of_ours_in_a_sentence_is_there(page: Path) -> None:
    """Those in blocks of Python are, since the blocks run."""
    for name in re.findall(r"`(ehkafka(?:\.\w+)+)", page.read_text()):
        if not name.endswith((".toml", ".zip")):
            resolve(name)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading that it has."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        there = page.parent / path if path else page
        if target.startswith("https://"):
            continue
        if not there.exists() or (heading and heading not in headings(there)):
            broken.append(target)
    assert broken == []


def headings(page: Path) -> set[str]:
    """Return the anchors that a page's headings get where it is shown."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_a_newcomer_reads_a_short_page() -> None:
    """The first page has a bound. Building the site finds a page that no list has."""
    assert len((ROOT / "README.md").read_bytes()) <= README_BYTES_MAX


@pytest.mark.parametrize("page", LINKED_TO_WORDS, ids=lambda page: str(page.relative_to(GUIDES)))
def test_a_word_of_ours_is_explained_where_it_first_stands(page: Path) -> None:
    """Next to it a link to what explains it; or it stands in italics, with its explanation around it."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for word in OUR_WORDS:
        lines = [line for line in text.splitlines() if re.search(rf"\b{word}s?\b", line) and line[0] != "#"]
        if lines:
            explained = rf"\]\([./a-z]*vocabulary\.md|\[{word}s?\]\(|\*{word}s?\*"
            assert re.search(explained, lines[0]), f"{page.name}: {word}: {lines[0]}"


@pytest.mark.parametrize("picture", sorted(GUIDES.rglob("pictures/*.svg")), ids=lambda picture: picture.name)
def test_a_drawn_picture_is_read_in_light_and_dark_and_fetches_nothing(picture: Path) -> None:
    """It says in words what it shows, has colours for both, a ground of its own, and a page that shows it."""
    drawn = ET.fromstring(picture.read_text())
    svg = "{http://www.w3.org/2000/svg}"
    assert all(drawn.findtext(f"{svg}{name}") for name in ("title", "desc"))
    style = str(drawn.findtext(f"{svg}style"))
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    coloured = set(re.findall(r"(\.\w+|text) \{ (?:fill|stroke): #", light))
    assert coloured <= set(re.findall(r"\.\w+|text", dark))
    classes = {name for shape in drawn.iter() for name in shape.get("class", "").split()}
    assert classes <= set(re.findall(r"\.(\w+)", light))
    assert not re.search(r"href|https?://(?!www\.w3\.org/2000/svg)", picture.read_text())
    assert any(f"pictures/{picture.name}" in page.read_text() for page in PAGES)


@pytest.mark.parametrize("plot", sorted(GUIDES.rglob("survives/*.svg")), ids=lambda plot: plot.name)
def test_a_plot_says_what_it_shows_has_a_ground_of_its_own_and_fetches_nothing(plot: Path) -> None:
    """Matplotlib draws it: its white ground is read on a dark page as well."""
    drawn = ET.fromstring(plot.read_text())
    svg = "{http://www.w3.org/2000/svg}"
    assert all(drawn.findtext(f"{svg}{name}") for name in ("title", "desc"))
    ground = drawn.find(f".//{svg}g[@id='patch_1']/{svg}path")
    assert ground is not None
    assert "fill: #ffffff" in ground.get("style", "")
    assert set(re.findall(r'href="(.)', plot.read_text())) <= {"#"}
    assert not re.search(r"https?://(?!www\.w3\.org/)", plot.read_text())
    assert any(f"survives/{plot.name}" in page.read_text() for page in PAGES)


def resolve(name: str) -> Any:
    """Return what a dotted name stands for; a call's results are not followed."""
    found = importlib.import_module("ehkafka")
    for part in re.match(r"[\w.]+", name)[0].split(".")[1:]:  # type: ignore[index]
        if not hasattr(found, part):
            found = importlib.import_module(f"{found.__name__}.{part}")
        else:
            found = getattr(found, part)
    return found


def test_the_scalers_of_the_page_are_whole() -> None:
    """Both triggers have every field, name the authentication that stands before them, and fit the app."""
    for block, (kind, fields) in zip(
        blocks(GUIDES / "eventhubs" / "index.md", "yaml"), TRIGGER_FIELDS.items(), strict=True
    ):
        authentication, scaled = (yaml.safe_load(text) for text in block.split("---\n"))
        assert (authentication["kind"], scaled["kind"]) == ("TriggerAuthentication", "ScaledObject")
        (trigger,) = scaled["spec"]["triggers"]
        assert trigger["type"] == kind
        assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
        assert set(trigger["metadata"]) == fields
        assert scaled["spec"]["minReplicaCount"] == 1
    block = blocks(GUIDES / "eventhubs" / "index.md", "yaml")[0].split("---\n")[1]
    kafka = yaml.safe_load(block)["spec"]["triggers"][0]["metadata"]
    assert kafka["bootstrapServers"].endswith(".servicebus.windows.net:9093")
    assert (kafka["tls"], kafka["sasl"], kafka["unsafeSsl"]) == ("enable", "plaintext", "false")
    assert Settings.__dataclass_fields__["stop_s"].default == 25.0
