"""Laws of transformers: rows and padding, causality, steps equal to the parallel pass, and refused configurations."""

import contextlib
import copy
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import accel, registry
from attnx.data.batches import Batch
from attnx.decoding.beam import Beam
from attnx.decoding.greedy import Greedy
from attnx.errors import UserError
from attnx.laws.candidate import LawSkipped
from attnx.laws.model import INPUTS, SOURCE, SOURCE_MASK, TAG, ModelLaws, outputs_and_gradients, require_same_results
from attnx.laws.small import small_config
from attnx.models.resolve import DataSizes, resolve_model
from attnx.models.transformer.config import UNSUPPORTED_QUERIES, TransformerConfig
from attnx.models.transformer.model import Transformer
from attnx.models.transformer.sites import AttentionSite, TransformerParts
from attnx.nn.targets.numbers import Numbers
from attnx.nn.targets.symbols import Symbols

pytestmark = pytest.mark.usefixtures("float64")
Config = dict[str, Any]

SCORERS = {name: registry.describe("scorer", name).declarations for name in registry.names("scorer")}
LOOKING_BACK = [name for name, declared in SCORERS.items() if declared.get("needs_history")]
RECURRENT = [
    (kind, name)
    for kind in ("scorer", "normalizer")
    for name in registry.names(kind)
    if registry.describe(kind, name).declarations.get("is_recurrent")
]
SAMPLED = [
    ("normalizer", name)
    for name in registry.names("normalizer")
    if registry.describe("normalizer", name).declarations.get("is_sampled")
]
SCOPES: list[Any] = ["global", "history", ("local", {"window": 1}), ("local", {"center": "predictive", "window": 1})]
BOTH = ["encoder", "decoder"]
ALIKE = ("scorer", "normalizer")
# Those that can contradict each other come first.
FACTORS: dict[str, Any] = {
    "form": ["encoder_decoder", "decoder_only"],
    "scorer": [name for name in SCORERS if name not in LOOKING_BACK and ("scorer", name) not in RECURRENT],
    "position_encoding": ["sinusoidal", "learned", "rotary", "none"],
    "self_bias": [None, "alibi", "distance", "relative"],
    "scope": [*SCOPES, "encoder_decoder"],
    "cross_scope": [None, *SCOPES[2:], "global"],
    "cross_scorer": [None, "dot", "additive"],
    "written": ["symbols", "numbers"],
    "tie_embeddings": [False, True],
    "normalizer": [name for name in registry.names("normalizer") if ("normalizer", name) not in [*RECURRENT, *SAMPLED]],
    "read": ["symbols", "features"],
    "norm": ["pre", "post"],
    "norm_type": ["layer", "rms"],
    "gated": [False, True],
    "feedforward_size": [23, 0],
    "linear_bias": [True, False],
    "prefix": ["bidirectional", "causal"],
    "heads": [1, 2, 3],
    "tag_inputs": [None, ["encoder"], ["decoder"], BOTH],
    "layers": [(1, None), (2, 1), (2, 3)],
}

ROWS = torch.linspace(-2, 3, 2 * 4 * 5, dtype=torch.float64).reshape(2, 4, 5)  # where a step is five numbers
FEATURES = torch.linspace(-1, 2, 2 * 7 * 3, dtype=torch.float64).reshape(2, 7, 3)


def possible(choices: Config) -> bool:
    """Whether choices, some or all, do not contradict each other."""
    alone = choices.get("form") == "decoder_only"
    rules = {
        ("form", "cross_scope"): lambda: not alone or choices["cross_scope"] is None,
        ("form", "cross_scorer"): lambda: not alone or choices["cross_scorer"] is None,
        ("form", "layers"): lambda: not alone or choices["layers"][1] is None,
        ("form", "prefix"): lambda: alone or choices["prefix"] == "bidirectional",
        ("form", "scope"): lambda: alone or choices["scope"] != "encoder_decoder",
        ("form", "scope", "cross_scope"): lambda: alone or choices["scope"] != "history" or choices["cross_scope"],
        ("scorer", "position_encoding"): lambda: (
            choices["position_encoding"] != "rotary" or SCORERS[choices["scorer"]]["requires_equal_dims"]
        ),
        ("written", "tie_embeddings"): lambda: not choices["tie_embeddings"] or choices["written"] == "symbols",
    }
    return all(rule() for names, rule in rules.items() if choices.keys() >= set(names))


