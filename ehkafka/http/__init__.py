"""HTTP: probes, metrics, state, events, the page and the actions of one running app.

`options` is what was asked for: address, token, host names. `server` binds the socket and has a thread of its
own; `protocol` closes connections that say or read nothing. `site` puts one app's together, `application`
joins the routes: `probes`, `state` (what the page and `top` show, by `journal`; as `panels`, with rates and
the last hour by `measures`), `stream` (the same as it changes, for each event loop), `letters` and actions.
`answers` makes these answers, for members' sockets too. `access` comes before all: whose request it is, from
where, and what it may. `plain` makes JSON of whatever there is, `page/` is what a browser loads.

Reads the app by `served`, which members' supervisor gives as well. The data path never waits for a client.
Needs the extra `[web]`.
"""

from __future__ import annotations

from ehkafka.http.options import Http

__all__ = ["Http"]
