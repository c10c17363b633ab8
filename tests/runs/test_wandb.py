"""What a run logs to W&B, read back from its files; and no server can delay a run."""

import faulthandler
import hashlib
import io
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from attnx.errors import Interrupted
from attnx.loggers.wandb import unsynced
from attnx.loggers.wandb_server import has_api_key, stop_service, unreachable_reason
from attnx.runs.sweep import Sweep, SweepJob
from attnx.sweeps.record import save_sweep
from tests.runs.conftest import composed, file_contents, results, run_info, table, write_plug_in

wandb = pytest.importorskip("wandb")
get_core_path = pytest.importorskip("wandb.util").get_core_path
SECRET = "5ec4e7" * 7  # as long as a key is
PLAIN = ("attention=none", "+logger=wandb", "logger.wandb.timeout=1", "trainer.log_every_n_steps=1")


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """No key, no settings, no server and no service of anybody else's; and what hangs for two minutes ends it all."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_RUN_ID", "WANDB_RUN_GROUP"):
        monkeypatch.delenv(name, raising=False)
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "away"))
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("WANDB__DISABLE_STATS", "true")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    faulthandler.dump_traceback_later(120, exit=True, file=sys.__stderr__)
    yield
    stop_service(wandb)
    faulthandler.cancel_dump_traceback_later()


class Records(list[dict[str, Any]]):
    """The records of one recording."""

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [record[kind] for record in self if record["type"] == kind]

    @property
    def history(self) -> list[dict[str, Any]]:
        return [record["item"] for record in self.of("history")]

    @property
    def run(self) -> dict[str, Any]:
        return self.of("run")[0]

    @property
    def summary(self) -> dict[str, Any]:
        return {key: value for record in self.of("summary") for key, value in record["update"].items()}

    @property
    def exit_code(self) -> int:
        return int(self.of("exit")[-1].get("exit_code", 0))


def read(place: Path) -> Records:
    """What W&B's own reader finds in a recording."""
    (file,) = place.glob("*.wandb")
    # What `wandb leet inspect` calls, whose imports take a second.
    words = [get_core_path(), "leet", "inspect", "--no-observability", "--json", "--run-file", file, place.parent]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return Records(json.loads(line) for line in output.splitlines())


def recordings(folder: Path | str) -> list[Path]:
    return sorted(Path(folder, "wandb").glob("*run-*"), key=lambda path: path.name.removeprefix("offline-"))


@pytest.fixture
def run_to_end(words, no_pictures, sized):
    """Make a small run, or resume one; return its output and its folder."""
    from attnx.training.fit import fit, resume

    def make(*overrides: str, folder: str = "one", again: bool = False, error: Any = None) -> tuple[str, Path]:
        stream = io.StringIO()
        console = Console(file=stream, width=500)
        config = {**composed(tuple(sized(*overrides))), "folder": folder}
        try:
            resume(folder, console) if again else fit(config, overrides, console)
        except BaseException as raised:
            if error is None or not isinstance(raised, error):
                raise
        else:
            assert error is None
        return stream.getvalue(), Path(folder)

    return make


class Server:
    """A W&B server as far as its client looks; ``mood`` is how it meets what comes next."""

    def __init__(self) -> None:
        self.mood, self.heard, self._free = "kind", [], threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if server.mood == "dumb" or (server.mood == "dumb to questions" and self.command == "POST"):
                    server._free.wait()
                    self.close_connection = True
                    return
                server.heard.append((self.path, body))
                refused = server.mood == "strict" and self.command == "POST"
                answer = {"errors": [{"message": "who are you"}]} if refused else server.answer(self.path, body)
                self.send_response(401 if refused else 200)
                content = json.dumps(answer).encode()
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = handle_one  # noqa: N815

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None: ...

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str, body: bytes) -> dict[str, Any]:
        """Just enough for a run to begin, to be written to, and to end."""
        if path != "/graphql":
            return {}
        request_body = json.loads(body)
        variables = request_body.get("variables", {})
        if "upsertBucket" in request_body["query"]:
            project = {"name": variables.get("project"), "entity": {"name": "we"}, "id": "project"}
            bucket = {"id": "run", "name": variables.get("name"), "displayName": "", "project": project, "config": "{}"}
            return {"data": {"upsertBucket": {"bucket": {**bucket, "historyLineCount": 0}, "inserted": True}}}
        if "createRunFiles" in request_body["query"]:
            files = [{"name": name, "uploadUrl": f"{self.address}/files/{name}"} for name in variables["files"]]
            return {"data": {"createRunFiles": {"runID": "run", "uploadHeaders": [], "files": files}}}
        person = {"id": "me", "entity": "we", "username": "me", "email": "", "flags": "{}", "teams": {"edges": []}}
        made = {"artifact": {"id": "artifact", "state": "COMMITTED", "artifactSequence": {"id": "sequence"}}}
        made["artifact"]["artifactSequence"]["latestArtifact"] = None
        return {"data": {"model": None, "project": None, "viewer": person, "createArtifact": made, "serverInfo": None}}

    def close(self) -> None:
        self._free.set()
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(monkeypatch):
    """A server that is there, with a key for it."""
    started = Server()
    monkeypatch.setenv("WANDB_BASE_URL", started.address)
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    yield started
    started.close()


