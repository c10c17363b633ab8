"""The output layers: from readout vectors to logits. One layer, one file."""
