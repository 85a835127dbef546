"""Checks a plan against the program that XLA really compiles from it, for devices that are not there."""

from .report import Cause, Communication, MemoryComparison, Timing, VerifyReport
from .verify import verify_plan

__all__ = ["Cause", "Communication", "MemoryComparison", "Timing", "VerifyReport", "verify_plan"]
