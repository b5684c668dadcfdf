"""Every objective computes what TRL's trainers compute, in float32: loss, the gradient of every tensor, and the
statistics that both log. TRL computes one group at a time, packtrain packs them."""

import shutil

import pytest
import trl_oracle
from comparison import assert_equal, tensors_of
from safetensors.torch import load_file

# A configuration's section, TRL's side, and whether both have the same scale of rewards.
CASES = {
    "dpo": ({"kind": "dpo"}, trl_oracle.DpoPairs, {}),
    "dpo_beta": ({"kind": "dpo", "beta": 0.7}, trl_oracle.DpoPairs, {"beta": 0.7}),
    "dpo_label_smoothing": ({"kind": "dpo", "label_smoothing": 0.2}, trl_oracle.DpoPairs,
                            {"loss_type": ["aot_unpaired"], "label_smoothing": 0.2}),  # of one pair: cDPO
    "dpo_length_normalize": ({"kind": "dpo", "beta": 2, "length_normalize": True}, trl_oracle.DpoPairs,
                             {"loss_type": ["sigmoid_norm"], "beta": 2.0}),
    "dpo_next_token": ({"kind": "dpo", "next_token_weight": 0.5}, trl_oracle.DpoPairs,
                       {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.5]}),
    "ipo": ({"kind": "ipo"}, trl_oracle.DpoPairs, {"loss_type": ["ipo"]}),
    "cpo": ({"kind": "cpo"}, trl_oracle.CpoPairs, {"loss_type": "sigmoid"}),
    "cpo_label_smoothing": ({"kind": "cpo", "label_smoothing": 0.1, "next_token_weight": 0.3}, trl_oracle.CpoPairs,
                            {"loss_type": "sigmoid", "label_smoothing": 0.1, "cpo_alpha": 0.3}),
    "simpo": ({"kind": "simpo", "target_margin": 0.8}, trl_oracle.CpoPairs,
              {"loss_type": "simpo", "beta": 2.0, "simpo_gamma": 0.8, "cpo_alpha": 0.0}),
    "orpo": ({"kind": "orpo"}, trl_oracle.OrpoPairs, {}),
    "orpo_beta": ({"kind": "orpo", "beta": 0.6}, trl_oracle.OrpoPairs, {"beta": 0.6}),
    "kto": ({"kind": "kto"}, trl_oracle.JudgedAnswers, {}),
    "kto_weights": ({"kind": "kto", "beta": 0.3, "desirable_weight": 1.5, "undesirable_weight": 0.6},
                    trl_oracle.JudgedAnswers, {"beta": 0.3, "desirable_weight": 1.5, "undesirable_weight": 0.6}),
    "grpo": ({"kind": "policy", "beta": 0.1}, trl_oracle.Rollouts, {"loss_type": "grpo", "beta": 0.1}),
    "grpo_on_policy": ({"kind": "policy"}, trl_oracle.Rollouts, {"loss_type": "grpo", "has_old": False}),
    "dapo": ({"kind": "policy", "clip_high": 0.28}, trl_oracle.Rollouts,
             {"loss_type": "dapo", "epsilon_high": 0.28}),
    "weights": ({"kind": "policy", "beta": 0.1}, trl_oracle.Rollouts,
                {"loss_type": "dapo", "beta": 0.1, "has_weights": True}),
    "gspo": ({"kind": "policy", "ratio": "example", "clip_low": 0.03, "clip_high": 0.04}, trl_oracle.Rollouts,
             {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.03,
              "epsilon_high": 0.04}),
    # TRL has no lower bound; its upper one is the ratio itself.
    "cispo": ({"kind": "policy", "policy_loss": "cispo", "clip_low": 1, "clip_high": 0.3}, trl_oracle.Rollouts,
              {"loss_type": "cispo", "epsilon_high": 1.3}),
}
# TRL logs sums over tokens where the loss reads means, and counts examples where the ratio is that of one.
OTHER_SCALE = {"ipo", "dpo_length_normalize", "gspo"}


def configuration(section):
    """The reference is a tensor of the batch, and no key of these has a say in it."""
    lines = [f"  {key}: {str(value).lower()}" for key, value in section.items()]
    if section["kind"] == "kto":
        lines += ["  reference: model", "  reference_path: reference"]
    return "objective:\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module", params=CASES)
def computed(request, tool, tmp_path_factory):
    """(the folder, TRL's groups)"""
    section, groups_of, options = CASES[request.param]
    folder = tmp_path_factory.mktemp("objective")
    groups = groups_of(folder, **options)
    groups.save()
    (folder / "objective.yaml").write_text(configuration(section))
    answer = tool.ask(f"objective {folder}")
    assert answer.code == 0, answer.message
    yield request.param, folder, groups
    shutil.rmtree(folder)


def test_the_loss_equals_trl(computed):
    _, folder, groups = computed
    ours = load_file(folder / "objective.safetensors")
    assert_equal({"loss": ours["loss"]}, {"loss": groups.loss.detach()})


def test_every_gradient_equals_trl(computed):
    _, folder, _ = computed
    assert_equal(tensors_of(folder / "gradients"), tensors_of(folder / "trl_gradients"))


def test_statistics_equal_those_that_trl_logs(computed):
    name, folder, groups = computed
    if name in OTHER_SCALE:
        assert groups.statistics
        return
    ours = load_file(folder / "objective.safetensors")
    for statistic, wanted in groups.statistics.items():
        assert ours[statistic].item() == pytest.approx(wanted, rel=1e-4, abs=1e-5), statistic
