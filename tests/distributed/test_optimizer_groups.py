"""optimizer.groups: parameters by pattern with another rate or decay, on any number of ranks."""

import numpy
import pytest
from runs import losses, take_checkpoint, weights

GROUPS = ("optimizer.groups=[{match: '*norm*', weight_decay: 0.3}, {match: 'layers.1.*', learning_rate: 0, "
          "weight_decay: 0}, {match: '*.down.*', learning_rate: 1.0e-3}]")


@pytest.fixture(scope="session")
def grouped(lab):
    return lab.run("grouped", GROUPS, "checkpoint.save_steps=7", "checkpoint.keep=10", ranks=2)


def test_two_ranks_have_the_losses_of_one(lab, grouped):
    numpy.testing.assert_allclose(losses(lab.run("grouped-alone", GROUPS)), losses(grouped), rtol=2e-5)


def test_a_rate_of_zero_keeps_the_weights(lab, grouped):
    before = weights(lab.run("grouped-start", GROUPS, "run.max_steps=1", "checkpoint.save_steps=1"))
    after = weights(grouped)
    for name, values in before.items():
        if name.startswith("layers.1.") and "norm" not in name:
            assert (after[name] == values).all(), name
        else:
            assert (after[name] != values).any(), name


def test_groups_change_the_losses(lab, grouped):
    assert losses(lab.run("not-grouped"))[5:] != losses(grouped)[5:]


def test_a_run_with_groups_resumes_bit_equal(lab, grouped):
    take_checkpoint(grouped, 7, lab.folder / "runs" / "grouped-resumed")
    assert losses(lab.run("grouped-resumed", GROUPS, ranks=2)) == losses(grouped)[7:]


def test_a_resumed_run_refuses_other_groups(lab, grouped):
    take_checkpoint(grouped, 7, lab.folder / "runs" / "other-groups")
    code, _, err = lab.finish(lab.start("other-groups", "optimizer.groups=[{match: '*', weight_decay: 0}]"))
    assert code == 66 and "optimizer.groups" in err, err


@pytest.mark.parametrize("command", ["train", "plan"])
def test_a_pattern_that_matches_nothing_is_refused(lab, command):
    groups = "optimizer.groups=[{match: 'layers.*', weight_decay: 0}, {match: 'layers.0.*', learning_rate: 1}]"
    code, _, err = lab.finish(lab.start(f"no-match-{command}", groups, command=command))
    assert code == 64 and "optimizer.groups: 'layers.0.*' matches no trained parameter" in err, err
