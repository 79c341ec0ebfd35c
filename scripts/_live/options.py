"""The command line. Standard library only: `--help` is there before the environment is."""

from __future__ import annotations

import argparse
from pathlib import Path

EPILOG = """\
environment:
  EHKAFKA_CONNECTION_STRING, or EHKAFKA_CONNECTION_STRING_FILE   of a policy with Manage, Send and Listen
  EHKAFKA_LIVE_SECOND_CONNECTION_STRING, or …_FILE               the same policy's, with its other key
  EHKAFKA_MIRROR_CONNECTION_STRING, or …_FILE                    of the storage account, for --container NAME
  EHKAFKA_PROPERTY_SSL_CA_LOCATION, …                            properties of librdkafka

exit codes: 0 all that was tried is as documented, 1 something differs, 2 it could not start,
  3 something was left behind, 4 nothing could be tried, 130 interrupted
"""


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    made = argparse.ArgumentParser(
        prog="scripts/live",
        description="Try the documented limits of an Event Hubs namespace once, and write a report.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("namespace", metavar="NAMESPACE", help="the namespace's name or host name")
    add("--yes", action="store_true", help="do not ask")
    add("--credential", help="an Entra ID credential, too: default, cli, managed_identity, …")
    add("--client-id", help="of a user-assigned identity")
    add("--container", help="try the mirror there: a container's URL, or its name with a connection string")
    add(
        "--tier", choices=("standard", "premium", "dedicated"), help="the namespace's tier, for the judgement"
    )
    add("--topic", help="use this event hub instead of creating some, for a policy without Manage")
    add("--throttle", action="store_true", help="also send more than the namespace takes, for 20 s")
    add(
        "--only",
        action="append",
        metavar="PROBE",
        help="one of those in docs/eventhubs/live.md, and what it needs; may be repeated",
    )
    add("--redact", action="store_true", help="hide the names of namespace, account and topic in the report")
    add("--report", type=Path, default=Path(), metavar="FOLDER", help="where the report goes (here)")
    add("--clean", action="store_true", help="only remove what earlier runs have left")
    add("--run", metavar="RUN", help="only remove what that run has left: 16 hexadecimal digits of its names")
    # For tests: where ledgers are, and all waits times this.
    add("--state", type=Path, help=argparse.SUPPRESS)
    add("--scale", type=float, default=1.0, help=argparse.SUPPRESS)
    return made
