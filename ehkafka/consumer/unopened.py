"""What a consumer is made of before its constructor has run, or after it has failed: nothing.

A program's own class may forget to call the constructor above it. Each call has to come by confluent-kafka
then, which knows what is wrong with it, so every part that is asked on the way there is idle. Values; shared
by all consumers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.consumer.access import Access
from ehkafka.consumer.positions import Returned

if TYPE_CHECKING:
    from ehkafka.consumer.commit_requests import Answer


class Unopened:
    """Stands for the `Members` of a consumer without a client: nothing waits, nothing is looked after."""

    answers: tuple[Answer, ...] = ()
    has_checks = False
    marks = None
    commits = None
    access = Access()
    # Nothing is ever put into it: confluent-kafka returns nothing without a client.
    returned = Returned()
