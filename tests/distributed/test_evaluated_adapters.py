"""Evaluations and samples of several adapters in one run are those of each adapter's own run."""

import json
import math

import pytest
from test_several_adapters import SHARED, adapters, alone, together


@pytest.fixture(scope="session")
def stores(lab):
    return {"a": lab.train_store, "b": lab.make_store("evaluated", 90, 21, lengths="lognormal:3.2,0.6,4,200")}


def validation_losses(run, adapter=""):
    """Loss by step and set. Without sets the loss is that of `adapter`."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = {}
    for line in lines:
        if "validation_loss" not in line:
            continue
        sets = line.get("validation_sets", {adapter: {"loss": line["validation_loss"]}})
        found |= {(line["step"], name): values["loss"] for name, values in sets.items()}
    return found


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_adapter_is_evaluated_as_in_its_own_run(lab, stores, ranks):
    settings = [*SHARED, "run.evaluate_steps=3", "run.max_steps=6"]
    entries = adapters(stores)
    entries["plain"]["validation"] = str(lab.validation_store)
    entries["wide"]["validation"] = {"x": str(lab.validation_store), "y": str(stores["b"])}
    run = lab.run(f"together-evaluated-{ranks}", *settings, together(entries), ranks=ranks)
    found = validation_losses(run)
    assert set(found) == {(step, name) for step in (3, 6) for name in ("plain", "wide.x", "wide.y")}
    plain = lab.run(f"alone-evaluated-plain-{ranks}", *settings, *alone("plain", entries["plain"]))
    wide = lab.run(f"alone-evaluated-wide-{ranks}", *settings, *alone("wide", entries["wide"]))
    own = validation_losses(plain, "plain")
    own |= {(step, f"wide.{name}"): loss for (step, name), loss in validation_losses(wide).items()}
    for where, loss in found.items():
        assert math.isclose(loss, own[where], rel_tol=2e-5), where


@pytest.mark.parametrize("ranks", [1, 3])
def test_evaluate_has_the_losses_of_each_adapters_own_checkpoint(lab, stores, ranks):
    settings = [*SHARED, f"data.validation={lab.validation_store}", "run.max_steps=6"]
    entries = {name: adapters(stores)[name] for name in ("plain", "wide")}
    lab.run("together-scored", *settings, together(entries), ranks=2)
    found = lab.evaluate("together-scored", *settings, together(entries), ranks=ranks)["sets"]
    without = lab.evaluate("together-scored", *settings, together(entries), "--without-adapter", ranks=ranks)["sets"]
    assert set(found) == set(without) == set(entries)
    for name, entry in entries.items():
        lab.run(f"alone-scored-{name}", *settings, *alone(name, entry))
        own = lab.evaluate(f"alone-scored-{name}", *settings, *alone(name, entry))
        assert math.isclose(found[name]["loss"], own["loss"], rel_tol=2e-5), name
        assert without[name]["loss"] != found[name]["loss"], name
    assert without["plain"]["loss"] == without["wide"]["loss"]


def test_each_adapter_writes_the_texts_of_its_own_run(lab, stores):
    settings = [*SHARED, "run.max_steps=6", "samples.steps=3", "samples.num_prompts=3", "samples.max_new_tokens=8",
                "samples.prompt_tokens=8", "samples.without_adapter=true"]
    entries = {name: {**adapters(stores)[name], "validation": str(store)}
               for name, store in (("plain", lab.validation_store), ("wide", stores["b"]))}

    def texts(run, name):
        lines = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
        return [(line["step"], line["example"], line["continuation"], line["without_adapter"]) for line in lines
                if line.get("set", name) == name]

    run = lab.run("together-sampled", *settings, together(entries), ranks=2)
    for name, entry in entries.items():
        own = lab.run(f"alone-sampled-{name}", *settings, *alone(name, entry))
        assert len(texts(own, name)) == 6
        assert texts(run, name) == texts(own, name), name


def test_samples_of_several_adapters_need_validation_stores(lab, stores):
    code, _, err = lab.finish(lab.start("together-unsampled", *SHARED, "samples.steps=3", together(adapters(stores))))
    assert code == 64
    assert "samples.steps without a validation store is not possible with several adapters" in err
