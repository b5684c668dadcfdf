"""A short soak: every kind of fault once at least. soak.py runs a long one."""

from soak import soak

# Delays most pieces of a step's work: the quiet steps at the end last longer than this process is ever held up.
SLOW = "debug.stream_delay_us=6000"


def test_nothing_is_lost_by_any_kind_of_fault(tmp_path):
    result = soak(tmp_path, num_steps=900, num_ranks=2, seed=7, more=[SLOW])
    print(result.table())
    assert {strike.name for strike in result.strikes.all} == set(result.outcomes)
    assert result.num_lost() == 0
