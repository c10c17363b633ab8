"""Files are complete or absent, whatever ends the writing."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from attnx.errors import ExitCode, UserError, exit_code_for
from attnx.files.atomic_files import atomic_folder, write_arrays, write_bytes, write_json, write_text
from attnx.reports.figures.heatmaps import save_figure
from attnx.reports.pages.html_template import fill_page, refuse_foreign, write_files
from attnx.reports.sweep.report import PAGE, write_report
from attnx.runs.run import Run

LARGE = os.urandom(30_011)


@pytest.fixture
def small_disk():
    """No file may grow beyond 2,003 bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2003, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("small_disk")
@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_text(path, LARGE.hex()),
        lambda path: write_bytes(path, LARGE),
        lambda path: write_json(path, LARGE.hex()),
        lambda path: write_arrays(path, {"a": np.frombuffer(LARGE, np.uint8)}),
        lambda path: save_figure(Figure(), path.rename(path.with_suffix(".png"))),
    ],
    ids=["text", "bytes", "json", "arrays", "figure"],
)
def test_a_full_disk_leaves_the_old_file(write, tmp_path):
    (tmp_path / "file.npz").write_text("old", encoding="utf-8")
    with pytest.raises(OSError, match="File too large"):
        write(tmp_path / "file.npz")
    (file,) = tmp_path.iterdir()
    assert file.read_text(encoding="utf-8") == "old"


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_that_a_command_reports_has_the_exit_code_of_a_failure(tmp_path):
    with pytest.raises(UserError, match="File too large") as caught:
        write_files({tmp_path / "page.html": LARGE.hex()})
    assert exit_code_for(caught.value) == ExitCode.FAILED
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_no_utf_8_is_written_readably(tmp_path):
    write_text(tmp_path / "page.html", f"<title>{os.fsdecode(b'r_' + bytes([255]))}</title>")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "<title>r_\\udcff</title>"
    (tmp_path / "a.json").write_text("[7]", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_json(tmp_path / "a.json", "\ud800")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "page.html"]
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == "[7]"


def test_a_missing_folder_is_named_with_the_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "none" / "a.txt", "a")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "none" / "a.txt"))


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_a_report_replaces_reports_only(name, tmp_path):
    """Not a file of the user, beside which nothing is written; a report of its own, again."""
    folder = tmp_path / "run"
    folder.mkdir()
    write_json(folder / "run.json", {"format": 1, "status": "finished", "monitor": "valid_per"})
    write_json(folder / "results.json", {"test_per": 7.0})
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match=rf"{name}: is there already"):
        write_report([folder], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["run", name])
    (tmp_path / name).unlink()
    files = write_report([folder], tmp_path)
    assert write_report([folder], tmp_path) == files


def test_a_page_replaces_pages_only(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<!doctype html>\n<title>mine</title>", encoding="utf-8")
    with pytest.raises(UserError, match=r"page\.html: is there already, and was not written by attnx; move it away"):
        refuse_foreign(page)
    page.write_text("", encoding="utf-8")
    refuse_foreign(page)
    write_files({page: fill_page(PAGE, "one", {})})
    refuse_foreign(page)


def test_a_pipe_is_written_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "through")
    assert os.read(reader, 97) == b"through"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_run_with_an_empty_readme_is_not_finished(tmp_path):
    write_json(tmp_path / "run.json", {"format": 1, "status": "finished"})
    (tmp_path / "README.md").touch()
    assert not Run(tmp_path).is_finished
    write_text(tmp_path / "README.md", "# run")
    assert Run(tmp_path).is_finished


def test_a_folder_is_renamed_when_complete(tmp_path):
    """The folders above it are made as well."""
    folder = tmp_path / "new" / "folder"
    with atomic_folder(folder) as unfinished:
        (unfinished / "file").write_text("some")
        assert not folder.exists()
        assert unfinished.parent == folder.parent
    assert sorted(tmp_path.rglob("*")) == [folder.parent, folder, folder / "file"]


@pytest.mark.parametrize("what", [KeyboardInterrupt, UserError, OSError])
def test_an_unfinished_folder_is_removed(what, tmp_path):
    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "folder", tmp_path / "new" / "er" / "folder", tmp_path / "there" / "folder"):

        def fill(folder: Path = folder) -> Iterator[None]:
            with atomic_folder(folder) as unfinished:
                (unfinished / "file").write_text("some")
                yield
                raise what("full")

        with pytest.raises(UserError if what is OSError else what, match="full"):
            list(fill())
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_an_existing_folder_is_unchanged(tmp_path):
    """Also a file in its place."""
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match="exists already"), atomic_folder(place):
            pass
    assert (tmp_path / "file").read_text() == "mine"


def test_the_first_of_two_writers_wins(tmp_path):
    with atomic_folder(tmp_path / "folder") as slow:
        (slow / "file").write_text("slow")
        with atomic_folder(tmp_path / "folder") as fast:
            (fast / "file").write_text("fast")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert (tmp_path / "folder" / "file").read_text() == "fast"
