"""How long the report of many runs takes to be written, and to load in a browser (headless Chromium).

    python benchmarks/report_load.py --runs 300

The runs are synthetic: folders like those of a sweep over scorer, scope, learning rate and seed, without weights.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml

from attnx.reports.sweep.report import write_report

SCORERS = {"additive": 0.0, "dot": 0.9, "multiplicative": 0.4, "cosine": 1.3, "mlp": 0.2}
SCOPES = {"global": 0.3, "local": 0.0, "encoder_decoder": 0.5, "history": 4.0}
RATES = {0.0005: 0.8, 0.001: 0.3, 0.002: 0.0, 0.004: 0.2, 0.008: 1.1}
LETTERS = "abcdefghijklm"
STEPS, WORDS, NUM_EXAMPLES = 20, 1000, 24


def write_runs(home: Path, number: int) -> Path:
    """Write a sweep of synthetic runs, three seeds per setting; every fiftieth has failed."""
    random = np.random.default_rng(0)
    sweep = home / "made-up"
    jobs = []
    for job, (seed, scorer, scope, rate) in enumerate(itertools.product(range(1, number + 1), SCORERS, SCOPES, RATES)):
        if job == number:
            break
        failed = job % 50 == 49
        jobs.append(
            {
                "index": job,
                "overrides": [f"scorer={scorer}", f"scope={scope}", f"optimizer.lr={rate}", f"seed={seed}"],
                "status": "failed" if failed else "finished",
                "error": "RuntimeError: the loss is not finite at step 37" if failed else None,
            }
        )
        (sweep / str(job)).mkdir(parents=True)
        (sweep / str(job) / "log.txt").write_text("...\n", encoding="utf-8")
        config = {"seed": seed, "task": {"name": "g2p"}, "scorer": {"name": scorer}, "scope": {"name": scope}}
        config |= {"optimizer": {"name": "adam", "lr": rate}, "query": {"current_state": {}}}
        per = 7 + SCORERS[scorer] + SCOPES[scope] + RATES[rate] + 0.1 * random.normal()
        _write_run(sweep / str(job), config, float(per), failed, random)
    record = {
        "format": 1,
        "name": sweep.name,
        "command": "attnx -m ...",
        "overrides": [],
        "status": "failed",
        "jobs": jobs,
    }
    (sweep / "sweep.json").write_text(json.dumps(record), encoding="utf-8")
    return sweep


def _write_run(folder: Path, config: dict[str, object], per: float, failed: bool, random: np.random.Generator) -> None:
    info = {"format": 1, "name": None, "status": "failed" if failed else "finished", "created": "2031-07-05"}
    (folder / "run.json").write_text(json.dumps({**info, "monitor": "valid_per", "maximize": False}), encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    steps = 100 * np.arange(1, (STEPS // 2 if failed else STEPS) + 1)
    curve = per + 60 * np.exp(-steps / 250) + 0.1 * random.normal(size=len(steps))
    lines = [f"{step},{value / 20:.5g},{value:.5g},{3 * value:.5g}" for step, value in zip(steps, curve, strict=True)]
    (folder / "metrics.csv").write_text("\n".join(["step,valid_loss,valid_per,valid_wer", *lines]), encoding="utf-8")
    if failed:
        return
    seconds = 200 + 30 * per + 5 * float(random.normal())
    results = {"test_per": per, "test_wer": 3 * per, "test_examples": WORDS, "steps": 100 * STEPS}
    results |= {"train_seconds": seconds, "train_examples_per_second": 4e5 / seconds, "peak_memory_mb": 700 + 10 * per}
    results["parameters"] = 1_000_000
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
    words = ["".join(word) for word in itertools.islice(itertools.product(LETTERS, repeat=4), WORDS)]
    lines = [f"{' '.join(word)}\t{' '.join(word.upper())}\t{' '.join(word.upper())}\t0\t-0.1" for word in words]
    head = "source\tprediction\treferences\tedits\tlog_probability"
    (folder / "predictions.tsv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    _write_alignments(folder / "alignments", random)


def _write_alignments(folder: Path, random: np.random.Generator) -> None:
    folder.mkdir()
    for number in range(NUM_EXAMPLES):
        source = [LETTERS[place % len(LETTERS)] for place in range(number, number + 3 + number // 3)]
        output = [*(letter.upper() for letter in source), "</s>"]
        straight = -abs(np.subtract.outer(np.arange(len(output)), np.arange(len(source))))
        weights = np.exp(2 * straight + random.normal(size=straight.shape))
        weights /= weights.sum(axis=1, keepdims=True)
        arrays = {"weights": weights.astype(np.float32), "source": np.array(source), "output": np.array(output)}
        np.savez(folder / f"{number:03}.npz", reference=np.array(output), **arrays)


def load(page: Path) -> int:
    """Milliseconds until a page is drawn completely in a new browser."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("needs Chromium")
    with tempfile.TemporaryDirectory() as profile:
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--dump-dom"]
        shown = subprocess.run([*words, page.resolve().as_uri()], capture_output=True, text=True, check=True).stdout
    result = re.search(r'data-drawn="(\d+)"', shown)
    assert result, "the page drew nothing"
    return int(result[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="folder to keep them in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        sweep = write_runs(options.keep or Path(temporary), options.runs)
        began = time.perf_counter()
        page, *_ = write_report([sweep])
        print(
            f"{options.runs} runs: written in {time.perf_counter() - began:.1f} s, {page.stat().st_size / 1e6:.2f} MB"
        )
        times = sorted(load(page) for _ in range(options.times))
        print(f"there after {times[len(times) // 2]} ms, the median of {options.times} ({times[0]} to {times[-1]})")


if __name__ == "__main__":
    main()
