"""Memory that runs out in a step: the step is discarded, and the same examples are planned over more micro-batches.
The losses are those of a run that never ran out."""

import json

import pytest
from runs import losses, steps, take_checkpoint, weights

# Memory runs out at step 6 of 12. One save is in flight then, the next is due after the step itself.
RUN = ["run.max_steps=12", "checkpoint.save_steps=5", "checkpoint.keep=10", "batch.max_tokens_per_micro_batch=512"]
OUT = ["fault.kind=out_of_memory", "fault.step=6"]
LAYOUTS = {"1": (1, []), "2": (2, []), "2 at stage 2": (2, ["parallel.zero_stage=2"]), "4": (4, []),
           "4 in pairs": (4, ["parallel.shard_size=2"]), "2 replicas": (2, ["parallel.shard_size=1"]),
           "2 with local sums": (2, ["parallel.accumulate=local"])}
FORWARD = ["fault.micro_batch=0", "fault.block=2"]
BACKWARD = ["fault.micro_batch=-1", "fault.block=1", "fault.backward=true"]


@pytest.fixture(scope="session")
def undisturbed(lab):
    return lab.run("undisturbed", *RUN)


def header(run):
    return json.loads((run / "plan.json").read_text())["entries"]


def assert_survived(run, undisturbed, number=1, step=6):
    lines = steps(run)
    assert sorted(lines) == list(range(1, 13))
    assert {n: line["num_out_of_memory"] for n, line in lines.items() if line["num_out_of_memory"]} == {step: number}
    assert not any(line["num_skipped_steps"] for line in lines.values())
    assert losses(run) == pytest.approx(losses(undisturbed), rel=2e-5)
    newest = header(run)[-1]
    assert newest["from_step"] == step - 1 and newest["lowered_from"] == 512
    assert newest["max_tokens_per_micro_batch"] < 512


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place, rank", [(FORWARD, 0), (BACKWARD, -1)], ids=["forward", "backward of all"])
def test_a_step_out_of_memory_is_repeated_in_more_micro_batches(lab, undisturbed, layout, place, rank):
    ranks, settings = LAYOUTS[layout]
    name = f"out-{layout}-{rank}".replace(" ", "-")
    run = lab.run(name, *RUN, *settings, *OUT, *place, f"fault.rank={rank}", ranks=ranks)
    assert_survived(run, undisturbed)


@pytest.mark.parametrize("place, step", [
    (["fault.micro_batch=0", "fault.block=0"], 5),  # a save follows
    (["fault.micro_batch=-1", "fault.block=-1"], 1),
    (["fault.micro_batch=-1", "fault.block=0", "fault.backward=true"], 12)],
    ids=["first of all", "last forward, first step", "last of all"])
def test_wherever_it_runs_out(lab, undisturbed, place, step):
    name = f"place-{step}-{'-'.join(place)}".replace("fault.", "").replace("=", "")
    run = lab.run(name, *RUN, "fault.kind=out_of_memory", f"fault.step={step}", "fault.rank=1", *place, ranks=2)
    assert_survived(run, undisturbed, step=step)
    assert sorted(int(path.name.split("-")[1]) for path in (run / "checkpoints").iterdir()) == [5, 10, 12]


def test_continues_as_a_run_that_was_given_the_lower_budget(lab):
    settings = [*RUN[:-1], "batch.global_batch_size=64", "run.num_epochs=4"]
    run = lab.run("lowered", *settings, "batch.max_tokens_per_micro_batch=1024", *OUT, *BACKWARD,
                  "fault.rank=1", ranks=2)
    given = lab.folder / "runs" / "given"
    take_checkpoint(run, 5, given)
    lower = header(run)[-1]["max_tokens_per_micro_batch"]
    assert 512 <= lower < 1024
    lab.run("given", *settings, f"batch.max_tokens_per_micro_batch={lower}", ranks=2)
    for name in ("loss", "grad_norm"):
        assert [line[name] for line in steps(given).values()] == [steps(run)[n][name] for n in range(6, 13)]
    found = weights(run)
    assert all((found[name] == value).all() for name, value in weights(given).items())


