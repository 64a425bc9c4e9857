"""Certificates made for a test: an authority, servers at 127.0.0.1, clients."""

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, as files; `pair` has both."""

    certificate: Path
    key: Path
    pair: Path


class Authority:
    """Signs any request. `certificate` is the file that others trust it by."""

    def __init__(self, folder: Path, name: str = "Surelane tests") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        can_sign = x509.BasicConstraints(ca=True, path_length=0)
        made = _builder(self._name, self._name, self._key.public_key()).add_extension(can_sign, critical=True)
        self.certificate = folder / "ca.pem"
        self.certificate.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def sign(self, name: str, *, password: bytes | None = None, host: str = "127.0.0.1") -> Signed:
        """A certificate of `name`, for a server at `host`; the key is encrypted with `password`."""
        key = ec.generate_private_key(ec.SECP256R1())
        where = x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
        builder = _builder(_named(name), self._name, key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([where]), critical=False)
        certificate = _pem(builder.sign(self._key, hashes.SHA256()))
        form = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, form)
        files = Signed(*(self._folder / f"{name}{end}" for end in (".pem", ".key", ".pair.pem")))
        for path, content in (
            (files.certificate, certificate),
            (files.key, secret),
            (files.pair, secret + certificate),
        ):
            path.touch(0o600)
            path.write_bytes(content)
        return files


def given_to(user_id: int, *paths: Path) -> None:
    """A server that runs as another user reads its own key."""
    if os.getuid() == 0:
        for path in paths:
            os.chown(path, user_id, -1)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    named = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return (
        named.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + 30 * _DAY)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
