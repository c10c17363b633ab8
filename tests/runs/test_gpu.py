"""Runs on a GPU: every way to train, a killed run, a sweep, and models on two devices."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import attnx
from attnx.errors import Interrupted
from tests.runs.conftest import results, run_info

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU and ATTNX_TEST_GPU=1"),
    pytest.mark.filterwarnings("ignore"),  # torch's compilers look at what they warn others of
]
GPU = "trainer.accelerator=gpu"
# Step by step, with parts that Triton's kernels serve.
LOOP = ("+query=previous_state", "model.feed=now", "scorer=additive")


@pytest.mark.parametrize("precision", ["32", "tf32", "bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("composition", [(), LOOP], ids=["run then attend", "step by step"])
def test_every_precision_trains(precision, composition, run, metric_rows):
    run(*composition, GPU, "trainer.precision=32", "trainer.max_steps=60", folder="exact")
    run(*composition, GPU, f"trainer.precision={precision}", "trainer.max_steps=60", folder="one")
    assert results("one")["peak_gpu_memory_mb"] > 0
    loss, exact = (float(metric_rows(folder)[-1]["valid_loss"]) for folder in ("one", "exact"))
    assert loss == pytest.approx(exact, rel=0.05)


def test_a_gpu_trains_what_a_cpu_trains(run, weights):
    """And its run can be opened without one."""
    run(*LOOP, GPU, "trainer.max_steps=5", folder="gpu")
    run(*LOOP, "trainer.accelerator=cpu", "trainer.max_steps=5", folder="cpu")
    torch.testing.assert_close(weights("gpu"), weights("cpu"), rtol=1e-3, atol=1e-4)
    Path("words.txt").write_text("dab\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "attnx", "predict", "gpu", "words.txt"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert attnx.open_run("gpu").predict(["dab"])


@pytest.mark.parametrize("mode", ["steps", "graphs"])
def test_compiled_steps_train_equally(mode, run, weights):
    run(*LOOP, GPU, "trainer.max_steps=20", folder="plain")
    run(*LOOP, GPU, "trainer.max_steps=20", f"trainer.compile={mode}", folder="compiled")
    assert run_info("compiled")["compiled"].startswith("each step of the loop but the first")
    torch.testing.assert_close(weights("plain"), weights("compiled"), rtol=1e-2, atol=1e-3)


def test_parts_on_two_devices_train_as_on_one(run, weights, interrupt_at, command):
    """Also if the run is interrupted and resumed."""
    run(GPU, folder="plain")
    interrupt_at(3)
    with pytest.raises(Interrupted):
        run(GPU, "placement.encoder=cpu", folder="placed")
    assert command("resume", "placed").code == 0
    assert run_info("placed")["placement"] == {"encoder": "cpu", "attention": "cuda:0", "decoder": "cuda:0"}
    torch.testing.assert_close(weights("plain"), weights("placed"), rtol=1e-3, atol=1e-4)


def test_a_killed_run_resumes_with_equal_results(words, sized, same_weights, metric_rows, no_pictures_folder):
    """Bit by bit, by commands."""
    variables = {**os.environ, "PYTHONPATH": no_pictures_folder}
    options = sized(GPU, "trainer.max_steps=2000", "trainer.num_validations=40", "model.dropout=0.2")

    def start(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "attnx", *words], env=variables, stdout=subprocess.DEVNULL)

    processes = [start(*options, f"folder={folder}") for folder in ("complete", "cut")]
    while not Path("cut/checkpoints/last.ckpt").exists():
        assert processes[1].poll() is None
        time.sleep(0.01)
    processes[1].send_signal(signal.SIGKILL)
    assert [process.wait() for process in processes] == [0, -signal.SIGKILL]
    assert start("resume", "cut").wait() == 0
    assert same_weights(["complete", "cut"])
    assert metric_rows("complete") == metric_rows("cut")


def test_jobs_of_a_sweep_share_a_gpu(words, sized, no_pictures_folder):
    """They are forks of a process that has not used it."""
    variables = {**os.environ, "PYTHONPATH": no_pictures_folder}
    overrides = sized(GPU, "scorer=dot,additive", "name=two")
    done = subprocess.run(
        [sys.executable, "-m", "attnx", "-m", *overrides, "-j", "2"], env=variables, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    for job in "01":
        assert results(f"multirun/two/{job}")["peak_gpu_memory_mb"] > 0
