"""Widths with which models cost the same: by hand, in steps that keep heads whole, and what cannot be matched."""

from collections.abc import Mapping
from typing import Any

import pytest

import attnx
from attnx.errors import UserError
from attnx.sweeps.match_widths import match_widths

Config = Mapping[str, Any]


def seq2seq(encoder: int = 40, decoder: int = 20, **others: Any) -> dict[str, Any]:
    config = attnx.compose([f"encoder.hidden_size={encoder}", f"decoder.hidden_size={decoder}"])
    return {**config, **others}


def squares(config: Config) -> float:
    return float(config["encoder"]["hidden_size"] ** 2 + config["decoder"]["hidden_size"] ** 2)


def transformer(*words: str, scorer: str = "dot") -> dict[str, Any]:
    return attnx.compose(["model=transformer", f"scorer={scorer}", "attention.heads=8", *words])


def whole_heads(config: Config) -> float:
    size = config["model"]["hidden_size"]
    if size % config["attention"]["heads"]:
        raise UserError("not whole")
    factor = 2 if config["scorer"]["name"] == "dot" else 3
    return float(factor * size**2 + size * (config["model"]["feedforward_size"] or 4 * size))


def test_encoder_and_decoder_are_scaled_together():
    """A decoder of 40 and an encoder of 80 cost 8,000; with 40 and 20 the model costs 2,000, so both are doubled."""
    first, second, same = match_widths([seq2seq(80, 40), seq2seq(), seq2seq(80, 40, seed=5)], squares)
    assert first.overrides == same.overrides == ()
    assert set(second.overrides) == {"encoder.hidden_size=80", "decoder.hidden_size=40"}
    assert (second.value, second.residual) == (8000, 0)


def test_a_wider_model_is_narrowed():
    _, second = match_widths([seq2seq(), seq2seq(80, 40)], squares)
    assert set(second.overrides) == {"encoder.hidden_size=40", "decoder.hidden_size=20"}


def test_heads_stay_whole_and_feed_forward_layers_make_up_for_the_rest():
    """6 * 256^2 = 393,216 = 7 s^2 at 237: the nearest multiple of 8 is 240, and 3 s^2 + s f gives f = 918."""
    first, second = match_widths([transformer(), transformer(scorer="multiplicative")], whole_heads)
    assert second.overrides == ("model.hidden_size=240", "model.feedforward_size=918")
    assert first.value == 393_216
    assert second.value == 3 * 240**2 + 240 * 918
    assert second.is_close


def test_what_cannot_be_close_says_so():
    words = ["model.form=decoder_only", "model.feedforward_size=0", "model.hidden_size=16"]
    _, second = match_widths([transformer(*words), transformer(*words, scorer="multiplicative")], whole_heads)
    assert second.overrides == ()  # 8 would be farther
    assert second.residual == pytest.approx(1 / 6)
    assert not second.is_close


def test_a_model_without_a_width_is_refused():
    config = seq2seq()
    bare = {**config, "encoder": {"name": "recurrent"}, "decoder": {"name": "recurrent"}}
    with pytest.raises(UserError, match="model=seq2seq has no width to match"):
        match_widths([config, bare], lambda config: float("hidden_size" in config["encoder"]))


def test_a_configuration_that_cannot_be_measured_is_refused():
    def measure(config: Config) -> float:
        if config["decoder"]["hidden_size"] == 20:
            raise UserError("does not fit its data")
        return squares(config)

    with pytest.raises(UserError, match="does not fit its data"):
        match_widths([seq2seq(80, 40), seq2seq()], measure)
