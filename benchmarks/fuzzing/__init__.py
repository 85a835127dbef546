"""Random JAX programs: drawn, run planned and on one device, compared, shrunk.

``program`` is the data, ``scope`` what a program has while it is drawn, ``catalogue`` the kinds of operation,
``cases`` a program with its mesh and pins, ``check`` and ``compare`` the verdict, ``shrink`` the smaller
program that fails alike, ``workers`` and ``isolated`` the processes.
"""
