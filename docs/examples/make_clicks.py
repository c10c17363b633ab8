"""Clicks, and the products that they put into the basket (id 900): clicks.tsv."""

import random
from pathlib import Path

chance = random.Random(1)
products, basket = range(100, 140), 900
lines = []
for _ in range(3000):
    clicks, bought = [], []
    for _ in range(chance.randint(3, 12)):
        clicks.append(chance.choice(products))
        if chance.random() < 0.3 or (not bought and len(clicks) > 5):
            bought.append(clicks[-1])
            clicks.append(basket)
    if bought:
        lines.append(f"{' '.join(map(str, clicks))}\t{' '.join(map(str, bought))}\n")
Path("clicks.tsv").write_text("".join(lines), encoding="utf-8")
