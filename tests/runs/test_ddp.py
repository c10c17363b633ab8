"""Several processes train one model: equal results, each test word counted once, one folder, no orphans."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnx.errors import UserError
from attnx.files.process import spawn
from attnx.tasks.loss import Loss, token_loss
from attnx.training import lightning_module
from attnx.training.distributed import launcher
from attnx.training.distributed.devices import rank_infos, resolve_device_count
from attnx.training.distributed.process_group import rank_info
from tests.runs.conftest import results, run_info, table, write_plug_in

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
    pytest.mark.usefixtures("forked_ranks", "words"),
]
TWO = ("trainer=ddp", "trainer.devices=2")
SECONDS = 240.0  # only for what would never end
ENDLESS = ("trainer.max_steps=1000000", "trainer.num_validations=100000")


def children_of(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def ranks_of(process: Any) -> list[int]:
    """The processes that train, once they do."""
    while "\nstep " not in process.read()[0]:
        assert not process.has_ended(), process.read()
        time.sleep(0.02)
    return children_of(process.pid)


def have_ended(processes: list[int]) -> bool:
    """Whether they end within some seconds; zombies count as ended."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if not [process for process in processes if alive(process)]:
            return True
        time.sleep(0.1)
    return False


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def read_predicted(folder: str) -> list[dict[str, str]]:
    """What was predicted, in the order of the data, and its edits; probabilities differ in their last digits."""
    return [{**row, "log_probability": ""} for row in table(f"{folder}/predictions.tsv")]


