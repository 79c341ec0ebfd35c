"""The page as a person sees it in a browser, over the double of its server. `page` is one of Playwright's."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.kit.http_double import TOKEN, HttpDouble, served

if TYPE_CHECKING:
    from pathlib import Path


# The contrast of an element's text to the first ground below it that is not clear, after WCAG.
CONTRAST = """selector => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  let ground = document.querySelector(selector);
  const ink = light(parts(getComputedStyle(ground).color));
  while (ground && parts(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
  const paper = light(parts(getComputedStyle(ground).backgroundColor));
  return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
}"""


class Shown:
    """Serves a state and opens the page on it; `close` leaves the page before its server ends."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._servers = ExitStack()

    def __call__(
        self,
        state: dict[str, Any],
        wait_for: str = "#content:not([hidden])",
        *,
        is_signed_in: bool = True,
        **switches: Any,
    ) -> HttpDouble:
        """Return the double, whose switches were set before it was asked anything."""
        self._page.set_extra_http_headers({"authorization": f"Bearer {TOKEN}"} if is_signed_in else {})
        double = HttpDouble(state)
        for name, value in switches.items():
            setattr(double, name, value)
        self._page.goto(self._servers.enter_context(served(double)) + "/")
        self._page.wait_for_selector(wait_for)
        return double

    def close(self) -> None:
        """An open page would go on asking."""
        self._page.goto("about:blank")
        self._servers.close()


def text(page: Any, selector: str) -> str:
    """Return the words of the one that fits."""
    return str(page.inner_text(selector))


def card(page: Any, name: str) -> Any:
    """Return the card of the key whose head is named so."""
    return page.locator(f'#cards .card[data-name="{name}"]')


def picture(page: Any, path: Path) -> None:
    """Take one, to where EHKAFKA_PICTURES says if it does: for the guides."""
    kept = os.environ.get("EHKAFKA_PICTURES")
    page.screenshot(path=f"{kept}/{path.name}" if kept else path, full_page=True)
