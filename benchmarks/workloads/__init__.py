"""The benchmarks' training steps, a module for each family; ``benchmarks.models`` names them."""
