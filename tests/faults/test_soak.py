"""A short soak: every kind of fault once at least. soak.py runs a long one."""

from soak import soak


def test_nothing_is_lost_by_any_kind_of_fault(tmp_path):
    result = soak(tmp_path, num_steps=900, num_ranks=2, seed=7)
    print(result.table())
    assert {strike.name for strike in result.strikes.all} == set(result.outcomes)
    assert result.num_lost() == 0
