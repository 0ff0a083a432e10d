"""A whole federation on this machine: a SuperLink and one SuperNode for every client, on 127.0.0.1."""

import contextlib
import secrets
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from fedamd.errors import FedamdError
from fedamd.flower.local import processes
from fedamd.flower.local.certificates import CA, SERVER, SERVER_KEY, write_certificates, write_client_key

CONNECTION = "local"  # the name under which `flwr` finds the SuperLink
_READY = 60.0  # seconds a SuperLink gets to start


class Loopback:
    """`with Loopback(folder, clients=4, tls=True) as federation:` nothing of it is left when the block ends."""

    def __init__(
        self, folder: Path, clients: int, tls: bool = False, *, stock: bool = False, in_memory: bool = True
    ) -> None:
        """`stock`: Flower's own SuperNodes instead of clients that stay. `in_memory`: what the SuperLink knows of runs
        and messages ends with it, which makes every request faster; runs live in their folders all the same."""
        self.folder = folder.absolute()
        self.clients = clients
        self.tls = tls
        self.stock = stock
        self._database = ":flwr-in-memory:" if in_memory else str(self.folder / "superlink.db")
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._all: list[subprocess.Popen[bytes]] = []
        self.mark = secrets.token_hex(8)  # in the environment of all its processes
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
        (self.folder / "mark").write_text(self.mark, encoding="utf-8")
        try:
            self._start_superlink()
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
        config = (
            f'partition-id={client} num-partitions={self.clients} state-dir="{self.folder / "state"}" watchdog=true'
        )
        security = ["--insecure"]
        if self.tls:
            key = self.folder / "keys" / f"client-{client}"
            security = ["--root-certificates", str(self.folder / "keys" / CA), "--auth-supernode-private-key", str(key)]
        command = [sys.executable, "-m", "fedamd", "federation", "client"]
        if self.stock:
            command = ["flower-supernode", "--host", "127.0.0.1", "--port", str(self._node_ports[client])]
        command += [*security, "--superlink", self.address, "--node-config", config]
        self.nodes[client] = self._start(command, f"client-{client}")

    def stop(self) -> None:
        """End every process of this federation."""
        processes.end_all(self.mark, self._all)
        (self.folder / "mark").unlink(missing_ok=True)

    def dead(self) -> list[int]:
        """The clients whose SuperNode has ended."""
        return [client for client, process in self.nodes.items() if process.poll() is not None]

    def _start_superlink(self) -> None:
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self._port)]
        command += ["--disable-runtime-dependency-installation", "--database", self._database]
        keys = self.folder / "keys"
        if self.tls:
            write_certificates(keys, ["localhost", "127.0.0.1"])
            command += ["--ssl-ca-certfile", str(keys / CA), "--ssl-certfile", str(keys / SERVER)]
            command += ["--ssl-keyfile", str(keys / SERVER_KEY), "--enable-supernode-auth"]
            security = f'root-certificates = "{keys / CA}"'
        else:
            command.append("--insecure")
            security = "insecure = true"
        connection = f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\naddress = "{self.address}"\n'
        (self.home / "config.toml").write_text(f"{connection}{security}\n", encoding="utf-8")
        superlink = self._start(command, "superlink")
        self._wait_until_healthy(superlink)
        if self.tls:
            self._register_keys(keys)

    def _register_keys(self, keys: Path) -> None:
        """Make every client a key, and tell the SuperLink to let it in."""
        lines = []
        for client in range(self.clients):
            public = write_client_key(keys / f"client-{client}")
            lines.append(f"{client} {public}\n")
            command = ["flwr", "supernode", "register", str(keys / f"client-{client}.pub"), CONNECTION]
            env = processes.environment(self.home, self.mark)
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                raise FedamdError(f"the SuperLink did not take the key of client {client}: {done.stdout}{done.stderr}")
        self.keys.write_text("".join(lines), encoding="utf-8")

    def _start(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        env = processes.environment(self.home, self.mark)
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
    """End what a federation that was killed, or runs elsewhere, has in this folder; how many processes that was."""
    running = _running(folder)
    if running:
        processes.end_all((folder / "mark").read_text(encoding="utf-8"), [])
        (folder / "mark").unlink(missing_ok=True)
    return len(running)


def _running(folder: Path) -> list[int]:
    mark = folder / "mark"
    return processes.marked(mark.read_text(encoding="utf-8")) if mark.exists() else []


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