def holds_secret(folder: Path) -> list[str]:
    return [name for name, content in file_contents(folder).items() if SECRET.encode() in content]


def test_an_offline_run_records_everything(words, run_to_end, no_pictures, monkeypatch):
    """Recorded without a key: figures, configuration, pictures, table and page, and how to upload them."""
    no_pictures.undo()
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    overrides = ["+scorer=dot", "+logger=wandb", "logger.wandb.tags=[mine]", "trainer.log_every_n_steps=2"]
    overrides += ["trainer.test_examples=3"]
    monkeypatch.setattr("attnx.loggers.wandb.USER_DATA_FOLDER", None)
    monkeypatch.setenv("WANDB_DATA_DIR", "restored")
    Path("scorers").mkdir()
    save_sweep(
        Sweep(Path("scorers"), "attnx -m", [], jobs=[SweepJob(0, ["scorer=dot", "seed=2"]), SweepJob(1, ["seed=2"])])
    )
    output, folder = run_to_end(*overrides, "logger.wandb.artifact=true", folder="scorers/0")
    assert "wandb: WANDB_MODE=offline; recording offline\n" in output
    (place,) = recordings(folder)
    records = read(place)
    run, info = records.run, run_info(folder)
    assert run["run_id"] == info["logged"]["wandb"]["id"]
    assert (run["project"], run["run_group"], run["job_type"]) == ("attnx", "scorers", "train")
    assert run["display_name"] == "scorer=dot"
    assert {"scorer=dot", "scope=global", "query=current_state", "normalizer=softmax", "mine"} <= set(run["tags"])
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    updates = run["config"]["update"]
    assert {key: updates[key] for key in config} == config
    assert updates["choices"]["scorer"] == "dot"
    assert updates["run"]["parameters"] == info["parameters"]
    assert [row["_step"] for row in records.history] == [2, 3, 4, 5]
    rows = [row for row in table(folder / "metrics.csv") if row["valid_per"]]
    for row in rows:
        (logged,) = [record for record in records.history if record["_step"] == int(row["step"])]
        assert logged["valid/per"] == pytest.approx(float(row["valid_per"]), rel=1e-5)
        assert logged["valid/alignments._type"] == "image-file"
    assert {"train/loss", "gradient_norm/attention", "train/examples_per_second"} <= set(records.history[0])
    summary = records.summary
    assert summary["test/per"] == results(folder)["test_per"]
    assert summary["best/valid_per"] == pytest.approx(min(float(row["valid_per"]) for row in rows))
    media = records.history[-1]
    pictures = sorted((folder / "alignments").glob("*.png"))
    assert pictures
    for picture in pictures:
        expected = hashlib.sha256(picture.read_bytes()).hexdigest()
        assert media[f"heat_maps/{picture.stem}.sha256"] == expected
    page = place / "files" / media["test/page.path"]
    assert page.read_bytes() == (folder / "page.html").read_bytes()
    predictions = json.loads((place / "files" / media["test/predictions.path"]).read_text(encoding="utf-8"))
    lines = (folder / "predictions.tsv").read_text(encoding="utf-8").splitlines()
    assert predictions["columns"] == lines[0].split("\t")
    assert [row[0] for row in predictions["data"]] == [line.split("\t")[0] for line in lines[1:]]
    edits = predictions["columns"].index("edits")
    assert [row[edits] for row in predictions["data"]] == [int(line.split("\t")[edits]) for line in lines[1:]]
    assert records.exit_code == 0
    (model,) = [record for record in records.of("artifact") if record["type"] == "model"]
    entries = {entry["path"] for entry in model["manifest"]["contents"]}
    assert {"checkpoints/best.ckpt", "config.yaml", "run.json", "vocabulary/source.json"} <= entries
    command = f"wandb sync {place}"
    assert f"wandb: upload what was recorded with: {command}\n" in output
    assert f"\n{command}\n" in (folder / "README.md").read_text(encoding="utf-8")
    dry = [sys.executable, "-m", *shlex.split(command), "--dry-run"]
    assert "Would sync 1 run" in subprocess.run(dry, capture_output=True, text=True, check=True).stderr
    assert holds_secret(folder) == []
    assert (folder / "wandb" / "artifacts" / "staging").is_dir()


