"""Measuring the devices at hand: what `cost_models.calibration` lists is run here, and the result fitted."""
