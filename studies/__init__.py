"""Studies of attention: their designs, the commands that train them, and their results."""
