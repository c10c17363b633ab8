"""Shipped data recipes are well formed and match their files."""

import hashlib
import os
import re
from pathlib import Path

import pytest

from attnx.data.downloads import SPEC_FOLDER, DatasetFile, DatasetSpec, read_dataset_spec, read_dataset_specs

SHIPPED = read_dataset_specs()
A = "a" * 64
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


def test_every_file_is_a_recipe():
    names = {"babi", "cmudict_g014b2b", "electricity", "etth1", "etth2", "ettm1", "exchange_rate", "multi30k"}
    names |= {"sms_spam", "sigmorphon2018", "sigmorphon2020", "sigmorphon2023", "tatoeba", "tinystories", "weather"}
    assert set(SHIPPED) == names
    assert {path.stem for path in SPEC_FOLDER.iterdir() if path.suffix == ".yaml"} == set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_published_address_is_immutable(name):
    """It names a commit in full, so the SHA-256 stays true."""
    for file in SHIPPED[name].files:
        assert re.fullmatch(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/.+", file.url)
        assert file.path.startswith(f"{name}/")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.needs_data(name)) for name in SHIPPED])
def test_a_recipe_matches_local_files(name):
    """All that are there."""
    for file in SHIPPED[name].files:
        if (path := Path(os.environ["ATTNX_DATA"], file.path)).exists():
            assert file.content_error(path.read_bytes()) == "", path


def test_a_recipe_reads_back_its_file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(GOOD, encoding="utf-8")
    file = DatasetFile("small/one.txt", "https://example.org/one.txt", 7, A)
    assert read_dataset_spec(path) == DatasetSpec("small", "Nothing much", "CC0", "https://example.org", (file,))


def test_the_documented_recipe_is_well_formed(tmp_path):
    """That of docs/data.md, as it stands there."""
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    path = tmp_path / "myset.yaml"
    path.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    assert [file.bytes for file in read_dataset_spec(path).files] == [12345]


def test_a_file_may_be_checked_by_its_git_id():
    """The first example of Pro Git, section 10.2, and a text one letter longer."""
    file = DatasetFile("x/test.txt", "", git_blob="d670460b4b4aece5915caf5c68d12f560a9fe3e4")
    assert file.content_error(b"test content\n") == ""
    assert file.content_error(b"test contents\n").startswith(f"expected the git id {file.git_blob}, got ")


def test_a_file_is_checked_by_size_and_hash():
    """The SHA-256 of "abc" is the first example of FIPS 180-2."""
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert DatasetFile("x/abc.txt", "", 3, abc).content_error(b"abc") == ""
    assert DatasetFile("x/abc.txt", "", 5, abc).content_error(b"abc") == "expected 5 bytes, got 3"
    assert DatasetFile("x/abc.txt", "", 2, abc).content_error(b"abc") == "expected 2 bytes, got more"
    assert DatasetFile("x/abc.txt", "", 3, A).content_error(b"abc") == f"expected SHA-256 {A}, got {abc}"
    assert DatasetFile("x/abc.txt", "", 3, A, "abc.txt", abc).content_error(b"abc") == ""
    assert DatasetFile("x/abc.gz", "", 3, A, "abc.txt", abc).content_error(b"abc") == "expected a gzip file"
    assert hashlib.sha256(b"abc").hexdigest() == abc
