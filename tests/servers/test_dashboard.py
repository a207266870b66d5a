"""The dashboard in a real browser: what people do with it, and what must never happen."""

from __future__ import annotations

import http.client
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.servers.browser import EXPECTED, FLAGS, HOW_TO_GET, Server, Viewer, chromium
from tests.until import until

from flyball.api.sessions import Session, Sessions, cookie_name
from flyball.api.token import Secret, read_token

VIEWS = ("/now", "/queue", "/time", "/decisions", "/decisions/1", "/whatif", "/prediction",
         "/learning", "/loop", "/system", "/jobs")  # fmt: skip
SCRIPT = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
MANY = 5_000
COUNTS = "for number in $(seq 1000); do echo line $number; sleep 0.2; done"

pytestmark = pytest.mark.skipif(chromium() is None, reason=f"chromium: {HOW_TO_GET}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("web") / "state", "--no-agent")
    yield running
    with running.client() as client:
        client.cancel_all()
        until(lambda: not client.queue() or None, "the end of all jobs")
    running.kill()


@pytest.fixture
def viewer(browser: Any, server: Server) -> Iterator[Viewer]:
    opened = Viewer(browser, server)
    yield opened
    opened.close()


def type_into(page: Any, name: str, text: str) -> None:
    page.locator(f"[name={name}]").fill(text)


def test_submit_watch_and_cancel(viewer: Viewer) -> None:
    """The whole way of a job: typed, tried out, submitted, followed, cancelled."""
    page = viewer.go("/queue")
    page.keyboard.press("n")
    page.wait_for_selector("[name=argv]")
    type_into(page, "argv", f"sh -c '{COUNTS}'")
    type_into(page, "name", SCRIPT)
    viewer.sees("It fits (1 core)")
    page.get_by_role("button", name="Submit", exact=True).click()
    viewer.sees("submitted")
    page.wait_for_selector(".ag-row")
    viewer.sees(SCRIPT[:8])  # as text, in the grid
    number = page.locator(".ag-row a").first.inner_text()
    page = viewer.go(f"/jobs/{number}")
    viewer.sees("running")
    viewer.sees(SCRIPT)  # as text
    until(lambda: "line 3" in page.inner_text(".fb-log"), "the log to be followed", every_s=0.1)
    page.get_by_placeholder("Find in the log").fill("line 2")
    page.wait_for_selector(".fb-log mark")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the job").click()
    viewer.sees("cancelled")
    assert page.title() == f"Job {number} - Flyball"
    viewer.check_clean()


def test_a_bad_value_is_explained_and_not_submitted(viewer: Viewer) -> None:
    page = viewer.go("/queue")
    page.get_by_role("button", name="Submit a job").click()
    page.wait_for_selector("[name=argv]")
    type_into(page, "argv", "true")
    type_into(page, "cpus", "60000")
    until(lambda: "fb-notice bad" in page.content(), "the refusal", every_s=0.1)
    type_into(page, "cpus", "1")
    type_into(page, "limit_s", "soon")
    until(lambda: page.locator("[name=limit_s][aria-invalid=true]").count() or None, "a mark")
    viewer.check_clean()


def test_every_view_is_clean_and_accessible(viewer: Viewer) -> None:
    """No error, no warning, no request to elsewhere, and no serious finding of axe-core."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with viewer.server.client() as client:
        job = client.submit(["true"], cwd="/", name="short")
        client.wait(job)
    found = []
    for path in (*VIEWS, f"/jobs/{job}", "/jobs/999999"):
        for theme in ("light", "dark"):
            viewer.page.emulate_media(color_scheme=theme)
            page = viewer.go(path)
            page.wait_for_function("window.socket && window.socket.connected")
            page.wait_for_timeout(300)
            for finding in axe.run(page).response["violations"]:
                if finding["impact"] in ("serious", "critical"):
                    targets = [node["target"] for node in finding["nodes"][:3]]
                    found.append((path, theme, finding["id"], targets))
    assert not found, found
    viewer.check_clean()


def test_keys_lead_to_the_views_and_to_the_search(viewer: Viewer) -> None:
    page = viewer.go("/now")
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/queue")
    page.wait_for_selector(".fb-search")
    page.keyboard.press("/")
    page.keyboard.type("nothing-is-called-so")
    page.keyboard.press("Enter")
    page.wait_for_url("**/queue?search=*")
    viewer.sees("Only jobs that contain")
    viewer.check_clean()


def test_what_if_on_the_own_history(viewer: Viewer) -> None:
    with viewer.server.client() as client:
        for job in client.submit_many([{"argv": ["true"], "cwd": "/"}] * 3):
            client.wait(job)
    page = viewer.go("/whatif")
    page.get_by_role("button", name="Replay").click()
    viewer.sees("kept as run 1")
    viewer.sees("jobs over")
    page = viewer.go("/whatif/1")
    assert "srtf" in page.inner_text("body")
    page = viewer.go("/whatif")
    page.get_by_role("button", name="Replay").click()
    viewer.sees("kept as run 2")
    for number in (1, 2):
        page.get_by_label(f"Choose run {number}").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/whatif/compare?runs=1,2")
    viewer.sees("Side by side")
    viewer.check_clean()


def test_verify_makes_the_decisions_again(viewer: Viewer) -> None:
    page = viewer.go("/decisions")
    page.get_by_role("button", name="Make them again").click()
    viewer.sees("all equal")
    viewer.check_clean()


def test_priority_and_the_alternatives_of_a_decision(viewer: Viewer) -> None:
    """A job is moved in the queue, and the decision says what others would have done."""
    with viewer.server.client() as client:
        job = client.submit(["true"], cwd="/", name="moved", hold=True)
    page = viewer.go("/queue?search=moved")
    page.wait_for_selector(f".ag-row a[href='/jobs/{job}']")
    page.locator(".ag-row .ag-checkbox-input").first.check()
    viewer.sees("1 selected")
    page.get_by_role("button", name="Priority", exact=True).click()
    type_into(page, "number", "7")
    page.get_by_role("button", name="Apply").click()
    viewer.sees("priority 7")
    with viewer.server.client() as client:
        assert client.job(job)["priority"] == 7.0
        client.release(job)
        client.wait(job)
        number = client.decisions(limit=1000)[-1]["number"]
    page = viewer.go(f"/decisions/{number}")
    viewer.sees("Against the decision")
    assert "srtf" in page.inner_text("body")
    viewer.check_clean()


def test_two_viewers_see_the_same_job(browser: Any, server: Server, viewer: Viewer) -> None:
    other = Viewer(browser, server)
    for one in (viewer, other):
        one.go("/queue")
    with server.client() as client:
        job = client.submit([sys.executable, "-c", "import time; time.sleep(300)"], cwd="/")
    row = f".ag-row a[href='/jobs/{job}']"
    for one in (viewer, other):
        one.page.wait_for_selector(row)
    with server.client() as client:
        client.cancel(job)
    for one in (viewer, other):
        one.page.wait_for_selector(row, state="detached")
        one.check_clean()
    other.close()


def test_a_read_only_link_changes_nothing(browser: Any, server: Server) -> None:
    wall = Viewer(browser, server, server.link(read_only=True))
    page = wall.go("/queue")
    assert page.get_by_role("button", name="Submit a job").is_disabled()
    refused = page.evaluate(
        "fetch('/api/v1/jobs', {method: 'POST', headers: {'Content-Type': 'application/json'}, "
        "body: JSON.stringify({argv: ['true']})}).then((answer) => answer.status)"
    )
    assert refused == 403
    wall.check_clean(EXPECTED)
    wall.close()


def test_the_page_says_that_the_control_plane_is_gone_and_recovers(
    browser: Any, tmp_path: Path
) -> None:
    own = Server(tmp_path / "state", "--no-agent", "--no-foresight")
    watcher = Viewer(browser, own)
    page = watcher.go("/now")
    page.wait_for_function("window.socket && window.socket.connected")
    own.kill()
    page.wait_for_selector("#popup[aria-hidden=false]")
    assert "onnection" in page.inner_text("#popup")
    own.start()
    page.wait_for_selector("#popup[aria-hidden=true]", state="attached")
    with own.client() as client:
        client.submit([sys.executable, "-c", "import time; time.sleep(300)"], cwd="/", hold=True)
    watcher.sees("1 waiting")
    watcher.check_clean(EXPECTED)
    with own.client() as client:
        client.cancel_all()
    watcher.close()
    own.kill()


def test_an_expired_session_is_told_how_to_get_a_link(viewer: Viewer, server: Server) -> None:
    secret = Secret(read_token(server.state))
    host = urlsplit(server.url).netloc
    session = Session("", False, int(time.time()) - 1, "serial")
    expired = Sessions(secret).cookie(session)
    name = cookie_name(host)
    viewer.go("/now")
    viewer.context.add_cookies(
        [{"name": name, "value": expired, "url": server.url, "httpOnly": True}]
    )
    viewer.page.goto(server.url + "/now")
    viewer.sees("flyball open")
    viewer.check_clean(EXPECTED)


def test_a_wrong_host_gets_nothing(server: Server) -> None:
    """A name that was rebound to this machine reaches neither pages nor the web socket."""
    parts = urlsplit(server.url)
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
    for headers in ({}, upgrade):
        assert parts.port is not None
        connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
        connection.request("GET", "/now", headers={"Host": "evil.example", **headers})
        status = connection.getresponse().status
        assert status in (403, 421), (headers, status)
        connection.close()


def test_thousands_of_jobs_in_the_queue(browser: Any, tmp_path: Path) -> None:
    own = Server(tmp_path / "state", "--no-foresight", "--engine", "twin")
    with own.client() as client:
        jobs = [{"argv": ["true"], "name": f"job-{at}", "gpus": 1} for at in range(MANY)]
        client.submit_many([job | {"estimate_s": 9e5} for job in jobs])
    many = Viewer(browser, own)
    page = many.go("/queue")
    until(lambda: page.locator(".ag-row").count() > 10, "rows", every_s=0.1)
    page = many.go(f"/queue?search=job-{MANY - 1}")
    until(lambda: page.locator(".ag-row").count() in (1, 2), "the row that was searched")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*")
    many.check_clean()
    many.close()
    own.kill()
