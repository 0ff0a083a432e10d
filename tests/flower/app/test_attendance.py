"""What the server knows of its clients, in a file beside the records."""

from collections.abc import Callable

from flower_support import FEDAMD, Federation, config

from fedamd.flower.app.attendance import read_attendance


def test_a_run_says_who_answered_who_did_not_and_counts_on_when_it_is_resumed(
    federation: Callable[..., Federation],
) -> None:
    one = federation(config(FEDAMD, cohort=4, rounds=2))
    one.grid.faults[1, 2] = lambda *_: None
    one.lead()
    clients = read_attendance(one.folder)
    exchanges = len(one.grid.instructions) // 4
    assert [client.answers for client in clients.values()] == [exchanges, exchanges, exchanges - 1, exchanges]
    assert dict(clients[2].faults) == {"overdue": 1}
    assert clients[2].silent
    assert all(client.connected and client.last_seen for client in clients.values())
    sent = sum(client.bytes_down for client in clients.values())
    assert sent > clients[0].bytes_up > 650 * 4
    again = Federation(one.folder.parent, one.raw | {"rounds": 3})
    again.lead()
    assert read_attendance(one.folder)[0].answers == exchanges + 1
    assert dict(read_attendance(one.folder)[2].faults) == {"overdue": 1}
