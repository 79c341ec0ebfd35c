"""What the values of the typed work hold, for sides that decode with msgspec."""

import msgspec


class Reading(msgspec.Struct):
    """A JSON object with these fields."""

    home: str
    n: int
    pad: str
