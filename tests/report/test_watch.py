"""Watching a run: over HTTP, and in a browser while a real run goes on."""

import http.client
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fedamd.errors import FedamdError
from fedamd.report import watch
from fedamd.report.watch import address, watch_server
from fedamd.runs.api import run
from fedamd.runs.run import Record, Run


@contextmanager
def serving(folder: Path) -> Iterator[ThreadingHTTPServer]:
    with watch_server(folder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def get(server: ThreadingHTTPServer, path: str, host: str = "localhost") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request("GET", path, headers={"Host": host})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_page_and_data(trained: Callable[..., Path]) -> None:
    folder = trained("one")
    with serving(folder) as server:
        assert server.server_address[0] == "127.0.0.1"
        status, page = get(server, "/")
        assert (status, "<main>" in page) == (200, True)
        data = json.loads(get(server, "/data.json")[1])
        assert (data["status"], data["live"], data["running"]) == ("finished", True, False)


def test_there_is_nothing_else(trained: Callable[..., Path]) -> None:
    with serving(trained("one")) as server:
        assert get(server, "/config.toml")[0] == 404
        assert get(server, "/../one/config.toml")[0] == 404
        assert get(server, "/data.json", host="elsewhere.example")[0] == 403


def test_a_folder_that_breaks_is_an_answer(trained: Callable[..., Path]) -> None:
    folder = trained("one")
    with serving(folder) as server:
        (folder / "summary.json").write_text("{")
        status, body = get(server, "/data.json")
        assert status == 500
        assert "summary.json is not valid JSON" in body


def test_mistakes_are_sentences(trained: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(FedamdError, match="holds no run"):
        watch_server(tmp_path / "nothing")
    folder = trained("one")
    with (
        watch_server(folder) as server,
        pytest.raises(FedamdError, match=r"cannot listen on port .*; port 0 takes any"),
    ):
        watch_server(folder, server.server_port)


@pytest.mark.browser
def test_the_page_follows_a_run(visit: Callable[..., Any], tmp_path: Path) -> None:
    """The run waits after its second round until the page has shown it, then goes on to the end."""
    reached, seen = threading.Event(), threading.Event()

    def wait(one: Run, _: Record) -> None:
        if one.t == 2:
            reached.set()
            assert seen.wait(60)

    folder = tmp_path / "run"
    train = threading.Thread(target=lambda: run(out=folder, rounds=5, clients=6, cohort=3, listen=wait))
    train.start()
    try:
        assert reached.wait(60)
        with serving(folder) as server:
            page = visit(address(server))
            assert page.locator("#status").inner_text() == "round 2 of 5"
            page.locator("[data-key=traffic]").click()
            seen.set()
            page.locator("#status", has_text="finished").wait_for()
            assert page.locator("[data-key=traffic]").get_attribute("aria-pressed") == "true"  # what was chosen stays
            assert (
                dict(zip(*(page.locator(f".facts {tag}").all_inner_texts() for tag in ("dt", "dd")), strict=True))[
                    "rounds"
                ]
                == "5"
            )
            page.close()
    finally:
        seen.set()
        train.join()


@pytest.fixture
def server(trained: Callable[..., Path]) -> Iterator[ThreadingHTTPServer]:
    with serving(trained("one")) as server:
        yield server


def ask(server, patience: float = 60.0) -> bytes:
    """The first line of the answer to a plain request."""
    with socket.create_connection((watch.HOST, server.server_port), timeout=patience) as connection:
        connection.sendall(b"GET /data.json HTTP/1.0\r\nHost: localhost\r\n\r\n")
        return connection.makefile("rb").readline()


@pytest.mark.parametrize("requests", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_requests_at_once_are_all_answered(server, requests):
    with ThreadPoolExecutor(requests) as pool:
        answers = list(pool.map(lambda _: ask(server), range(requests)))
    assert answers == [b"HTTP/1.0 200 OK\r\n"] * requests


def test_a_client_that_leaves_is_no_news(server, capfd):
    for _ in range(20):
        connection = socket.create_connection((watch.HOST, server.server_port))
        connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # with a reset
    assert ask(server).startswith(b"HTTP/1.0 200")
    assert capfd.readouterr().err == ""


def test_who_says_nothing_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr(watch._Handler, "timeout", 0.2)
    with socket.create_connection((watch.HOST, server.server_port), timeout=10) as connection:
        assert connection.recv(10) == b""  # closed by the server