def compose_config(query: tuple[str, ...] = ("current_state",), **choices: Any) -> Config:
    """A configuration; what is not a group's choice is an option of the model's, or of attention's."""
    heads = choices.pop("heads", 2)
    attention = choices.pop("name", ("standard", {"heads": heads}))
    parts = {kind: choices.pop(kind, default) for kind, default in DEFAULTS.items()}
    sizes = {"hidden_size": 10 * heads, "feedforward_size": 23, "layers": 2, "dropout": 0.0}
    return small_config(**parts, query=query, attention=attention, model={"name": "transformer", **sizes, **choices})


DEFAULTS = {"scorer": "scaled", "scope": "global", "normalizer": "softmax"}


def build_model(written: str = "symbols", read: str = "symbols", **choices: Any) -> Any:
    config = compose_config(**choices)
    sizes = {"source_symbols": 23, "source_features": 3 if read == "features" else 0, "target_symbols": 17, "tags": 3}
    sizes["target_features"] = 5 if written == "numbers" else 0
    return resolve_model(config).build(DataSizes(**sizes)).eval()


def of(combination: Config) -> Any:
    """The model of a combination."""
    choices = dict(combination)
    layers, below = choices.pop("layers")
    for option in ("cross_scope", "cross_scorer"):
        picked = choices[option]
        choices[option] = {"name": picked[0], **picked[1]} if isinstance(picked, tuple) else picked
    return build_model(**choices, layers=layers, encoder_layers=below)


def case(model: Any) -> ModelLaws:
    """The model with what it reads and writes."""
    source = FEATURES if isinstance(model.source_embedding, torch.nn.Linear) else SOURCE
    return ModelLaws(model, source, ROWS if isinstance(model.target, Numbers) else INPUTS)


def assert_what_is_read_matters(feed: ModelLaws) -> None:
    """Another symbol changes the output of its own step and of later ones."""
    changed = feed.inputs.index_fill(1, torch.tensor([2]), 11)
    first, second = (feed.model(feed.source, SOURCE_MASK, inputs, TAG).logits for inputs in (feed.inputs, changed))
    assert not torch.allclose(first[:, 2], second[:, 2])


def test_a_training_step_waits_for_no_device(sample_combination, take_training_step):
    """In combinations in which every choice occurs."""
    laws = case(of(sample_combination))
    take_training_step(laws.model, training_batch(laws))


def test_a_gpu_computes_the_same(sample_combination, assert_same_on_gpu):
    """In combinations in which every choice occurs."""
    laws = case(of(sample_combination))
    assert_same_on_gpu(laws.model, training_batch(laws))


def training_batch(laws: ModelLaws) -> Batch:
    """What the model learns, symbols or rows."""
    target, index = laws.inputs if laws.inputs.dim() == 3 else laws.inputs.roll(-1, 1), torch.arange(len(SOURCE))
    return Batch(laws.source, SOURCE_MASK, target, INPUTS.roll(-1, 1) != 0, index, TAG)


def test_a_transformer_obeys_its_laws(combination):
    """In combinations of all choices, such that any two which can meet do so in one of them."""
    defined = of(combination)
    model = accel.enable(copy.deepcopy(defined))
    defined.load_state_dict(model.state_dict())
    require_same_results(outputs_and_gradients(case(defined)), outputs_and_gradients(case(model)), "with accel")
    laws = case(model)
    for law in ModelLaws.collect():
        with contextlib.suppress(LawSkipped):  # it has no schedules
            getattr(laws, law.method)()
    assert_what_is_read_matters(laws)


@pytest.mark.parametrize(
    "choice", [{}, {"form": "decoder_only"}, {"norm": "post", "position_encoding": "rotary"}], ids=str
)
def test_gradients(choice):
    """Those of every parameter are those of finite differences."""
    model = build_model(**choice, layers=1, heads=1, hidden_size=4, feedforward_size=3)
    names, values = zip(*((name, value.detach()) for name, value in model.named_parameters()), strict=True)
    few = [place for place, name in enumerate(names) if "embedding" not in name and not name.startswith("source")]

    def logits(*moved: Tensor) -> Tensor:
        inputs = dict(zip(names, values, strict=True)) | {
            names[place]: new for place, new in zip(few, moved, strict=True)
        }
        output: Tensor = torch.func.functional_call(
            model, inputs, (SOURCE[:, :3], SOURCE_MASK[:, :3], INPUTS[:, :2], TAG)
        ).logits
        return output[..., :2]

    assert torch.autograd.gradcheck(logits, [values[place].clone().requires_grad_() for place in few], fast_mode=True)


