"""memory.offload: optimizer. The state of optimizers in host memory, and the bits of a run that keeps it on the device."""

import json
import re

import pytest
from runs import assert_bit_equal, losses, take_checkpoint, weights

OFFLOAD = "memory.offload=optimizer"
SAVES = ["run.max_steps=6", "checkpoint.save_steps=3", "checkpoint.keep=10"]
BF16 = ["precision.compute=bf16", "precision.reduce=bf16"]
LORA = ["adapter.kind=lora", "adapter.rank=4", "optimizer.learning_rate=1.0e-2"]
SOPHIA = ["optimizer.name=sophia", "optimizer.hessian_every=2", "optimizer.betas=[0.9,0.5]", "optimizer.gamma=1"]
FP8 = ["precision.linear=fp8_tensor", "precision.weight_gradient=fp8"]
GROUPS = "optimizer.groups=[{match: '*norm*', weight_decay: 0.3}, {match: 'layers.1.*', name: lion, learning_rate: 1.0e-4}]"
KINDS = ("weight", "exp_avg", "exp_avg_sq", "exp_avg_codes", "exp_avg_absmax", "exp_avg_sq_codes", "exp_avg_sq_absmax",
         "momentum_buffer", "hessian", "lion_exp_avg")

CASES = {
    "float32": (1, []),
    "float32-2": (2, []),
    "bf16": (1, BF16),
    "bf16-moments": (2, [*BF16, "optimizer.moments=bf16"]),
    "int8-moments": (2, [*BF16, "optimizer.moments=int8"]),
    "muon": (2, [*BF16, "optimizer.name=muon", "optimizer.learning_rate=3.0e-3"]),
    "muon-one": (1, [*BF16, "optimizer.name=muon", "optimizer.learning_rate=3.0e-3"]),
    "sophia": (2, [*BF16, *SOPHIA]),
    "lion": (2, [*BF16, "optimizer.name=lion"]),
    "groups": (2, [*BF16, GROUPS]),
    "stage-2": (2, [*BF16, "parallel.zero_stage=2"]),
    "pairs": (4, [*BF16, "parallel.shard_size=2", "guard.check_replicas_steps=2"]),
    "replicas": (2, [*BF16, "parallel.shard_size=1"]),
    "local-sums": (2, [*BF16, "parallel.accumulate=local", "batch.max_tokens_per_micro_batch=512"]),
    "adapter": (2, [*BF16, *LORA]),
    "frozen": (2, [*BF16, "model.frozen=[embed.weight, layers.0.*]"]),
    "fp8": (2, [*BF16, *FP8]),
    "late-streams": (2, [*BF16, "debug.stream_delay_us=300", "debug.poison_slots=true"]),
    "no-copies": (2, [*BF16, "checkpoint.asynchronous=false"]),
    "skipped": (2, [*BF16, "guard.non_finite=skip", "fault.kind=nan_gradient", "fault.step=3"]),
}


def states(run):
    return {kind: weights(run, kind) for kind in KINDS}


def assert_same_states(first, second):
    for kind, wanted in states(second).items():
        found = weights(first, kind)
        assert found.keys() == wanted.keys(), kind
        assert all((found[name] == wanted[name]).all() for name in wanted), kind


@pytest.fixture(scope="session")
def kept(lab):
    """Runs of each case without the offload, made when they are first asked for."""
    runs = {}

    def of(case):
        ranks, settings = CASES[case]
        if case not in runs:
            runs[case] = lab.run(f"kept-{case}", *SAVES, *settings, ranks=ranks)
        return runs[case]

    return of


@pytest.mark.parametrize("case", CASES)
def test_losses_weights_and_states_are_those_without_it(lab, kept, case):
    ranks, settings = CASES[case]
    offloaded = lab.run(f"offloaded-{case}", *SAVES, *settings, OFFLOAD, ranks=ranks)
    assert_bit_equal(offloaded, kept(case))
    assert_same_states(offloaded, kept(case))
    assert any(len(values) > 0 for kind, values in states(offloaded).items() if kind != "weight")


