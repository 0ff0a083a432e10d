"""`fedamd federation`: real clients over a network, on Flower."""

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedamd.cli.keys import federation_setting
from fedamd.errors import FedamdError

group = typer.Typer(no_args_is_help=True, help="Real clients over a network, on Flower.")
console = Console(highlight=False, soft_wrap=True)
FOLDER = Path(".federation")

Folder = Annotated[Path, typer.Option(help="Where a federation on this machine keeps its files.")]
Tls = Annotated[bool, typer.Option("--tls", help="Encrypt, and let only registered keys in.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(group, name="federation")


@group.command()
def up(
    clients: Annotated[int, typer.Option(min=1, help="How many clients.")] = 4,
    tls: Tls = False,
    folder: Folder = FOLDER,
) -> None:
    """Start a federation on this machine; it runs until you stop it with Ctrl-C."""
    _need_flower()
    from fedamd.flower.local.loopback import Loopback

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    with Loopback(folder, clients, tls, tell=console.print) as federation:
        console.print(f"{clients} clients and their server on {federation.address}{' with TLS' if tls else ''}")
        console.print(f"run    fedamd federation run CONFIG --folder {folder}")
        console.print(f"watch  tail -f {folder}/logs/*.log    or: FLWR_HOME={federation.home} flwr list")
        console.print(f"stop   Ctrl-C here, or: fedamd federation down --folder {folder}")
        while not stop.wait(3.0):
            for told in federation.revive():
                console.print(told)
    console.print("stopped")


@group.command()
def down(folder: Folder = FOLDER) -> None:
    """Stop the federation that was started in a folder, and whatever it has left."""
    _need_flower()
    from fedamd.flower.local.loopback import bring_down

    console.print(f"{bring_down(folder)} processes ended")


@group.command()
def status(
    folder: Folder = FOLDER,
    superlink: Annotated[str | None, typer.Option(help="A connection of your own Flower configuration.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of a run, for its rounds, faults and bytes.")] = None,
) -> None:
    """Which clients are connected, which runs there are, and how the one in a folder goes."""
    _need_flower()
    from fedamd.flower.local import launch
    from fedamd.flower.local.status import lines

    for line in lines(launch.SuperLink(superlink) if superlink else launch.up_in(folder), out):
        console.print(line)


@group.command()
def client(
    superlink: Annotated[str, typer.Option(help="Where the SuperLink is, as in fl.example.org:8000.")],
    insecure: Annotated[bool, typer.Option("--insecure", help="Without encryption.")] = False,
    root_certificates: Annotated[Path | None, typer.Option(help="The certificate that vouches for the server.")] = None,
    auth_supernode_private_key: Annotated[Path | None, typer.Option(help="This client's own key.")] = None,
    node_config: Annotated[str, typer.Option(help="As in 'partition-id=3 state-dir=\"/var/lib/fedamd\"'.")] = "",
    max_retries: Annotated[int | None, typer.Option(min=0, help="Attempts to connect (default: no end).")] = None,
    max_wait_time: Annotated[float | None, typer.Option(min=0, help="Seconds to try (default: no end).")] = None,
    trusted_entities: Annotated[Path | None, typer.Option(help="YAML file of those whose apps may run here.")] = None,
    metrics_port: Annotated[int | None, typer.Option(min=1, max=65535, help="A Prometheus page on 127.0.0.1.")] = None,
) -> None:
    """Be a client of a federation until stopped. Takes the options of `flower-supernode`, and answers faster."""
    _need_flower()
    from fedamd.flower import version

    version.require()
    from fedamd.flower.node.link import Options
    from fedamd.flower.node.node import run

    run(
        Options(
            superlink,
            insecure,
            root_certificates,
            auth_supernode_private_key,
            node_config,
            max_retries,
            max_wait_time,
            trusted_entities,
            metrics_port,
        )
    )


@group.command()
def certificates(
    host: Annotated[list[str], typer.Option(help="A name or address of the server; may be repeated.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("certificates"),
) -> None:
    """Make a certificate authority and a certificate for the server of a deployment."""
    _need_flower()
    from fedamd.flower.local.certificates import write_certificates

    write_certificates(out, host)
    console.print(f"{out}/ca.crt is for everyone; {out}/server.pem and server.key for the SuperLink; keep ca.key safe")


@group.command()
def run(
    config: Annotated[Path, typer.Argument(help="A TOML file, or the folder of a Flower app.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key, as in federation.deadline=60.",
            autocompletion=federation_setting,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder on the server; a run in it is continued.")] = None,
    folder: Folder = FOLDER,
    superlink: Annotated[str | None, typer.Option(help="A connection of your own Flower configuration.")] = None,
    local: Annotated[bool, typer.Option("--local", help="Start a federation on this machine for this run.")] = False,
    tls: Tls = False,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Clients as function calls: try a task out.")
    ] = False,
) -> None:
    """Train over a federation: one that is up, one of your own, or one for this run alone."""
    _need_flower()
    from fedamd.flower.local import launch
    from fedamd.flower.local.inprocess import run_in_process
    from fedamd.runs.config import parse_setting

    flat: dict[str, Any] = dict(launch.read_app(config)) | dict(map(parse_setting, settings or []))
    if out is not None:
        flat["federation.folder"] = str(out.absolute())
    if done := launch.finished_before(flat):
        console.print(done)
    elif in_process:
        run_in_process(config, flat)
    elif local:
        _report(launch.run_locally(config, flat, tls, console.print))
    elif superlink:
        _report(launch.run_on(launch.SuperLink(superlink), config, flat, console.print))
    else:
        settled = launch.settings_for(folder, flat)
        _report(launch.run_on(launch.up_in(folder), config, settled, console.print))


def _report(status: str) -> None:
    """How the run ended, in words and in the exit code."""
    console.print(status.replace("finished:", ""))
    raise typer.Exit(0 if status == "finished:completed" else 1)


def _need_flower() -> None:
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise FedamdError('this needs Flower: pip install "fedamd[flower]"') from None
