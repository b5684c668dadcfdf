"""A bit that flips in one of several copies of the same state is found, and nothing of it is saved."""

import pytest
from runs import assert_bit_equal, steps

RUN = ["run.max_steps=10", "checkpoint.save_steps=3", "checkpoint.keep=10", "data.validation="]
FLIP = ["fault.kind=flip_bit", "fault.step=4"]


def saved(run):
    return sorted(int(path.name.split("-")[1]) for path in (run / "checkpoints").iterdir())


# settings, ranks, which rank's bit flips, who is named, after which step
CASES = {
    "gathered weights, stage 2": (["parallel.zero_stage=2", "guard.check_replicas_steps=2"], 3, 1,
                                  "gathered: not the same on all ranks that hold it: rank 1 differs from ranks 0, 2", 4),
    "resident weights, stage 3": (["guard.check_replicas_steps=4"], 3, 0, "rank 0 differs from ranks 1, 2", 4),
    "two ranks": (["guard.check_replicas_steps=1"], 2, 1, "rank 0 and rank 1 differ", 4),
    "replicas of a shard": (["parallel.shard_size=1", "guard.check_replicas_steps=5"], 3, 2,
                            "rank 2 differs from ranks 0, 1", 5),
    "pairs": (["parallel.shard_size=2", "guard.check_replicas_steps=5"], 4, 3, "rank 1 and rank 3 differ", 5),
}


@pytest.mark.parametrize("case", CASES)
def test_a_flipped_bit_is_found_and_the_rank_named(lab, case):
    settings, ranks, rank, named, found_at = CASES[case]
    name = case.replace(" ", "-").replace(",", "")
    code, _, err = lab.finish(lab.start(name, *RUN, *settings, *FLIP, f"fault.rank={rank}", ranks=ranks))
    assert code == 73, err
    assert f"injected on rank {rank} at step 4" in err
    assert f"step {found_at}: " in err and named in err
    run = lab.folder / "runs" / name
    assert saved(run) == [3]
    resumed = lab.run(name, *RUN, *settings, ranks=ranks)
    assert_bit_equal(resumed, lab.run(name + "-whole", *RUN, *settings, ranks=ranks))


def test_what_differs_is_never_saved(lab):
    settings = [*RUN, "parallel.shard_size=1", "guard.check_replicas_steps=1000"]
    code, _, err = lab.finish(lab.start("unsaved", *settings, *FLIP, "fault.rank=0", ranks=3))
    assert code == 73 and "step 6: the state of" in err and "rank 0 differs" in err
    assert saved(lab.folder / "runs" / "unsaved") == [3]


@pytest.mark.parametrize("settings", [[], ["parallel.zero_stage=2"], ["parallel.shard_size=1"]],
                         ids=["stage 3", "stage 2", "replicas"])
def test_comparing_changes_no_bit(lab, settings):
    name = "compared-" + "".join(settings)
    often = lab.run(name, *RUN, *settings, "guard.check_replicas_steps=1", ranks=2)
    never = lab.run(name + "-not", *RUN, *settings, "guard.check_replicas_steps=0", ranks=2)
    assert_bit_equal(often, never)
    assert len(steps(often)) == 10
