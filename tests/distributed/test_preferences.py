"""Objectives of groups: the same for any ranks, packing, sharing of prompts, accumulation and interruption."""

import json

import numpy
import pytest
from preference_runs import ADAPTER, PAIRS, STORE_OF, evaluations, make_stores, settings, statistics
from runs import losses, steps, take_checkpoint, weights

OBJECTIVES = [*PAIRS, "kto", "policy"]
# Objectives with a reference train an adapter, and the others the whole model.
MORE = {"dpo": ADAPTER, "ipo": ADAPTER, "kto": ADAPTER, "policy": [*ADAPTER, "objective.beta=0.05"]}
SAVES = ["checkpoint.save_steps=3", "checkpoint.keep=10"]


@pytest.fixture(scope="session")
def stores(tmp_path_factory):
    return make_stores(tmp_path_factory.mktemp("preferences"))


@pytest.fixture(scope="session", params=OBJECTIVES)
def one(request, lab, stores):
    """(objective, its settings, its run on one rank)"""
    words = [*settings(stores, request.param), *MORE.get(request.param, [])]
    return request.param, words, lab.run(f"one-{request.param}", *words, *SAVES)


def assert_same(found, wanted, rtol=3e-5):
    numpy.testing.assert_allclose(losses(found), losses(wanted), rtol=rtol, atol=1e-7)
    ours, theirs = statistics(found), statistics(wanted)
    assert ours.keys() == theirs.keys()
    for name in ours:
        numpy.testing.assert_allclose(ours[name], theirs[name], rtol=2e-4, atol=2e-5, err_msg=name)
    first, second = weights(found), weights(wanted)
    assert first.keys() == second.keys()
    for name in first:
        numpy.testing.assert_allclose(first[name], second[name], rtol=0, atol=3e-4, err_msg=name)


def test_the_log_has_the_statistics_of_the_objective(one):
    objective, _, run = one
    found = statistics(run)
    if objective in PAIRS:
        assert {"reward_chosen", "reward_rejected", "reward_margin", "reward_accuracy"} <= found.keys()
        for chosen, rejected, margin in zip(found["reward_chosen"], found["reward_rejected"],
                                            found["reward_margin"], strict=True):
            assert margin == pytest.approx(chosen - rejected, rel=1e-3, abs=1e-6)
    assert all(line["num_groups"] == 6 for line in steps(run).values())
    assert all(numpy.isfinite(losses(run)))


def test_two_ranks_train_as_one(lab, one):
    objective, words, run = one
    assert_same(lab.run(f"two-{objective}", *words, ranks=2), run)


def test_groups_one_by_one_train_as_packed(lab, one):
    objective, words, run = one
    alone = lab.run(f"alone-{objective}", *words, "batch.strategy=padding_free", "batch.micro_batch_size=1")
    assert_same(alone, run)


def test_prompts_that_are_computed_once_change_nothing(lab, one):
    objective, words, run = one
    assert_same(lab.run(f"unshared-{objective}", *words, "batch.share_prefixes=false"), run)


def test_a_resumed_run_continues_as_uninterrupted(lab, one):
    objective, words, run = one
    take_checkpoint(run, 3, lab.folder / "runs" / f"resumed-{objective}")
    resumed = lab.run(f"resumed-{objective}", *words, *SAVES)
    assert sorted(steps(resumed)) == [4, 5]
    assert losses(resumed) == losses(run)[3:]
    assert statistics(resumed) == {name: values[3:] for name, values in statistics(run).items()}
    found, wanted = weights(resumed), weights(run)
    assert all((found[name] == wanted[name]).all() for name in wanted)


def test_an_evaluation_is_exact_over_ranks_and_packing(lab, one):
    objective, words, run = one
    (found,) = evaluations(run)
    assert "validation_perplexity" not in found
    assert found["validation_num_groups"] == 17
    for number, more in enumerate((["data.max_length=400", "batch.max_tokens_per_micro_batch=400"], ["batch.share_prefixes=false"], [])):
        again = lab.evaluate(f"one-{objective}", *words, *more, ranks=1 + number)
        assert again["loss"] == pytest.approx(found["validation_loss"], rel=1e-5, abs=1e-7)
        assert again["objective"].keys() == found["validation_objective"].keys()
        for name, value in again["objective"].items():
            assert value == pytest.approx(found["validation_objective"][name], rel=1e-4, abs=1e-5), name


