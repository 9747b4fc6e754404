"""How nodes prove to each other that they are of one cluster: by certificates.

The key of the cluster's own authority lies in the store, sealed like credentials: whoever can open
it is a node. Each node makes itself a certificate at its start. Connections between nodes are TLS
1.3, and both ends show theirs. A certificate says nothing of a name: nodes may stand for each
other.

It says nothing of time either: the key is the proof. Nodes whose clocks are wrong reach each other,
and an authority that was made by a wrong clock serves for ever.
"""

import datetime as dt
import ssl
from pathlib import Path
from typing import Final

import msgspec

from distributary.net.own_nodes import NAME, node_context

BEGIN: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
END: Final = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
"""What certificates say of time: none expires (RFC 5280, 4.1.2.5)."""


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """The authority of a cluster: a secret.

    Attributes:
        certificate: In PEM.
        key: In PEM, in clear.
    """

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Authority(***)"


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What a node shows: a secret.

    Attributes:
        authority: Certificate of the authority, in PEM.
        chain: Certificate and private key of the node, in PEM.
    """

    authority: str
    chain: str

    def __repr__(self) -> str:
        return "Proof(***)"


def make_authority() -> Authority:
    """Make the authority of a new cluster."""
    from cryptography import x509  # noqa: PLC0415 - a server of one machine has no nodes
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "distributary nodes")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def make_proof(authority: Authority) -> Proof:
    """Make what a node shows.

    Raises:
        ValueError: *authority* is none.
    """
    from cryptography import x509  # noqa: PLC0415 - see ``make_authority``
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above

    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signer = serialization.load_pem_private_key(authority.key.encode(), password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        message = "the key of the nodes' authority is of another kind"
        raise ValueError(message)  # noqa: TRY004 - it was read
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [x509.ExtendedKeyUsageOID.SERVER_AUTH, x509.ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(END)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_usage(signs=False), critical=True)
        .sign(signer, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Proof(
        authority=authority.certificate,
        chain=certificate.public_bytes(pem).decode() + private.decode(),
    )


def _usage(*, signs: bool) -> "x509.KeyUsage":  # type: ignore[name-defined] # noqa: F821 - lazy
    from cryptography import x509  # noqa: PLC0415 - see ``make_authority``

    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def context(authority: Path, chain: Path, purpose: str, *, serves: bool) -> ssl.SSLContext:
    """The context of one end of a connection between nodes.

    Args:
        authority: File with the certificate of the authority.
        chain: File with certificate and key of this node.
        purpose: What the connection is for, as ALPN names it; several, separated by commas, where
            this end serves.
        serves: Whether this end accepts.

    Raises:
        OSError: A file cannot be read, or is none (``ssl.SSLError``).
    """
    text = authority.read_text(encoding="ascii")
    return node_context(text, chain, purpose.split(","), serves=serves)
