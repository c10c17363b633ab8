"""A dashboard is built from logged runs."""

import json
from pathlib import Path
from typing import Any

import pytest

import attnx
from attnx import registry
from attnx.cli.commands.dashboard import WorkspaceRequest, workspace, workspace_request
from attnx.cli.main import run as run_command
from attnx.runs.sweep import Sweep
from attnx.sweeps.record import save_sweep
from attnx.training.logger_session import _pictures
from tests.run_folder import write_run_folder

pytest.importorskip("wandb_workspaces")
KINDS = ("scorer", "scope", "query", "normalizer")


def dumped(space: Any) -> str:
    """A workspace as JSON, as it would be sent."""
    return str(space._to_model().model_dump_json(by_alias=True, exclude_none=True, indent=1))


@pytest.fixture(autouse=True)
def _without_a_key(monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "away"))
    yield
    import wandb

    wandb.teardown()


@pytest.fixture
def write_run(work_folder):
    """Write what a dashboard reads of a run folder."""

    def make(folder: str, logger: dict[str, Any] | None = None, **info: Any) -> Path:
        return write_run_folder(folder, {"logger": logger or {}}, **{"name": None, **info})

    return make


def wandb_with(**options: Any) -> dict[str, Any]:
    return {"wandb": registry.check("logger", "wandb", options)}


def panels(space: Any) -> dict[str, list[dict[str, Any]]]:
    """The panels of a workspace by section, as they would be sent."""
    sections = json.loads(dumped(space))["spec"]["section"]["panelBankConfig"]["sections"]
    return {section["name"]: section["panels"] for section in sections}


def test_a_sweep_selects_its_runs(write_run):
    write_run("multirun/scorers/0", wandb_with(project="mine", entity="us"), monitor="valid_bleu", maximize=True)
    write_run("multirun/scorers/1", wandb_with(project="mine", entity="us"))
    save_sweep(Sweep(Path("multirun/scorers"), "attnx -m", []))
    expected = WorkspaceRequest("mine", "us", group="scorers", metric="bleu", maximize=True)
    assert workspace_request(Path("multirun/scorers")) == expected
    assert workspace_request(Path("multirun/scorers/0")) == expected
    write_run("multirun/runs/one", wandb_with())
    assert workspace_request(Path("multirun/runs/one")) == WorkspaceRequest("attnx")
    write_run("multirun/runs/7", wandb_with(), name="7")
    assert workspace_request(Path("multirun/runs/7")).group == "7"
    write_run("multirun/runs/two", wandb_with(group="some"))
    assert workspace_request(Path("multirun/runs/two")).group == "some"


def test_unlogged_runs_are_reported(write_run):
    write_run("multirun/plain/0")
    for folder, message in (("multirun/plain", "no run in it was"), ("multirun/plain/0", "this run was not")):
        with pytest.raises(attnx.UserError, match=rf"{message} logged to W&B; train with \+logger=wandb"):
            workspace_request(Path(folder))
    for words in ([], ["one", "two"], ["not a/project!"]):
        with pytest.raises(attnx.UserError, match=r"attnx dashboard|neither a folder"):
            run_command(["dashboard", *words])


def test_a_misspelled_folder_is_no_project(write_run):
    write_run("scorers/0", wandb_with())
    with pytest.raises(attnx.UserError, match=r"scorers/1: no such folder in scorers"):
        run_command(["dashboard", "scorers/1"])


def test_malformed_options_of_the_logger_are_reported(write_run):
    with pytest.raises(attnx.UserError, match=r"logger\.wandb=3: expected the options of a logger"):
        workspace_request(write_run("run", {"wandb": 3}))


def test_the_table_is_grouped_and_sorted():
    workspace_request = WorkspaceRequest("mine", "us", group="scorers", metric="per")
    (runs,) = json.loads(dumped(workspace(workspace_request)))["spec"]["section"]["runSets"]
    assert [key["name"] for key in runs["grouping"]] == ["choices.value.scorer", "choices.value.scope"]
    (order,) = runs["sort"]["keys"]
    assert (order["key"]["name"], order["ascending"]) == ("test/per", True)
    (selected,) = runs["filters"]["filters"]
    assert (selected["key"]["name"], selected["op"], selected["value"]) == ("group", "=", "scorers")
    shown = runs["runFeed"]["columnOrder"]
    assert {"summary:test/per", *(f"config:choices.value.{kind}" for kind in KINDS)} <= set(shown)
    (high,) = json.loads(dumped(workspace(workspace_request._replace(maximize=True, group=None))))["spec"]["section"][
        "runSets"
    ]
    assert high["sort"]["keys"][0]["ascending"] is False
    assert high["filters"]["filters"] == []


