"""The encoders: from embedded source symbols to states that can be remembered. One encoder, one file."""
