"""A whole federation on this machine: a SuperLink and a process for every client, on 127.0.0.1."""

import contextlib
import os
import secrets
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from fedamd.errors import FedamdError
from fedamd.flower.local import mark, processes
from fedamd.flower.local.certificates import CA, SERVER, SERVER_KEY, write_certificates, write_client_key
from fedamd.flower.local.mark import Mark

CONNECTION = "local"  # the name under which `flwr` finds the SuperLink
_READY = 60.0  # seconds a SuperLink gets to start


class Loopback:
    """`with Loopback(folder, clients=4, tls=True) as federation:` nothing of it is left when the block ends."""

    def __init__(
        self,
        folder: Path,
        clients: int,
        tls: bool = False,
        *,
        state: Path | None = None,
        stock: bool = False,
        in_memory: bool = True,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`state` is where the clients keep what they hold (default: in the folder). `stock`: Flower's own SuperNodes
        instead of clients that stay. `in_memory`: what the SuperLink knows of runs and messages ends with it, which
        makes every request faster; runs live in their folders all the same. `tell` hears what is being done."""
        self.folder = folder.absolute()
        self.clients = clients
        self.tls = tls
        self.state = (state or folder / "state").absolute()
        self.stock = stock
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.superlink: subprocess.Popen[bytes] | None = None
        self.mark = secrets.token_hex(8)  # in the environment of all its processes
        self._mark = Mark.own(self.mark)
        self._tell = tell
        self._all: list[subprocess.Popen[bytes]] = []
        self._database = ":flwr-in-memory:" if in_memory else str(self.folder / "superlink.db")
        self._port, self.spare_port, *self._node_ports = _free_ports(2 + clients)

    @property
    def home(self) -> Path:
        """FLWR_HOME of this federation."""
        return self.folder / "flwr"

    @property
    def keys(self) -> Path:
        """The file of the clients' public keys, for `federation.keys`."""
        return self.folder / "keys" / "clients.txt"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        refuse_if_running(self.folder)
        self.home.mkdir(parents=True, exist_ok=True)
        self._mark.write(self.folder)
        try:
            self._tell("starting the SuperLink")
            self._start_superlink()
            self._tell(f"starting {self.clients} clients")
            for client in range(self.clients):
                self.start_client(client)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_client(self, client: int) -> None:
        """The SuperNode of this client, for the first time or again."""
        config = f'partition-id={client} num-partitions={self.clients} state-dir="{self.state}" watchdog=true'
        security = ["--insecure"]
        if self.tls:
            key = self.folder / "keys" / f"client-{client}"
            security = ["--root-certificates", str(self.folder / "keys" / CA), "--auth-supernode-private-key", str(key)]
        command = [sys.executable, "-m", "fedamd", "federation", "client"]
        if self.stock:
            command = ["flower-supernode", "--host", "127.0.0.1", "--port", str(self._node_ports[client])]
        command += [*security, "--superlink", self.address, "--node-config", config]
        threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // self.clients))}
        self.nodes[client] = self._start(command, f"client-{client}", threads)

    def stop(self) -> None:
        """End every process of this federation."""
        processes.end_all(self.mark, self._all)
        self._mark.remove(self.folder)

    def revive(self) -> list[str]:
        """Start again what has ended by itself; what that was, in words."""
        told = []
        if self.superlink is not None and self.superlink.poll() is not None:
            told.append(f"the SuperLink has ended; see {self.folder}/logs/superlink.log; it is started again")
            self._start_superlink()
        for client, process in list(self.nodes.items()):
            if process.poll() is not None:
                told.append(
                    f"client {client} has ended; see {self.folder}/logs/client-{client}.log; it is started again"
                )
                self.start_client(client)
        return told

    def _start_superlink(self) -> None:
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self._port)]
        command += ["--disable-runtime-dependency-installation", "--database", self._database]
        keys = self.folder / "keys"
        if self.tls and not (keys / CA).exists():
            write_certificates(keys, ["localhost", "127.0.0.1"])
        if self.tls:
            command += ["--ssl-ca-certfile", str(keys / CA), "--ssl-certfile", str(keys / SERVER)]
            command += ["--ssl-keyfile", str(keys / SERVER_KEY), "--enable-supernode-auth"]
            security = f'root-certificates = "{keys / CA}"'
        else:
            command.append("--insecure")
            security = "insecure = true"
        connection = f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\naddress = "{self.address}"\n'
        (self.home / "config.toml").write_text(f"{connection}{security}\n", encoding="utf-8")
        self.superlink = self._start(command, "superlink")
        self._wait_until_healthy(self.superlink)
        if self.tls:
            self._register_keys(keys)

    def _register_keys(self, keys: Path) -> None:
        """Make every client a key, and tell the SuperLink to let it in."""
        self._tell(f"registering the keys of {self.clients} clients")
        if not self.keys.exists():
            lines = [f"{client} {write_client_key(keys / f'client-{client}')}\n" for client in range(self.clients)]
            self.keys.write_text("".join(lines), encoding="utf-8")
        with ThreadPoolExecutor(4) as several:  # each is a program that takes seconds to start
            list(several.map(self._register, range(self.clients)))

    def _register(self, client: int) -> None:
        command = ["flwr", "supernode", "register", str(self.folder / "keys" / f"client-{client}.pub"), CONNECTION]
        env = processes.environment(self.home, self.mark)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise FedamdError(f"the SuperLink did not take the key of client {client}: {done.stdout}{done.stderr}")

    def _start(
        self, command: list[str], name: str, defaults: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        env = dict(defaults or {}) | processes.environment(self.home, self.mark)
        with processes.signals.held_back():
            process = processes.start(command, env, self.folder / "logs" / f"{name}.log")
            self._all.append(process)
        return process

    def _wait_until_healthy(self, superlink: subprocess.Popen[bytes]) -> None:
        scheme, context = "http", None
        if self.tls:
            scheme, context = "https", ssl.create_default_context(cafile=self.folder / "keys" / CA)
        end = time.monotonic() + _READY
        while superlink.poll() is None and time.monotonic() < end:
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"{scheme}://{self.address}/health", timeout=2, context=context).close()
                return
            time.sleep(0.1)
        raise FedamdError(f"the SuperLink did not start; see {self.folder / 'logs' / 'superlink.log'}")


def refuse_if_running(folder: Path) -> None:
    """A folder serves one federation at a time."""
    if _running(folder):
        raise FedamdError(
            f"a federation is running in {folder}: stop it with `fedamd federation down --folder {folder}`"
        )


def bring_down(folder: Path) -> int:
    """End the federation in this folder, and the command that started it; how many processes that was."""
    there = mark.read(folder)
    if there is None:
        return 0
    count = len(processes.marked(there.word)) + there.is_kept
    if there.is_kept:
        there.dismiss()
    processes.end_all(there.word, [])
    there.remove(folder)
    return count


def _running(folder: Path) -> bool:
    there = mark.read(folder)
    return there is not None and (there.is_kept or bool(processes.marked(there.word)))


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
