"""Saved after every step of two small epochs, resumed from each, and resumed from what was resumed: always the same
run, to the last bit."""

import pytest
from runs import assert_bit_equal, steps, take_checkpoint, weights

STRATEGIES = {
    "balanced": ["batch.global_batch_size=8"],
    "padding": ["batch.global_batch_size=8"],
    "multipack": ["batch.global_batch_tokens=900", "batch.global_batch_size=null", "batch.max_tokens_per_micro_batch=512"],
    "fixed_length": ["batch.global_batch_size=2", "data.max_length=400"],
}


@pytest.fixture(scope="session")
def small_store(lab):
    return lab.make_store("small", 24, 21)


def settings_of(strategy, store):
    return [f"batch.strategy={strategy}", *STRATEGIES[strategy], f"data.train={store}", "data.validation=",
            "run.num_epochs=2", "run.max_steps=null", "checkpoint.save_steps=1", "checkpoint.keep=100"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_resumes_from_every_step(lab, small_store, strategy):
    settings = settings_of(strategy, small_store)
    whole = lab.run(f"whole-{strategy}", *settings, ranks=2)
    last = max(steps(whole))
    assert last >= 4 and {line["epoch"] for line in steps(whole).values()} == {0, 1}
    for step in range(1, last):
        name = f"{strategy}-from-{step}"
        take_checkpoint(whole, step, lab.folder / "runs" / name)
        resumed = lab.run(name, *settings, ranks=2)
        assert sorted(steps(resumed)) == list(range(step + 1, last + 1))
        for number, line in steps(resumed).items():
            for key in ("loss", "grad_norm", "num_examples", "num_tokens", "num_loss_tokens", "epoch"):
                assert line[key] == steps(whole)[number][key], (step, number, key)
        for kind in ("weight", "exp_avg", "exp_avg_sq"):
            found, wanted = weights(resumed, kind), weights(whole, kind)
            assert all((found[name] == wanted[name]).all() for name in wanted), (step, kind)


@pytest.mark.parametrize("strategy", ["balanced", "multipack"])
def test_a_run_that_stops_after_every_step_is_the_same_run(lab, small_store, strategy):
    settings = settings_of(strategy, small_store)
    whole = lab.run(f"unstopped-{strategy}", *settings, ranks=2)
    name = f"stopped-{strategy}"
    for step in range(1, max(steps(whole))):
        code, _, err = lab.finish(lab.start(name, *settings, "fault.kind=stop", f"fault.step={step}", ranks=2))
        assert code == 75, err
        assert sorted(steps(lab.folder / "runs" / name)) == list(range(1, step + 1))
    assert_bit_equal(lab.run(name, *settings, ranks=2), whole)
