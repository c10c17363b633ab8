"""The main command's composition by the command itself, for a fixed number of steps: its error rates and its time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from peers.environments import ROOT, last_word
from peers.words import TINY, WORDS, write_words

from gpu_sections.cases import Case, Figures, Setting

COMPOSITION = ("+scorer=additive", "+scope=local")
STEPS, CHECK_STEPS = 3000, 5
SHOWN = {
    "test_per": "PER %",
    "test_wer": "WER %",
    "train_examples_per_second": "words/s",
    "peak_gpu_memory_mb": "peak MB",
}


def run_folder(setting: Setting) -> Path:
    """The folder of the run, which is decoded with afterwards."""
    return setting.folder / "main"


def cases(setting: Setting) -> Iterator[Case]:
    """The run."""
    yield Case(f"attnx {' '.join(COMPOSITION)}", partial(_run, setting))


def _run(setting: Setting) -> Figures:
    overrides = [*COMPOSITION, setting.accelerator, "trainer.num_validations=1"]
    steps, data = (CHECK_STEPS, _toy_data(setting)) if setting.is_check else (STEPS, ["trainer.test_examples=2000"])
    overrides += [*data, f"trainer.max_steps={steps}", f"folder={run_folder(setting)}"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "attnx", *overrides], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(last_word(done.stderr) or f"exit code {done.returncode}")
    results = json.loads((run_folder(setting) / "results.json").read_text(encoding="utf-8"))
    figures = {title: results[name] for name, title in SHOWN.items() if name in results}
    return {**figures, "steps": steps, "s in all": time.perf_counter() - start}


def _toy_data(setting: Setting) -> list[str]:
    file = setting.folder / WORDS
    write_words(3, file)
    return [f"task.train={file}", *TINY[1:]]
