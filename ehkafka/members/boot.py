"""What a member needs to become one: pickled, sent through its socket, and read there alone.

Secrets are in it, such as the connection string of a settings file: never in an argument or the environment.
What was laid over the app's code goes along; the code itself the member imports.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, describe
from ehkafka.members.logs import logs_here
from ehkafka.members.reference import MAIN
from ehkafka.settings import PROPERTIES
from ehkafka.wording import ended
from ehkafka.workers.processes.boot import main_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.endpoint import Endpoint
    from ehkafka.members.reference import Reference


def boot_of(
    reference: Reference,
    *,
    laid: tuple[Endpoint | None, Mapping[str, Any]],
    instance_id: str | None,
    registered: tuple[str, ...],
    run: Mapping[str, object],
    keeps_journal: bool = False,
) -> dict[str, Any]:
    """Return what all members of a supervisor are sent; `packed` makes it one member's.

    The broker adds to it: `loan`, a core for each in `cores` (empty: they share all), and in `ends` where the
    logs ended at the start, for members that end once they have caught up. Raises `ConfigurationError` for
    what cannot travel.
    """
    endpoint, settings = laid
    plain = {name: dict(value) if name in PROPERTIES else value for name, value in settings.items()}
    for name, value in plain.items():
        _pickled(value, f"the setting {name}", reference)
    main = main_module("ehkafka-member")
    if reference.module != MAIN:
        main = {name: value for name, value in main.items() if not name.startswith("init_main")}
    return {
        "reference": reference,
        "main": main,
        # These two are pickles: they may name the user's functions, which are there after the import.
        "laid": _pickled(plain, "a setting", reference),
        "endpoint": None if endpoint is None else _recipe(endpoint, reference),
        "instance_id": instance_id,
        "registered": registered,
        "run": run,
        "logs": logs_here(),
        # Whether it notes what happens, for who asks the supervisor.
        "keeps_journal": keeps_journal,
        "loan": None,
        "cores": (),
        "ends": {},
    }


def _recipe(endpoint: Endpoint, reference: Reference) -> tuple[str, bytes]:
    recipe = endpoint.recipe
    return recipe.factory, _pickled(
        dict(recipe.given), f"what Endpoint.{recipe.factory} was given", reference
    )


def packed(boot: Mapping[str, Any], number: int, *, is_first: bool) -> bytes:
    """Return the boot of member `number`. A later one may find newer code, with other handlers."""
    name, cores = boot["instance_id"], boot["cores"]
    own = {
        "number": number,
        "instance_id": None if name is None else f"{name}-{number}",
        "registered": boot["registered"] if is_first else None,
        "core": cores[number - 1] if cores else None,
    }
    return pickle.dumps({**boot, **own})


def _pickled(value: object, what: str, reference: Reference) -> bytes:
    try:
        packed = pickle.dumps(value)
    except Exception as error:
        raise ConfigurationError(
            f"members=: {what} cannot be sent to another process "
            f"({ended(describe(error)).removesuffix('.')}). Members import a function by name: put the "
            f"function at the top level of a module (no lambda, no function inside a function), or give it "
            f"to App(…) where {reference} is made."
        ) from None
    return packed
