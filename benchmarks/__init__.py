"""Benchmarks: ``python -m benchmarks.NAME`` prints a table, or with ``--json`` a JSON list of row objects."""
