"""A certificate for one test server, which signs itself: a client trusts the file or nobody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

VALID = timedelta(days=2)


def self_signed(host: str, address: str = "127.0.0.1") -> str:
    """A private key and its certificate, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    names = x509.SubjectAlternativeName([x509.DNSName(host), x509.IPAddress(ip_address(address))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of a test may be set back.
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form, encoding = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM
    secret = key.private_bytes(encoding, form, serialization.NoEncryption())
    return (secret + certificate.public_bytes(encoding)).decode()
