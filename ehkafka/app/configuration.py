"""An app's settings and endpoint with the origin of each: code, variable, file, flag or default.

`Configuration` belongs to one app, is changed before the start and in one thread only, and read by any.
`explain` shows what is in effect without a secret. It opens no client; asking an endpoint for its
properties may start an embedded broker or read a key, as the start of the app would.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

from ehkafka.app.handler_options import changed, tunable
from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.environment import KEYS as ENDPOINT_KEYS
from ehkafka.endpoint.environment import WAYS as ENDPOINT_WAYS
from ehkafka.endpoint.environment import property_name
from ehkafka.endpoint.properties.names import check_mapping, in_one_spelling, is_secret, shown
from ehkafka.errors import ConfigurationError
from ehkafka.positions.start import check_start
from ehkafka.settings import PROPERTIES, Settings
from ehkafka.wording.calling import close_to, must_be_endpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from ehkafka.app.effective import Effective
    from ehkafka.app.handler_options import Tunable
    from ehkafka.app.keywords import ChangedSettings
    from ehkafka.app.life import Life
    from ehkafka.handlers.spec import HandlerSpec

# What a reader of files and variables needs in addition to the two classes; `cli/` imports it from here.
__all__ = [
    "ENDPOINT_KEYS",
    "ENDPOINT_WAYS",
    "Configurable",
    "Configuration",
    "in_one_spelling",
    "is_secret",
    "property_name",
    "shown",
]

CODE = "code"
ENVIRONMENT = "environment"
OF_ENDPOINT = "endpoint.properties."
SETTING_NAMES = tuple(field.name for field in dataclasses.fields(Settings))
# Options of `App.handler` that a newcomer gives to the app.
_OF_HANDLERS = frozenset({"workers", "order_by", "retry", "on_failure", "deadline_s", "raw", "rate_limit"})

# Properties that say how the app's own broker is reached, and by whom.
_OF_OWN_BROKER = (
    "bootstrap.servers",
    "metadata.broker.list",
    "security.",
    "sasl.",
    "ssl.",
    "https.",
    "group.instance.id",
    "broker.address.family",
)


class Configuration:
    """What an app was given, checked. Raises `ConfigurationError` for what cannot work."""

    def __init__(
        self, group: object, endpoint: Endpoint | None, start: object, given: Mapping[str, object]
    ) -> None:
        if endpoint is not None:
            must_be_endpoint(endpoint)
        check_start(start)
        _check_names(given)
        self._endpoint = endpoint
        self.settings = Settings(group=group, start=start, **given)  # type: ignore[arg-type]
        self._origins = dict.fromkeys(("group", "start", *given), CODE)
        # Names of settings that were laid over the code's, and whether an endpoint was.
        self._laid: set[str] = set()
        self._laid_endpoint = False
        # The same of handlers' options, by the handler's name.
        self._laid_options: dict[str, dict[str, Any]] = {}
        if endpoint is not None:
            self._origins["endpoint"] = CODE

    @property
    def endpoint(self) -> Endpoint:
        """The app's endpoint; if its code gave none, the environment's, chosen at the first look."""
        if self._endpoint is None:
            self._endpoint = Endpoint.from_env()
            self._origins["endpoint"] = ENVIRONMENT
        return self._endpoint

    @property
    def endpoint_name(self) -> str:
        """The endpoint's name if it is chosen by now."""
        return "not chosen yet" if self._endpoint is None else self._endpoint.name

    def in_test(self, endpoint: Endpoint, changes: Mapping[str, object]) -> Configuration:
        """Return another one, with this endpoint and without what belongs to the app's own broker."""
        _check_names(changes)
        settings = self._changed(changes)
        fitting = {
            table: {
                name: value
                for name, value in in_one_spelling(getattr(settings, table), table).items()
                if not name.startswith(_OF_OWN_BROKER)
            }
            for table in PROPERTIES
        }
        other = copy.copy(self)
        vars(other).update(_endpoint=endpoint, _laid=set(), _laid_endpoint=False, _origins={**self._origins})
        other.settings = dataclasses.replace(settings, **fitting)  # type: ignore[arg-type]
        return other

    def own_topics(self) -> tuple[str, ...]:
        """Return what a handler takes that names no topic: the one of the endpoint, if it has one."""
        try:
            topic = self.endpoint.default_topic
        except ConfigurationError as error:
            text = (
                "A handler without topics takes the endpoint's topic, so the endpoint is needed when the "
                f"handler is registered. {error}"
            )
            error.args = (text,)
            raise
        return () if topic is None else (topic,)

    @property
    def takes_endpoint(self) -> bool:
        """True when the app's code left the endpoint open."""
        return self._origins.get("endpoint") != CODE

    def change(
        self, endpoint: Endpoint | None, changes: Mapping[str, Any], origins: Mapping[str, str], usual: str
    ) -> None:
        """Lay other settings over these; nothing changes when one of them is refused.

        `consumer` and `producer` add to the properties that are there. `origins` says where each came from,
        those of properties by `consumer.<name>`; `usual` is for what it does not name.
        """
        if endpoint is not None:
            must_be_endpoint(endpoint)
            if not self.takes_endpoint:
                raise ConfigurationError(
                    f"The endpoint is given twice, by the app's code and by "
                    f"{origins.get('endpoint', usual)}: leave one out. Without endpoint=, App(…) uses the "
                    f"endpoint from outside the code."
                )
        _check_names(changes)
        settings = self._changed(changes)
        self.settings = settings
        self._laid.update(changes)
        if endpoint is not None:
            self._endpoint, self._laid_endpoint = endpoint, True
        named = [name for name in ("endpoint", *changes) if name != "endpoint" or endpoint is not None]
        for table in PROPERTIES:
            named += [f"{table}.{name}" for name in in_one_spelling(changes.get(table), table)]
        self._origins |= {name: origins.get(name, usual) for name in named}
        if endpoint is not None:
            self._origins |= {
                name: origin for name, origin in origins.items() if name.startswith(OF_ENDPOINT)
            }

    def note_options(
        self, options: Mapping[str, Mapping[str, Any]], origins: Mapping[str, str], usual: str
    ) -> None:
        """Remember what was laid over the handlers' options, and where each comes from."""
        for handler, given in options.items():
            self._laid_options.setdefault(handler, {}).update(given)
            names = [f"handlers.{handler}.{option}" for option in given]
            self._origins |= {name: origins.get(name, usual) for name in names}

    def laid_over(self) -> tuple[Endpoint | None, dict[str, Any]]:
        """Return what `configure` has laid over the code's own, as of now: another process needs it, too."""
        settings = {name: getattr(self.settings, name) for name in sorted(self._laid)}
        if self._laid_options:
            settings["handlers"] = self._laid_options
        return self._endpoint if self._laid_endpoint else None, settings

    def explain(self, specs: Sequence[HandlerSpec] = ()) -> tuple[Effective, ...]:
        """Return all values in effect. Raises `ConfigurationError` for what the start would refuse."""
        # Only here: an app that runs explains nothing.
        from ehkafka.app.effective import Explanation  # noqa: PLC0415

        return Explanation(self.endpoint, self.settings, self._origins, tuple(specs)).of_all()

    def _changed(self, changes: Mapping[str, Any]) -> Settings:
        if "start" in changes:
            check_start(changes["start"])
        changes = dict(changes)
        for table in PROPERTIES:
            if table in changes:
                changes[table] = {
                    **in_one_spelling(getattr(self.settings, table), f"App({table}=…)"),
                    **in_one_spelling(changes[table], table),
                }
        return dataclasses.replace(self.settings, **changes)


