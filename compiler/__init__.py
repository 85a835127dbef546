"""The compiler: frontend, IR, rules, planner, plan, lowering."""
