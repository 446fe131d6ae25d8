"""Certificates of a local cluster verify against its authority, name their users, and keep their keys private."""

import http.server
import ssl
import stat
import threading
import urllib.request
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from dev.cluster.control_plane.pki import Authority, create_authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return create_authority(tmp_path / "pki", "test")


def test_user_and_groups_stand_where_the_api_server_reads_them(authority: Authority) -> None:
    pair = authority.client("system:node:fast-1", ["system:nodes", "system:others"])
    subject = x509.load_pem_x509_certificate(pair.cert.read_bytes()).subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [
        "system:node:fast-1"
    ]
    groups = {name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    assert groups == {"system:nodes", "system:others"}


def test_private_keys_are_readable_by_their_owner_alone(authority: Authority) -> None:
    keys = [authority.pair.key, authority.client("someone").key, authority.signing_key("tokens")]
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_a_certificate_issued_again_replaces_the_first(authority: Authority) -> None:
    first = authority.client("someone").cert.read_bytes()
    again = authority.client("someone")
    assert again.cert.read_bytes() != first


def test_both_sides_of_a_tls_connection_verify_each_other_strictly(authority: Authority) -> None:
    serving, client = authority.serving("server", ["localhost", "127.0.0.1"]), authority.client("someone")
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.pair.cert))
    server_tls.load_cert_chain(serving.cert, serving.key)
    server_tls.verify_mode = ssl.CERT_REQUIRED
    client_tls = ssl.create_default_context(cafile=str(authority.pair.cert))
    client_tls.load_cert_chain(client.cert, client.key)
    for context in (server_tls, client_tls):
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = server_tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            for host in ("localhost", "127.0.0.1"):
                url = f"https://{host}:{server.server_address[1]}"
                with urllib.request.urlopen(url, context=client_tls, timeout=10) as answer:
                    assert answer.status == 204
        finally:
            server.shutdown()
            thread.join()


def test_certificates_of_another_authority_of_the_same_name_do_not_verify(
    authority: Authority, tmp_path: Path
) -> None:
    other = create_authority(tmp_path / "other", "test")
    certificate = x509.load_pem_x509_certificate(other.client("someone").cert.read_bytes())
    ours = x509.load_pem_x509_certificate(authority.pair.cert.read_bytes())
    with pytest.raises(InvalidSignature):
        certificate.verify_directly_issued_by(ours)