class Configurable:
    """What an app can do with its settings; the part of `App` that needs nothing of its life cycle."""

    _configuration: Configuration
    _life: Life
    _specs: list[HandlerSpec]

    @property
    def settings(self) -> Settings:
        """The settings in effect."""
        return self._configuration.settings

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint; if none was given, the environment's. Raises `ConfigurationError` without either."""
        return self._configuration.endpoint

    @property
    def takes_endpoint(self) -> bool:
        """Inner: true when the code gave no endpoint, so that `configure` or the environment may."""
        return self._configuration.takes_endpoint

    def configure(
        self,
        *,
        endpoint: Endpoint | None = None,
        handlers: Mapping[str, Mapping[str, Any]] | None = None,
        origins: Mapping[str, str] | None = None,
        **settings: Unpack[ChangedSettings],
    ) -> None:
        """Lay other settings over the app's own, before the start; `ehkafka run` does so with a file's.

        - `endpoint` (default `None`): taken only by an app that was made without one. None: no change.
        - `handlers` (default `None`): options of registered handlers, such as
          `{"readings": {"workers": 32}}`: those that `tunable_handlers` names.
        - `origins` (default `None`): by a setting's name, where its value comes from, for `configuration()`.
        - `**settings`: fields of `ehkafka.settings.Settings`; `consumer` and `producer` add to the properties
          given before.

        Raises `ConfigurationError`, and then nothing has changed.
        """
        self._life.must_be_new("settings")
        origins = {} if origins is None else origins
        check_mapping(origins, "configure: origins")
        if not handlers:
            self._configuration.change(endpoint, settings, origins, "configure()")
            return
        check_mapping(handlers, "configure: handlers")
        specs = changed(self._specs, handlers, origins, "configure()")
        self._configuration.change(endpoint, settings, origins, "configure()")
        self._specs[:] = specs
        self._configuration.note_options(handlers, origins, "configure()")

    @property
    def tunable_handlers(self) -> tuple[Tunable, ...]:
        """The handlers, each with those of its options that `configure(handlers=…)` takes."""
        return tuple(map(tunable, self._specs))

    def configuration(self) -> tuple[Effective, ...]:
        """Return every value in effect, where it came from and why, secrets as `***`.

        The librdkafka properties of the consumer are among them, and those of the producers where handlers
        have outputs or `producer=` is given. Raises what the start would raise.
        """
        return self._configuration.explain(self._specs)


def _check_names(given: Mapping[str, object]) -> None:
    unknown = sorted(set(given) - set(SETTING_NAMES))
    if not unknown:
        return
    name = unknown[0]
    if name in _OF_HANDLERS:
        raise ConfigurationError(
            f"Unknown setting {name}: it is an option of handlers, so write @app.handler('orders', {name}=…)."
        )
    if name in ("endpoint", "mirror", "http"):
        raise ConfigurationError(f"Unknown setting {name}: give it in the code instead, as App({name}=…).")
    meant = close_to(name, (*SETTING_NAMES, "endpoint", "mirror"))
    if meant is not None:
        raise ConfigurationError(f"Unknown setting {name}: did you mean {meant}?")
    raise ConfigurationError(
        f"Unknown setting {', '.join(unknown)}: librdkafka's properties go into consumer={{…}}, and the "
        f"app's own settings are {', '.join(sorted(SETTING_NAMES))}."
    )
