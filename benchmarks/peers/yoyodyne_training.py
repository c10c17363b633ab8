"""yoyodyne's attentive LSTM, trained with its own data module and trainer; run as a script it also saves the weights.

Run by the interpreter of yoyodyne's own environment.
"""

from __future__ import annotations

import logging
from functools import partial

import torch
from lightning.pytorch.callbacks import Callback
from request import Training, read_request
from yoyodyne import data, models, optimizers, trainers
from yoyodyne.models import modules

WEIGHTS = "model.pt"


def build_model(request: Training, pairs: data.DataModule, beam_width: int = 1) -> models.SoftAttentionLSTMModel:
    """The attentive LSTM: its scores are v tanh(W [memory; state]), its query is the previous state."""
    return models.SoftAttentionLSTMModel(
        source_encoder=modules.LSTMEncoder(
            embedding_size=request.embedding,
            hidden_size=request.encoder,
            layers=1,
            bidirectional=True,
            dropout=0.0,
        ),
        embedding_size=request.embedding,
        decoder_hidden_size=request.decoder,
        decoder_layers=1,
        decoder_dropout=0.0,
        optimizer=partial(optimizers.Adam, lr=1e-3),
        vocab_size=pairs.vocab_size,
        target_vocab_size=pairs.target_vocab_size,
        beam_width=beam_width,
    )


def quiet_trainer(*callbacks: Callback, updates: int = -1) -> trainers.Trainer:
    """Its trainer, without validation, checkpoints or a logger."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    return trainers.Trainer(
        accelerator="cpu",
        max_steps=updates,
        callbacks=list(callbacks),
        limit_val_batches=0,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
    )


def train(request: Training, *callbacks: Callback) -> models.SoftAttentionLSTMModel:
    """Train as many steps as requested; yoyodyne leaves its vocabularies in the working folder."""
    pairs = data.DataModule(
        model_dir=".",
        train=request.pairs,
        target_sep=" ",
        tie_embeddings=False,
        batch_size=request.batch,
    )
    model = build_model(request, pairs)
    quiet_trainer(*callbacks, updates=request.updates).fit(model, pairs)
    return model


if __name__ == "__main__":
    torch.save(train(read_request(Training)).state_dict(), WEIGHTS)
