"""Measurements that a cost model makes of itself: what it predicts for a sweep, disturbed."""

import random
from dataclasses import replace

from meshwright.cost_models.calibration.fit import nested
from meshwright.cost_models.calibration.points import Measurement, predicted_s
from meshwright.cost_models.calibration.sweep import sweep
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.hardware_record import load_hardware

REPEATS = 9


def with_numbers(cluster, numbers):
    """The cluster with some numbers of its record replaced."""
    hardware = load_hardware(cluster.hardware.name, nested(numbers))
    return replace(cluster, hardware=hardware)


def measured(cluster: Cluster, *, seed: int = 0, noise: float = 0.05, quick: bool = False):
    """A sweep on devices that are as the record says, each time off by up to `noise`, series by series."""
    source = random.Random(seed)
    return [
        [
            Measurement(p, predicted_s(p, cluster) * (1 + source.uniform(-noise, noise)), REPEATS)
            for p in series
        ]
        for series in sweep(cluster, quick=quick)
    ]
