"""Certificates that a TLS library accepts, and keys that only their owner can read."""

import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from fedamd.flower.local.certificates import CA, SERVER, SERVER_KEY, write_certificates, write_client_key


def handshake(folder: Path, name: str) -> None:
    """A TLS connection over a pair of sockets, the client trusting ca.crt alone."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / SERVER, folder / SERVER_KEY)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with serving.wrap_socket(theirs, server_side=True) as connection:
                connection.recv(1)
        except (ssl.SSLError, OSError):
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ssl.create_default_context(cafile=folder / CA).wrap_socket(ours, server_hostname=name) as connection:
            connection.send(b"x")
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("name", ["server.example.org", "127.0.0.1"])
def test_the_server_is_trusted_under_its_names(tmp_path: Path, name: str) -> None:
    write_certificates(tmp_path, ["server.example.org", "127.0.0.1"])
    handshake(tmp_path, name)


def test_and_under_no_other(tmp_path: Path) -> None:
    write_certificates(tmp_path, ["server.example.org"])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, "other.example.org")


def test_secrets_are_their_owners(tmp_path: Path) -> None:
    write_certificates(tmp_path, ["localhost"])
    public = write_client_key(tmp_path / "client")
    for name in ("ca.key", SERVER_KEY, "client"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "client.pub").read_text().strip() == public
    key = load_ssh_private_key((tmp_path / "client").read_bytes(), password=None)
    assert key.key_size == 256  # type: ignore[union-attr]
