"""Collectives that do not match, or fail."""

import pytest
from watch import assert_missed_in_time

CHECKED = ["debug.check_collectives=true", "data.validation=", "run.max_steps=6"]
LIMIT_S = 10
LIMITS = [f"guard.step_timeout_s={LIMIT_S}", "guard.start_timeout_s=120", "data.validation=", "run.max_steps=6"]


def ended(lab, name, *settings, ranks=2):
    code, _, err = lab.finish(lab.start(name, *settings, ranks=ranks))
    return code, err


@pytest.mark.parametrize("kind", ["skip_collective", "other_collective"])
@pytest.mark.parametrize("layout", [[], ["parallel.zero_stage=2"]], ids=["stage 3", "stage 2"])
def test_a_call_that_does_not_match_is_an_error_that_names_both(lab, kind, layout):
    code, err = ended(lab, f"{kind}{len(layout)}", *CHECKED, *layout, f"fault.kind={kind}", "fault.step=3",
                         "fault.rank=1", "guard.step_timeout_s=60")
    assert code == 70, err
    assert "injected on rank 1 at step 3" in err
    assert "do not match: rank 1 of it is about to do call" in err and "rank 0: call" in err
    assert " for " in err and "all_gather of" in err


def test_checking_collectives_changes_no_bit(lab):
    from runs import losses

    assert losses(lab.run("checked", *CHECKED, ranks=2)) == losses(lab.run("unchecked", *CHECKED[1:], ranks=2))


# MPI may match what follows with what was skipped: then it is an error of sizes (69), else a hang.
def test_a_skipped_collective_without_the_check_ends_the_run_in_time(lab):
    code, err = ended(lab, "skipped", *LIMITS, "fault.kind=skip_collective", "fault.step=3", "fault.rank=1")
    assert "injected on rank 1 at step 3" in err
    assert code in (69, 72), err
    assert ("rank 1 runs, but has begun" if code == 72 else "MPI_ERR") in err
    if code == 72:
        assert_missed_in_time(err, LIMIT_S)


def test_a_collective_that_fails_ends_all_ranks_in_time_even_where_giving_up_hangs(lab):
    """In the ten seconds that giving up may take: finish() waits less than guard.step_timeout_s."""
    code, err = ended(lab, "failed", *LIMITS[1:], "fault.kind=failed_collective", "fault.step=3",
                               "fault.rank=1", ranks=3)
    assert code == 69, err
    assert "rank 1: a collective failed: injected" in err and "hangs: ended at once" in err


@pytest.mark.parametrize("rank", [0, 1])
def test_a_fault_that_no_call_reports_ends_the_run_long_before_its_limit(lab, rank):
    process = lab.start(f"lost-{rank}", "guard.step_timeout_s=600", "data.validation=", "run.max_steps=6",
                        "fault.kind=lost_link", "fault.step=3", f"fault.rank={rank}", ranks=3)
    code, _, err = lab.finish(process, timeout=300)
    assert code == 69, err
    assert f"rank {rank}: a link was lost: injected" in err
