"""In training transformers clips the weights of Gemma 3n's coefficients: those of predictions in place, those of
corrections in the product. Loss and gradients are the same here."""

import family
import oracle
from comparison import assert_equal, tensors_of
from safetensors.torch import load_file

CLIP = 0.4  # of weights with a deviation of 0.6


def test_loss_and_gradients_are_those_of_training(tool, tmp_path):
    case = family.Case("gemma3n_text", "clipped", dict(altup_coef_clip=CLIP))
    model, sequences = oracle.make_model(case)
    model.save_pretrained(tmp_path / "model")
    oracle.save_batch(sequences, tmp_path / "batch.safetensors")
    is_beyond = [parameter.abs().max() > CLIP for name, parameter in model.named_parameters() if "_coefs" in name]
    assert all(is_beyond)
    unclipped, _ = oracle.logits_and_loss(model, sequences)
    model.zero_grad()
    logits, loss = oracle.logits_and_loss(model.train(), sequences)
    assert (logits - unclipped).abs().max() > 0.01
    oracle.save_gradients(model, tmp_path / "gradients")
    answer = tool.ask(tmp_path)
    assert answer.code == 0, answer.message
    assert_equal(load_file(tmp_path / "packed.safetensors"), {"logits": logits, "loss": loss})
    assert_equal(tensors_of(tmp_path / "packed"), tensors_of(tmp_path / "gradients"))