def test_a_failed_run_is_recorded_as_failed(run_to_end, at_step):
    def fail() -> None:
        raise RuntimeError("no")

    at_step(2, fail)
    output, folder = run_to_end(*PLAIN, error=RuntimeError)
    (place,) = recordings(folder)
    records = read(place)
    assert records.exit_code == 1
    assert [row["_step"] for row in records.history] == [1, 2]  # as in metrics.csv
    assert f"wandb sync {place}" in output
    assert f"wandb sync {place}" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_resumed_run_keeps_its_id(run_to_end, at_step, server):
    """Even where the server is back: what was recorded before must be uploaded before."""
    server.mood = "strict"
    at_step(4, lambda: signal.raise_signal(signal.SIGINT))
    _, folder = run_to_end(*PLAIN, error=Interrupted)
    server.mood = "kind"
    output, _ = run_to_end(again=True)
    assert "wandb: an earlier part of this run is not uploaded yet; recording offline\n" in output
    first, second = [read(place) for place in recordings(folder)]
    assert first.run["run_id"] == second.run["run_id"]
    assert (first.exit_code, second.exit_code) == (255, 0)
    assert [[row["_step"] for row in part.history] for part in (first, second)] == [[1, 2, 3, 4], [5]]
    assert "wandb sync {} {}\n".format(*recordings(folder)) in output
    assert unsynced(folder) == recordings(folder)
    for place in recordings(folder):
        (place / f"run-{first.run['run_id']}.wandb.synced").touch()  # as `wandb sync` leaves it
    assert unsynced(folder) == []


def test_a_resumed_run_continues_at_the_server(run_to_end, at_step, server):
    at_step(4, lambda: signal.raise_signal(signal.SIGINT))
    _, folder = run_to_end(*PLAIN, error=Interrupted)
    output, _ = run_to_end(again=True)
    parts = [read(place) for place in recordings(folder)]
    assert [place.name.partition("-")[0] for place in recordings(folder)] == ["run", "run"]
    assert [[row["_step"] for row in part.history] for part in parts] == [[1, 2, 3, 4], [5]]
    requests = [json.loads(body) for path, body in server.heard if path == "/graphql"]
    names = {request_body["variables"]["name"] for request_body in requests if "upsertBucket" in request_body["query"]}
    assert names == {parts[0].run["run_id"]}
    assert "sync" not in output


def test_without_a_key_a_run_is_recorded_offline_beside_an_open_one_of_the_user(run_to_end, work_folder):
    foreign_run = wandb.init(
        mode="offline", project="theirs", dir=str(work_folder), settings=wandb.Settings(silent=True)
    )
    output, folder = run_to_end(*PLAIN)
    assert output.count("wandb:") == 2
    assert "wandb: no API key (`wandb login`, or WANDB_API_KEY); recording offline\n" in output
    (place,) = recordings(folder)
    assert read(place).run["run_id"] != foreign_run.id
    assert wandb.run is foreign_run
    foreign_run.log({"still": 1})
    foreign_run.finish()


def test_a_server_receives_everything(run_to_end, server):
    output, folder = run_to_end(*PLAIN)
    (place,) = recordings(folder)
    assert place.name.startswith("run-")
    assert f"wandb: {server.address}/we/attnx/runs/" in output
    assert "sync" not in output
    assert "sync" not in (folder / "README.md").read_text(encoding="utf-8")
    streamed = [json.loads(body) for path, body in server.heard if path.endswith("file_stream")]
    files = [message.get("files", {}) for message in streamed]
    rows = [row for file in files for row in file.get("wandb-history.jsonl", {}).get("content", [])]
    assert [json.loads(row)["_step"] for row in rows] == [1, 2, 3, 4, 5]
    assert any(b"createArtifact" in body for _, body in server.heard)
    assert streamed[-1]["exitcode"] == 0
    assert holds_secret(folder) == []


