"""Facts about a program that planning needs: op classes, flops, fusion, carried state."""
