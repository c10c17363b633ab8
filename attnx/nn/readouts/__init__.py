"""The readouts: what the output layer sees. One readout, one file."""
