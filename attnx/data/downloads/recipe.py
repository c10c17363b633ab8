"""What a recipe says of a public data set: what it is, whose it is, and each file's address, size and SHA-256."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnx.errors import UserError
from attnx.files.bounded_files import read_yaml

FOLDER = Path(__file__).parent
SECURE = re.compile(r"(https://|http://127\.0\.0\.1[:/])\S+")  # nothing travels in the open but to this machine
SHA256 = "[0-9a-f]{64}"
TEXTS = ("what", "license", "origin", "notes")


@dataclass(frozen=True)
class RecipeFile:
    """One file of a set.

    Attributes:
        path: its place below the data folder, the set's name first.
        url: what to download.
        bytes: the size of the download.
        sha256: that of the download.
        member: for a download that is a zip archive, the one file of it that is meant; packed again where ``path`` ends
            in ``.gz``.
        unpacked: the SHA-256 of that member's content, which stays the same however it is packed.
    """

    path: str
    url: str
    bytes: int
    sha256: str
    member: str = ""
    unpacked: str = ""

    def wrong_download(self, place: Path) -> str:
        """What is wrong with what was downloaded to a place; "" if it is right."""
        size = place.stat().st_size
        if size != self.bytes:
            return f"expected {self.bytes} bytes, got {size if size < self.bytes else 'more'}"
        return _differs(self.sha256, place)

    def wrong(self, place: Path) -> str:
        """What is wrong with what lies at its final place; "" if it is right."""
        if not self.member:
            return self.wrong_download(place)
        try:
            return _differs(self.unpacked, place, packed=self.path.endswith(".gz"))
        except (gzip.BadGzipFile, EOFError, zlib.error):
            return "expected a gzip file"


@dataclass(frozen=True)
class Recipe:
    """A public data set."""

    name: str
    what: str
    license: str
    origin: str
    notes: str
    files: tuple[RecipeFile, ...]


def _differs(expected: str, place: Path, packed: bool = False) -> str:
    with gzip.open(place) if packed else place.open("rb") as stream:
        got = hashlib.file_digest(stream, "sha256").hexdigest()
    return "" if got == expected else f"expected SHA-256 {expected}, got {got}"


def read_recipes(folder: Path = FOLDER) -> dict[str, Recipe]:
    """Read and check every recipe of a folder; a file's name is the name of its set.

    Raises:
        UserError: a recipe is malformed.
    """
    return {file.stem: read_recipe(file) for file in sorted(folder.glob("*.yaml"))}


def read_recipe(path: Path) -> Recipe:
    """Read and check one recipe.

    Raises:
        UserError: ``file: what is wrong with it``.
    """
    found = read_yaml(path)
    forms = dict.fromkeys(TEXTS, r"(?s).+")
    files = found.pop("files", None) if isinstance(found, dict) else None
    texts = _checked(found, forms, {"notes"}, str(path))
    if not isinstance(files, list) or not files:
        raise UserError(f"{path}: files should be a list of at least one")
    read = tuple(_read_file(entry, path.stem, f"{path}: file {number}") for number, entry in enumerate(files, 1))
    if len({file.path for file in read}) < len(read):
        raise UserError(f"{path}: two files have one path")
    return Recipe(path.stem, **{"notes": "", **texts}, files=read)


def _read_file(entry: Any, name: str, where: str) -> RecipeFile:
    forms = {"path": rf"{re.escape(name)}(/\w[\w.-]*)+", "url": SECURE.pattern, "bytes": r"[1-9]\d*", "sha256": SHA256}
    archive = {"member": r".+", "unpacked": SHA256}
    texts = _checked(entry, forms | archive, set(archive), where)
    if ("member" in texts) != ("unpacked" in texts):
        raise UserError(f"{where}: member and unpacked go together")
    return RecipeFile(**{**texts, "bytes": int(texts["bytes"])})


def _checked(entry: Any, forms: dict[str, str], optional: set[str], where: str) -> dict[str, Any]:
    """A mapping's values as texts, if it has the keys it should have, each of its form."""
    if not isinstance(entry, dict):
        raise UserError(f"{where}: expected {', '.join(forms)}")
    wrong = [f"{key} is missing" for key in forms if key not in entry and key not in optional]
    wrong += [f"{key} is unknown" for key in entry if key not in forms]
    wrong += [
        f"{key} is {entry[key]!r}, expected {form}"
        for key, form in forms.items()
        if key in entry and not (isinstance(entry[key], str | int) and re.fullmatch(form, str(entry[key])))
    ]
    if wrong:
        raise UserError(f"{where}: {'; '.join(wrong)}")
    return {key: str(value) for key, value in entry.items()}