@pytest.mark.parametrize("form", FACTORS["form"])
@pytest.mark.parametrize("search", [Greedy(), Beam(3, nbest=3)], ids=["greedy", "beam"])
def test_decoding_matches_the_parallel_pass(form, search):
    """Log-probabilities and weights of every hypothesis, of rows that share their source and are reordered."""
    torch.manual_seed(7)
    model = build_model(form=form, scorer="cosine", position_encoding="rotary")
    with torch.no_grad():
        model.output.weight *= 3
        decoded = search(model, SOURCE, SOURCE_MASK, TAG, need_weights=True)
        for rank in range(decoded.sequences.shape[1]):
            written, steps = decoded.sequences[:, rank], decoded.lengths[:, rank]
            inputs = torch.cat([model.target.start_input(2, SOURCE.device)[:, None], written[:, :-1]], 1)
            output = model(SOURCE, SOURCE_MASK, inputs, TAG, need_weights=True)
            log_probs = output.logits.log_softmax(-1).gather(-1, written[..., None])[..., 0]
            real = torch.arange(written.shape[1]) < steps[:, None]
            torch.testing.assert_close((log_probs * real).sum(-1), decoded.log_probability[:, rank])
            read = decoded.weights[:, rank]
            mask = real[:, None, :, None].to(read.dtype)
            torch.testing.assert_close(read * mask, output.weights[..., : read.shape[-1]] * mask)


def test_beams_share_the_encoded_source():
    """Rows that take the place of others of their source read the source where it is; the past goes with them."""
    model = build_model()
    rows = torch.tensor([0, 0, 0, 1, 1, 1])
    state = model.select_rows(model.init_state(SOURCE, SOURCE_MASK), rows)
    assert [memory.keys.shape[0] for memory in (*state.cross_memories, *state.self_memories)] == [6, 6, 6, 6]
    _, state, _ = model.decode_step(torch.tensor([5, 7, 11, 5, 7, 11]), state)
    reordered = model.reorder_beams(state, torch.tensor([2, 0, 2, 4, 4, 3]))
    assert all(
        result.keys is original.keys
        for result, original in zip(reordered.cross_memories, state.cross_memories, strict=True)
    )
    assert torch.equal(reordered.self_memories[0].keys[0], state.self_memories[0].keys[2])


def test_a_transformer_is_built_in_python():
    """As many layers, of that size, as the constructor is given; none of it is read from a configuration."""
    site = AttentionSite("dot", ("local", {"window": 2}))
    parts = TransformerParts(self_attention=site, attention={"heads": 3})
    options = TransformerConfig(hidden_size=24, layers=6, encoder_layers=2)
    model = Transformer(Symbols(23), Symbols(17), options, parts)
    assert (len(model.decoder.layers), model.encoder and len(model.encoder.layers)) == (6, 2)
    assert model.decoder.layers[5].cross_attention.heads[2].scope.window == 2
    assert model.decoder.layers[0].feed_forward.up.weight.shape == (96, 24)
    assert model(SOURCE, SOURCE_MASK, INPUTS).logits.shape == (2, 4, 17)
    alone = Transformer(None, Symbols(17), TransformerConfig(form="decoder_only", hidden_size=24), parts)
    assert (alone.encoder, alone.sources) == (None, ("decoder",))
    with pytest.raises(ValueError, match="an encoder needs a source"):
        Transformer(None, Symbols(17), options)


@pytest.mark.parametrize("site", [AttentionSite("location"), AttentionSite(normalizer="forward")], ids=str)
def test_parts_of_earlier_steps_are_refused_in_python(site):
    with pytest.raises(UserError, match="a layer computes all steps at once"):
        Transformer(None, Symbols(17), TransformerConfig(form="decoder_only"), TransformerParts(self_attention=site))


def test_dropout_applies_in_training_only():
    model = build_model(dropout=0.3)
    first, second = (model.train()(SOURCE, SOURCE_MASK, INPUTS).logits for _ in range(2))
    assert not torch.allclose(first, second)
    torch.testing.assert_close(*(model.eval()(SOURCE, SOURCE_MASK, INPUTS).logits for _ in range(2)))


