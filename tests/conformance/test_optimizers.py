"""Training by the program against transformers' model with other optimizers: our own in float64, and torch's."""

import numpy
import optimizers
import pytest
import torch
from peft_training import Folder, make_model, our_losses

STEPS = 50
RATE, DECAY, MOMENTUM, CLIP = 3e-3, 0.1, 0.9, 1.0
# All eight examples in each step.
TRAINS = [f"run.max_steps={STEPS}", f"run.num_epochs={STEPS}", f"optimizer.learning_rate={RATE}",
          "optimizer.betas=[0.9, 0.99]", "optimizer.epsilon=1.0e-8", f"optimizer.weight_decay={DECAY}",
          f"optimizer.max_grad_norm={CLIP}"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("optimizers"), make_model())


def is_of_layers(name, parameter):
    return parameter.ndim == 2 and "layers" in name


def adamw(model, names):
    """Norms have no decay."""
    chosen = [(name, p) for name, p in model.named_parameters() if names(name, p)]
    groups = [{"params": [p for _, p in chosen if p.ndim == 2], "weight_decay": DECAY},
              {"params": [p for _, p in chosen if p.ndim < 2], "weight_decay": 0}]
    return torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.99), eps=1e-8)


def matrices_of(model):
    return [p for name, p in model.named_parameters() if is_of_layers(name, p)]


def train(folder, model, makers):
    losses = []
    made = [make(model) for make in makers]
    for _ in range(STEPS):
        model.zero_grad()
        loss = folder.loss(model)
        loss.backward()
        losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for optimizer in made:
            optimizer.step()
    return losses


def with_adamw_for_the_rest(optimizer):
    return [optimizer, lambda model: adamw(model, lambda name, p: not is_of_layers(name, p))]


def program_losses(folder, name, output_name=None, *settings):
    output = folder.path / (output_name or name)
    folder.train(f"optimizer.name={name}", *TRAINS, *settings, f"run.output={output}")
    return our_losses(output)


@pytest.fixture(scope="module")
def ours(folder):
    """Losses by Muon, in float32."""
    return program_losses(folder, "muon", None, f"optimizer.momentum={MOMENTUM}")


def test_muon_has_the_losses_of_float64(folder, ours):
    """So each of query, key, value, gate and up, which we store together, is a matrix of its own."""
    model = folder.model().double()
    exact = train(folder, model, with_adamw_for_the_rest(
        lambda model: optimizers.Muon(matrices_of(model), RATE, MOMENTUM, DECAY)))
    numpy.testing.assert_allclose(ours, exact, rtol=2e-4)
    assert ours[-1] < 0.7 * ours[0]


def test_muon_is_near_that_of_torch(folder, ours):
    """torch's has bfloat16 products."""
    theirs = train(folder, folder.model(), with_adamw_for_the_rest(
        lambda model: torch.optim.Muon(matrices_of(model), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY,
                                       adjust_lr_fn="match_rms_adamw")))
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-2)


def test_adamw_has_the_losses_of_torch(folder):
    theirs = train(folder, folder.model().double(), [lambda model: adamw(model, lambda name, p: True)])
    numpy.testing.assert_allclose(program_losses(folder, "adamw"), theirs, rtol=1e-3)


def adafactor(model, rate):
    """The fused weights of ours are matrices of their own in transformers' model."""
    groups = [{"params": [p for p in model.parameters() if p.ndim == 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0}]
    return torch.optim.Adafactor(groups, lr=rate, beta2_decay=-0.8, eps=(1.1920929e-07, 1e-3), d=1.0)


@pytest.mark.parametrize("rate, num_losses", [(0.05, STEPS), (0.5, 6)])
def test_adafactor_has_the_losses_of_torch(folder, rate, num_losses):
    """At the higher rate the bound 1 / sqrt(step) is reached in step 5. Such steps are so large that rounding grows:
    later losses differ."""
    theirs = train(folder, folder.model().double(), [lambda model: adafactor(model, rate)])
    ours = program_losses(folder, "adafactor", f"adafactor-{rate}", f"optimizer.learning_rate={rate}")
    numpy.testing.assert_allclose(ours[:num_losses], theirs[:num_losses], rtol=1e-3)
    assert ours[-1] < 0.9 * ours[0]
