"""Bytes of a loss mask: 0 and 1 are the weights 0 and 1, the others hundredths between them."""

from collections.abc import Sequence

WEIGHTED = "loss_weights"  # key of store.json, and the feature that a store's reader must know


def weight_table() -> list[float]:
    """Entry m is the weight of the mask byte m."""
    return [0, 1] + [hundredths / 100 for hundredths in range(1, 100)]


def mask_byte(weight: float) -> int:
    """The mask byte of a weight from 0 to 1, rounded to two decimals; a positive weight is at least 0.01."""
    if not 0.0 <= weight <= 1.0:
        raise ValueError(f"the weight is {weight}, wanted a number from 0 to 1")
    if weight == 0.0:
        return 0
    hundredths = max(1, round(weight * 100))
    return 1 if hundredths == 100 else hundredths + 1


def is_rounded(weight: float, table: Sequence[float] = tuple(weight_table())) -> bool:
    """True when `mask_byte` rounds the weight."""
    return table[mask_byte(weight)] != weight
