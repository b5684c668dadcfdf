"""memory.offload: inputs of layers in host memory from forward to backward."""

import json

import numpy
import pytest
from runs import losses

OFFLOAD = "memory.offload=activations"
STEPS = ["run.max_steps=5"]
LORA = ["adapter.kind=lora", "adapter.rank=4", "optimizer.learning_rate=1.0e-2"]


@pytest.mark.parametrize("settings", [["memory.recompute=full"], ["memory.recompute=none"],
                                      ["memory.recompute=full:2+selective", *LORA],
                                      ["memory.recompute=full", "batch.max_tokens_per_micro_batch=512"]])
def test_losses_are_those_without_offload(lab, settings):
    name = "-".join(["offload", *settings])
    kept = lab.run(f"{name}-kept", *STEPS, *settings)
    offloaded = lab.run(name, *STEPS, *settings, OFFLOAD)
    assert losses(offloaded) == losses(kept)


def test_two_ranks_whose_streams_are_late_train_as_one(lab):
    one = lab.run("offload-one", *STEPS, "memory.recompute=full")
    two = lab.run("offload-two", *STEPS, "memory.recompute=full", OFFLOAD, "debug.stream_delay_us=300",
                  "debug.poison_slots=true", ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=2e-6)


def test_a_step_continues_after_memory_ran_out(lab):
    whole = lab.run("offload-whole", *STEPS, "memory.recompute=full")
    split = lab.run("offload-split", *STEPS, "memory.recompute=full", OFFLOAD, "fault.kind=out_of_memory", "fault.step=3",
                    "fault.block=2", "fault.backward=true")
    numpy.testing.assert_allclose(losses(split), losses(whole), rtol=2e-6)


def planned_gib(run):
    memory = json.loads((run / "memory.json").read_text())
    return (memory["planned_allocated_bytes"] + memory["planned_outside_bytes"]) / 2**30


def test_memory_fit_offloads_where_nothing_fits_otherwise(lab):
    large = [*STEPS, "batch.max_tokens_per_micro_batch=4096", "data.validation="]
    free = lab.run("offload-free", *large)
    least = planned_gib(lab.run("offload-least", *large, "memory.recompute=full", OFFLOAD))
    limit = f"memory.limit_gib={1.005 * least}"
    fitted = lab.run("offload-fitted", *large, limit)
    [entry] = json.loads((fitted / "plan.json").read_text())["entries"]
    assert entry["memory_fit"]["offload"] == "activations"
    assert planned_gib(fitted) <= 1.005 * least
    assert losses(fitted) == losses(free)
    code, _, err = lab.finish(lab.start("offload-refused", *large, limit, "memory.offload=none"))
    assert code == 69 and "memory.offload=auto" in err, err
