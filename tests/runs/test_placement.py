"""Encoder, attention and decoder on separate devices: every operator finds its inputs on one device."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from attnx.config.compose import compose
from attnx.data.batches import Batch
from attnx.errors import UserError
from attnx.nn.recurrent import Recurrent
from attnx.tasks.loss import token_loss
from attnx.training.distributed import model_parallel
from attnx.training.distributed.model_parallel import ModelParallelStrategy, place_model, placement_devices
from tests.runs.conftest import run_info, table

# Fake tensors keep them apart, as they would those of CUDA, which PyTorch cannot imagine where it is built without.
SEPARATE = {
    part: torch.device("cpu", number) for number, part in enumerate(("encoder", "attention", "decoder"), start=1)
}
CPU = dict.fromkeys(SEPARATE, torch.device("cpu"))
PLAIN = {"name": "standard"}
COMPOSITIONS: dict[str, dict[str, Any]] = {
    "run, then attend": {"scorer": "additive", "scope": "local"},
    "attend, then run": {"scorer": "mlp", "query": ["token"], "model": {"feed": "now"}},
    "step by step": {"scorer": "dot", "model": {"feed": "next"}},
    "own states": {"scorer": "multiplicative", "scope": "encoder_decoder", "query": ["previous_state"]},
    "looking back": {"scorer": "coverage"},
    "a tag": {
        "scorer": "scaled",
        "query": ["current_state", "language_tag"],
        "model": {"tag_inputs": ["encoder", "decoder"]},
    },
    "heads": {"scorer": "concat", "attention": {**PLAIN, "heads": 2}},
    "predicted window": {"scorer": "cosine", "scope": ("local", {"center": "predictive"})},
    "copy": {"scorer": "additive", "output": "copy"},
    "none": {"attention": "none"},
}


def batch(device: torch.device) -> Batch:
    source = torch.tensor([[3, 19, 7, 2, 11], [5, 13, 22, 0, 0]])
    target = torch.tensor([[5, 3, 8, 2], [7, 13, 2, 0]])
    parts = (source, source != 0, target, target != 0, torch.tensor([0, 1]), torch.tensor([2, 0]))
    return Batch(*(part.to(device) for part in parts))


def moved_anew(module: nn.Module, device: torch.device) -> nn.Module:
    """As ``module.to(device)``, which cannot move tensors that are not there."""
    for part in module.modules():
        for name, weight in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(weight.detach().to(device)))
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, buffer.to(device))
    return module


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_every_operator_finds_its_inputs_on_one_device(name, build_model, monkeypatch):
    """On three devices that are not there: an operator whose inputs lie on two of them raises."""
    monkeypatch.setattr(nn.Module, "to", moved_anew)
    original_run = Recurrent.run  # what is packed depends on lengths, which fake tensors have none of
    monkeypatch.setattr(
        Recurrent, "run", lambda self, inputs, lengths=None, **kwargs: original_run(self, inputs, **kwargs)
    )
    with FakeTensorMode():
        model = build_model(**{"attention": PLAIN, **COMPOSITIONS[name]})
        place_model(model, SEPARATE)
        placed_batch = batch(SEPARATE["decoder"])
        loss = token_loss(model, placed_batch)
        assert loss.mean.device == SEPARATE["decoder"]
        loss.mean.backward()
        for part, weight in model.named_parameters():
            where = {"source_encoder": "encoder", "attention": "attention", "state_projection": "attention"}
            device = SEPARATE[where.get(part.partition(".")[0], "decoder")]
            assert weight.device == device or not weight.dim(), part  # a single number is anywhere on a CPU
        assert "source_encoder" in dict(model.named_children())
        model.eval()
        with torch.no_grad():
            state = model.init_state(placed_batch.source, placed_batch.source_mask, placed_batch.tag)
            for _ in range(2):
                predicted, state, _ = model.decode_step(placed_batch.target[:, 0], state)
                state = model.select_rows(state, placed_batch.row_index.flip(0))
        assert predicted.device == SEPARATE["decoder"]


def test_an_operator_with_inputs_on_two_devices_is_noticed():
    with FakeTensorMode(), pytest.raises(RuntimeError, match=r"two (different )?devices"):
        torch.ones(3, device=SEPARATE["encoder"]) + torch.ones(3, device=SEPARATE["decoder"])


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_placed_model_computes_the_same_with_the_same_weight_names(name, build_model):
    model = build_model(**COMPOSITIONS[name]).eval()
    inputs, names = batch(CPU["decoder"]), list(model.state_dict())
    plain = token_loss(model, inputs).mean
    place_model(model, CPU)
    place_model(copied := copy.deepcopy(model), CPU)
    assert list(model.state_dict()) == names
    assert torch.equal(token_loss(model, inputs).mean, plain)
    assert torch.equal(token_loss(copied, inputs).mean, plain)
    token_loss(copied, inputs).mean.backward()
    assert not [part for part, weight in copied.named_parameters() if weight.requires_grad and weight.grad is None]
    nn.init.zeros_(next(copied.output.parameters()))  # a copy is not the model
    assert torch.equal(token_loss(model, inputs).mean, plain)


def test_a_run_records_its_placement_and_resumes_on_one_device(run, same_weights):
    run(folder="plain")
    run("placement.encoder=cpu", "placement.attention=cpu", folder="placed")
    assert run_info("placed")["placement"] == {"encoder": "cpu", "attention": "cpu", "decoder": "cpu"}
    assert same_weights(["plain", "placed"])
    for plain, placed in zip(table("plain/predictions.tsv"), table("placed/predictions.tsv"), strict=True):
        # A search takes the maps of a context as one only where all parts are on one device.
        likely = pytest.approx(float(plain.pop("log_probability")), abs=1e-4)
        assert float(placed.pop("log_probability")) == likely
        assert placed == plain


def test_the_state_of_an_optimizer_is_restored_where_its_weights_are():
    """Lightning would move all of it to the decoder's device, where a step fails."""
    trained, placed = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3, device="meta"))
    optimizer = torch.optim.Adam([trained])
    trained.sum().backward()
    optimizer.step()
    strategy = ModelParallelStrategy(CPU)
    strategy.optimizers = [torch.optim.Adam([placed])]
    strategy.load_optimizer_state_dict({"optimizer_states": [optimizer.state_dict()]})
    assert strategy.optimizers[0].state[placed]["exp_avg"].device == placed.device


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"attention": "cuda:3"}, "placement.attention=cuda:3: there is no such device; choose from cpu, cuda:0"),
        ({"encoder": "meta"}, "placement.encoder=meta: there is no such device"),
        ({"decoder": "gpu"}, "placement.decoder=gpu: no such kind of device"),
    ],
)
def test_a_missing_device_is_reported(overrides, message, monkeypatch):
    monkeypatch.setattr(model_parallel.torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match=message):
        placement_devices(overrides, "auto")


def test_unplaced_parts_are_on_the_device_of_the_run(monkeypatch):
    monkeypatch.setattr(model_parallel.torch.cuda, "device_count", lambda: 2)
    assert placement_devices({}, "auto") == {}
    result = placement_devices({"attention": "cuda:1"}, "auto")
    assert {part: str(device) for part, device in result.items()} == {
        "encoder": "cuda:0",
        "attention": "cuda:1",
        "decoder": "cuda:0",
    }


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["placement.attention=cuda:7"], "placement.attention=cuda:7: there is no such device"),
        (["placement.attention=cpu", "trainer=ddp", "trainer.devices=2"], "use one of them"),
        (["+placement.attend=cpu"], "placement.attend: no such part"),
    ],
)
def test_mistakes_are_reported_before_anything_is_written(overrides, message, refuse, words, small):
    assert message in refuse(*small, *overrides, "folder=one")


def test_a_plain_configuration_has_no_placement():
    assert "placement" not in compose([])
    assert compose(["placement.encoder=cuda:0"])["placement"] == {"encoder": "cuda:0"}
