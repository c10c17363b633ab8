"""Shipped data recipes are well formed and match their files; malformed ones are refused."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from attnx.data.downloads.dataset_spec import (
    SPEC_FOLDER,
    DatasetFile,
    DatasetSpec,
    read_dataset_spec,
    read_dataset_specs,
)
from attnx.errors import UserError

SHIPPED = read_dataset_specs()
FILES = [(recipe, file) for recipe in SHIPPED.values() for file in recipe.files]
A, B = "a" * 64, "b" * 64
GOOD = f"""
what: Nothing much
license: CC0
origin: https://example.org
files:
  - path: small/one.txt
    url: https://example.org/one.txt
    bytes: 7
    sha256: {A}
"""


def test_every_file_is_a_recipe() -> None:
    names = {"babi", "cmudict_g014b2b", "etth1", "exchange_rate", "multi30k", "sigmorphon2020", "sms_spam", "tatoeba"}
    assert set(SHIPPED) == names
    assert {path.stem for path in SPEC_FOLDER.iterdir() if path.suffix == ".yaml"} == set(SHIPPED)


@pytest.mark.parametrize(("recipe", "file"), FILES, ids=lambda item: getattr(item, "path", ""))
def test_a_published_address_is_immutable(recipe: DatasetSpec, file: DatasetFile) -> None:
    """It names a commit in full, so the SHA-256 stays true."""
    server, owner, repository, commit, path = file.url.removeprefix("https://").split("/", 4)
    assert server == "raw.githubusercontent.com"
    assert owner
    assert repository
    assert len(commit) == 40
    assert set(commit) <= set("0123456789abcdef")
    assert path
    assert file.path.startswith(f"{recipe.name}/")


@pytest.mark.parametrize(
    "file", [pytest.param(file, marks=pytest.mark.needs_data(file.path), id=file.path) for _, file in FILES]
)
def test_a_recipe_matches_local_files(file: DatasetFile) -> None:
    assert file.file_error(Path(os.environ["ATTNX_DATA"], file.path)) == ""


def test_a_recipe_reads_back_its_file(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(GOOD, encoding="utf-8")
    file = DatasetFile("small/one.txt", "https://example.org/one.txt", 7, A)
    assert read_dataset_spec(path) == DatasetSpec("small", "Nothing much", "CC0", "https://example.org", "", (file,))


def test_the_documented_recipe_is_well_formed(tmp_path: Path) -> None:
    """That of docs/data.md, as it stands there."""
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    path = tmp_path / "myset.yaml"
    path.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    assert [file.bytes for file in read_dataset_spec(path).files] == [12345]


def test_a_file_is_checked_by_size_and_hash(tmp_path: Path) -> None:
    """The SHA-256 of "abc" is the first example of FIPS 180-2."""
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    place = tmp_path / "abc.txt"
    place.write_bytes(b"abc")
    assert DatasetFile("x/abc.txt", "", 3, abc).file_error(place) == ""
    assert DatasetFile("x/abc.txt", "", 5, abc).file_error(place) == "expected 5 bytes, got 3"
    assert DatasetFile("x/abc.txt", "", 2, abc).file_error(place) == "expected 2 bytes, got more"
    assert DatasetFile("x/abc.txt", "", 3, A).file_error(place) == f"expected SHA-256 {A}, got {abc}"
    assert DatasetFile("x/abc.txt", "", 3, A, "abc.txt", abc).file_error(place) == ""
    assert DatasetFile("x/abc.gz", "", 3, A, "abc.txt", abc).file_error(place) == "expected a gzip file"
    assert hashlib.sha256(b"abc").hexdigest() == abc


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("what: Nothing much\n", "", "what is missing"),
        ("license: CC0", "license:", "license is None"),
        ("license", "licence", "license is missing; licence is unknown"),
        ("files:", "rest: 7\nfiles:", "rest is unknown"),
        (GOOD[GOOD.index("files:") :], "files: none\n", "files should be a list"),
        ("path: small/one.txt", "path: other/one.txt", "file 1: path is 'other/one.txt'"),
        ("path: small/one.txt", "path: small/../one.txt", "file 1: path is"),
        ("path: small/one.txt", "path: /small/one.txt", "file 1: path is"),
        ("path: small/one.txt", "path: small", "file 1: path is"),
        ("url: https://", "url: http://", "file 1: url is 'http://example.org/one.txt'"),
        ("url: https://", "url: file:///", "file 1: url is"),
        ("url: https://example.org", "url: http://127.0.0.1.example.org", "file 1: url is"),
        ("bytes: 7", "bytes: 0", "file 1: bytes is 0"),
        ("bytes: 7", "bytes: 7.5", "file 1: bytes is 7.5"),
        ("bytes: 7", "size: 7", "file 1: bytes is missing; size is unknown"),
        (A, A[1:], "file 1: sha256 is 'aaa"),
        (A, f"{A}\n    unpacked: {B}", "file 1: member and unpacked need each other"),
        (A, f"{A}\n    member: one.txt", "file 1: member and unpacked need each other"),
        ("  - path", "  - 7\n  - path", "file 1: expected path"),
        (GOOD[GOOD.index("  - ") :], GOOD[GOOD.index("  - ") :] * 2, "two files have the same path"),
        ("what:", "what: :", "small.yaml:2: not valid YAML"),
        (GOOD, "- 7", "expected what, license, origin"),
        (GOOD, "", "expected what, license, origin"),
    ],
)
def test_a_malformed_recipe_is_refused(good: str, bad: str, message: str, tmp_path: Path) -> None:
    assert GOOD.count(good) == 1
    path = tmp_path / "small.yaml"
    path.write_text(GOOD.replace(good, bad), encoding="utf-8")
    with pytest.raises(UserError) as refused:
        read_dataset_specs(tmp_path)
    assert str(refused.value).startswith(f"{path}:")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
