"""The confirmation of the screening: few settings, trained to their end, at rates that validation chooses."""
