"""Recordings of an accelerometer, a CSV file each in sensor/, and the gestures in them: sensor.tsv."""

import math
import random
from pathlib import Path

chance = random.Random(1)
# What each gesture does to x, y and z, from its beginning (0) to its end (1).
GESTURES = {
    "tap": lambda at: (0, 0, 3 * math.exp(-30 * at)),
    "shake": lambda at: (2 * math.sin(18 * at), 0.5 * math.sin(18 * at), 0),
    "tilt": lambda at: (0, 1.5 * math.sin(math.pi * at), -0.7 * math.sin(math.pi * at)),
    "rest": lambda at: (0, 0, 0),
}

Path("sensor").mkdir(exist_ok=True)
table = []
for number in range(1000):
    rows, done = ["time,x,y,z"], []
    for _ in range(chance.randint(1, 5)):
        gesture, length = chance.choice(list(GESTURES)), chance.randint(5, 9)
        for step in range(length):
            values = (chance.gauss(value, 0.2) for value in GESTURES[gesture](step / length))
            rows.append(",".join([f"{len(rows) / 20:.2f}s", *(f"{value:.3f}" for value in values)]))
        done += [] if gesture == "rest" else [gesture]
    Path(f"sensor/{number}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    table.append(f"sensor/{number}.csv\t{' '.join(done) or 'nothing'}\n")
Path("sensor.tsv").write_text("".join(table), encoding="utf-8")
