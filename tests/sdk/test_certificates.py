"""A certificate that does not fit is said to be the problem, with a remedy."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.api.world import World

from flyball.api.serve import serve
from flyball.cli.main import run
from flyball.sdk.client import BadCertificate, Client, NoControlPlane


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    created = World(tmp_path / "state")
    yield created
    created.plane.close()


def certificate(folder: Path, name: str = "localhost", *dates: str) -> tuple[Path, Path]:
    """Write a self-signed certificate, and its key."""
    folder.mkdir(exist_ok=True)
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", *(dates or ("-days", "1")), "-subj", f"/CN={name}", "-addext",
         f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@contextmanager
def serving(world: World, cert: Path, key: Path) -> Iterator[str]:
    server = serve(world.plane, world.settings(), "localhost", 0, cert, key)
    try:
        yield server.url
    finally:
        server.stop()


def check(world: World, url: str, ca: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both the client and the command line say so, and send nobody to start a control plane."""
    with Client(url=url, token=world.token, ca=ca or None) as client:
        with pytest.raises(BadCertificate, match=words) as refusal:
            client.nodes()
        with pytest.raises(BadCertificate, match=words):
            list(client.events(follow=True))
    assert not isinstance(refusal.value, NoControlPlane)
    assert refusal.value.remedy
    assert refusal.value.exit_code == 2
    endpoint = {"url": url, "pid": os.getpid(), "ca": ca}
    (world.folder / "endpoint.json").write_text(json.dumps(endpoint))
    capsys.readouterr()
    assert run(["queue", "--state", str(world.folder)]) == 2
    stderr = capsys.readouterr().err
    assert words in stderr
    assert "no control plane" not in stderr
    assert stderr.count("\n") == 1


def test_wrong_name(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cert, key = certificate(tmp_path / "tls", "other.example")
    with serving(world, cert, key) as url:
        check(world, url, str(cert), "is for another name", capsys)


def test_untrusted(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cert, key = certificate(tmp_path / "tls")
    with serving(world, cert, key) as url:
        check(world, url, "", "is not trusted by the certificates of this system", capsys)
        other, _key = certificate(tmp_path / "other")
        check(world, url, str(other), "is not trusted by the certificates in", capsys)


def test_expired(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cert, key = expired(tmp_path / "tls")
    with serving(world, cert, key) as url:
        check(world, url, str(cert), "has expired", capsys)


def expired(folder: Path) -> tuple[Path, Path]:
    """Write a certificate of a day long ago; `openssl ca` is the one that can set dates."""
    folder.mkdir()
    (folder / "index.txt").touch()
    (folder / "serial").write_text("01\n")
    (folder / "ca.conf").write_text(
        f"[ca]\ndefault_ca=here\n[here]\ndir={folder}\ndatabase={folder}/index.txt\n"
        f"serial={folder}/serial\nnew_certs_dir={folder}\ndefault_md=sha256\npolicy=any\n"
        "x509_extensions=san\n[any]\ncommonName=supplied\n[san]\nsubjectAltName=DNS:localhost\n"
        "basicConstraints=CA:TRUE\n"
    )
    key, request, cert = folder / "key.pem", folder / "request.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(request)],
        check=True, capture_output=True,
    )  # fmt: skip
    subprocess.run(
        ["openssl", "ca", "-batch", "-selfsign", "-config", str(folder / "ca.conf"), "-keyfile",
         str(key), "-in", str(request), "-out", str(cert), "-startdate", "20200101000000Z",
         "-enddate", "20200102000000Z", "-notext"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def test_file_of_certificates_that_is_none(world: World, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for path in (empty, tmp_path / "absent.pem"):
        with pytest.raises(BadCertificate, match="cannot read certificates"):
            Client(url="https://localhost:1", token=world.token, ca=str(path))


def test_https_to_a_plain_server(world: World) -> None:
    with world.server() as server:
        url = server.url.replace("http:", "https:")
        with (
            Client(url=url, token=world.token) as client,
            pytest.raises(BadCertificate, match="no TLS connection"),
        ):
            client.nodes()
