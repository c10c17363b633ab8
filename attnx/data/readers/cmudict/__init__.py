"""The CMU Pronouncing Dictionary, shipped with the package under its own BSD licence."""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cache
from pathlib import Path

from attnx.data.examples import Pair, merge_references
from attnx.errors import UserError
from attnx.files.bounded_files import read_bytes

FILE = Path(__file__).with_name("cmudict.dict.gz")
SHA256 = "7ac658b1abf9b255b3ec49362b179333684f21630721f4ed2db1177f1f02119a"

_WORD = re.compile(r"[a-z']*[a-z][a-z']*")


def read_cmudict(stress: bool = False) -> list[Pair]:
    """Read the shipped dictionary, in the order of its file: one pair per word, variants as its references.

    Of its 135 166 entries, 1 193 are dropped: their words have characters other than the letters a-z and the
    apostrophe (mostly a hyphen). That leaves 124 926 words with 133 667 distinct references (133 971 with
    ``stress``, which keeps the stress digits of vowels, ``AH0``). A changed file is a UserError.
    """
    packed = read_bytes(FILE)
    if (sha256 := hashlib.sha256(packed).hexdigest()) != SHA256:
        raise UserError(f"{FILE}: has SHA-256 {sha256}, expected {SHA256}; install attnx again")
    # Cached: 850 000 phones share 70 strings.
    normalize_phone = cache(lambda phone: phone if stress else phone.rstrip("012"))
    entries = []
    for line in gzip.decompress(packed).decode("ascii").splitlines():
        word, _, phones = line.partition("#")[0].partition(" ")
        if word.endswith(")"):  # the number of a variant
            word = word.partition("(")[0]
        if _WORD.fullmatch(word):
            entries.append((tuple(word), tuple(map(normalize_phone, phones.split()))))
    return merge_references(entries)
