"""`ehkafka top`: its options and help text, and nothing of what it does."""

from __future__ import annotations

from typing import Annotated

import typer

from ehkafka.cli.exits import reported
from ehkafka.cli.options import Debug, TokenFile

TOP_HELP = """Watch a running app in the terminal, and steer it: which key holds a commit, and a hand on each.

It shows what the app's page shows, and asks the same HTTP interface of an app that was started with --http.
Actions say first what they will do, and need the token. Needs the extra [top].

MODULE:APP instead of a URL: an app with http= in its code is asked there, by its own token. Any other one is
started here, in the same process, joins its group and consumes, until q stops it.

\b
Keys:
  1 to 7   what holds it up, partitions, errors, dead letters, events, members, process
  r s d    retry, skip, dead letter           p u      pause, resume
  x b      stop, start a handler              l g      read, redrive dead letters
  o        partitions by name, lag or age     n        dead letters of the next topic
  t        light or dark                      q        quit

\b
Examples:
  ehkafka top                                 what answers at http://127.0.0.1:8080
  ehkafka top http://10.0.0.7:8080 --token-file /mnt/secrets/token
  ehkafka top shop.orders:app                 the app of a module, or of a file: shop/orders.py:app

\b
Environment:
  EHKAFKA_HTTP_TOKEN   the token, where there is no --token-file

"""
USUAL_URL = "http://127.0.0.1:8080"


def top(
    where: Annotated[
        str, typer.Argument(metavar="[URL|MODULE:APP]", help="Where the app answers, or which it is.")
    ] = USUAL_URL,
    *,
    token_file: TokenFile = None,
    debug: Debug = False,
) -> None:
    """Watch a running app in the terminal, and steer it."""
    from ehkafka.cli.top import start  # noqa: PLC0415 - other commands need none of it

    with reported(debug=debug):
        start.top(where, token_file)
