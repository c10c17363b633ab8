"""``attnx data`` with real servers: verified and complete downloads, and one line per mistake."""

import gzip
import hashlib
import io
import re
import subprocess
import sys
import zipfile
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from attnx import registry
from attnx.config.compose import compose
from attnx.config.groups import conf_folder
from attnx.data.downloads import BYTES_PER_READ, DatasetFile, download
from attnx.data.paths import expand_path, resolve_data_path
from attnx.errors import UserError
from tests.refusal import refused
from tests.runs.conftest import file_contents

CONTENT = bytes(number * 37 % 251 for number in range(200_003))
TWO = b"two\n" * 7
TEXT = b"Hallo Welt\n" * 13


class Site(ThreadingHTTPServer):
    """A server of a few files. It may not say how much comes, and cut each answer after some bytes."""

    files: dict[str, bytes]
    moved: dict[str, str]
    chunked = False
    cut: int | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.files, self.moved = {"/one.bin": CONTENT, "/two.txt": TWO}, {}
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        if self.path in self.server.moved:
            self.send_response(302)
            self.send_header("Location", self.server.moved[self.path])
            self.end_headers()
            return
        if self.path not in self.server.files:
            self.send_error(404)
            return
        body = self.server.files[self.path]
        self.send_response(200)
        sent = body[: self.server.cut]
        if self.server.chunked:  # and none that ends the answer, where it is cut
            self.send_header("Transfer-Encoding", "chunked")
            sent = b"%x\r\n%b\r\n" % (len(sent), sent) + (b"" if self.server.cut else b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(sent)

    def log_message(self, *args: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def site():
    with Site() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def entry(path: str, url: str, content: bytes) -> dict[str, Any]:
    return {"path": path, "url": url, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def write_recipe(files: list[dict[str, Any]], name: str = "small") -> None:
    Path("recipes").mkdir(exist_ok=True)
    recipe = {"what": "Nothing much", "license": "CC0", "origin": "https://example.org", "files": files}
    Path("recipes", f"{name}.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")


@pytest.fixture
def recipe(site, work_folder):
    """The recipe ``small``: two files of the site."""
    files = (("small/one.bin", "one.bin", CONTENT), ("small/deep/two.txt", "two.txt", TWO))
    write_recipe([entry(path, f"{site.url}/{name}", content) for path, name, content in files])


@pytest.fixture
def data_command(command, recipe, work_folder, monkeypatch):
    """Give ``attnx data`` some words; the recipes are those of the test."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("ATTNX_DATA", raising=False)
    monkeypatch.setattr("attnx.cli.commands.data.SPEC_FOLDER", work_folder / "recipes")
    return lambda *words: command("data", *words)


BOTH = {"small/one.bin": CONTENT, "small/deep/two.txt": TWO}


def assert_refused(answer: Any, *args: str) -> None:
    assert answer.code == 2
    assert answer.err.startswith("attnx: ")
    assert answer.err.count("\n") == 1
    for words in args:
        assert words in answer.err


def test_get_fetches_what_is_missing(data_command, site):
    answer = data_command("get", "small")
    assert (answer.code, answer.err) == (0, "")
    assert "2 files are right, 2 of them new" in answer.out
    assert "CC0" in answer.out
    assert file_contents("data") == BOTH
    assert site.requests == ["/one.bin", "/two.txt"]
    assert "2 files are right, 0 of them new" in data_command("get", "small").out
    assert len(site.requests) == 2


@pytest.mark.parametrize(
    ("words", "variable", "folder"),
    [([], None, "data"), ([], "there", "there"), (["--to", "else"], "there", "else"), (["--to=else"], None, "else")],
)
def test_the_data_folder_is_resolved(words, variable, folder, data_command, monkeypatch):
    if variable:
        monkeypatch.setenv("ATTNX_DATA", variable)
    answer = data_command("get", "small", *words)
    assert file_contents(folder) == BOTH
    assert f"in {folder}/small" in answer.out
    assert (f"export ATTNX_DATA={Path(folder).resolve()}" in answer.out) == (variable != folder)
    assert ("started in this folder find it" in answer.out) == (folder == "data")


def test_a_local_set_is_completed_despite_the_variable(data_command, site, monkeypatch):
    """A file that exists is not downloaded."""
    monkeypatch.setenv("ATTNX_DATA", "there")
    place = Path("data/small/one.bin")
    place.parent.mkdir(parents=True)
    place.write_bytes(CONTENT)
    original = place.stat()
    assert "1 of 2" in data_command("list").out
    assert "Here: there, then data\n" in data_command("list").out
    assert data_command("get", "small").code == 0
    assert site.requests == ["/two.txt"]
    assert file_contents("data") == BOTH
    assert (place.stat().st_mtime_ns, place.stat().st_ino) == (original.st_mtime_ns, original.st_ino)
    assert not Path("there").exists()
    assert data_command("check", "small").code == 0
    assert data_command("check", "small", "--to", "there").code == 2


@pytest.fixture
def reading(work_folder, monkeypatch):
    """No data anywhere; the current folder."""
    monkeypatch.delenv("ATTNX_DATA", raising=False)
    return work_folder


def test_data_are_read_from_the_variable_then_the_local_folder(reading, monkeypatch):
    for folder in ("data/etth1", "data/low", "there/etth1"):
        Path(folder).mkdir(parents=True)
    for file in ("data/etth1/ETTh1.csv", "data/low/ady_train.tsv"):
        Path(file).touch()
    assert resolve_data_path("task.file", "$ATTNX_DATA/etth1/ETTh1.csv") == Path("data/etth1/ETTh1.csv")
    assert resolve_data_path("task.file", "${ATTNX_DATA}/etth1/ETTh1.csv") == Path("data/etth1/ETTh1.csv")
    assert resolve_data_path("task.train", "$ATTNX_DATA/low/*_train.tsv") == Path("data/low/*_train.tsv")
    monkeypatch.setenv("ATTNX_DATA", "there")
    assert resolve_data_path("task.file", "$ATTNX_DATA/etth1/ETTh1.csv") == Path("data/etth1/ETTh1.csv")
    Path("there/etth1/ETTh1.csv").touch()
    assert resolve_data_path("task.file", "$ATTNX_DATA/etth1/ETTh1.csv") == Path("there/etth1/ETTh1.csv")
    assert expand_path("task.train", "$ATTNX_DATA/none.tsv") == Path("there/none.tsv")


@pytest.mark.parametrize(
    ("path", "variable", "message"),
    [
        ("etth1/ETTh1.csv", None, "not in data ($ATTNX_DATA is not set); fetch it with: attnx data get etth1"),
        ("etth1/ETTh1.csv", "there", "not in there nor in data; fetch it with: attnx data get etth1"),
        ("sigmorphon2020/train", "data", "not in data; fetch it with: attnx data get sigmorphon2020"),
        ("etth1/ETTh2.csv", "there", "not in there nor in data"),  # of no set
        ("mine/words.tsv", None, "not in data ($ATTNX_DATA is not set)"),
    ],
)
def test_missing_data_are_reported_with_the_download_command(path, variable, message, reading, monkeypatch):
    if variable:
        monkeypatch.setenv("ATTNX_DATA", variable)
    with refused(f"task.train=$ATTNX_DATA/{path}: {message}"):
        resolve_data_path("task.train", f"$ATTNX_DATA/{path}")


NEEDING = {"babi_qa1": "babi"} | {  # this one by its task's own default
    file.stem: matches[0]
    for file in sorted((conf_folder() / "experiment").glob("*.yaml"))
    if (matches := re.findall(r"^[^#]*\$ATTNX_DATA/(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
}


@pytest.mark.parametrize("experiment", NEEDING)
def test_an_experiment_names_its_data_set(experiment, reading):
    """In the first lines of its file, and in the line that refuses it without its data."""
    command_line = f"attnx data get {NEEDING[experiment]}"
    head = (conf_folder() / "experiment" / f"{experiment}.yaml").read_text(encoding="utf-8").partition("\n\n")[0]
    assert f"# Data: {command_line}\n" in head
    with pytest.raises(UserError, match=rf"\$ATTNX_DATA is not set\); fetch it with: {command_line}$"):
        registry.build("task", compose([f"experiment={experiment}"])["task"]).load()


def test_some_experiments_need_data():
    assert {"etth1", "cmudict_g014b2b", "tatoeba", "sigmorphon2020", "multi30k"} <= set(NEEDING.values())


def test_a_file_of_the_same_name_is_not_overwritten(data_command, site):
    Path("data/small/deep").mkdir(parents=True)
    Path("data/small/deep/two.txt").write_bytes(b"mine")
    assert_refused(
        data_command("get", "small"), "data/small/deep/two.txt exists", "expected 28 bytes, got 4", "move it away"
    )
    assert file_contents("data") == {"small/deep/two.txt": b"mine"}
    assert site.requests == []


def test_a_wrong_download_leaves_no_file(data_command, site):
    site.files["/one.bin"] = CONTENT[:-1] + b"\0"
    assert CONTENT[-1] != 0
    expected, got = (hashlib.sha256(content).hexdigest() for content in (CONTENT, site.files["/one.bin"]))
    assert_refused(data_command("get", "small"), "/one.bin", f"expected SHA-256 {expected}", f"got {got}")
    assert file_contents("data") == {}


@pytest.mark.parametrize("chunked", [False, True])
def test_a_broken_download_leaves_no_file(chunked, data_command, site):
    site.cut, site.chunked = 70_001, chunked
    assert data_command("get", "small").code == 2
    assert file_contents("data") == {}
    site.cut = None
    assert data_command("get", "small").code == 0
    assert file_contents("data") == BOTH


def test_an_endless_download_is_stopped(site, work_folder, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    site.chunked, site.files["/one.bin"] = True, CONTENT * 23
    progress: list[int] = []
    with pytest.raises(UserError, match="expected 200003 bytes, got more"):
        download(DatasetFile(**entry("small/one.bin", f"{site.url}/one.bin", CONTENT)), work_folder, progress.append)
    assert len(CONTENT) < max(progress) <= len(CONTENT) + BYTES_PER_READ
    assert file_contents() == {}


def test_offline_the_manual_steps_are_printed(data_command, site):
    Path("data/small").mkdir(parents=True)
    Path("data/small/one.bin").write_bytes(CONTENT)
    host = site.url.removeprefix("http://")
    site.shutdown()
    site.server_close()
    answer = data_command("get", "small")
    assert_refused(answer, f"cannot reach {host}", "other means")
    assert answer.out == f"download {site.url}/two.txt to data/small/deep/two.txt\n"
    assert file_contents("data") == {"small/one.bin": CONTENT}
    assert not Path("data/small/deep").exists()


def test_a_refused_download_is_reported_with_its_code(data_command, site):
    del site.files["/one.bin"]
    answer = data_command("get", "small")
    assert_refused(answer, f"{site.url}/one.bin: the server answers 404")
    assert answer.out.splitlines() == [
        f"download {site.url}/one.bin to data/small/one.bin",
        f"download {site.url}/two.txt to data/small/deep/two.txt",
    ]
    assert not Path("data").exists()


def test_secure_redirects_are_followed(data_command, site):
    site.moved = {"/one.bin": f"{site.url}/one.new"}
    site.files["/one.new"] = CONTENT
    site.moved["/two.txt"] = "http://attnx.invalid/two.txt"
    answer = data_command("get", "small")
    assert_refused(answer, "redirects to http://attnx.invalid/two.txt, which is not https")
    assert answer.out == f"download {site.url}/two.txt to data/small/deep/two.txt\n"
    assert file_contents("data") == {"small/one.bin": CONTENT}


@pytest.fixture
def zip_archive(site, work_folder):
    """The recipe ``small`` is one member of a zip archive; returns the archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("deep/text.txt", TEXT)
        archive.writestr("_about.txt", "terms")
    site.files["/pack.zip"] = buffer.getvalue()
    file = entry("small/text.txt.gz", f"{site.url}/pack.zip", buffer.getvalue())
    write_recipe([{**file, "member": "deep/text.txt", "unpacked": hashlib.sha256(TEXT).hexdigest()}])
    return buffer.getvalue()


def test_a_member_of_an_archive_is_extracted(data_command, zip_archive, site):
    assert data_command("get", "small").code == 0
    assert list(file_contents("data")) == ["small/text.txt.gz"]
    assert gzip.decompress(file_contents("data")["small/text.txt.gz"]) == TEXT
    Path("data/small/text.txt.gz").write_bytes(gzip.compress(TEXT, 1))
    assert "right" in data_command("check", "small").out  # however it is packed
    assert data_command("get", "small").code == 0
    assert len(site.requests) == 1


def test_offline_the_steps_for_an_archive_are_printed(data_command, zip_archive, site):
    site.shutdown()
    site.server_close()
    message = f"download {site.url}/pack.zip, gzip its deep/text.txt to data/small/text.txt.gz\n"
    assert data_command("get", "small").out == message


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"unpacked": "a" * 64}, "expected SHA-256 aaa"), ({"member": "other.txt"}, "not a zip archive with other.txt")],
)
def test_an_unexpected_archive_is_reported(changed, message, data_command, zip_archive):
    recipe = yaml.safe_load(Path("recipes/small.yaml").read_text(encoding="utf-8"))
    write_recipe([{**recipe["files"][0], **changed}])
    assert_refused(data_command("get", "small"), message)
    assert file_contents("data") == {}


