"""Several adapters in one run. Each has the losses and weights of its own run, on any number of ranks. A resumed run
continues as uninterrupted."""

import json
import math
import subprocess

import numpy
import pytest
from runs import PROGRAM, losses, steps, take_checkpoint, weights
from safetensors.numpy import load_file

# AdamW divides gradients near 0 by themselves, rounding included. A larger epsilon does not.
SHARED = ["data.validation=null", "optimizer.learning_rate=1.0e-2", "optimizer.epsilon=1.0e-3", "adapter.rank=4",
          "adapter.alpha=8"]
SAVES = ["checkpoint.save_steps=7", "checkpoint.keep=10"]


@pytest.fixture(scope="session")
def stores(lab):
    return {"a": lab.train_store, "b": lab.make_store("other", 90, 21, lengths="lognormal:3.2,0.6,4,200")}


def adapters(stores):
    """Settings of each adapter, in the keys of an entry."""
    return {
        "plain": {"train": str(stores["a"])},
        "wide": {"train": str(stores["b"]), "rank": 8, "alpha": 4, "targets": ["q_proj", "down_proj"],
                 "learning_rate": 3.0e-3, "global_batch_size": 5, "schedule": {"name": "constant", "warmup_steps": 3}},
        "drops": {"train": str(stores["a"]), "dropout": 0.2, "use_rslora": True, "max_grad_norm": 0.05,
                  "layers_to_transform": [1, 3]}}


SECTIONS = {"train": "data", "validation": "data", "global_batch_size": "batch", "learning_rate": "optimizer",
            "max_grad_norm": "optimizer"}


def alone(name, entry):
    """The settings of an adapter's own run."""
    settings = ["adapter.kind=lora", f"adapter.name={name}"]
    for key, value in entry.items():
        if key == "schedule":
            settings += [f"schedule.{part}={json.dumps(of_part)}" for part, of_part in value.items()]
        else:
            settings.append(f"{SECTIONS.get(key, 'adapter')}.{key}={json.dumps(value)}")
    return settings


def together(entries):
    return "adapters=" + json.dumps([{"name": name, **entry} for name, entry in entries.items()])


@pytest.fixture(scope="session")
def own_runs(lab, stores):
    return {name: lab.run(f"alone-{name}", *SHARED, *alone(name, entry), *SAVES)
            for name, entry in adapters(stores).items()}


@pytest.fixture(scope="session")
def unbroken(lab, stores):
    return lab.run("together", *SHARED, together(adapters(stores)), *SAVES)


def of_adapter(run, name, key="loss"):
    return [line["adapters"][name][key] for _, line in sorted(steps(run).items()) if name in line["adapters"]]


def check_adapter(run, name, own):
    numpy.testing.assert_allclose(of_adapter(run, name), losses(own), rtol=2e-5)
    norms = [line["grad_norm"] for _, line in sorted(steps(own).items())]
    numpy.testing.assert_allclose(of_adapter(run, name, "grad_norm"), norms, rtol=1e-4)
    trained = weights(run)
    for parameter, values in weights(own).items():
        numpy.testing.assert_allclose(trained[parameter], values, rtol=1e-4, atol=1e-6, err_msg=parameter)


def test_each_adapter_trains_as_in_its_own_run(unbroken, own_runs):
    for name, own in own_runs.items():
        check_adapter(unbroken, name, own)
    assert len({of_adapter(unbroken, name)[-1] for name in own_runs}) == len(own_runs)


def test_the_run_holds_the_parameters_of_the_own_runs_alone(unbroken, own_runs):
    assert set(weights(unbroken)) == set().union(*(weights(own) for own in own_runs.values()))


@pytest.mark.parametrize("ranks, settings", [
    (2, []), (3, ["parallel.zero_stage=2"]), (2, ["parallel.shard_size=1"]),
    (2, ["memory.recompute=full", "batch.max_tokens_per_micro_batch=512"]),
    (1, ["memory.recompute=selective", "batch.max_tokens_per_micro_batch=512"]),
    (2, ["batch.strategy=padding"]), (1, ["batch.strategy=padding_free"])])
