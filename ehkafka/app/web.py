"""An app's HTTP side: serves probes, metrics, the page and actions while the app runs. Any thread."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.run import signals
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from ehkafka.app.app import App
    from ehkafka.events import Event, Hook
    from ehkafka.http.answers import States
    from ehkafka.http.options import Http
    from ehkafka.http.site import Site


class Web:
    """What an app with `http=` does, and what it gives to another web app."""

    def __init__(self, app: App, given: object) -> None:
        """Raise `ConfigurationError` for what is no address."""
        self._app = app
        # What was asked for; None where no server is wanted.
        self.options: Http | None = None
        self.take(given)
        # The states of members, with values or without, where the app is their supervisor.
        self.of_members: Callable[..., Sequence[States]] = lambda **_values: ()

    def take(self, given: object) -> None:
        """Take what `App.run` was given, if anything; it counts for the app from then on."""
        if given is None:
            return
        from ehkafka.http.options import http_of  # noqa: PLC0415 - few apps have a server

        wanted = http_of(given)
        if self.has_site and self.options is not None and wanted != self.options:
            raise ConfigurationError(
                "run(http=…): the app already has HTTP from App(http=…): leave one of the two out."
            )
        self.options = wanted

    @property
    def has_site(self) -> bool:
        """Whether it was made, by a start or for another web app."""
        return "site" in vars(self)

    @cached_property
    def site(self) -> Site:
        """All that is served. Raises `MissingExtraError`."""
        try:
            from ehkafka.http.site import Site  # noqa: PLC0415 - it needs the extra
        except ImportError as error:
            raise MissingExtraError(
                f"HTTP needs the extra [web], which is not installed ({error.name}): {install('web')}. "
                "Without this extra, --health-file shows whether the app is live."
            ) from None
        from ehkafka.telemetry.prometheus.collector import (  # noqa: PLC0415 - it needs the extra
            Collector,
            exposition,
        )

        collector = Collector(self._app)
        return Site(
            self.options,
            self._app,
            version=sys.modules["ehkafka"].__version__,  # the root lies above
            metrics=lambda accept: exposition(collector, accept),
            of_members=lambda values: self.of_members(values=values),
        )

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """What hears of the app's events for it."""
        return (self.site.journal,) if self.has_site else ()

    def bind(self) -> Event | None:
        """Take the address, before anything starts; None where no server is wanted, or is another process's.

        Raises `ConfigurationError`.
        """
        if self.options is None or signals.orders is not None:
            return None
        if (serving := self.site.bind()) is not None:
            self.site.start()
        return serving

    def serve(self, given: object = None) -> Self:
        """Serve a run of another engine until `close`, if that is asked for; `given` is what `take` takes."""
        import logging  # noqa: PLC0415 - an app that is made needs none

        self.take(given)
        if (serving := self.bind()) is not None:
            logging.getLogger("ehkafka").info("%s", serving.sentence())
        return self

    def close(self) -> None:
        """Let go of the address."""
        if self.has_site:
            self.site.stop()
