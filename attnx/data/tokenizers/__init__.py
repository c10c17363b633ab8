"""Ways to cut a text into symbols and to join them again, by name."""
