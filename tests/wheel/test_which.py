"""Which package the tests import: the checkout's, or where that has none the wheel's."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import ehkafka
from tests.kit.pages import ROOT


def test_the_tests_import_the_checkout_or_else_the_installed_wheel() -> None:
    """`scripts/test --wheel` leaves the package out of its copy, so that only the wheel can be imported."""
    is_checkout = (ROOT / "ehkafka").is_dir()
    folder = ROOT if is_checkout else Path(sysconfig.get_path("purelib"))
    assert Path(ehkafka.__file__) == folder / "ehkafka" / "__init__.py"