@pytest.mark.parametrize("mood", ["gone", "dumb to questions", "strict"])
def test_an_unusable_server_at_the_start_is_reported(mood, run_to_end, server):
    """Nothing is uploaded, nothing is lost, and only what is whole is left."""
    server.mood = mood
    if mood == "gone":
        server.close()
    output, folder = run_to_end(*PLAIN)
    assert output.count("; recording offline\n") == 1
    (place,) = recordings(folder)
    assert place.name.startswith("offline-run-")
    assert f"wandb sync {place}\n" in output
    records = read(place)
    assert [row["_step"] for row in records.history] == [1, 2, 3, 4, 5]
    assert records.exit_code == 0
    assert holds_secret(folder) == []


@pytest.mark.parametrize("mood", ["gone", "dumb"])
def test_a_server_lost_while_training_is_reported(mood, run_to_end, server, at_step):
    def lose() -> None:
        server.mood = mood
        if mood == "gone":
            server.close()

    at_step(2, lose)
    output, folder = run_to_end(*PLAIN)
    first, second = recordings(folder)
    assert [path.name.partition("-")[0] for path in (first, second)] == ["run", "offline"]
    assert output.count("; recording offline from here\n") == 1
    command = f"wandb sync --include-online {first} {second}"
    assert f"{command}\n" in output
    assert f"\n{command}\n" in (folder / "README.md").read_text(encoding="utf-8")
    first_read, resumed = read(first), read(second)
    assert [row["_step"] for row in first_read.history] == [1, 2, 3, 4, 5]
    assert first_read.run["run_id"] == resumed.run["run_id"]
    assert [row["_step"] for row in resumed.history] == [5]
    assert "test/predictions.path" in resumed.history[0]
    assert resumed.summary["test/per"] > 0
    assert resumed.exit_code == 0
    dry = subprocess.run([sys.executable, "-m", *shlex.split(command), "--dry-run"], capture_output=True, text=True)
    assert "Would sync 2 run" in dry.stderr
    assert holds_secret(folder) == []


def test_a_server_lost_at_the_end_is_reported(run_to_end, server, monkeypatch):
    """After all steps, when only the end is left to report."""
    from attnx.loggers.wandb import Wandb

    finish = Wandb.finish

    def lose_server(self: Wandb, *args: Any) -> str:
        server.mood = "gone"
        server.close()
        return finish(self, *args)

    monkeypatch.setattr(Wandb, "finish", lose_server)
    output, folder = run_to_end(*PLAIN)
    (place,) = recordings(folder)
    assert "wandb: the server did not take everything within 1 s; all is kept here\n" in output
    assert f"wandb sync --include-online {place}\n" in output
    records = read(place)
    assert records.summary["test/per"] > 0
    assert records.exit_code == 0


def test_an_endless_upload_is_stopped(run_to_end, server, monkeypatch):
    """W&B may ignore its own timeouts: the upload is then abandoned, with all data in the run folder."""
    forever = threading.Event()
    monkeypatch.setattr(wandb.sdk.wandb_run.Run, "finish", lambda self, exit_code=None: forever.wait())
    monkeypatch.setattr(wandb, "teardown", lambda exit_code=None: forever.wait())
    output, folder = run_to_end(*PLAIN)
    (place,) = recordings(folder)
    assert f"wandb sync --include-online {place}\n" in output
    records = read(place)
    assert [row["_step"] for row in records.history][:4] == [1, 2, 3, 4]
    assert records.run["run_id"] in place.name
    monkeypatch.undo()
    forever.set()


# Has both of two processes do as a file beside it says: the second fall over, or the first ask to be stopped.
MOODY = """\
import os, signal, time
from pathlib import Path

from torch import distributed

from attnx.attention.scorers.dot import Dot
from attnx.registry import register
from attnx.training.distributed.launcher import GRACE_SECONDS


@register("scorer", "moody")
class Moody(Dot):
    def score(self, queries, keys):
        self.calls = getattr(self, "calls", 0) + self.training
        if self.calls == 4 and self.training:
            if Path("fall").exists() and distributed.get_rank() == 1:
                raise RuntimeError("I have fallen over")
            if Path("stop").exists() and distributed.get_rank() == 0:
                os.kill(os.getppid(), signal.SIGTERM)
        return super().score(queries, keys)


@register("logger", "slow")
class Slow:
    def start(self, run):
        return {}

    def log(self, step, values): ...

    def show(self, step, files): ...

    def finish(self, end, summary):
        time.sleep(GRACE_SECONDS + 1)
        return ""
"""


@pytest.fixture
def run_pair(words, forked_ranks, no_pictures, fork_command):
    """The command for a run of two processes without a key: its exit code, output and errors."""
    write_plug_in("moody", MOODY)

    def give(*overrides: str) -> tuple[int, str, str]:
        command = fork_command(*overrides, WANDB_MODE="offline")
        out, err = command.communicate()
        return command.returncode, out, err

    return give


