"""The model under an adapter: its losses and texts are those of the model alone, and training does not change."""

import json

import pytest
from runs import assert_bit_equal, losses
from test_adapters import ADAPTER, EXPERTS, UNTIED, finish

SAMPLES = ["samples.steps=4", "samples.num_prompts=3", "samples.max_new_tokens=10", "samples.prompt_tokens=8",
           "run.max_steps=8"]


def samples(run):
    return [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]


def of_model(settings):
    """The settings without those of the adapter."""
    return [setting for setting in settings if not setting.startswith("adapter.")]


@pytest.mark.parametrize("name, settings", [("plain", []), ("rows", ["adapter.use_dora=true"]), ("ends", UNTIED), ("experts", EXPERTS)])
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_loss_without_the_adapter_is_that_of_the_model(lab, name, settings, ranks):
    lab.run(f"under-{name}", *ADAPTER, *settings, "run.max_steps=8")
    adapted = lab.evaluate(f"under-{name}", *ADAPTER, *settings, ranks=ranks)
    without = lab.evaluate(f"under-{name}", *ADAPTER, *settings, "--without-adapter", ranks=ranks)
    model = lab.evaluate(f"alone-{name}", *of_model(settings), ranks=ranks)
    assert without["loss"] == model["loss"]
    assert adapted["loss"] != model["loss"]


@pytest.mark.parametrize("drawn", [[], ["samples.temperature=1"]])
def test_texts_without_the_adapter_are_those_of_the_model(lab, drawn):
    run = lab.run("under-sampled" + "".join(drawn), *ADAPTER, *SAMPLES, *drawn, "samples.without_adapter=true", ranks=2)
    model = lab.run("alone-sampled" + "".join(drawn), *SAMPLES, *drawn, "optimizer.learning_rate=1.0e-30", ranks=2)
    assert [line["without_adapter"] for line in samples(run)] == [line["continuation"] for line in samples(model)]
    assert any(line["without_adapter"] != line["continuation"] for line in samples(run))
    assert not any(line["without_adapter_ended"] for line in samples(run))


def test_training_is_what_it_is_without_these_texts(lab):
    run = lab.run("under-sampled", *ADAPTER, *SAMPLES, "samples.without_adapter=true", ranks=2)
    other = lab.run("under-not-sampled", *ADAPTER, *SAMPLES, ranks=2)
    assert losses(run) == losses(other)
    assert_bit_equal(run, other)
    assert "without_adapter" not in samples(other)[0]


@pytest.mark.parametrize("settings, message", [
    (["adapter.save=[embed_tokens]"], "embed.weight is trained whole with the adapter"),
    (["adapter.init=pissa"], "the initial values of PiSSA are subtracted")])
def test_weights_that_are_not_kept_are_refused(lab, settings, message):
    code, _, err = finish(lab, "under-refused", *ADAPTER, *SAMPLES, *settings, "samples.without_adapter=true")
    assert code == 64
    assert "samples.without_adapter asks for the model under the adapter" in err and message in err


def test_a_model_without_an_adapter_is_refused(lab):
    code, _, err = lab.finish(lab.start("alone-refused", "--without-adapter", command="evaluate"))
    assert code == 64
    assert "there is no adapter" in err
