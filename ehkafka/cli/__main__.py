"""Entry point of the `ehkafka` command; also `python -m ehkafka.cli`.

Must import without the extra `[cli]`: this file and the package above it import nothing of it at the top.
"""

from __future__ import annotations

import sys

# What the extra brings. A missing module of another name is a broken installation and shows as it is.
EXTRA = ("typer", "rich", "pydantic", "pydantic_settings")
INSTALL = (
    "ehkafka: the command needs the extra [cli], which is not installed. Run: pip install 'ehkafka[cli]'"
)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from ehkafka.cli.commands import cli  # noqa: PLC0415 - typer may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in EXTRA:
            raise
        sys.stderr.write(f"{INSTALL}\n")
        sys.exit(2)
    cli(prog_name="ehkafka")


if __name__ == "__main__":
    main()
