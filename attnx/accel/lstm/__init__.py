"""An LSTM over packed rows, in C."""
