"""How the namespace is entered: by key, wrong key and Entra ID token, in the steps of `ehkafka check`."""

from __future__ import annotations

import base64
import re
import time
from typing import TYPE_CHECKING

from _live.probe import CLIENT_SETTINGS, DOCS, NotTried, Observed, Probe, differs, ok
from ehkafka.checks.result import Status as Checked
from ehkafka.checks.run import run_checks
from ehkafka.checks.target import Target

if TYPE_CHECKING:
    from _live.site import Site
    from ehkafka import Endpoint
    from ehkafka.checks.result import CheckResult

STEP_S = 15.0
WRONG_KEY = base64.b64encode(b"this is not the key of the policy").decode()
_KEY = re.compile(r"(SharedAccessKey\s*=\s*)[^;]+", re.IGNORECASE)


def _steps(site: Site, endpoint: Endpoint) -> list[CheckResult]:
    """Go the way to the broker, which writes nothing: no topic is named."""
    report = run_checks(Target(endpoint=endpoint, group=f"{site.ledger.prefix}check"), timeout_s=STEP_S)
    return [result for result in report.results if result.status in (Checked.OK, Checked.FAILED)]


def _judged(steps: list[CheckResult], how: str) -> Observed:
    facts = {f"{step.name}_s": round(step.duration_s, 3) for step in steps}
    failed = next((step for step in steps if step.status is Checked.FAILED), None)
    if failed is not None:
        fix = f" {failed.fix}" if failed.fix else ""
        return differs(f"{how} was refused at the step {failed.name}: {failed.text}.{fix}", **facts)
    named = {step.name: step.text for step in steps}
    tls = f"; {named['tls']}" if "tls" in named else ""
    return ok(f"{how}: {named['auth']}{tls}", **facts)


def login(site: Site) -> Observed:
    """Enter as all other probes do."""
    how = "a connection string" if site.given.string is not None else "an Entra ID token"
    return _judged(_steps(site, site.endpoint), how)


def wrong_key(site: Site) -> Observed:
    """Enter with a key that is wrong, and see how the refusal shows."""
    if site.given.string is None:
        raise NotTried("no connection string was given")
    text = _KEY.sub(rf"\g<1>{WRONG_KEY}", site.given.string.reveal())
    endpoint = site.given.key_endpoint(text)
    assert endpoint is not None
    site.closed_at_the_end(endpoint.close)
    began_s = time.monotonic()
    steps = _steps(site, endpoint)
    took_s = time.monotonic() - began_s
    refusal = next((step for step in steps if step.name == "auth" and step.status is Checked.FAILED), None)
    if refusal is None:
        shown = "; ".join(f"{step.name}: {step.status}" for step in steps)
        return differs(f"a wrong key was not refused ({shown})")
    if "AUTHENTICATION" not in refusal.text:
        return differs(f"a wrong key shows as another error: {refusal.text}", refused_s=round(took_s, 2))
    return ok(f"refused after {took_s:.1f} s: {refusal.text}", refused_s=round(took_s, 2))


def entra(site: Site) -> Observed:
    """Enter with a token."""
    endpoint = site.given.entra_endpoint()
    if endpoint is None:
        raise NotTried("no credential was given: --credential")
    site.closed_at_the_end(endpoint.close)
    steps = _steps(site, endpoint)
    judged = _judged(steps, "an Entra ID token")
    token = next((step for step in steps if step.name == "token"), None)
    return judged if token is None else Observed(judged.status, f"{judged.text}; {token.text}", judged.facts)


PROBES = (
    Probe(
        name="login",
        documented="TLS on port 9093; SASL PLAIN with the user $ConnectionString, or OAUTHBEARER",
        link=f"{DOCS}/azure-event-hubs-apache-kafka-overview",
        function=login,
        expected_s=4.0,
        limit_s=90.0,
        needs=(),
    ),
    Probe(
        name="wrong-key",
        documented="A wrong key fails the SASL login",
        link=f"{DOCS}/apache-kafka-troubleshooting-guide",
        function=wrong_key,
        expected_s=5.0,
        needs=("login",),
    ),
    Probe(
        name="entra",
        documented="OAUTHBEARER with a token for https://<namespace>/.default and a data role",
        link=CLIENT_SETTINGS,
        function=entra,
        expected_s=5.0,
        needs=(),
    ),
)
