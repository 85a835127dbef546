"""Calibration: the sweeps that identify a hardware record's constants, their fits, and the record file.

Nothing here touches a device: `runtime.calibration` measures what `sweep` lists.
"""
