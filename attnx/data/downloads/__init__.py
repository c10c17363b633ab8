"""Public data sets: a YAML file per set with addresses and hashes, and the download."""