def test_each_adapter_trains_as_alone_on_any_ranks_and_micro_batches(lab, stores, own_runs, ranks, settings):
    run = lab.run("-".join(["together", str(ranks), *settings]), *SHARED, together(adapters(stores)), *settings,
                  ranks=ranks)
    for name, own in own_runs.items():
        check_adapter(run, name, own)


@pytest.mark.parametrize("strategy", ["multipack", "fixed_length"])
def test_strategies_with_steps_of_their_own_keep_them(lab, stores, strategy):
    settings = [*SHARED, f"batch.strategy={strategy}", "batch.global_batch_size=3", "run.max_steps=6",
                "data.max_length=256", "data.too_long=truncate"]
    entries = {name: entry for name, entry in adapters(stores).items() if name != "wide"}
    entries["drops"]["train"] = str(stores["b"])
    run = lab.run(f"together-{strategy}", *settings, together(entries), ranks=2)
    for name, entry in entries.items():
        check_adapter(run, name, lab.run(f"alone-{strategy}-{name}", *settings, *alone(name, entry)))


def test_examples_and_tokens_with_weights_count_by_adapter(lab, stores):
    settings = [*SHARED, "batch.normalize=examples", "run.max_steps=6"]
    entries = {"plain": {"train": [{"path": str(stores["a"]), "loss_weight": 3}, {"path": str(stores["b"])}]},
               "wide": {"train": str(stores["b"]), "rank": 8}}
    run = lab.run("together-examples", *settings, together(entries), ranks=2)
    for name, entry in entries.items():
        check_adapter(run, name, lab.run(f"alone-examples-{name}", *settings, *alone(name, entry)))


def test_a_base_in_nf4_serves_several_adapters(lab, stores):
    settings = [*SHARED, "model.base=nf4", "run.max_steps=6"]
    entries = adapters(stores)
    run = lab.run("together-nf4", *settings, together(entries), "memory.recompute=full", ranks=2)
    for name, entry in entries.items():
        check_adapter(run, name, lab.run(f"alone-nf4-{name}", *settings, *alone(name, entry)))


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_resumed_run_continues_as_uninterrupted(lab, stores, unbroken, ranks):
    name = f"together-resumed-{ranks}"
    take_checkpoint(unbroken, 7, lab.folder / "runs" / name)
    resumed = lab.run(name, *SHARED, together(adapters(stores)), *SAVES, ranks=ranks)
    assert sorted(steps(resumed)) == list(range(8, 21))
    for adapter in adapters(stores):
        numpy.testing.assert_allclose(of_adapter(resumed, adapter), of_adapter(unbroken, adapter)[7:],
                                      rtol=0 if ranks == 1 else 2e-5)
    for parameter, values in weights(unbroken).items():
        numpy.testing.assert_allclose(weights(resumed)[parameter], values, rtol=0 if ranks == 1 else 1e-4,
                                      atol=0 if ranks == 1 else 1e-6)


def test_an_adapter_ends_with_the_steps_of_its_own_run(lab, stores):
    """Two epochs of the smaller store are fewer steps than two of the other."""
    settings = [*SHARED, "run.max_steps=null", "run.num_epochs=1", "batch.global_batch_size=24"]
    entries = {"long": {"train": str(stores["a"])}, "short": {"train": str(stores["b"]), "rank": 2}}
    run = lab.run("together-epochs", *settings, together(entries), ranks=2)
    for name, entry in entries.items():
        own = lab.run(f"alone-epochs-{name}", *settings, *alone(name, entry))
        check_adapter(run, name, own)
    assert len(of_adapter(run, "short")) == 4
    assert len(of_adapter(run, "long")) == 10


