"""Serving: on which addresses, with which secrets, and as curl sees it."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from pathlib import Path

import httpx
import pytest
from tests.api.world import SLEEP, World, calling

from flyball.api.serve import check_exposure, is_loopback, serve
from flyball.api.state_folder import default_state, open_state
from flyball.api.token import make_token, read_token
from flyball.core.errors import BadInput
from flyball.sdk.client import Client


def curl(*arguments: str) -> str:
    done = subprocess.run(
        ["curl", "-s", "--noproxy", "*", "--max-time", "20", *arguments],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def test_curl_submits_and_looks(world: World) -> None:
    with world.server() as server:
        bearer = ("-H", f"Authorization: Bearer {world.token}")
        kind = ("-H", "Content-Type: application/json")
        output = curl(*bearer, *kind, "-d", json.dumps(SLEEP), f"{server.url}/api/v1/jobs")
        assert json.loads(output) == {"id": 1, "ids": [1], "notes": []}
        assert json.loads(curl(*bearer, f"{server.url}/api/v1/jobs/1"))["state"] == "PENDING"
        assert json.loads(curl(f"{server.url}/healthz")) == {"ok": True}
        assert json.loads(curl(f"{server.url}/api/v1/jobs"))["token"] == "unauthorized"
        world.step()
        world.log(1, b"hello\n")
        world.step(10)
        output = curl(*bearer, "-N", f"{server.url}/api/v1/jobs/1/logs?follow=true")
        assert '"text": "hello\\n"' in output
        assert "event: end" in output


def test_a_large_batch_by_curl(world: World, tmp_path: Path) -> None:
    body = tmp_path / "batch.json"
    body.write_text(json.dumps({"jobs": [SLEEP] * 2000}))
    with world.server() as server:
        output = curl(
            "-H", f"Authorization: Bearer {world.token}", "-H", "Content-Type: application/json",
            "-d", f"@{body}", f"{server.url}/api/v1/jobs/batch",
        )  # fmt: skip
    assert json.loads(output)["ids"] == list(range(1, 2001))


def test_tls(world: World, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    server = serve(world.plane, world.settings(), "localhost", 0, cert, key)
    try:
        assert server.url == f"https://localhost:{server.port}"
        with Client(url=server.url, token=world.token, ca=str(cert)) as client:
            assert client.health()["ok"]
        world.write_endpoint(server.url, str(cert))
        with Client(world.folder) as client:
            assert client.submit_job(SLEEP) == 1
    finally:
        server.stop()


def test_all_addresses_answer_to_their_names(world: World, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    server = serve(world.plane, world.settings(), "0.0.0.0", 0, cert, key)
    try:
        assert socket.getfqdn() in server.url
        url = f"https://127.0.0.1:{server.port}/healthz"
        assert json.loads(curl("--cacert", str(cert), url)) == {"ok": True}
        named = ("-H", f"Host: {socket.gethostname()}:{server.port}")
        assert json.loads(curl("--cacert", str(cert), *named, url)) == {"ok": True}
        strange = ("-H", "Host: evil.example")
        assert json.loads(curl("--cacert", str(cert), *strange, url))["status"] == 421
    finally:
        server.stop()


def test_a_network_needs_tls(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", ""):
        with pytest.raises(BadInput, match="--tls-cert") as refusal:
            check_exposure(host, "", "")
        assert "\n" not in str(refusal.value)
    for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"):
        assert is_loopback(host)
        check_exposure(host, "", "")
    with pytest.raises(BadInput, match="--tls-key"):
        check_exposure("127.0.0.1", "cert.pem", "")
    broken = tmp_path / "cert.pem"
    broken.write_text("no certificate")
    with pytest.raises(BadInput, match="cannot load the certificate"):
        check_exposure("127.0.0.1", broken, broken)
    with pytest.raises(BadInput, match="cannot load the certificate"):
        check_exposure("127.0.0.1", tmp_path / "none", broken)


def test_ports(world: World) -> None:
    with world.server() as server:
        with pytest.raises(BadInput, match="--port 0"):
            serve(world.plane, world.settings(), "127.0.0.1", server.port)
        with pytest.raises(BadInput, match="is not a port"):
            serve(world.plane, world.settings(), "127.0.0.1", 70_000)
        server.stop()
        assert not server.alive
        with pytest.raises(httpx.ConnectError), calling(server, world.token) as client:
            client.get("/healthz")


def test_the_token_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read the token"):
        read_token(tmp_path)
    token = make_token(tmp_path)
    assert len(token) == 43
    assert make_token(tmp_path) == token == read_token(tmp_path)
    path = tmp_path / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["token"]
    path.chmod(0o644)
    with pytest.raises(BadInput, match="others may read"):
        read_token(tmp_path)
    path.chmod(0o600)
    for text in ("", "short", "x" * 600, "ä" * 50, "x" * 20 + "\n" + "x" * 20):
        path.write_text(text)
        with pytest.raises(BadInput, match="printable"):
            read_token(tmp_path)
    path.unlink()
    path.symlink_to("/etc/hostname")
    with pytest.raises(BadInput, match="cannot read the token"):
        read_token(tmp_path)


def test_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_state(tmp_path / "a" / "b")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)  # readable is not yet writable: mended
    assert stat.S_IMODE(open_state(folder).stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to(folder)
    assert open_state(tmp_path / "link") == folder
    for mode in (0o777, 0o770, 0o720, 0o702):
        folder.chmod(mode)
        with pytest.raises(BadInput, match="chmod 700"):
            open_state(folder)
    folder.chmod(0o700)
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(BadInput, match="rename"):
        open_state(folder)
    (tmp_path / "a").chmod(0o1777)
    assert open_state(folder) == folder
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot use"):
        open_state(tmp_path / "file")
    with pytest.raises(BadInput, match="cannot use"):
        open_state(tmp_path / "a\0b")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(BadInput, match="belongs to user"):
        open_state(folder)


def test_where_the_state_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("FLYBALL_STATE", raising=False)
    assert default_state() == tmp_path / ".local/state/flyball"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_state() == tmp_path / ".local/state/flyball"
    monkeypatch.setenv("XDG_STATE_HOME", "/x")
    assert default_state() == Path("/x/flyball")
    monkeypatch.setenv("FLYBALL_STATE", "/y")
    assert default_state() == Path("/y")
    monkeypatch.setenv("FLYBALL_STATE", "y")
    with pytest.raises(BadInput, match="absolute"):
        default_state()
