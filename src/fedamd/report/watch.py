"""The page of a run while it goes on: a small server for this machine alone, which reads the run's folder."""

import json
import math
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.report.content import page_sections, page_status, page_subtitle, page_title
from fedamd.report.page import page_data, render
from fedamd.report.stored import read_runs

HOST = "127.0.0.1"
PATIENCE = 10.0  # seconds that a client has for saying what it wants
FRESH = 0.3  # seconds that the data is not read again


def watch_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of the page of the run (or the comparison) in `folder`; port 0 takes any that is free.

    Call `serve_forever` on it; it is reached at `address`.
    """
    live_data(folder)  # a folder without a run is a mistake to report now
    try:
        return _Server((HOST, port), partial(_Handler, _Latest(folder)))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", error)
        raise FedamdError(f"cannot listen on port {port}: {reason}; port 0 takes any that is free") from None


def address(server: ThreadingHTTPServer) -> str:
    return f"http://{HOST}:{server.server_port}/"


def live_data(folder: Path) -> dict[str, Any]:
    """What the page shows now."""
    runs = read_runs([folder])
    return page_data(
        page_title(runs),
        page_sections(runs),
        subtitle=page_subtitle(runs),
        status=page_status(runs),
        live=True,
        running=any(run.status == "running" for run in runs),
    )


class _Latest:
    """The data of the page, read once for all who ask at about the same time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._read = -math.inf
        self._data: dict[str, Any] = {}

    def data(self) -> dict[str, Any]:
        with self._lock:
            if time.monotonic() - self._read > FRESH:
                self._data = live_data(self._folder)
                self._read = time.monotonic()
            return self._data


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024  # who may wait to be let in
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves, or never says what it wants, is no news to the person at the terminal."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers for the page and its data; nothing else is there."""

    timeout = PATIENCE

    def __init__(self, latest: _Latest, *args: Any) -> None:
        self._latest = latest
        super().__init__(*args)

    def do_GET(self) -> None:
        if self.headers.get("Host", "").partition(":")[0] not in (HOST, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)  # another site's page must not read this one under a name of its own
        elif self.path == "/":
            self._answer("text/html", render)
        elif self.path == "/data.json":
            self._answer("application/json", partial(json.dumps, allow_nan=False))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, kind: str, form: Callable[[dict[str, Any]], str]) -> None:
        try:
            body = form(self._latest.data()).encode()
        except FedamdError as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the terminal belongs to the person."""
