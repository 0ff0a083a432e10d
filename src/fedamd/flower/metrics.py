"""Numbers for a monitoring system: a page of Prometheus' text format on 127.0.0.1, for a server or a client.

It can be read by whoever is on the machine, and by nobody else; it says how a run goes, and nothing of the data.
"""

import logging
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

log = logging.getLogger("fedamd.flower")
_NAME = re.compile(r"[^a-zA-Z0-9_]")


class Page:
    """The numbers as they are now. `serve` makes them readable; without it they cost nothing."""

    def __init__(self, of: str) -> None:
        self._prefix = f"fedamd_{of}"
        self._lock = threading.Lock()
        self._numbers: dict[str, float] = {}

    def set(self, numbers: Mapping[str, float | None]) -> None:
        """Replace these; what is None was not measured and keeps its last value."""
        known = {name: value for name, value in numbers.items() if value is not None}
        with self._lock:
            self._numbers |= known

    def count(self, name: str, more: float = 1) -> None:
        with self._lock:
            self._numbers[name] = self._numbers.get(name, 0) + more

    def text(self) -> str:
        """In Prometheus' text format. Everything is a gauge: counters start again with a process, and may be set."""
        with self._lock:
            numbers = dict(self._numbers)
        lines = []
        for name, value in sorted(numbers.items()):
            full = f"{self._prefix}_{_NAME.sub('_', name)}"
            lines += [f"# TYPE {full} gauge", f"{full} {value:g}" if value % 1 else f"{full} {int(value)}"]
        return "\n".join(lines) + "\n"

    def serve(self, port: int) -> int | None:
        """At http://127.0.0.1:<port>/metrics; the port, or None where it is taken: a run does not stop for that."""
        try:
            server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        except OSError as error:
            log.warning("no metrics: port %d of 127.0.0.1 cannot be used (%s)", port, error.strerror)
            return None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port


def _handler(page: Page) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path in ("/", "/metrics")
            body = page.text().encode() if found else b"there is /metrics, and nothing else\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
