"""Turns plans into text; knows only the plan's record, never the planner or the runtime."""

from .plain import plain_text
from .text import format_plan, plan_renderables

__all__ = ["format_plan", "plain_text", "plan_renderables"]