def test_a_workspace_has_curves_heat_maps_and_coordinates():
    result = panels(workspace(WorkspaceRequest("mine", "us", metric="wer")))
    everything = [panel for section in result.values() for panel in section]
    curves = [panel["config"] for panel in everything if panel["viewType"] == "Run History Line Plot"]
    by = {(curve["metrics"][0], curve.get("groupBy")) for curve in curves}
    assert {("valid/wer", f"choices.value.{kind}") for kind in KINDS} <= by
    assert any("gradient_norm/attention" in curve["metrics"] for curve in curves)
    shown = {key for panel in everything for key in panel["config"].get("mediaKeys", [])}
    assert shown == {"test/alignments", "valid/alignments", "test/page"}
    (lines,) = [panel["config"]["columns"] for panel in everything if panel["viewType"] == "Parallel Coordinates Plot"]
    names = [line["accessor"] for line in lines]
    assert names[:4] == [f"config:choices.value.{kind}" for kind in KINDS]
    assert names[-1] == "summary:test/wer"
    first, *remaining = result["Scorer by scope"]
    assert "groupBy" not in first["config"]  # it takes the table's: scorer, then scope
    assert [panel["config"]["groupBy"] for panel in remaining] == [f"choices.value.{kind}" for kind in KINDS]


def test_a_workspace_shows_logged_keys(run, monkeypatch):
    """Each name in a panel is one that a run logs, so that no panel stays empty."""
    logged: set[str] = set()
    config: dict[str, Any] = {}

    class Collects:
        def start(self, beginning: Any) -> dict[str, Any]:
            config.update(beginning.config)
            return {}

        def log(self, step: int, values: dict[str, float]) -> None:
            logged.update(values)

        show = log

        def finish(self, end: str, summary: dict[str, float]) -> str:
            logged.update(summary)
            return ""

    monkeypatch.setitem(registry._registered, ("logger", "tensorboard"), Collects)
    run("+logger=tensorboard", "trainer.log_every_n_steps=1", folder="one")
    logged |= set(_pictures(Path("one"), ()))
    text = json.loads(dumped(workspace(WorkspaceRequest("mine"))))["spec"]["section"]
    everything = [panel["config"] for section in text["panelBankConfig"]["sections"] for panel in section["panels"]]
    names = {name for panel in everything for name in [*panel.get("metrics", []), *panel.get("mediaKeys", [])]}
    names |= {f"{column['accessor']}" for panel in everything for column in panel.get("columns", [])}
    names |= set(text["runSets"][0]["runFeed"]["columnOrder"]) - {"run:displayName"}
    for name in names:
        kind, _, path = name.rpartition(":")
        if kind == "config":
            saved: Any = config
            for key in path.replace(".value", "").split("."):
                saved = saved[key]
        else:
            assert path in logged, name


def test_without_w_and_b_there_is_one_line(write_run, command, work_folder):
    write_run("multirun/scorers/0", wandb_with())
    answer = command("dashboard", "multirun/scorers")
    why = "wandb: no API key (`wandb login`, or WANDB_API_KEY)"
    line = f"attnx: {why}: nothing is at W&B yet; run this again when it can be reached\n"
    assert answer == (2, "", line)
    answer = command("dashboard", "us/theirs", "--metric", "bluu")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith("--metric bluu: no such metric; did you mean bleu?\n")


@pytest.mark.parametrize(("metric", "is_ascending"), [([], True), (["--metric", "bleu"], False)])
def test_a_workspace_is_saved_online(metric, is_ascending, write_run, monkeypatch, capsys):
    """By the monitored metric, or another, in its own direction: the best run is on top."""
    from attnx.loggers import wandb_server

    write_run("multirun/scorers/0", wandb_with(entity="us"))
    kind = type(workspace(WorkspaceRequest("mine")))
    saved: list[Any] = []
    monkeypatch.setattr(wandb_server, "offline_reason", lambda settings, timeout: "")
    monkeypatch.setattr(kind, "save", lambda self: saved.append(self))
    monkeypatch.setattr(kind, "url", property(lambda self: f"https://wandb.ai/{self.entity}/{self.project}"))
    assert run_command(["dashboard", "multirun/scorers", *metric]) == 0
    (space,) = saved
    assert space.name == "attnx: scorers"
    assert json.loads(dumped(space))["spec"]["section"]["runSets"][0]["sort"]["keys"][0]["ascending"] is is_ascending
    assert capsys.readouterr().out == "https://wandb.ai/us/attnx\n"