@pytest.mark.parametrize(
    "composition",
    [
        ["scorer=additive", "scope=local"],  # run, then attend
        ["scope=encoder_decoder", "query=[previous_state]"],  # the decoder's history is read
    ],
    ids=["run_then_attend", "history"],
)
def test_two_processes_learn_the_same_as_one(composition, run, weights, metric_rows):
    """Also in two turns each; every epoch ends in a batch of four rows, of which a share is empty in the second."""
    options = [*composition, "trainer.max_steps=11", "trainer.gradient_clip_val=0.1", "trainer.test_examples=7"]
    run(*options, "trainer.batch_size=12", folder="one")
    run(*options, "trainer.batch_size=3", "trainer.accumulate_grad_batches=2", *TWO, folder="two")
    torch.testing.assert_close(weights("one"), weights("two"), rtol=0, atol=1e-5)
    alone, together = results("one"), results("two")
    assert alone["test_examples"] == together["test_examples"] == 7
    for metric in ("test_per", "test_wer", "steps"):
        assert alone[metric] == together[metric]
    losses = [[float(row["train_loss"]) for row in metric_rows(name)] for name in ("one", "two")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert read_predicted("one") == read_predicted("two")
    with np.load("one/resampled.npz") as alone, np.load("two/resampled.npz") as together:
        assert all((alone[metric] == together[metric]).all() for metric in ("test_per", "test_wer"))
    assert run_info("two")["processes"] == 2


def test_processes_that_are_no_copies_learn_the_same(run_once, run, same_weights, monkeypatch):
    """The second is new, and the first does what it would be sent: what a new one imports takes seconds."""
    run_once(*TWO, folder="copied")

    def start(call: Any) -> Any:
        is_first = call.args[1].rank == 0
        return launcher._fork(pickle.loads(pickle.dumps(call))) if is_first else spawn(call)

    monkeypatch.setattr(launcher, "can_fork", lambda backend: False)
    monkeypatch.setattr(launcher, "spawn", start)
    run(*TWO, folder="new")
    assert same_weights(["copied", "new"])


def test_accumulated_batches_learn_the_same_as_one(run, weights, metric_rows):
    """With the same losses, also of the last batch of an epoch, of which some shares are empty."""
    options = ["trainer.log_every_n_steps=1", "trainer.max_steps=7", "trainer.num_validations=1"]
    run(*options, "trainer.batch_size=24", folder="one")
    run(*options, "trainer.batch_size=2", "trainer.accumulate_grad_batches=12", folder="two")
    torch.testing.assert_close(weights("one"), weights("two"), rtol=0, atol=1e-5)
    losses = [[float(row["train_loss"]) for row in metric_rows(name)] for name in ("one", "two")]
    assert len(losses[0]) == 7
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_killed_process_ends_the_others_with_a_message(fork_command, sized):
    process = fork_command(*sized(*TWO, *ENDLESS, "folder=one"))
    ranks = ranks_of(process)
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 1
    assert err.count("\n") == 1
    assert err.startswith("attnx: rank 1 of 2 was killed by SIGKILL")
    assert "resume with: attnx resume one" in err
    assert have_ended(ranks)
    assert run_info("one")["status"] == "failed"


def test_no_process_outlives_a_killed_command(fork_command, sized):
    process = fork_command(*sized(*TWO, *ENDLESS, "folder=one"))
    ranks = ranks_of(process)
    assert len(ranks) == 2
    process.kill()
    assert have_ended(ranks)
    assert torch.load("one/checkpoints/last.ckpt", weights_only=True)["global_step"] > 0


def stop_run() -> None:
    """Send SIGTERM to the command, as its first process, and wait until the signal comes back; note the processes."""
    if rank_info().rank:
        return
    handle, heard = signal.getsignal(signal.SIGTERM), []
    signal.signal(signal.SIGTERM, lambda *signaled: heard.append(handle(*signaled)))
    Path("ranks.json").write_text(json.dumps(children_of(os.getppid())))
    os.kill(os.getppid(), signal.SIGTERM)
    while not heard:
        time.sleep(0.01)


def test_a_stopped_run_resumes_with_equal_results(run, fork_command, sized, same_weights, metric_rows, at_step):
    """It stops in the middle of the data; with another number of processes it is refused."""
    options = ["model.dropout=0.3", "trainer.max_steps=9", "trainer.num_validations=3", *TWO]
    run(*options, folder="whole")
    at_step(5, stop_run)
    process = fork_command(*sized(*options, "folder=cut"))
    _, err = process.communicate()
    assert (process.returncode, err) == (143, "attnx: ended by SIGTERM; resume with: attnx resume cut\n")
    ranks = json.loads(Path("ranks.json").read_text())
    assert len(ranks) == 2
    assert have_ended(ranks)
    assert torch.load("cut/checkpoints/last.ckpt", weights_only=True)["global_step"] < 9
    config = Path("cut/config.yaml").read_text(encoding="utf-8")
    Path("cut/config.yaml").write_text(config.replace("devices: 2", "devices: 1"), encoding="utf-8")
    from attnx.training.fit import resume

    with pytest.raises(UserError, match=r"was started with 2 processes .* cannot resume with 1"):
        resume("cut")
    Path("cut/config.yaml").write_text(config, encoding="utf-8")
    resume("cut")
    assert same_weights(["whole", "cut"])
    assert metric_rows("whole") == metric_rows("cut")


def test_a_run_is_read_before_numpy_has_threads(run):
    """So ``attnx resume`` forks its ranks as ``attnx`` does."""
    run(folder="one")
    read = "import sys; from pathlib import Path; from attnx.inference.validate import read_resumable_run"
    program = f"{read}; read_resumable_run(Path('one')); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_mistake_in_the_data_is_reported_once(refuse, sized):
    line = refuse(*sized("task.train=nowhere.tsv", *TWO, "folder=one"))
    assert line == f"attnx: task.train: nowhere.tsv: no such file in {Path.cwd()}\n"


BREAKING = """\
from torch import distributed

from attnx.attention.scorers.dot import Dot
from attnx.registry import register


@register("scorer", "breaking")
class Breaking(Dot):
    def score(self, queries, keys):
        if distributed.is_initialized() and distributed.get_rank() == 1 and len(keys) == 8:  # more than laws try
            raise ValueError('seven')
        return super().score(queries, keys)
"""


@pytest.mark.parametrize(
    ("raised", "message"), [("ValueError('seven')", "ValueError: seven"), ("SystemExit(0)", "SystemExit: 0")]
)
def test_an_error_of_a_plug_in_is_reported_with_its_rank(raised, message, fork_command, sized):
    file = write_plug_in("breaking", BREAKING.replace("ValueError('seven')", raised))
    process = fork_command(*sized("scorer=breaking", *TWO, "folder=one"))
    _, err = process.communicate()
    assert process.returncode == 1
    assert err.count("\n") == 1
    line = 1 + BREAKING.splitlines().index("            raise ValueError('seven')")
    assert err.startswith(
        f"attnx: rank 1 of 2 failed: the scorer 'breaking', {file}:{line} (score): {message}; "
        "all its laws: attnx check scorer=breaking (docs/add-a-part.md); the traceback is in one/error.txt"
    )
    assert message in Path("one/error.txt").read_text(encoding="utf-8")


def test_a_loss_that_is_not_finite_is_blamed_on_its_own_process(fork_command, sized, monkeypatch):
    """The first one with such a loss; the other has the mean over both, which is not finite either."""

    def spoil(model: Any, batch: Any, *args: Any) -> Loss:
        loss = token_loss(model, batch, *args)
        return loss._replace(total=loss.total * float("nan")) if rank_info().rank == 1 else loss

    monkeypatch.setattr(lightning_module, "token_loss", spoil)
    process = fork_command(*sized(*TWO, "trainer.batch_size=4", "trainer.accumulate_grad_batches=2", "folder=one"))
    _, err = process.communicate()
    assert (process.returncode, err.count("\n")) == (1, 1)
    saved = torch.load("one/1-bad_batch.pt", weights_only=True)
    assert f"nan at step 0, in a batch of 4 rows ({', '.join(map(str, saved['rows']))}; the first" in err
    assert "one/1-bad_batch.pt; start a new run" in err
    assert not Path("one/bad_batch.pt").exists()


def test_a_sweep_runs_jobs_of_two_processes(succeed, sized, shared_server):
    """Each job has one folder and one configuration, and no process begins another sweep."""
    succeed("-m", *sized(*TWO, "seed=1,2", "name=pairs", "trainer.test_examples=5"))
    assert sorted(path.name for path in Path("multirun").iterdir()) == ["pairs"]
    assert sorted(path.name for path in Path("multirun/pairs").glob("[!.]*") if path.is_dir()) == ["0", "1"]
    for job in "01":
        scores = results(f"multirun/pairs/{job}")
        assert (scores["test_examples"], scores["steps"]) == (5, 5)
        assert run_info(f"multirun/pairs/{job}")["processes"] == 2


def test_two_machines_train_together(fork_command, sized, run_once, same_weights):
    """One process each, distinguished by SLURM's variables; they train like two processes on one machine."""
    run_once(*TWO, folder="one")
    slurm = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NODELIST": "localhost", "SLURM_NNODES": "2"}
    overrides = sized("trainer=ddp", "trainer.devices=1", "trainer.num_nodes=2", "folder=two")
    first, second = ({**slurm, "SLURM_NODEID": number, "SLURM_PROCID": number} for number in "01")
    machines = [fork_command(*overrides, **variables) for variables in (first, second)]
    answers = [machine.communicate() for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], answers
    assert same_weights(["one", "two"])
    assert Path("one/predictions.tsv").read_bytes() == Path("two/predictions.tsv").read_bytes()


OPTIONS = {"accelerator": "cpu", "devices": 2, "num_nodes": 1, "precision": 32}


def test_invalid_settings_are_reported_before_training(monkeypatch):
    with pytest.raises(UserError, match=r"say how many processes: trainer\.devices=2"):
        resolve_device_count({**OPTIONS, "devices": None})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    with pytest.raises(UserError, match=r"trainer\.devices=5: only 3 GPUs are available"):
        resolve_device_count({**OPTIONS, "accelerator": "auto", "devices": 5})
    assert resolve_device_count({**OPTIONS, "accelerator": "auto", "devices": None})["devices"] == 3
    for name in ("NODE_RANK", "SLURM_NODEID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="start the command once on each machine"):
        rank_infos({**OPTIONS, "num_nodes": 2})


def test_ranks_of_the_second_machine_are_numbered(monkeypatch):
    for name, value in {"NODE_RANK": "1", "MASTER_ADDR": "there", "MASTER_PORT": "2000"}.items():
        monkeypatch.setenv(name, value)
    result = rank_infos({**OPTIONS, "devices": 3, "num_nodes": 2})
    places = [(place.rank, place.local_rank, place.world_size, place.node_rank) for place in result]
    assert places == [(3, 0, 6, 1), (4, 1, 6, 1), (5, 2, 6, 1)]
    assert {place.init_method for place in result} == {"tcp://there:2000"}