def test_encoder_history_reads_no_later_positions():
    """Of the source's states those before a changed symbol stay; with ``global`` none does."""
    changed = SOURCE.index_fill(1, torch.tensor([2]), 9)
    for scope, same in (("history", True), ("global", False)):
        model = build_model(scope=scope, cross_scope="global")
        read = [model.init_state(source, SOURCE_MASK).cross_memories[0].keys[:, :, :2] for source in (SOURCE, changed)]
        assert torch.allclose(*read) is same


def test_a_causal_prefix_is_read_as_by_the_scope_history():
    """With the same weights; read in both directions it gives something else."""
    models = [build_model(form="decoder_only", **choice) for choice in ({"prefix": "causal"}, {"scope": "history"}, {})]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    causal, history, bidirectional = (model(SOURCE, SOURCE_MASK, INPUTS).logits for model in models)
    torch.testing.assert_close(causal, history)
    assert not torch.allclose(causal, bidirectional)


@pytest.mark.parametrize("options", [{"heads": 1}, {"heads": 2}, {"name": ("standard", {"heads": 2, "hops": 2})}])
def test_rotary_positions_are_relative(options):
    """With rotary positions only, a stream that starts later gives the same."""
    model = build_model(form="decoder_only", position_encoding="rotary", **options)
    with torch.no_grad():
        state = model.init_state(SOURCE[:1], SOURCE_MASK[:1])
        shifted = torch.arange(7)[None] + 5
        states, chunk = model._embed_source(SOURCE[:1], SOURCE_MASK[:1], None)[::-1]
        later = model.decoder.make_memory(states, chunk._replace(rotation=model.source_positions.rotary(shifted)))
        memories = tuple(
            memory._replace(keys=torch.cat([moved.keys, memory.keys[:, :, 7:]], 2))
            for memory, moved in zip(state.self_memories, later, strict=True)
        )
        moved = state._replace(self_memories=memories, offset=state.offset + 5)
        torch.testing.assert_close(*(model.decode_step(INPUTS[:1, 0], item)[0] for item in (state, moved)))


REFUSED: dict[str, tuple[Config, str]] = {
    "no attention": ({"name": "none"}, "model=transformer needs attention, but attention=none is chosen"),
    "own in cross": ({"scope": "history"}, "scope=history is over the decoder's own past"),
    "both": ({"scope": "encoder_decoder"}, "scope=encoder_decoder joins the source and the decoder's own past"),
    "itself": ({"scope": ("global", {"include_self": True})}, "a transformer's positions always attend to themselves"),
    "sources": ({"scope": ("global", {"sources": ["decoder"]})}, "remove sources, and choose the site"),
    "rotary": ({"scorer": "additive", "position_encoding": "rotary"}, "but scorer=additive maps them first"),
    "odd": (
        {"position_encoding": "rotary", "hidden_size": 9, "heads": 3},
        r"is split among 3 head\(s\); choose a multiple of 6",
    ),
    "unknown": ({"self_scorer": "cosin"}, "unknown scorer 'cosin'.*cosine"),
    "option": ({"self_scope": {"name": "local", "windw": 3}}, "the scope 'local' has no option 'windw'.*window"),
    "no query": ({"query": ()}, "the query is empty"),
    **{
        f"past {scorer}": ({"scorer": scorer}, f"scorer={scorer} needs earlier attention weights")
        for scorer in LOOKING_BACK
    },
    **{f"recurrent {name}": ({kind: name}, f"{kind}={name} carries something") for kind, name in RECURRENT},
    **{
        f"query {query}": (
            {"query": (query,)},
            re.escape(f"query={query} does not work with model=transformer: {reason}"),
        )
        for query, reason in UNSUPPORTED_QUERIES.items()
    },
}


@pytest.mark.parametrize(("choices", "message"), REFUSED.values(), ids=REFUSED)
def test_an_unsupported_choice_is_refused(choices, message):
    with pytest.raises(UserError, match=message) as refused:
        resolve_model(compose_config(**choices))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"tie_embeddings": True, "written": "numbers"}, "model.tie_embeddings=true needs target symbols to embed"),
        ({"hidden_size": 9}, "attention.heads=2 does not divide the width of the values, 9"),
    ],
)
def test_invalid_sizes_are_refused(choices, message):
    with pytest.raises(UserError, match=message):
        build_model(**choices)
