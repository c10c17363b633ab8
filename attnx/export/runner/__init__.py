"""What is copied beside exported programs, to run them without attnx."""
