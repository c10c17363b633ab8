"""The sections of benchmarks/gpu.py, a module each: cases of a measurement, and the aims of its figures."""
