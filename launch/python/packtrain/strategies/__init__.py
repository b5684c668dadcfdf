"""Strategies of other trainers, as examples of plan files (docs/strategies.md). Each module has make_plan(lengths, ...)
and runs as `python -m packtrain.strategies.NAME --store STORE --ranks N --out PLAN`. The code is written from the
published descriptions of these trainers."""
