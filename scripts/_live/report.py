"""The report of a run, as Markdown for an issue and as JSON: no secret, and on request no name."""

from __future__ import annotations

import json
import platform
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import confluent_kafka

import ehkafka
from _live.probe import Status
from ehkafka.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from _live.names import Names
    from _live.probe import Result
    from _live.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is written down of one run."""

    site: Site
    results: Sequence[Result]
    left: Mapping[str, str]
    took_s: float
    names: Names | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        given = self.site.given
        counts = Counter(result.status for result in self.results)
        found = {
            "report": "ehkafka live",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "namespace": given.namespace,
            "tier": given.tier or "not given",
            "entered_by": "key" if given.string is not None else "Entra ID",
            "led_elsewhere": given.is_led_elsewhere,
            "ehkafka": ehkafka.__version__,
            "confluent_kafka": confluent_kafka.version(),
            "librdkafka": confluent_kafka.libversion()[0],
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "seconds": round(self.took_s, 1),
            "counts": {str(status): counts[status] for status in Status},
            "left": dict(self.left),
            "probes": [result.as_dict() for result in self.results],
        }
        cleaned: dict[str, Any] = self.site.cleaner.facts(found)
        return cleaned if self.names is None else dict(self.names.value(cleaned))

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write both forms and return their paths. Raises `EngineError` rather than write a secret."""
        found = self.as_dict()
        texts = {"md": markdown(found), "json": json.dumps(found, indent=2, ensure_ascii=False) + "\n"}
        for text in texts.values():
            if any(secret in text for secret in self.site.given.secrets):
                raise EngineError(
                    "The report would have had a secret in it and was not written: report this."
                )
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"live-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        paths = {kind: folder / f"{stem}.{kind}" for kind in texts}
        for kind, text in texts.items():
            paths[kind].write_text(text, encoding="utf-8")
        return paths["md"], paths["json"]


def markdown(found: Mapping[str, Any]) -> str:
    """Return the report as a page."""
    lines = [
        "# ehkafka on an Event Hubs namespace",
        "",
        f"{found['at']}, {found['namespace']}, {found['seconds']} s",
        "",
        f"- tier: {found['tier']}; entered by: {found['entered_by']}",
        f"- ehkafka {found['ehkafka']}, Python {found['python']}, {found['system']}",
        f"- confluent-kafka {found['confluent_kafka']}, librdkafka {found['librdkafka']}",
        "",
        ", ".join(f"{count} {status}" for status, count in found["counts"].items() if count),
        "",
    ]
    if found["led_elsewhere"]:
        lines += ["The clients were led to another address than the namespace's own.", ""]
    lines += ["| probe | documented | seen | result | s |", "|---|---|---|---|---|"]
    for probe in found["probes"]:
        cells = (
            probe["name"],
            f"{probe['documented']} ([source]({probe['link']}))",
            probe["seen"],
            probe["status"],
            f"{probe['seconds']:.1f}",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if found["left"]:
        lines += ["", "Not removed:", ""]
        lines += [f"- `{name}`: {reason}" for name, reason in found["left"].items()]
    facts = {probe["name"]: probe["facts"] for probe in found["probes"] if probe["facts"]}
    shown = json.dumps(facts, indent=1, ensure_ascii=False)
    details = ["", "<details><summary>Figures</summary>", "", "```json", shown, "```", "", "</details>", ""]
    return "\n".join(lines + details)
