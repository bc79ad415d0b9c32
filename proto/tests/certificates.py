"""A CA and leaf certificates, without openssl."""

import datetime as dt
import ipaddress
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority(NamedTuple):
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(ser.Encoding.PEM)


def _name(common_name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject, issuer, key):
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
    )


def make_authority() -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("test-ca")
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(True, None), True)
        .add_extension(usage, True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def issue(authority: Authority, common_name: str, client: bool = False) -> tuple[bytes, bytes]:
    """(certificate PEM, key PEM) for localhost and 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
    certificate = (
        _builder(_name(common_name), authority.certificate.subject, key)
        .add_extension(x509.SubjectAlternativeName(names), False)
        .add_extension(x509.ExtendedKeyUsage([usage]), False)
        .sign(authority.key, hashes.SHA256())
    )
    secret = key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption())
    return certificate.public_bytes(ser.Encoding.PEM), secret