@pytest.mark.parametrize("case", ["float32-2", "int8-moments", "muon", "sophia", "adapter"])
@pytest.mark.parametrize("begins_offloaded", [False, True])
def test_a_run_resumes_with_and_without_it(lab, kept, case, begins_offloaded):
    ranks, settings = CASES[case]
    whole = kept(case)
    name = f"resumed-{case}-{begins_offloaded}"
    begun = lab.run(f"{name}-begun", *SAVES, *settings, OFFLOAD, ranks=ranks) if begins_offloaded else whole
    take_checkpoint(begun, 3, lab.folder / "runs" / name)
    resumed = lab.run(name, *SAVES, *settings, *([] if begins_offloaded else [OFFLOAD]), ranks=ranks)
    assert losses(resumed) == losses(whole)[3:]
    assert_same_states(resumed, whole)


def test_it_goes_with_offloaded_activations(lab, kept):
    both = lab.run("offloaded-both", *SAVES, *BF16, "memory.recompute=full", "memory.offload=[activations, optimizer]")
    assert losses(both) == losses(kept("bf16"))


def test_memory_fit_takes_it_where_nothing_else_fits_and_a_resumed_run_keeps_it(lab):
    settings = [*SAVES, *BF16, "data.validation="]
    least = ["memory.recompute=full", "memory.offload=[activations, optimizer]", "parallel.gather_slots=3"]
    code, out, err = lab.finish(lab.start("offload-least", *settings, *least, "--memory", "--json", command="plan"))
    assert code == 0, err
    limit = f"memory.limit_gib={1.005 * json.loads(out)['predicted_memory_bytes'] / 2**30}"
    fitted = lab.run("offload-state-fitted", *settings, limit)
    [entry] = json.loads((fitted / "plan.json").read_text())["entries"]
    assert "optimizer" in entry["memory_fit"]["offload"]
    take_checkpoint(fitted, 3, lab.folder / "runs" / "offload-state-resumed")
    resumed = lab.run("offload-state-resumed", *settings, limit)
    [again] = json.loads((resumed / "plan.json").read_text())["entries"]
    assert again["memory_fit"] == entry["memory_fit"]
    assert losses(resumed) == losses(fitted)[3:]


def test_a_plan_counts_it_in_host_memory(lab):
    plan = {}
    for offload in ("none", "optimizer"):
        settings = [*BF16, f"memory.offload={offload}"]
        code, out, err = lab.finish(lab.start("offload-plan", *settings, "--memory", "--json", "--gpu-gib", "80",
                                              command="plan"))
        assert code == 0, err
        plan[offload] = json.loads(out)
    device, host = ({key: plan[key][name] for key in plan} for name in ("memory_bytes_by_purpose",
                                                                        "host_bytes_of_a_rank"))
    for name in ("master weights", "moments"):
        assert host["optimizer"][name] == device["none"][name]
        assert name not in device["optimizer"] and name not in host["none"]
    assert plan["optimizer"]["checkpoint_bytes"] == plan["none"]["checkpoint_bytes"]
    assert plan["optimizer"]["predicted_state_copy_s"] > 0
    code, out, err = lab.finish(lab.start("offload-plan-measured", *settings, "--memory",
                                          "--json", "--gpu-gib", "80", "--host-copy-gbs", "30", command="plan"))
    assert code == 0, err
    assert json.loads(out)["predicted_state_copy_s"] == pytest.approx(
        1.5 * plan["optimizer"]["predicted_state_copy_s"])


def test_values_that_do_not_go_together_are_refused(lab):
    code, _, err = lab.finish(lab.start("offload-refused", "memory.offload=[none, optimizer]"))
    assert code == 64 and re.search("memory.offload.*stand alone", err, re.DOTALL), err
