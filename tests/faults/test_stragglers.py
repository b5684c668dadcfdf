"""The rank that all others wait for is found by its own time."""

from runs import steps

SETTINGS = ["run.max_steps=50", "run.num_epochs=4", "data.validation=", "fault.kind=slow", "fault.seconds=0.8",
            "fault.num_steps=50"]  # so slow that no other rank is, even one that is held up for some seconds


def test_a_slow_rank_is_named_with_its_phase(lab):
    code, _, err = lab.finish(lab.start("straggler", *SETTINGS, "fault.rank=1", ranks=3))
    assert code == 0 and "injected on rank 1" in err, err
    warnings = [line for line in err.splitlines() if "is slow" in line]
    assert len(warnings) == 1 and "rank 1 is slow" in warnings[0] and "in compute (steps 17 to 32)" in warnings[0], err
    lines = steps(lab.folder / "runs" / "straggler")
    assert "slowest_phase" not in lines[15]
    for step in range(16, 51):
        assert lines[step]["slowest_rank"] == 1 and lines[step]["slowest_phase"] == "compute"
        assert lines[step]["slowest_ratio"] > 1.3


def test_no_rank_compares_where_that_is_switched_off(lab):
    code, _, err = lab.finish(lab.start("uncompared", *SETTINGS, "fault.rank=0", "guard.straggler_ratio=0", "run.max_steps=20",
                                        ranks=2))
    assert code == 0 and "injected on rank 0" in err and "is slow" not in err, err
    assert "slowest_phase" not in steps(lab.folder / "runs" / "uncompared")[20]
