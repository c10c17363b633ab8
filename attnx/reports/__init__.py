"""Tables and pictures, made from run folders alone."""
