"""Downloads from a server on this machine: good, wrong, truncated, absent."""

import hashlib
import io
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedamd.data import fetch
from fedamd.data.cifar import CIFAR_SETS
from fedamd.data.fetch import REMOTES, Remote
from fedamd.data.locate import IDX_SETS
from fedamd.errors import FedamdError

FIRST, SECOND = b"the images" * 1000, b"the labels"


class Server(ThreadingHTTPServer):
    """Serves `pages`; a page listed in `cut` breaks off half-way. `asked` lists every request."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        name = self.path.removeprefix("/")
        self.server.asked.append(name)
        content = self.server.pages.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if name in self.server.cut else content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def offer(monkeypatch, *mirrors, members=(), **files):
    contents = {name.replace("_", "."): content for name, content in files.items()}
    hashes = {name: sha256(content) for name, content in contents.items()}
    monkeypatch.setitem(REMOTES, "mnist", Remote(mirrors, hashes, members))
    return contents


@pytest.fixture
def offered(server, monkeypatch):
    """Two files on the server, the second mirror of two; the first mirror has nothing."""
    server.pages = offer(monkeypatch, server.url + "empty/", server.url, first_gz=FIRST, second_gz=SECOND)
    return server


def contents_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_arrive_from_the_first_mirror_that_has_them(offered, tmp_path):
    assert fetch("mnist", tmp_path / "new/folder") == tmp_path / "new/folder"
    assert contents_of(tmp_path / "new/folder") == {"first.gz": FIRST, "second.gz": SECOND}
    assert offered.asked == ["empty/first.gz", "first.gz", "empty/second.gz", "second.gz"]


@pytest.mark.usefixtures("offered")
def test_the_default_folder_is_the_cache(bare):
    assert fetch("mnist") == bare.parent / "cache/fedamd/mnist"
    assert (bare.parent / "cache/fedamd/mnist/first.gz").read_bytes() == FIRST


def test_a_good_file_is_not_fetched_again_and_a_bad_one_is(offered, tmp_path):
    fetch("mnist", tmp_path)
    offered.asked.clear()
    (tmp_path / "second.gz").write_bytes(b"damaged")
    fetch("mnist", tmp_path)
    assert offered.asked == ["empty/second.gz", "second.gz"]
    assert (tmp_path / "second.gz").read_bytes() == SECOND


def test_a_wrong_hash_is_refused(offered, tmp_path):
    offered.pages["second.gz"] = b"something else"
    with pytest.raises(FedamdError) as caught:
        fetch("mnist", tmp_path)
    message = str(caught.value)
    assert "empty/second.gz: HTTP Error 404" in message
    assert f"14 bytes with SHA-256 {sha256(b'something else')}, not {sha256(SECOND)}" in message
    assert f"put first.gz, second.gz into {tmp_path}" in message
    assert contents_of(tmp_path) == {"first.gz": FIRST}


def test_a_truncated_file_is_refused_and_leaves_nothing(offered, tmp_path):
    offered.cut.add("first.gz")
    with pytest.raises(FedamdError, match=r"first\.gz: 5000 bytes with SHA-256"):
        fetch("mnist", tmp_path)
    assert contents_of(tmp_path) == {}


def test_a_server_that_is_down(offered, tmp_path):
    offered.shutdown()
    offered.server_close()
    with pytest.raises(
        FedamdError, match=r"first.gz could not be downloaded(.|\n)*refused(.|\n)*By hand: get the file"
    ):
        fetch("mnist", tmp_path)
    assert contents_of(tmp_path) == {}


def archive(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("../escape.gz", b"never taken out")
        for name, content in members.items():
            made.writestr(f"gzip/{name}.gz", content)
    return buffer.getvalue()


def test_only_the_wanted_members_of_an_archive_are_taken_out(server, monkeypatch, tmp_path):
    content = archive(images=FIRST, labels=SECOND, letters=b"other")
    wanted = ("gzip/images.gz", "gzip/labels.gz")
    server.pages = offer(monkeypatch, server.url, members=wanted, all_zip=content)
    target = tmp_path / "data"
    fetch("mnist", target)
    assert contents_of(target) == {"images.gz": FIRST, "labels.gz": SECOND}
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    fetch("mnist", target)
    assert server.asked == ["all.zip"]


def test_members_of_a_tar_archive(server, monkeypatch, tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as made:
        for name, content in (("../escape", b"never taken out"), ("in/train.bin", FIRST), ("in/test.bin", SECOND)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    wanted = ("in/train.bin", "in/test.bin")
    server.pages = offer(monkeypatch, server.url, members=wanted, all_tar=buffer.getvalue())
    fetch("mnist", tmp_path / "data")
    assert contents_of(tmp_path / "data") == {"train.bin": FIRST, "test.bin": SECOND}
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("name", sorted(CIFAR_SETS.keys() & REMOTES.keys()))
def test_every_cifar_set_has_a_download_of_the_files_that_are_looked_for(name):
    layout = CIFAR_SETS[name].layouts[0]
    assert set(REMOTES[name].wanted) == {*layout.train, *layout.test}


def test_a_wrong_archive_is_never_opened(server, monkeypatch, tmp_path):
    server.pages = offer(monkeypatch, server.url, members=("gzip/images.gz",), all_zip=archive(images=FIRST))
    server.pages["all.zip"] = archive(images=b"forged")
    with pytest.raises(FedamdError, match=r"put images\.gz into"):
        fetch("mnist", tmp_path)
    assert contents_of(tmp_path) == {}


@pytest.mark.usefixtures("offered")
def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FedamdError, match=r"mnist cannot be written to .*file/sub"):
        fetch("mnist", tmp_path / "file/sub")


def test_a_data_set_without_a_download():
    with pytest.raises(FedamdError, match="there are fashion-mnist, mnist, emnist-digits, cifar-10, cifar-100"):
        fetch("digits")


@pytest.mark.parametrize("name", ["fashion-mnist", "mnist", "emnist-digits"])
def test_every_image_set_has_a_download_of_the_files_that_are_looked_for(name):
    found = {file.removesuffix("-idx3-ubyte.gz").removesuffix("-idx1-ubyte.gz") for file in REMOTES[name].wanted}
    assert found == set(IDX_SETS[name].stems())
    assert all(len(digest) == 64 for digest in REMOTES[name].sha256.values())
