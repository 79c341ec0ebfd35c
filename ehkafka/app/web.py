"""An app's HTTP side: the part of `App` that serves probes, metrics, the page and actions. Any thread."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.run import signals
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ehkafka.events import Event, Hook
    from ehkafka.http.noted import Noted
    from ehkafka.http.options import Http
    from ehkafka.http.site import Site


class Web:
    """What an app with `http=` does, and what it gives to another web app."""

    # What was asked for; None where nobody wants a server.
    _http: Http | None = None
    _site: Site | None = None

    @property
    def http(self) -> Http | None:
        """Where it serves, as `App(http=…)` or `run(http=…)` said; None where nobody wants that."""
        return self._http

    @property
    def http_app(self) -> Any:
        """The same as an ASGI application, to be mounted in a web app of your own. Needs the extra `[web]`.

        Mount it before the app starts. Its paths are open to whoever reaches that web app: actions need the
        token, the rest is as the address says that `App(http=…)` was given; without one, off loopback.
        """
        from ehkafka.http.options import Http  # noqa: PLC0415 - few apps have a server

        return self._made_site(self._http or Http(address="0.0.0.0:0")).application  # not bound

    def _made_site(self, options: Http) -> Site:
        if self._site is None:
            try:
                from ehkafka.http.site import Site  # noqa: PLC0415 - it needs the extra
            except ImportError as error:
                raise MissingExtraError(
                    f"HTTP needs the extra [web], which is not installed ({error.name}): {install('web')}. "
                    "Without it --health-file shows whether the app is live."
                ) from None
            version: str = sys.modules["ehkafka"].__version__  # the root lies above
            self._site = Site(
                options,
                self,  # type: ignore[arg-type]
                version=version,
                metrics=self._metrics_of(),
                of_members=self._noted_by_members,
            )
        return self._site

    def _noted_by_members(self) -> Sequence[Noted]:
        """Return the journals of this process's members; none without a supervisor."""
        raise NotImplementedError

    def _metrics_of(self) -> Callable[[str], tuple[bytes, str]]:
        """Return what answers a scrape. Raises `MissingExtraError`."""
        from ehkafka.telemetry.prometheus.collector import (  # noqa: PLC0415 - it needs the extra
            Collector,
            exposition,
        )

        collector = Collector(self)  # type: ignore[arg-type]
        return lambda accept: exposition(collector, accept)

    def _site_hooks(self) -> tuple[Hook, ...]:
        return () if self._site is None else (self._site.journal,)

    def _bind(self) -> Event | None:
        """Take the address, before anything starts; None where no server is wanted, or is another process's.

        Raises `ConfigurationError`.
        """
        if self._http is None or signals.orders is not None:
            return None
        from ehkafka.events import HttpServing  # noqa: PLC0415 - few apps have a server

        site = self._made_site(self._http)
        url = site.bind()
        site.start()
        return HttpServing(url, is_loopback=self._http.is_loopback)

    def _unbind(self) -> None:
        if self._site is not None:
            self._site.stop()

    @contextmanager
    def _served(self) -> Iterator[Event | None]:
        """Serve while the block runs, where that is wanted. Raises `ConfigurationError`."""
        serving = self._bind()
        try:
            yield serving
        finally:
            self._unbind()

    def _take_http(self, given: object) -> None:
        """Take what `App.run` was given, if anything; it counts for the app from then on."""
        if given is None:
            return
        from ehkafka.http.options import http_of  # noqa: PLC0415 - few apps have a server

        wanted = http_of(given)
        if self._site is not None and self._http is not None and wanted != self._http:
            raise ConfigurationError("run(http=…): this app has an HTTP side already, by App(http=…).")
        self._http = wanted
