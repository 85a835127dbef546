"""How the solver says that nothing fits."""

from __future__ import annotations

from .problem import Choice


def is_over(bytes_: float, budget_bytes: float) -> bool:
    """Whether memory passes a budget by more than the rounding of a bound."""
    return bytes_ > budget_bytes + max(0.5, 1e-9 * abs(budget_bytes))


class InfeasibleBudget(Exception):
    """No choice fits the budget, or the search found none. The caller turns this into a user error.

    Attributes:
        budget_bytes: The budget that was asked for.
        least_budget_bytes: A budget that `choice` attains, so solving again with it succeeds; the least one
            known.
        bound_bytes: No budget below this works.
        is_proven: Whether the bound shows that the budget cannot work (else limits stopped the search).
        point: The live point where `choice` weighs most.
        choice: The choice of least memory, shape [num_nodes].
    """

    def __init__(
        self, budget_bytes: float, least_budget_bytes: float, bound_bytes: float, point: int, choice: Choice
    ) -> None:
        is_proven = is_over(bound_bytes, budget_bytes)
        verdict = "nothing fits" if is_proven else "nothing was found to fit"
        super().__init__(
            f"{verdict} {budget_bytes:.6g} bytes; the least known to work is {least_budget_bytes:.6g} bytes "
            f"(live point {point})"
        )
        self.is_proven = is_proven
        self.budget_bytes = budget_bytes
        self.least_budget_bytes = least_budget_bytes
        self.bound_bytes = bound_bytes
        self.point = point
        self.choice = choice


class NoAllowedChoice(Exception):
    """Every choice has an infinite cost, whatever the memory.

    Attributes:
        node: A node that has no allowed strategy, or -1 where only pairs are to blame.
    """

    def __init__(self, node: int = -1) -> None:
        super().__init__("no choice has a finite cost")
        self.node = node
