"""The command line's entry: ``meshwright`` and ``python -m meshwright``."""

from __future__ import annotations

from meshwright.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
