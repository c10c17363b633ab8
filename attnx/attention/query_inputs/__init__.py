"""The query inputs: what is compared with the memory. One input, one file."""
