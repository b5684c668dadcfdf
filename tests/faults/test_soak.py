"""A short soak: every kind of fault of this run's part once at least. soak.py runs a long one."""

import pytest
import rotation
from soak import soak
from strikes import KINDS

# Delays most pieces of a step's work: the quiet steps at the end last longer than this process is ever held up.
SLOW = "debug.stream_delay_us=6000"
NUM_PARTS = 5
NUM_STEPS = 460  # three faults, and the quiet steps


def parts_of_kinds():
    """Each kind is in one part."""
    return [rotation.part(KINDS, turn, NUM_PARTS) for turn in range(NUM_PARTS)]


@pytest.mark.parametrize("kinds", parts_of_kinds(), ids=[f"part-{part}" for part in range(NUM_PARTS)])
def test_nothing_is_lost_by_any_kind_of_fault(tmp_path, kinds):
    result = soak(tmp_path, num_steps=NUM_STEPS, num_ranks=2, seed=7, more=[SLOW], kinds=kinds)
    print(result.table())
    assert {strike.name for strike in result.strikes.all} == set(result.outcomes)
    assert result.num_lost() == 0
