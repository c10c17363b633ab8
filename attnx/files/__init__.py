"""Reading and writing files safely: atomic writes, bounded reads, and text that is safe to print."""