@pytest.mark.parametrize("objective", ["dpo", "kto", "policy"])
def test_verify_finds_nothing_with_a_reference(lab, stores, objective):
    words = [*settings(stores, objective), *MORE[objective]]
    code, out, err = lab.finish(lab.start(f"verified-{objective}", *words, ranks=2, command="verify"))
    assert code == 0, out + err


@pytest.mark.parametrize("more", [["parallel.zero_stage=2"], ["parallel.shard_size=1"], ["memory.recompute=full"],
                                  ["batch.cost=measured"], ["metrics.example_losses=true"]])
def test_ways_to_shard_and_to_recompute_change_nothing(lab, stores, more):
    words = [*settings(stores, "dpo"), *ADAPTER]
    assert_same(lab.run("ways-" + "-".join(more), *words, *more, ranks=2), lab.run("ways", *words))


@pytest.mark.parametrize("more", [["adapter.use_dora=true"], ["adapter.dropout=0.2"], ["adapter.use_rslora=true"],
                                  ["batch.normalize=examples", "objective.next_token_weight=0.5"],
                                  ["objective.margin_scale=0.2", "objective.label_smoothing=0.1"]])
def test_options_of_adapters_and_of_the_loss_give_the_same_on_two_ranks(lab, stores, more):
    words, name = [*settings(stores, "dpo"), *ADAPTER, *more], "-".join(more)
    one = lab.run(f"options-{name}", *words)
    assert losses(one) != losses(lab.run("ways", *settings(stores, "dpo"), *ADAPTER)), "the option has an effect"
    assert_same(lab.run(f"options-two-{name}", *words, ranks=2), one)


def test_an_update_that_is_not_finite_is_skipped(lab, stores):
    words = [*settings(stores, "kto"), *ADAPTER, "guard.non_finite=skip", "fault.kind=nan_gradient", "fault.step=2"]
    run = lab.run("skipped", *words)
    assert [line["num_skipped_steps"] for _, line in sorted(steps(run).items())] == [0, 1, 0, 0, 0]
    assert all(numpy.isfinite(statistics(run)["kto_divergence"]))


def test_a_step_whose_reference_runs_out_of_memory_is_repeated(lab, stores):
    for objective in ("dpo", "kto"):
        words = [*settings(stores, objective), *ADAPTER]
        more = ["fault.kind=out_of_memory", "fault.step=2", "fault.rank=1", "fault.micro_batch=0"]
        broken = lab.run(f"oom-{objective}", *words, *more, ranks=2)
        assert steps(broken)[2]["num_out_of_memory"] == 1
        assert_same(broken, lab.run(f"oom-{objective}-none", *words))


def test_the_loss_log_has_a_line_for_each_example(lab, stores):
    words = [*settings(stores, "dpo"), *ADAPTER, "run.max_steps=1", "metrics.example_losses=true"]
    found = {}
    for share in ("true", "false"):
        run = lab.run(f"ledger-{share}", *words, f"batch.share_prefixes={share}")
        lines = [json.loads(line) for line in (run / "examples" / "rank-0.jsonl").read_text().splitlines()]
        assert sorted(line["role"] for line in lines) == ["chosen"] * 6 + ["rejected"] * 6
        found[share] = {line["example"]: (line["begin"], line["length"], line["num_loss_tokens"],
                                          pytest.approx(line["loss"], rel=1e-4)) for line in lines}
    assert found["true"] == found["false"]


@pytest.mark.parametrize("objective", PAIRS)
def test_chosen_answers_get_the_larger_rewards(lab, stores, objective):
    more = ["objective.length_normalize=true"] if objective == "cpo" else MORE.get(objective, [])
    run = lab.run(f"learned-{objective}", *settings(stores, objective), *more, "run.max_steps=20")
    (found,) = evaluations(run)
    assert found["validation_objective"]["reward_accuracy"] > 0.9
    assert losses(run)[-1] < losses(run)[0]


def test_a_store_of_another_kind_is_refused(lab, stores):
    for objective, other in (("dpo", "judged"), ("kto", "pairs"), ("policy", "pairs")):
        words = [*settings(stores, objective), *ADAPTER, f"data.train={stores[other][0]}"]
        code, _, err = lab.finish(lab.start(f"kind-{objective}", *words))
        assert code == 65
        assert f"groups of the kind '{other}'" in err and f"'{STORE_OF[objective]}'" in err
