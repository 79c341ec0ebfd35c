"""The door: how an app reaches a broker, and which client settings are safe there.

Data flow: an `Endpoint` describes the broker; `properties` lays our defaults, the endpoint's own needs
and the user's overrides over one another and refuses what is unsafe (`refusals`, measured against
`limits`); `client` alone opens librdkafka's clients with the result and explains their errors.

The room must never write a secret into an error, a repr or a log, and never consumes or produces.
Called by the app before its threads start, and by whoever needs a client of its own.
"""

from __future__ import annotations

from ehkafka.endpoint.endpoint import Endpoint

__all__ = ["Endpoint"]