@pytest.mark.parametrize("budget", [RUN[-1], "batch.max_tokens_per_micro_batch=auto"], ids=["given", "auto"])
def test_a_resumed_run_keeps_the_lowered_budget(lab, budget):
    name = f"kept-{budget[-4:]}"
    settings = [*RUN[:-1], budget, "memory.limit_gib=0.02"]
    run = lab.run(name, *settings, *OUT, *FORWARD, ranks=2)
    resumed = lab.folder / "runs" / f"{name}-resumed"
    take_checkpoint(run, 10, resumed)
    lab.run(f"{name}-resumed", *settings, ranks=2)
    assert [line["loss"] for line in steps(resumed).values()] == losses(run)[10:]
    old, new = header(run)[-1], header(resumed)[-1]
    assert old["lowered_from"] > old["max_tokens_per_micro_batch"]
    assert [new[key] for key in ("lowered_from", "max_tokens_per_micro_batch")] == \
        [old[key] for key in ("lowered_from", "max_tokens_per_micro_batch")]


def test_a_resumed_run_recomputes_in_all_sizes_what_the_largest_does(lab):
    planned = {}
    for recompute in ("selective:3@512", "selective:3"):
        name = f"size-{len(recompute)}"
        settings = [*RUN, f"memory.recompute={recompute}"]
        run = lab.run(name, *settings, *OUT, *FORWARD)
        take_checkpoint(run, 10, lab.folder / "runs" / f"{name}-resumed")
        resumed = lab.run(f"{name}-resumed", *settings)
        assert header(resumed)[-1]["lowered_from"] == 512
        planned[recompute] = json.loads((resumed / "memory.json").read_text())["planned_allocated_bytes"]
    assert planned["selective:3@512"] == planned["selective:3"]


@pytest.mark.parametrize("strategy", ["padding", "padding_free", "multipack", "fixed_length"])
def test_every_strategy_plans_its_batch_again(lab, strategy):
    settings = ["run.max_steps=5", f"batch.strategy={strategy}", "batch.max_tokens_per_micro_batch=1024",
                "data.validation="]
    if strategy == "fixed_length":
        settings += ["data.max_length=128", "batch.global_batch_size=8"]
    if strategy == "multipack":
        settings += ["batch.global_batch_size=null", "batch.global_batch_tokens=2048"]
    out = ["fault.kind=out_of_memory", "fault.step=2", "fault.block=3", "fault.rank=1"]
    run = lab.run(f"out-{strategy}", *settings, *out, ranks=2)
    whole = lab.run(f"whole-{strategy}", *settings, ranks=2)
    assert losses(run) == pytest.approx(losses(whole), rel=2e-5)
    assert [line["num_out_of_memory"] for line in steps(run).values()] == [0, 1, 0, 0, 0]
    assert [line["num_tokens"] for line in steps(run).values()] == [line["num_tokens"] for line in steps(whole).values()]


def test_only_an_example_that_does_not_fit_alone_stops_the_run(lab):
    code, _, err = lab.finish(lab.start("alone", *RUN, "batch.global_batch_size=2", *OUT, *FORWARD, ranks=2))
    assert code == 69
    assert "step 6: example" in err and "does not fit" in err and "data.max_length" in err
    assert "injected on rank 0 at step 6" in err


# Memory really ends here. Each limit takes effect at another place, some in the middle of an operator, some repeatedly.
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_real_end_of_memory_is_survived_or_named(lab, ranks):
    settings = ["run.max_steps=4", "batch.max_tokens_per_micro_batch=2048", "batch.global_batch_size=32",
                "data.validation="]
    whole = lab.run(f"ample-{ranks}", *settings, ranks=ranks)
    survived = []
    for mebibytes in (5, 8, 13, 200):
        name = f"cap-{ranks}-{mebibytes}"
        code, _, err = lab.finish(lab.start(name, *settings, f"debug.memory_cap_gib={mebibytes / 1024}", ranks=ranks))
        if code != 0:
            assert code == 69 and "memory" in err, err
            continue
        run = lab.folder / "runs" / name
        assert losses(run) == pytest.approx(losses(whole), rel=2e-5)
        survived.append(sum(line["num_out_of_memory"] for line in steps(run).values()))
    assert max(survived) >= 1 and survived[-1] == 0, survived
