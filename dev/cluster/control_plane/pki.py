"""Makes a cluster's certificates: one authority, serving certificates, client certificates, and the token key."""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """Paths of a PEM certificate and of its PEM private key (mode 0600)."""

    cert: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """The cluster's certificate authority in `folder`; it signs serving and client certificates alike."""

    folder: Path

    @property
    def pair(self) -> KeyPair:
        """The authority's own certificate (what everybody trusts) and key."""
        return KeyPair(self.folder / "ca.crt", self.folder / "ca.key")

    def serving(self, name: str, hosts: Sequence[str]) -> KeyPair:
        """A server's certificate for `hosts` (DNS names and IP addresses); also usable by it as a client."""
        names = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(
            name, names, hosts, [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        )

    def client(self, user: str, groups: Sequence[str] = (), file: str | None = None) -> KeyPair:
        """A certificate that the API server takes as `user` in `groups` (common name, organisations)."""
        names = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        )
        return self._issue(file or user.replace(":", "-"), names, (), [ExtendedKeyUsageOID.CLIENT_AUTH])

    def signing_key(self, file: str) -> Path:
        """A private key that signs service account tokens."""
        return _write_key(self.folder / f"{file}.key", ec.generate_private_key(ec.SECP256R1()))

    def _issue(
        self, file: str, subject: x509.Name, hosts: Sequence[str], uses: Sequence[x509.ObjectIdentifier]
    ) -> KeyPair:
        issuer = x509.load_pem_x509_certificate(self.pair.cert.read_bytes())
        issuer_key = serialization.load_pem_private_key(self.pair.key.read_bytes(), password=None)
        assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)  # noqa: S101 - create_authority wrote it
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, issuer.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        return _write_pair(self.folder, file, builder, key, issuer_key)


def create_authority(folder: Path, name: str) -> Authority:
    """Create a new authority in `folder`; certificates of an earlier one there are no longer valid."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    _write_pair(folder, "ca", builder, key, key)
    return Authority(folder)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_pair(
    folder: Path,
    file: str,
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: CertificateIssuerPrivateKeyTypes,
) -> KeyPair:
    cert = builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    pair = KeyPair(folder / f"{file}.crt", folder / f"{file}.key")
    pair.cert.write_bytes(cert)
    _write_key(pair.key, key)
    return pair


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    # SEC 1 rather than PKCS 8: the only form of an EC key that the API server's token verifier reads.
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
    return path
