"""Rows of a tank's sensors, and of the controls that follow from them, CSV files in tank/: controls.tsv."""

import random
from pathlib import Path

chance = random.Random(1)
Path("tank").mkdir(exist_ok=True)
table = []
for number in range(1000):
    sensed, controls = ["time,level,flow"], ["valve,pump"]
    levels, flows = [], [0.0]
    for step in range(chance.randint(5, 15)):
        levels.append(chance.gauss(20, 5))
        flows.append(chance.gauss(0, 1))
        sensed.append(f"{step / 20:.2f}s,{levels[-1]:.3f},{flows[-1]:.3f}")
        valve = sum(levels[-3:]) / len(levels[-3:])  # the mean of the last three levels
        pump = 100 * abs(flows[-2])  # as strong as the flow was one step before
        controls.append(f"{valve:.3f},{pump:.3f}")
    for name, rows in (("sensed", sensed), ("controls", controls)):
        Path(f"tank/{number}_{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    table.append(f"tank/{number}_sensed.csv\ttank/{number}_controls.csv\n")
Path("controls.tsv").write_text("".join(table), encoding="utf-8")
