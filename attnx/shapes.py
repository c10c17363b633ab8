"""The letters used for tensor axes everywhere in attnx.

====== =============================================================================
``b``  rows of a batch
``q``  query steps: 1 in one step of an RNN, the target's length when done all at once
``m``  memory positions
``s``  source positions, ``t`` target positions
``d``  a width; ``k`` that of a key, ``v`` that of a value, ``e`` that of an embedding
``...`` any leading axes; every contract broadcasts over them
====== =============================================================================

Booleans have one polarity: True means may be read (``allowed``) or is real and not padding (``present``).
"""
