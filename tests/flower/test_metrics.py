"""Numbers for Prometheus."""

import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from flower_support import Answer, Federation, config
from flwr.app import Message

from fedamd.flower.metrics import Page


def test_the_text_is_that_of_prometheus() -> None:
    page = Page("server")
    page.set({"round": 3, "loss": 0.25, "accuracy": None, "wire bits": 2**40})
    page.count("faults")
    page.count("faults", 2)
    assert page.text().splitlines() == [
        "# TYPE fedamd_server_faults gauge",
        "fedamd_server_faults 3",
        "# TYPE fedamd_server_loss gauge",
        "fedamd_server_loss 0.25",
        "# TYPE fedamd_server_round gauge",
        "fedamd_server_round 3",
        "# TYPE fedamd_server_wire_bits gauge",
        f"fedamd_server_wire_bits {2**40}",
    ]


def test_it_is_read_on_this_machine() -> None:
    page = Page("client")
    page.set({"messages": 1})
    port = page.serve(0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert answer.read().decode() == page.text()
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/other", timeout=10)


def test_a_port_that_is_taken_is_a_sentence_and_no_reason_to_stop(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as other, caplog.at_level(logging.WARNING, logger="fedamd.flower"):
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert Page("client").serve(other.getsockname()[1]) is None
    assert "cannot be used" in caplog.text


def test_a_server_tells_how_its_run_goes(federation: Callable[..., Federation]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    one = federation(config(cohort=4), metrics_port=port)
    told = []

    def look(_: Message, answer: Answer) -> Message | None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            told.append(page.read().decode())
        return answer()

    one.grid.faults = {(0, 1): lambda *_: None, (2, 3): look}
    one.lead()
    assert "\nfedamd_server_round 2\n" in told[0]
    assert "\nfedamd_server_overdue_total 1\n" in told[0]
    assert "fedamd_server_wire_bits_up" in told[0]
