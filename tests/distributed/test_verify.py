"""`packtrain verify` from outside: what it says and its exit code."""

import json

import pytest

CHECKS = ["packed", "isolation", "boundaries", "attention", "ranks"]


def verify(lab, *arguments, ranks=1, name="verified"):
    """(exit code, the report, stderr)"""
    code, out, err = lab.finish(lab.start(name, *arguments, "--json", ranks=ranks, command="verify"))
    return code, json.loads(out) if out else None, err


def failed(report):
    return [check["name"] for check in report["checks"] if not check["ok"]]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("strategy", ["padding", "padding_free", "fixed_length", "multipack",
                                      "balanced"])
def test_a_sound_run_passes(lab, strategy, ranks):
    code, report, err = verify(lab, f"batch.strategy={strategy}", ranks=ranks)
    assert code == 0, err
    assert report["ok"] and [check["name"] for check in report["checks"]] == CHECKS
    assert report["num_ranks"] == ranks
    assert report["num_examples"] == 16 or strategy in ("fixed_length", "multipack")
    shards = report["checks"][-1]["num_cases"]
    assert shards > 0 if ranks > 1 else shards == 0
    assert not (lab.folder / "runs" / "verified").exists()  # nothing was trained or written


@pytest.mark.parametrize("ranks, shard_size", [(4, 2), (2, 1)])
def test_groups_of_ranks_pass(lab, ranks, shard_size):
    code, report, err = verify(lab, f"parallel.shard_size={shard_size}", ranks=ranks)
    assert code == 0, err
    assert f"{shard_size} of {ranks} ranks share one copy" in err
    assert report["ok"] and report["checks"][-1]["num_cases"] > 0


def test_groups_that_do_not_divide_the_ranks_are_refused_at_the_start(lab):
    code, _, err = verify(lab, "parallel.shard_size=2", ranks=3)
    assert code == 64 and "parallel.shard_size is 2, which does not divide 3 ranks" in err, err
    assert "on each rank alone" not in err


@pytest.mark.parametrize("command", ["train", "verify"])
def test_a_model_of_which_nothing_is_trained_is_refused(lab, command):
    code, _, err = lab.finish(lab.start(f"frozen-{command}", "model.frozen=['*']", command=command))
    assert code == 64 and "model.frozen leaves no parameter to train" in err, err


def test_bfloat16_passes_in_its_own_precision(lab):
    code, report, err = verify(lab, "precision.compute=bf16", "precision.reduce=bf16", "--steps", "2", ranks=2)
    assert code == 0, err
    assert report["precision"] == "bf16" and report["num_steps"] == 2
    # One rank sums its micro-batches in float32, so packing alone is exact; what ranks add up is bfloat16.
    assert report["checks"][-1]["errors"]["gradient"]["value"] > 1e-5


def test_people_get_a_line_a_check(lab):
    code, out, err = lab.finish(lab.start("verified", "--examples", "6", command="verify"))
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].startswith("6 examples in 1 step, balanced in fp32, 1 rank x ")
    assert [line.split()[0] for line in lines[1:]] == ["ok"] * len(CHECKS)
    assert lines[-1].endswith("nothing to compare")


@pytest.mark.parametrize("ranks", [1, 2])
def test_attention_across_examples_is_contamination(lab, ranks):
    code, report, err = verify(lab, "batch.strategy=fixed_length", "batch.cross_example_attention=true", ranks=ranks)
    assert code == 74, err
    assert failed(report) == ["packed", "isolation", "boundaries", "attention"]
    assert "batch.cross_example_attention" in err
    isolation = report["checks"][1]
    assert isolation["num_failures"] >= len(isolation["failures"]) > 0
    assert "changing example" in isolation["failures"][0] and "moved the loss of example" in isolation["failures"][0]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_failure_ends_with_74_and_is_said_once(lab, ranks):
    config = lab.config("overflow")
    config.write_text(config.read_text().replace("hidden_act: silu", "hidden_act: silu, initializer_range: 1.0e+38"))
    code, out, err = lab.finish(lab.start("overflow", "--json", ranks=ranks, command="verify", config=config))
    assert code == 74, err
    assert "packed" in failed(json.loads(out))
    assert err.count("checks failed: packed") == 1


def test_a_model_that_one_rank_cannot_hold_is_refused(lab):
    large = ("model.config={model_type: llama, hidden_size: 16384, intermediate_size: 53248, num_hidden_layers: 126, "
             "num_attention_heads: 128, num_key_value_heads: 8, vocab_size: 512, hidden_act: silu, "
             "max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: true}")
    code, _, err = verify(lab, large)
    assert code == 64
    assert "whole model on each rank" in err and "num_hidden_layers" in err


def test_wrong_usage_is_refused(lab):
    for arguments in (["--examples", "0"], ["--steps", "-1"], ["data.train=null"]):
        assert verify(lab, *arguments)[0] == 64, arguments
