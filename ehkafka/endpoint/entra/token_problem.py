"""Explains why a credential gave no token: the error's class, its first lines, and the usual fix.

Pure but for the environment, whose secrets it strikes out. Knows azure-identity's errors by the names of
their classes, so that it imports nothing of it. What it returns holds no token and no secret, and one
line. Called by `TokenSource` on the thread of the attempt.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ehkafka.endpoint.entra.token import UnusableTokenError

if TYPE_CHECKING:
    from collections.abc import Iterable

LINES_MAX = 8
CHARACTERS_MAX = 300

# What the error's text names → what it needs. The first one that is found counts.
_UNAVAILABLE = {
    "defaultazurecredential": (
        "no credential that DefaultAzureCredential tries works on this machine: to see the error of one,"
        " choose it by name, for instance credential='managed_identity'"
    ),
    "managed identity": (
        "assign an identity to this machine, app or pod (a user-assigned one needs client_id=), and check"
        " IDENTITY_ENDPOINT and IDENTITY_HEADER; an identity endpoint that answers 5xx has this error, too"
    ),
    "workload": "set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_FEDERATED_TOKEN_FILE, as AKS does",
    "environment": (
        "set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or AZURE_CLIENT_CERTIFICATE_PATH"
    ),
    "cli": "install Azure CLI and run `az login`",
    "": "this credential does not work on this machine: choose another one",
}
_REFUSED = (
    "Entra ID or the identity endpoint refused: check tenant, client id, and that secret, certificate or"
    " federation have not expired; on the namespace, the identity needs the role Azure Event Hubs Data"
    " Receiver (to consume) or Sender (to produce)"
)
_NETWORK = (
    "the token endpoint was not reached: check DNS, proxy and firewall for Entra ID, or the identity"
    " endpoint of this machine"
)
_NO_JSON = "the identity endpoint's answer is not JSON: correct IDENTITY_ENDPOINT"
_FIXES = {
    "ClientAuthenticationError": _REFUSED,
    "ServiceRequestError": _NETWORK,
    "ServiceResponseError": _NETWORK,
    "HttpResponseError": "the token endpoint answered with an error, which usually passes soon",
    "ImportError": "install azure-identity in this environment",
    "DecodeError": _NO_JSON,
    "JSONDecodeError": _NO_JSON,
}
_OWN = "check the identity endpoint, give a credential of azure-identity, or correct your own credential"
_OTHER = "the credential itself raised this error: correct the credential"

# A JWT, and whatever else is long and random enough to be a key.
_SECRETS = re.compile(
    r"(?P<scheme>https?://)(?P<login>[^\s/?#@]*@)?(?P<rest>[^\s?#]*)|[\w-]{8,}\.[\w-]{8,}\.[\w-]*|[A-Za-z0-9+/=_~-]{40,}|eyJ[\w.-]+"
)
_SECRET_VARIABLES = ("AZURE_CLIENT_SECRET", "AZURE_PASSWORD", "AZURE_CLIENT_CERTIFICATE_PASSWORD",
                     "IDENTITY_HEADER", "MSI_SECRET")  # fmt: skip


def explain(error: BaseException, known: Iterable[str] = ()) -> str:
    """Return class, text and usual fix in one line; `known` texts (tokens) are struck out."""
    if isinstance(error, UnusableTokenError):
        return f"{type(error).__name__} ({error}): {_OWN}"
    names = [kind.__name__ for kind in type(error).__mro__]
    words = _first_lines(_struck(_text(error), known))
    fix = _fix(names, words.lower())
    return f"{names[0]} ({words}): {fix}" if words else f"{names[0]}: {fix}"


def _fix(names: list[str], words: str) -> str:
    is_unavailable = "CredentialUnavailableError" in names or "authentication unavailable" in words
    if is_unavailable or "defaultazurecredential" in words:
        return next(fix for part, fix in _UNAVAILABLE.items() if part in words)
    return next((_FIXES[name] for name in names if name in _FIXES), _OTHER)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"its text cannot be read, {type(broken).__name__}"


def _first_lines(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.splitlines()]
    shown = " ".join([line for line in lines if line][:LINES_MAX])
    shown = "".join(c for c in shown if c.isprintable())
    return shown if len(shown) <= CHARACTERS_MAX else shown[:CHARACTERS_MAX] + "…"


def _struck(text: str, known: Iterable[str]) -> str:
    for secret in (*known, *(os.environ.get(name, "") for name in _SECRET_VARIABLES)):
        # A shorter one would strike out half of the sentence.
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    # The addresses of azure-identity's help are as long as a key.
    return _SECRETS.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    if found["scheme"] is None:
        return "***"
    return f"{found['scheme']}{'***@' if found['login'] else ''}{found['rest']}"
