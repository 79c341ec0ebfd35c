"""Makes the unsigned tokens that a `Listener(unsecured_tokens=True)` accepts.

An Azurite that takes tokens accepts them as well. For tests of token refresh and expiry. Never a model for a
real client: nothing proves who made it.
"""

from __future__ import annotations

import base64
import json
import time

# A tenant that does not exist: Azurite wants an issuer of this form.
ISSUER = "https://sts.windows.net/00000000-0000-0000-0000-000000000000/"


def unsecured_token(
    subject: str,
    life_s: float = 3600.0,
    *,
    issued_at_s: float | None = None,
    audience: str | None = None,
) -> str:
    """Return a JWT with `"alg": "none"` for `subject`, expired when `life_s` is negative.

    With an `audience` it has what an Azurite that takes tokens looks at, too.
    """
    issued = time.time() if issued_at_s is None else issued_at_s
    claims: dict[str, object] = {
        "sub": subject,
        "iat": round(issued, 3),
        "exp": round(issued + life_s, 3),
    }
    if audience is not None:
        claims |= {"aud": audience, "iss": ISSUER, "nbf": round(issued, 3)}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(part: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode("ascii").rstrip("=")
