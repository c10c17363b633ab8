"""Requests, and whom to call: names.tsv."""

import itertools
import random
from pathlib import Path

chance = random.Random(1)
PARTS = ["BDKMS", "aeiou", ["bel", "dra", "kin", "lo", "mar"], ["", "na", "ro", "s"]]
NAMES = ["".join(parts) for parts in itertools.product(*PARTS)]
REQUESTS = ["call {name} instead of {second}", "{second} wants you to ring {name}", "if {second} is out , phone {name}"]

lines = set()
for _ in range(1000):
    name, second = chance.sample(NAMES, 2)
    lines.add(f"{chance.choice(REQUESTS).format(name=name, second=second)}\tcall {name}\n")
Path("names.tsv").write_text("".join(sorted(lines)), encoding="utf-8")
