"""The page's files: nothing from elsewhere, nothing inline, nothing missing."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.kit.http_double import PAGE

LINES_MAX = 300
OWN = sorted(path for path in PAGE.iterdir() if path.suffix in {".html", ".js", ".css", ".svg"})


def test_all_that_the_page_refers_to_is_there() -> None:
    """Scripts, styles, the icon, and what modules import."""
    wanted = set(re.findall(r'(?:src|href)="page/([^"]+)"', (PAGE / "index.html").read_text()))
    wanted |= {name for path in OWN for name in re.findall(r'from "\./([^"]+)"', path.read_text())}
    assert [name for name in wanted if not (PAGE / name).is_file()] == []
    assert {path.name for path in OWN} - wanted == {"index.html"}
    assert (PAGE / "uplot" / "LICENSE").is_file()


def test_what_a_module_imports_is_exported() -> None:
    """A browser would show an empty page."""
    missing = []
    for path in OWN:
        for names, module in re.findall(r'import \{([^}]+)\} from "\./([^"]+)"', path.read_text()):
            given = (PAGE / module).read_text()
            missing += [
                f"{path.name}: {name} of {module}"
                for name in re.findall(r"\w+", names)
                if not re.search(rf"export (?:async )?(?:function|class|const) {name}\b", given)
            ]
    assert missing == []


def test_nothing_comes_from_elsewhere_and_nothing_is_inline() -> None:
    """No other address, no string that becomes HTML or code, no style or handler in an attribute."""
    forbidden = r"https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function"
    found = [
        (path.name, word)
        for path in OWN
        for word in re.findall(forbidden, path.read_text().replace("http://www.w3.org/2000/svg", ""))
    ]
    assert found == []
    html = (PAGE / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", html)


def test_the_wheel_has_all_files_of_the_page_and_of_top(tmp_path: Path) -> None:
    """Without them both would fail only where they are installed."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=PAGE.parents[2], check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = [path for path in PAGE.rglob("*") if path.is_file()]
    assert len(files) > len(OWN)
    wanted = {f"ehkafka/http/page/{path.relative_to(PAGE).as_posix()}" for path in files}
    assert (wanted | {"ehkafka/cli/top/top.tcss"}) - names == set()


def test_files_of_the_page_stay_small() -> None:
    """As those of Python do."""
    assert [path.name for path in OWN if len(path.read_text().splitlines()) > LINES_MAX] == []


def test_the_chart_library_is_the_one_of_the_example() -> None:
    """Unchanged from where it came, as its README says."""
    example = Path(__file__).parents[3] / "examples/home_security/home_pipeline/page/static/uplot"
    for path in example.iterdir():
        assert (PAGE / "uplot" / path.name).read_bytes() == path.read_bytes()