def test_an_unwritable_folder_is_reported(data_command):
    Path("data").write_text("mine", encoding="utf-8")
    assert_refused(data_command("get", "small"), "data", "Not a directory")
    assert Path("data").read_text(encoding="utf-8") == "mine"


def test_progress_is_shown_to_a_terminal(data_command, monkeypatch):
    for name, value in {"COLUMNS": "120", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    answer = data_command("get", "small")
    assert "small/deep/two.txt" in answer.err
    assert "200.0/200.0 kB" in answer.err


def test_list_and_check_report_the_status(data_command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    row = ["small", "Nothing", "much", "200.0", "kB", "CC0"]
    assert [*row, "no"] in [line.split() for line in data_command("list").out.splitlines()]
    assert not Path("data").exists()
    Path("data/small").mkdir(parents=True)
    Path("data/small/one.bin").write_bytes(CONTENT)
    assert [*row, "1", "of", "2"] in [line.split() for line in data_command("list").out.splitlines()]
    answer = data_command("check", "small")
    assert_refused(answer, "1 of 2 files are missing or wrong", "attnx data get small\n")
    in_folder = data_command("check", "small", "--to", "else where")
    assert_refused(in_folder, "2 of 2 files are missing or wrong", "attnx data get small --to 'else where'")
    assert_refused(data_command("get", "small", "--to", "data/small/one.bin"), "data/small/one.bin: is not a folder")
    assert answer.out == "data/small/one.bin: right\ndata/small/deep/two.txt: missing\n"
    data_command("get", "small")
    assert [*row, "yes"] in [line.split() for line in data_command("list").out.splitlines()]
    assert data_command("check", "small").code == 0
    shown = data_command("list", "small").out
    for content in (CONTENT, TWO):
        assert f"sha256  {hashlib.sha256(content).hexdigest()}" in shown
        assert f"bytes   {len(content)}\n" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("get smal", "unknown data set 'smal'; did you mean small?"),
        ("get small other", "unknown data set 'other'; choose from small"),
        ("list babi", "unknown data set 'babi'"),
        ("get", "attnx data get NAME; choose from small"),
        ("check", "attnx data check NAME; choose from small"),
        ("", "attnx data: use attnx data list NAME or attnx data get NAME"),
        ("fetch small", "attnx data fetch: use attnx data list NAME or attnx data get NAME"),
        ("get small --to", "--to needs a value"),
        ("get small --to=", "--to needs a value"),
        ("get small --too=x", "unknown flag --too; did you mean --to?"),
    ],
)
def test_mistaken_arguments_are_reported(words, message, data_command, site, work_folder):
    assert_refused(data_command(*words.split()), message)
    assert site.requests == []
    assert [path.name for path in work_folder.iterdir()] == ["recipes"]


def test_the_shipped_recipes_are_listed_without_torch(work_folder):
    code = "import sys; from attnx.cli.main import run; run(['data', 'list']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("babi", "cmudict_g014b2b", "etth1", "multi30k", "sigmorphon2020", "tatoeba"):
        assert name in done.stdout
