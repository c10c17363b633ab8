"""Faults of a run give one line, lose nothing learned before, and can be resumed."""

import os
import re
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from attnx.training import failure_report
from attnx.training.distributed.slurm import requeue
from attnx.training.failure_report import failure_line
from attnx.training.lightning_module import TrainingModule
from tests.runs.conftest import run_info

# Seven steps, of which the first two are in a checkpoint when the fourth goes wrong.
OPTIONS = ["trainer.max_steps=7", "trainer.num_validations=2", "trainer.checkpoint_every=2", "model.dropout=0.3"]


@pytest.fixture
def faults():
    """What is patched with it can be mended while all else stays."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def overrides(sized):
    """The command of a run that has a checkpoint early."""
    return sized(*OPTIONS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, write_words, train_in, sized):
    """The folder of the same run, which nothing disturbed."""
    home = tmp_path_factory.mktemp("whole")
    write_words(home)
    train_in(home, *sized(*OPTIONS), folder="whole")
    return str(home / "whole")


@pytest.fixture
def failure_message(overrides, command, words, no_pictures, same_weights, faults, whole):
    """The message of a failing run, which then resumes and ends with equal results."""

    def line(mend: Callable[[], Any] = lambda: None) -> str:
        answer = command(*overrides, "folder=cut")
        assert answer.code == 1
        assert answer.err.count("\n") == 1
        assert "Traceback" not in answer.err
        info = run_info("cut")
        assert info["status"] == "failed"
        mend()
        assert torch.load("cut/checkpoints/last.ckpt", weights_only=True)["global_step"] >= 2
        assert "Traceback" in Path("cut/error.txt").read_text(encoding="utf-8")
        assert answer.err.startswith(f"attnx: {info['error']}")
        faults.undo()
        again = command("resume", "cut")
        assert (again.code, again.err) == (0, "")
        info = run_info("cut")
        assert (info["status"], info["error"]) == ("finished", None)
        assert not Path("cut/error.txt").exists()
        assert same_weights([whole, "cut"])
        return str(answer.err)

    return line


def test_a_full_disk_is_reported(failure_message, at_step):
    """No file may grow beyond 20 kB: a checkpoint is larger, all else is smaller."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    at_step(3, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1])))
    line = failure_message(mend=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits))
    assert "cannot write (File too large); free some space, then resume with: attnx resume cut" in line


def test_a_folder_that_becomes_unwritable_is_reported(failure_message, at_step):
    """A file where a folder was, for root may write into any folder; it is mended before the last one is looked at."""
    place, aside = Path("cut/checkpoints"), Path("cut/aside")

    def close() -> None:
        place.rename(aside)
        place.touch()

    def mend() -> None:
        place.unlink()
        aside.rename(place)

    at_step(3, close)
    line = failure_message(mend=mend)
    assert re.search(r"cut/checkpoints/last\.ckpt: cannot write \(Not a directory\)", line)
    assert "make it writable, then resume with: attnx resume cut" in line


def test_exhausted_memory_is_reported(failure_message, faults):
    """On the CPU: no machine has a pebibyte. The second validation decodes four batches at a time, of twelve words."""
    judged, calls = TrainingModule.validation_step, iter(range(2))

    def greedy(self: TrainingModule, *args: Any) -> None:
        judged(self, *args)
        if next(calls):
            torch.empty(1 << 48)

    faults.setattr(TrainingModule, "validation_step", greedy)
    line = failure_message()
    assert "out of memory at step 7, in validation, with a batch of 12 rows of up to 5 source and 6 target" in line
    assert "a smaller trainer.batch_size (it was 8)" in line