def test_a_step_that_is_not_finite_is_skipped_for_its_adapter_alone(lab, stores, own_runs):
    entries = {**adapters(stores), "wild": {"train": str(stores["b"]), "learning_rate": 1.0e30, "max_grad_norm": 0}}
    run = lab.run("together-wild", *SHARED, together(entries), "guard.non_finite=skip", "guard.max_skipped_steps=100",
                  ranks=2)
    skipped = of_adapter(run, "wild", "num_skipped_steps")
    assert skipped[0] == 0 and skipped[-1] == 1
    assert not math.isfinite(of_adapter(run, "wild")[-1] or math.nan)
    for name, own in own_runs.items():
        assert not any(of_adapter(run, name, "num_skipped_steps"))
        check_adapter(run, name, own)


def test_the_run_ends_when_an_adapter_may_not_skip(lab, stores):
    entries = {**adapters(stores), "wild": {"train": str(stores["b"]), "learning_rate": 1.0e30, "max_grad_norm": 0}}
    code, _, err = lab.finish(lab.start("together-stops", *SHARED, together(entries)))
    assert code == 71
    assert "adapter 'wild': step" in err


def export(run, out, *options):
    return subprocess.run([PROGRAM, "export", str(run), "--out", str(out), *map(str, options)], check=False,
                          capture_output=True, text=True)


def test_each_adapter_is_exported_as_that_of_its_own_run(unbroken, own_runs, tmp_path):
    done = export(unbroken, tmp_path / "all")
    assert done.returncode == 0, done.stderr
    for name, own in own_runs.items():
        assert export(own, tmp_path / name).returncode == 0
        assert export(unbroken, tmp_path / f"{name}-chosen", "--adapter", name).returncode == 0
        config = (tmp_path / name / "adapter_config.json").read_text()
        wanted = load_file(tmp_path / name / "adapter_model.safetensors")
        for folder in (tmp_path / "all" / name, tmp_path / f"{name}-chosen"):
            assert (folder / "adapter_config.json").read_text() == config
            tensors = load_file(folder / "adapter_model.safetensors")
            assert set(tensors) == set(wanted)
            for tensor, values in wanted.items():
                numpy.testing.assert_allclose(tensors[tensor], values, rtol=1e-4, atol=1e-6)


