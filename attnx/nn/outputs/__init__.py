"""The output layers: from what was read out and read to what is written. One layer, one file."""