@pytest.mark.parametrize(
    ("error", "stage", "advice"),
    [
        *(
            (error, "training", "; half of it with twice the trainer.accumulate_grad_batches (2)")
            for error in (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB"), MemoryError())
        ),
        (MemoryError(), "validation", ""),
    ],
)
def test_a_lack_of_memory_names_the_option(error, stage, advice):
    """In training, or in a validation, which needs smaller batches."""
    place = f"at step 3, in {stage}, with a batch of 2 rows"
    error.add_note(place)
    options = {"batch_tokens": 4096, "batch_size": 64, "accumulate_grad_batches": 2}
    line = failure_line(error, Path("one"), options)
    smaller = "start a new run with a smaller trainer.batch_tokens (it was 4096)"
    assert line.startswith(f"out of memory {place}; {smaller}{advice}")
    assert advice or line.endswith(smaller)
    assert failure_line(RuntimeError("shapes differ"), Path("one"), {}) == ""


def test_an_unexpected_error_is_reported(failure_message, at_step):
    def fall() -> None:
        raise RuntimeError("I have\nfallen over")

    at_step(4, fall)
    line = failure_message()
    assert line.startswith("attnx: RuntimeError: I have fallen over; the traceback is in cut/error.txt; try again")


def test_a_non_finite_loss_saves_its_batch(command, overrides, words, monkeypatch):
    step = TrainingModule.training_step

    def spoil_loss(self: TrainingModule, batch: Any, number: int) -> Any:
        loss = step(self, batch, number)
        return loss * float("nan") if self.global_step == 4 else loss

    monkeypatch.setattr(TrainingModule, "training_step", spoil_loss)
    answer = command(*overrides, "folder=cut")
    assert answer.code == 1
    saved = torch.load("cut/bad_batch.pt", weights_only=True)
    assert (saved["step"], saved["loss"] != saved["loss"], saved["batch"]) == (4, True, 4)
    texts = [line.split("\t") for line in words.read_text(encoding="utf-8").splitlines()]
    sounds = {word: phones.split() for word, phones in texts}
    for source, target, ids in zip(saved["source_symbols"], saved["target_symbols"], saved["source"], strict=True):
        assert sounds["".join(source)] == target
        assert int((ids != 0).sum()) == len(source)
    assert saved["rows"] == saved["row_index"].tolist()
    first = " ".join(saved["source_symbols"][0])
    assert f"the loss became nan at step 4, in a batch of {len(saved['rows'])} rows ({saved['rows'][0]}" in answer.err
    assert f"the first: '{first}'); the batch is in cut/bad_batch.pt; start a new run with a lower" in answer.err
    assert answer.err.count("\n") == 1
    # The step before it was whole, so it is there.
    assert torch.load("cut/checkpoints/last.ckpt", weights_only=True)["global_step"] == 4


def test_sigterm_saves_and_prints_how_to_resume(command, overrides, words, no_pictures, at_step, same_weights, whole):
    handler_before = signal.getsignal(signal.SIGTERM)
    at_step(3, lambda: signal.raise_signal(signal.SIGTERM))
    answer = command(*overrides, "folder=cut")
    assert answer.code == 128 + 15
    assert answer.err == "attnx: ended by SIGTERM; resume with: attnx resume cut\n"
    assert signal.getsignal(signal.SIGTERM) is handler_before
    assert torch.load("cut/checkpoints/last.ckpt", weights_only=True)["global_step"] == 3
    assert command("resume", "cut").code == 0
    assert same_weights([whole, "cut"])


@pytest.mark.parametrize(
    ("stop", "code", "message"),
    # The first Ctrl-C waits for a checkpoint, which fails; the second does not.
    [((), 1, ""), ((signal.SIGINT,), 1, ""), ((signal.SIGINT,) * 2, 130, "interrupted; ")],
)
def test_a_deleted_folder_cannot_be_resumed(stop, code, message, command, overrides, words, at_step):
    def delete() -> None:
        shutil.rmtree("gone")
        for number in stop:
            signal.raise_signal(number)

    at_step(3, delete)
    answer = command(*overrides, "folder=gone")
    deletion = "gone: the run's folder was deleted while it ran, so it cannot be resumed; start a new run"
    assert (answer.code, answer.err) == (code, f"attnx: {message}{deletion}\n")
    assert not Path("gone").exists()


def test_a_third_ctrl_c_leaves_no_running_status(command, overrides, words, at_step, faults):
    """It comes while the end is being recorded."""
    update_info = failure_report.update_info

    def slow(folder: Path, **facts: Any) -> None:
        if facts == {"status": "interrupted"}:
            signal.raise_signal(signal.SIGINT)
        update_info(folder, **facts)

    faults.setattr(failure_report, "update_info", slow)
    at_step(3, lambda: [signal.raise_signal(signal.SIGINT) for _ in range(2)])
    answer = command(*overrides, "folder=cut")
    assert (answer.code, answer.err) == (130, "attnx: interrupted; resume with: attnx resume cut\n")
    assert run_info("cut")["status"] == "interrupted"


@pytest.fixture
def slurm(work_folder, monkeypatch):
    """A SLURM job whose scontrol records its arguments and prints a file."""
    script = work_folder / "bin" / "scontrol"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {work_folder}/asked\ncat {work_folder}/shown 2>/dev/null\nexit 0\n', encoding="utf-8"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    file = work_folder / "asked"
    return lambda: file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def test_a_slurm_job_is_requeued_and_resumes(
    command, overrides, words, no_pictures, at_step, slurm, monkeypatch, same_weights, whole
):
    """The same command runs again, without a word of where it was."""

    def warn() -> None:  # and, as clusters do, more than once
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGTERM)

    at_step(3, warn)
    answer = command(*overrides)
    assert answer.code == 128 + signal.SIGUSR1
    (folder,) = Path("multirun/runs").iterdir()
    message = f"SLURM will start job 17 again, and it goes on; resume with: attnx resume {folder}"
    assert answer.err == f"attnx: ended by SIGUSR1; {message}\n"
    assert slurm() == ["show job 17", "requeue 17"]
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert command(*overrides).code == 0
    assert [*Path("multirun/runs").iterdir()] == [folder]
    assert same_weights([whole, str(folder)])
    answer = command(*overrides)
    assert (answer.code, answer.out) == (0, f"{folder}: finished; there is nothing left to do\n")


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({"SLURM_JOB_ID": "19"}, "19"),
        # Of the last task the number is that of its array, which would be sent again with it.
        ({"SLURM_JOB_ID": "17", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "2"}, "17_2"),
        ({"SLURM_JOB_ID": "18", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "0"}, "17_0"),
    ],
)
def test_only_the_task_of_an_array_is_requeued(variables, job, slurm, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert requeue(signal.SIGUSR1) == f"SLURM will start job {job} again, and it goes on"
    assert slurm() == [f"show job {job}", f"requeue {job}"]


@pytest.mark.parametrize(("restarts", "again"), [("0", 1), ("1", 1), ("1", 0)])
def test_a_job_requeued_by_slurm_is_not_requeued_twice(restarts, again, slurm, monkeypatch):
    """As one that must make room at once; SLURM has counted the restart by then."""
    monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    Path("shown").write_text(f"JobState=COMPLETING\n   Requeue=1 Restarts={int(restarts) + again}\n", encoding="utf-8")
    assert bool(requeue(signal.SIGTERM)) is bool(again)
    assert slurm() == ["show job 17"]


@pytest.mark.parametrize(("shown", "again"), [("PreemptTime=None", False), ("PreemptTime=2031-05-07T11:13:17", True)])
def test_sigterm_requeues_only_preempted_jobs(shown, again, command, overrides, words, at_step, slurm):
    """One that ``scancel`` ends must not come back."""
    Path("shown").write_text(
        f"JobState=RUNNING\n   PreemptEligibleTime=2031-05-07T11:00:00 {shown}\n", encoding="utf-8"
    )
    at_step(3, lambda: signal.raise_signal(signal.SIGTERM))
    answer = command(*overrides, "folder=cut")
    assert answer.code == 128 + signal.SIGTERM
    assert slurm() == ["show job 17", *(["requeue 17"] if again else [])]
    assert ("SLURM will start job 17 again" in answer.err) is again