def test_a_merged_model_has_one_of_the_adapters(lab, unbroken, own_runs, tmp_path):
    done = export(unbroken, tmp_path / "merged", "--merge", "--adapter", "plain", "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    validation = f"data.validation={lab.validation_store}"
    whole = lab.evaluate("merged-of-several", "model.config=null", f"model.path={tmp_path / 'merged'}", validation)
    own = lab.evaluate("alone-plain", *SHARED, *alone("plain", {}), validation)
    assert own_runs["plain"].name == "alone-plain"
    numpy.testing.assert_allclose(whole["loss"], own["loss"], rtol=1e-5)


@pytest.mark.parametrize("options, message", [
    (["--merge"], "name one of them (--adapter NAME)"), (["--adapter", "none"], "has no adapter 'none'")])
def test_an_export_that_names_no_adapter_is_refused(unbroken, tmp_path, options, message):
    done = export(unbroken, tmp_path / "out", *options)
    assert done.returncode == 64
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("entries, settings, message", [
    ([{"name": "a"}, {"name": "a"}], [], "two adapters are named 'a'"),
    ([{"rank": 4}], [], "Each adapter has a name"),
    ([{"name": "a.b"}], [], "'a.b' is no name"),
    ([{"name": "a", "rnak": 4}], [], "'rnak' of 'a' is no key of an adapter"),
    ([{"name": "a", "rank": 0}], [], "adapters: 'a'.rank: got 0"),
    ([{"name": "a", "rank": 65}, {"name": "b"}], [], "adapters: 'a': adapter.rank is 65"),
    ([{"name": "a", "targets": ["q_porj"]}, {"name": "b"}], [], "adapters: 'a': adapter.targets: 'q_porj' matches no"),
    ([{"name": "a", "schedule": {"warmup_steps": 50}}, {"name": "b"}], [], "adapters: 'a': schedule.warmup_steps"),
    ([{"name": "a"}, {"name": "b"}], ["data.train=null"], "adapters: 'a' has no token store to train on"),
    ([{"name": "a"}, {"name": "b"}], ["adapter.save=[lm_head]"], "adapter.save is not possible with several"),
    ([{"name": "a"}, {"name": "b"}], ["checkpoint.keep_best=1", "data.validation=x"],
     "checkpoint.keep_best is not possible with several"),
    ([{"name": "a"}, {"name": "b", "targets": ["lm_head"]}], ["model.config.tie_word_embeddings=false"],
     "adapters: 'b': adapter.targets has lm_head, which only an adapter alone may change")])
def test_adapters_that_do_not_fit_are_refused(lab, entries, settings, message):
    code, _, err = lab.finish(lab.start("together-refused", *SHARED, "adapters=" + json.dumps(entries), *settings))
    assert code == 64
    assert message in err


def test_a_plan_has_the_steps_of_each_adapters_own_plan(lab, stores):
    def plan(name, *settings):
        code, out, err = lab.finish(lab.start(name, *SHARED, *settings, "--json", "--steps", "20", command="plan"))
        assert code == 0, err
        return json.loads(out)

    def num_tokens(step):
        return sum(length for rank in step["ranks"] for pieces in rank for _, _, length in pieces)

    entries = adapters(stores)
    joined = plan("together-planned", together(entries))
    assert [(one["name"], one["num_steps"]) for one in joined["adapters"]] == [(name, 20) for name in entries]
    alone_plans = [plan(f"alone-planned-{name}", *alone(name, entry)) for name, entry in entries.items()]
    for step, own in zip(joined["steps"], zip(*(one["steps"] for one in alone_plans), strict=True), strict=True):
        assert num_tokens(step) == sum(num_tokens(one) for one in own)


def test_verify_refuses_several(lab, stores):
    code, _, err = lab.finish(lab.start("together-refused", *SHARED, together(adapters(stores)), command="verify"))
    assert code == 64
    assert "adapters" in err


def test_changed_adapters_are_refused_on_resume(lab, stores, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "together-changed")
    entries = adapters(stores)
    entries["wide"]["rank"] = 4
    code, _, err = lab.finish(lab.start("together-changed", *SHARED, together(entries), *SAVES))
    assert code == 66
    assert "adapters" in err


@pytest.mark.parametrize("names, words", [([], "but this run trains a whole model"),
                                          (["wide"], "but this run trains one adapter, wide"),
                                          (["plain", "wide"], "but this run trains the adapters plain, wide")],
                         ids=["none", "one", "two"])
def test_other_adapters_than_the_checkpoints_are_named(lab, stores, unbroken, names, words):
    """Also where allow_changed has all keys that differ: a checkpoint is not damaged by it."""
    name = f"together-other-{len(names)}"
    take_checkpoint(unbroken, 7, lab.folder / "runs" / name)
    entries = {key: adapters(stores)[key] for key in names}
    code, _, err = lab.finish(lab.start(name, *SHARED, "adapter.kind=none", together(entries), *SAVES,
                                        "checkpoint.allow_changed=[adapters,adapter.kind,data.train]"))
    assert code == 66, err
    assert "holds the adapters plain, wide, drops" in err and words in err, err
    assert "damaged" not in err


def test_one_adapter_does_not_continue_as_several(lab, stores, own_runs):
    take_checkpoint(own_runs["plain"], 7, lab.folder / "runs" / "alone-as-several")
    code, _, err = lab.finish(lab.start("alone-as-several", *SHARED, together(adapters(stores)), *SAVES,
                                        "checkpoint.allow_changed=[adapters,adapter.kind]"))
    assert code == 66, err
    assert "holds one adapter, plain, but this run trains the adapters plain, wide, drops" in err, err
