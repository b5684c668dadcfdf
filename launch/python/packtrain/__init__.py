"""The installed package: bin/packtrain, its libraries (lib), the Python tools (python) and example configurations.
`plan`, `write_plan` and the other names below make plan files for batch.strategy: file (docs/strategies.md)."""

from packtrain.plans import Plan, PlanError, plan, read_lengths, read_plan, write_plan

__all__ = ["Plan", "PlanError", "plan", "read_lengths", "read_plan", "write_plan"]
