"""Pure tensor functions: no parameters, no state."""

from attnx.ops.masked_softmax import masked_softmax as masked_softmax
