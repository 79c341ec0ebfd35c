"""Issues a TLS certificate for a test broker from a throw-away certificate authority.

Called before a `KafkaBroker` with a TLS listener is made. Never touches the machine's trust store.
"""

from __future__ import annotations

from ehkafka.errors import MissingExtraError
from ehkafka.testing.kafka.properties import ServerIdentity


def issue_identity(*host_names: str) -> ServerIdentity:
    """Return a new identity for these names and addresses (default: `127.0.0.1` and `localhost`)."""
    try:
        import trustme  # noqa: PLC0415 - an optional dependency
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    except ImportError as error:
        message = (
            f"A TLS listener needs {error.name}, which is not installed; run `pip install --group test` in a "
            "checkout of ehkafka, or `pip install trustme cryptography`"
        )
        raise MissingExtraError(message) from error
    authority = trustme.CA()
    leaf = authority.issue_cert(*(host_names or ("127.0.0.1", "localhost")))
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), password=None)
    return ServerIdentity(
        certificate_pem=b"".join(blob.bytes() for blob in leaf.cert_chain_pems),
        # Kafka reads PKCS#8 only; trustme writes the traditional form.
        key_pem=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        ca_pem=authority.cert_pem.bytes(),
    )