PAIR = ("trainer=ddp", "trainer.devices=2", "scorer=moody", "trainer.log_every_n_steps=1", "folder=one")


def test_two_processes_are_one_run_after_resuming(run_pair, small):
    Path("stop").touch()
    code, out, err = run_pair(*small, *PAIR, "+logger=wandb")
    assert code == 128 + signal.SIGTERM, err
    assert out.count("recording offline\n") == 1
    (place,) = recordings("one")
    Path("stop").unlink()
    code, out, err = run_pair("resume", "one")
    assert code == 0, err
    parts = [read(recording) for recording in recordings("one")]
    assert recordings("one")[0] == place
    assert [len(part.of("run")) for part in parts] == [1, 1]
    assert {part.run["run_id"] for part in parts} == {run_info("one")["logged"]["wandb"]["id"]}
    assert [part.exit_code for part in parts] == [255, 0]
    rows = [row for part in parts for row in part.history]
    assert [[row["_step"] for row in part.history] for part in parts] == [[1, 2, 3, 4], [5]]
    for metrics_row in (row for row in table("one/metrics.csv") if row["valid_per"]):
        (logged,) = [row for row in rows if row["_step"] == int(metrics_row["step"])]
        assert logged["valid/per"] == pytest.approx(float(metrics_row["valid_per"]), rel=1e-5)
        assert logged["valid/loss"] == pytest.approx(float(metrics_row["valid_loss"]), rel=1e-5)
    assert parts[1].summary["test/per"] == results("one")["test_per"]
    assert f"wandb sync {' '.join(map(str, recordings('one')))}\n" in out


def test_a_run_whose_second_process_fails_is_recorded_as_failed(run_pair, small):
    """Also where that takes the first one longer than it would be waited for."""
    Path("fall").touch()
    code, out, err = run_pair(*small, *PAIR, "+logger=[slow,wandb]")
    assert code == 1
    assert re.match(r"attnx: rank 1 of 2 failed: .*RuntimeError: I have fallen over.*; the traceback is in", err)
    (place,) = recordings("one")
    records = read(place)
    assert records.exit_code == 1
    assert [row["_step"] for row in records.history] == [1, 2, 3]
    assert f"wandb sync {place}" in out


def test_the_private_name_of_the_service_process_exists(work_folder):
    """Its handle can be killed; else a service that hangs would outlive the run."""
    run = wandb.init(mode="offline", dir=str(work_folder), settings=wandb.Settings(silent=True, console="off"))
    process = wandb.setup()._connection._proc._process
    assert process.poll() is None
    run.finish()
    stop_service(wandb)
    assert process.wait(timeout=30) is not None


def test_the_connection_check_has_a_time_limit():
    """A port that accepts a connection and never answers, and a closed port."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        address = f"http://127.0.0.1:{port}"
        assert unreachable_reason(address, 0.3) == f"{address} does not answer within 0.3 s"
    assert "cannot be reached" in unreachable_reason(address, 5)


def test_a_key_may_be_in_a_netrc_file(tmp_path, monkeypatch):
    file = tmp_path / "netrc"
    file.write_text(f"machine wandb.example.org\n  login user\n  password {SECRET}\n", encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    assert has_api_key("https://wandb.example.org")
    assert not has_api_key("https://api.wandb.ai")
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    assert has_api_key("https://api.wandb.ai")


def test_the_sweep_file_of_the_docs_runs(command, succeed, words, no_pictures, small, monkeypatch):
    """As W&B's agent calls the command: a value of each parameter, as words without hyphens."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    text = (Path(__file__).parents[2] / "docs" / "logging.md").read_text(encoding="utf-8")
    sweep = yaml.safe_load(text.partition("```yaml\n# sweep.yaml\n")[2].partition("```")[0])
    chosen = {
        key: node.get("value", node.get("min", node.get("values", [None])[-1]))
        for key, node in sweep["parameters"].items()
    }
    chosen["trainer.max_steps"] = 5
    arguments = [f"{key}={value}" for key, value in chosen.items()]
    program, *fixed = [word for word in sweep["command"] if word != "${args_no_hyphens}"]
    assert (program, sweep["command"][-1]) == ("attnx", "${args_no_hyphens}")
    sizes = [size for size in small if not size.startswith("trainer.max_steps")]
    succeed(*fixed, *arguments, *sizes, "folder=one")
    summary = read(recordings(Path("one"))[0]).summary
    assert sweep["metric"]["name"] in summary
