"""The main command's composition by the command itself, for a fixed number of steps: its error rates and its time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

from peers.environments import ROOT, last_word
from peers.words import TINY, write_words
from peers.words import WORDS as WORDS_FILE

from gpu_sections.cases import Case, Figures, Setting
from gpu_sections.row_names import MAIN, PEAK, PHONE_ERRORS, SECONDS, WORDS

STEPS, CHECK_STEPS = 3000, 5
PLANNED_SECONDS = 50.0
SHOWN = {
    "test_per": PHONE_ERRORS,
    "test_wer": "WER %",
    "train_examples_per_second": WORDS,
    "peak_gpu_memory_mb": PEAK,
}


def cases(setting: Setting) -> Iterator[Case]:
    """The run."""
    yield Case(MAIN, partial(run_main_command, setting), PLANNED_SECONDS)


def run_main_command(setting: Setting) -> Figures:
    """Run it in a process of its own."""
    folder = setting.folder / f"main_{setting.device.type}"
    overrides = [*MAIN.split()[1:], setting.accelerator, "trainer.num_validations=1"]
    steps, data = (CHECK_STEPS, _toy_data(setting)) if setting.is_check else (STEPS, ["trainer.test_examples=2000"])
    overrides += [*data, f"trainer.max_steps={steps}", f"folder={folder}"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "attnx", *overrides], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(last_word(done.stderr) or f"exit code {done.returncode}")
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    figures = {title: results[name] for name, title in SHOWN.items() if name in results}
    return {**figures, "steps": steps, SECONDS: time.perf_counter() - start}


def _toy_data(setting: Setting) -> list[str]:
    file = setting.folder / WORDS_FILE
    write_words(3, file)
    return [f"task.train={file}", *TINY[1:]]
