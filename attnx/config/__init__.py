"""From a command line to a checked, plain configuration, before torch is imported."""
