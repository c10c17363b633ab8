"""The decoders' recurrences. One decoder, one file."""
