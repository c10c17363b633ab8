"""The model ``seq2seq``: an encoder, attention and a recurrent decoder."""
