"""The door: how an app reaches a broker, and which client settings are safe there.

An `endpoint` describes the broker, from `bootstrap` addresses, variables (`environment`), connection strings
(`keys/`) or Entra ID (`entra/`); `drop_in` is what the drop-in takes of it, `recipe` how a process of the
same program makes its like, `secret_location` where another one finds the secret. `properties/` lays
defaults, needs and overrides over one another and refuses what is unsafe; `text` is what librdkafka survives.
`client` alone opens librdkafka's clients, under the name of `client_name`. `client_log` turns its log lines
into events, `silent` drops them, `broker_errors` says which errors end an app and `causes` what they usually
mean, `producer_id` what a producer logs of its id.

The room must never write a secret into an error, a repr or a log, and never consumes or produces. Called by
the app before its threads start, and by each part that needs a client of its own.
"""

from __future__ import annotations

from ehkafka.endpoint.endpoint import Endpoint

__all__ = ["Endpoint"]
