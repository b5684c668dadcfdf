"""`packtrain verify --precision-report`: the errors of each recipe against float32."""

import json

import pytest

LORA = ["adapter.kind=lora", "adapter.rank=4", "adapter.alpha=8"]


def report(lab, name, *settings, ranks=1):
    code, out, err = lab.finish(lab.start(name, "model.config.num_hidden_layers=2", *settings, "--precision-report", "--json",
                                          ranks=ranks, command="verify"))
    assert code == 0, out + err
    return json.loads(out)


def by_name(found):
    return {recipe["name"]: recipe for recipe in found["recipes"]}


def test_each_recipe_has_the_error_of_its_roundings(lab):
    recipes = by_name(report(lab, "report"))
    assert list(recipes) == ["bf16", "fp8_tensor", "fp8_tensor, weight_gradient: fp8", "fp8_block",
                             "fp8_block, weight_gradient: fp8", "fp8_block, weight_gradient: fp8_block"]
    plain, rounded, gradients, blocks = list(recipes.values())[:4]
    assert list(plain["gradient_errors_by_layer"]) == ["embed", "layers.0", "layers.1", "final_norm"]
    # One rounding is 2^-9 in bfloat16 and 2^-4 in e4m3.
    assert 1e-4 < plain["gradient_error"] < 0.02 < rounded["gradient_error"] < 0.6
    assert plain["loss_error"] < 1e-3 and rounded["loss_error"] < 1e-2
    assert 0.02 < blocks["gradient_error"] < 0.6
    # The weight's gradient has more roundings. The embedding has no product of its own.
    for layer in ("layers.0", "layers.1"):
        assert gradients["gradient_errors_by_layer"][layer] > rounded["gradient_errors_by_layer"][layer]
    assert gradients["gradient_errors_by_layer"]["embed"] == rounded["gradient_errors_by_layer"]["embed"]


def test_weights_that_are_kept_have_no_error_of_8_bits(lab):
    kept = by_name(report(lab, "report-kept", "precision.linear=fp8_tensor", "precision.keep_bf16=['*.attention.*', "
                                              "'*.gate_up.*', 'layers.0.*']"))
    assert kept["fp8_tensor"]["gradient_error"] < by_name(report(lab, "report-all"))["fp8_tensor"]["gradient_error"]


@pytest.mark.parametrize("base", ["bf16", "fp8"])
def test_under_an_adapter_there_is_one_recipe_of_8_bits(lab, base):
    recipes = by_name(report(lab, f"report-{base}", *LORA, f"model.base={base}"))
    assert list(recipes) == ["bf16", "fp8_tensor"]
    # Weights in 8 bits are an error of bfloat16's products too.
    assert (recipes["bf16"]["gradient_error"] > 0.02) == (base == "fp8")
    assert list(recipes["bf16"]["gradient_errors_by_layer"]) == ["layers.0", "layers.1"]


def test_a_table_has_a_line_for_each_layer(lab):
    code, out, err = lab.finish(lab.start("report-text", "model.config.num_hidden_layers=2", "--precision-report",
                                          command="verify"))
    assert code == 0, err
    assert "recipe 3: fp8_tensor, weight_gradient: fp8\n" in out
    assert [line.split()[0] for line in out.splitlines()[-5:]] == ["all", "embed", "layers.0", "layers.1", "final_norm"]
