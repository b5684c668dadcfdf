"""optimizer.moments: int8, and optimizer.name: lion: training, checkpoints, any number of ranks."""

import numpy
import pytest
from runs import assert_bit_equal, losses, take_checkpoint, weights

INT8 = "optimizer.moments=int8"
LION = ["optimizer.name=lion", "optimizer.learning_rate=3.0e-4", "optimizer.betas=[0.9, 0.99]"]
SAVES = ["checkpoint.save_steps=7", "checkpoint.keep=10"]


@pytest.fixture(scope="session")
def int8(lab):
    return lab.run("int8", INT8, *SAVES, ranks=2)


def test_losses_are_near_those_of_float32_moments(lab, int8):
    numpy.testing.assert_allclose(losses(int8), losses(lab.run("int8-not")), rtol=3e-2)


@pytest.mark.parametrize("ranks, settings", [(1, []), (3, []), (4, ["parallel.shard_size=2"])])
def test_any_number_of_ranks_has_the_same_losses(lab, int8, ranks, settings):
    run = lab.run(f"int8-{ranks}-{len(settings)}", INT8, *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(run), losses(int8), rtol=1e-3)


def test_a_resumed_run_is_bit_equal(lab, int8):
    take_checkpoint(int8, 14, lab.folder / "runs" / "int8-resumed")
    assert losses(lab.run("int8-resumed", INT8, ranks=2)) == losses(int8)[14:]


def test_a_resumed_run_with_a_part_of_a_block_is_bit_equal(lab):
    # 64 x 161 elements are 40 blocks and a quarter.
    part = ["model.config.intermediate_size=161", INT8, *SAVES]
    whole = lab.run("int8-part", *part, ranks=2)
    take_checkpoint(whole, 7, lab.folder / "runs" / "int8-part-resumed")
    assert losses(lab.run("int8-part-resumed", *part, ranks=2)) == losses(whole)[7:]


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_other_numbers_of_ranks_read_the_same_state(lab, int8, ranks):
    name = f"int8-on-{ranks}"
    take_checkpoint(int8, 7, lab.folder / "runs" / name)
    resumed = lab.run(name, INT8, *SAVES, ranks=ranks)
    numpy.testing.assert_allclose(losses(resumed), losses(int8)[7:], rtol=1e-3)


def test_a_checkpoint_has_codes_and_a_magnitude_for_each_block(int8):
    codes, largest = weights(int8, "exp_avg_codes"), weights(int8, "exp_avg_absmax")
    all_weights, floats = weights(int8), weights(int8, "exp_avg")
    assert codes and codes.keys() == largest.keys() and codes.keys().isdisjoint(floats)
    for name, values in codes.items():
        assert values.dtype == numpy.uint8 and values.size == all_weights[name].size >= 4096
        assert largest[name].size == -(-values.size // 256)
    assert all(all_weights[name].size < 4096 for name in floats)


def test_muon_has_8_bit_moments_for_what_adamw_updates(lab):
    run = lab.run("int8-muon", INT8, "optimizer.name=muon", ranks=2)
    assert weights(run, "momentum_buffer") and weights(run, "exp_avg_codes")
    alone = lab.run("int8-muon-1", INT8, "optimizer.name=muon")
    numpy.testing.assert_allclose(losses(run), losses(alone), rtol=1e-2)


def test_lion_learns_resumes_and_has_the_losses_of_any_number_of_ranks(lab):
    two = lab.run("lion", *LION, *SAVES, ranks=2)
    assert losses(two)[-1] < losses(two)[0]
    numpy.testing.assert_allclose(losses(lab.run("lion-1", *LION)), losses(two), rtol=1e-3)
    assert_bit_equal(lab.run("lion-again", *LION, ranks=2), two)
    take_checkpoint(two, 14, lab.folder / "runs" / "lion-resumed")
    assert losses(lab.run("lion-resumed", *LION, ranks=2)) == losses(two)[14:]


def test_any_number_of_blocks_before_parameters_with_other_moments_is_taken(lab):
    # 64 x 100 elements are 25 blocks; norms with float32 moments follow them.
    odd = ["model.config.intermediate_size=100", INT8, "run.max_steps=4"]
    one = lab.run("int8-odd-1", *odd)
    numpy.testing.assert_allclose(losses(lab.run("int8-odd-2", *odd, ranks=2)), losses(one), rtol=1e-3)
