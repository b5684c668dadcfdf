"""Runs the program itself for every family. It imports a folder of transformers, takes one optimizer step, and
exports a folder. transformers loads that with the same loss. `packtrain verify` runs on one rank and on two.
"""

import json
import re

import family
import oracle
import program
import pytest
import torch
from comparison import tensors_of
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
import itertools


class Run:
    """A family's tiny model on disk with stores that fit its vocabulary."""

    def __init__(self, case, folder):
        self.folder = folder
        self.model, _ = oracle.make_model(case)
        self.model.save_pretrained(folder / "model")
        vocab_size = self.model.config.vocab_size
        places = {name: program.make_store(folder / name, count, seed, vocab_size)
                  for name, count, seed in (("train", 24, 1), ("validation", 12, 2))}
        self.config = program.write_config(folder / "run.yaml", model=folder / "model",
                                           output=folder / "run", **places)

    def validation_loss(self, model):
        """Mean over all tokens that are to be predicted, by transformers."""
        store = load_file(next((self.folder / "validation").glob("*.safetensors")))
        offsets = store["offsets"].tolist()
        examples = [store["input_ids"][begin:end].long()
                    for begin, end in itertools.pairwise(offsets)]
        loss, count = 0.0, 0
        with torch.no_grad():
            for ids in oracle.each_example(model, examples):
                logits = model(ids, use_cache=False).logits[0, :-1]
                loss += torch.nn.functional.cross_entropy(logits, ids[0, 1:],
                                                          reduction="sum").item()
                count += ids.shape[1] - 1
        return loss / count


@pytest.mark.parametrize("name", family.names())
def test_a_step_of_training_is_given_back_to_transformers(name, tmp_path):
    run = Run(family.cases_of(name)[0], tmp_path)
    program.finished("train", run.config)
    program.finished("export", tmp_path / "run", "--dtype", "float32", "--out", tmp_path / "out")
    evaluated = json.loads(program.finished("evaluate", run.config, "--json"))
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "out", attn_implementation="eager")
    assert evaluated["loss"] == pytest.approx(run.validation_loss(exported.eval()), rel=1e-4)
    before, after = tensors_of(tmp_path / "model"), tensors_of(tmp_path / "out")
    assert before.keys() == after.keys()
    unchanged = {name for name in before if before[name].equal(after[name])}
    # A file may have another name of the module, or of the bias of a choice, than the model.
    layer_and_name = re.compile(r"(\d+)\.(?:.*\.)?(\w+)$")
    found, wanted = ({layer_and_name.search(name.replace("expert_bias", "e_score_correction_bias")).groups()
                      for name in names} for names in (unchanged, oracle.untrained_names(run.model)))
    assert found == wanted, "one step of training left others as they were"


def test_what_is_evaluated_is_the_run_or_what_the_command_line_names(tmp_path):
    run = Run(family.cases_of("llama")[0], tmp_path)
    checkpoint = f"model.path={tmp_path}/run/checkpoints/step-1"

    def loss(*overrides):
        return json.loads(program.finished("evaluate", run.config, *overrides, "--json"))["loss"]

    untrained = loss()
    program.finished("train", run.config)
    trained = loss()
    assert trained != untrained
    assert loss(checkpoint) == trained
    assert loss(f"model.path={tmp_path}/model") == untrained


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", family.names())
def test_verify_proves_it(name, ranks, tmp_path):
    case = family.cases_of(name)[0] if ranks == 1 else family.private_variant(name)
    run = Run(case, tmp_path)
    code, out, err = program.packtrain("verify", run.config, "--json", ranks=ranks)
    assert code == 0, out + err
    assert json.loads(out)["ok"]
