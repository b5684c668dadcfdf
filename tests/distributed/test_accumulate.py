"""parallel.accumulate: local sums of gradients, reduced once a step, train what reductions of each micro-batch do."""

import json

import numpy
import pytest
from runs import assert_bit_equal, losses, steps, take_checkpoint

# Two to four micro-batches a step on two ranks.
SEVERAL = ["batch.max_tokens_per_micro_batch=512", "batch.global_batch_size=48"]
LOCAL = [*SEVERAL, "parallel.accumulate=local"]
SHARD = [*SEVERAL, "parallel.accumulate=shard"]
SAVES = ["checkpoint.save_steps=7", "checkpoint.keep=5"]
# AdamW divides gradients near 0 by themselves, rounding included. A larger epsilon does not.
TRAINS_ADAPTERS = ["optimizer.learning_rate=1.0e-2", "optimizer.epsilon=1.0e-3"]
ADAPTER = ["adapter.kind=lora", "adapter.rank=4", *TRAINS_ADAPTERS]
TOGETHER = 'adapters=[{"name": "a", "rank": 4}, {"name": "b", "rank": 8, "targets": ["q_proj", "down_proj"]}]'
EXPERTS = ("model.config={model_type: mixtral, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, "
           "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, hidden_act: silu, num_local_experts: 4, "
           "num_experts_per_tok: 2, max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: false, "
           "rope_theta: 10000.0, sliding_window: null, output_router_logits: false, router_aux_loss_coef: 0.0}")

LAYOUTS = {
    "two": (2, []),
    "stage 2": (2, ["parallel.zero_stage=2"]),
    "pairs": (4, ["parallel.shard_size=2"]),
    "poisoned": (2, ["parallel.gather_slots=1", "debug.poison_slots=true", "debug.stream_delay_us=300"]),
    "recomputed": (2, ["memory.recompute=full", "memory.offload=activations"]),
    "checked": (3, ["debug.check_collectives=true", "debug.check_gathers=true",
                    "parallel.resident_embeddings=false"]),
    "frozen": (2, ["model.frozen=[embed.weight, layers.0.*, layers.2.mlp.*]"]),
    "adapter": (2, ADAPTER),
    "NF4": (2, [*ADAPTER, "model.base=nf4"]),
    "adapters": (2, ["data.validation=null", *TRAINS_ADAPTERS, TOGETHER]),
    "experts": (2, [EXPERTS, "optimizer.epsilon=1.0e-3"]),
    "padding": (2, ["batch.strategy=padding", "batch.micro_batch_size=1"]),
}


def entry(run):
    return json.loads((run / "plan.json").read_text())["entries"][-1]


@pytest.fixture(scope="session")
def local(lab):
    return lab.run("local", *LOCAL, *SAVES, ranks=2)


@pytest.fixture(scope="session")
def shard(lab):
    return lab.run("shard", *SHARD, *SAVES, ranks=2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_local_sums_equal_reductions_of_each_micro_batch(lab, layout):
    ranks, settings = LAYOUTS[layout]
    name = layout.replace(" ", "-")
    runs = [lab.run(f"{name}-{way[-1][-5:]}", *way, *settings, "run.max_steps=4", ranks=ranks)
            for way in (LOCAL, SHARD)]
    numpy.testing.assert_allclose(losses(runs[0]), losses(runs[1]), rtol=1e-6)
    norms = [[line["grad_norm"] for line in steps(run).values()] for run in runs]
    numpy.testing.assert_allclose(norms[0][:1], norms[1][:1], rtol=1e-6)
    assert entry(runs[0])["accumulate"] == "local" and "accumulate" not in entry(runs[1])


def test_two_ranks_equal_one(lab, local, shard):
    one = lab.run("one", *SEVERAL)
    numpy.testing.assert_allclose(losses(local), losses(one), rtol=2e-5)
    assert losses(local) != losses(shard), "sums in another order have other bits"


def test_bfloat16_reductions_follow(lab, local):
    narrow = lab.run("narrow", *LOCAL, "precision.compute=bf16", "precision.reduce=bf16", ranks=2)
    numpy.testing.assert_allclose(losses(narrow), losses(local), rtol=5e-3)


def test_a_deterministic_run_repeats_bit_for_bit(lab):
    runs = [lab.run(f"repeated-{i}", *LOCAL, "precision.deterministic=true", ranks=2) for i in range(2)]
    assert_bit_equal(*runs)


@pytest.mark.parametrize("ranks, settings", [(2, []), (1, SEVERAL), (2, [*SEVERAL, "parallel.shard_size=1"])],
                         ids=["one micro-batch", "one rank", "replicas"])
def test_nothing_changes_where_nothing_is_to_win(lab, ranks, settings):
    one_step = [*(settings or ["batch.max_tokens_per_micro_batch=8192"]), "run.max_steps=3"]
    name = f"nothing-{ranks}-{len(settings)}"
    runs = [lab.run(f"{name}-{way}", *one_step, f"parallel.accumulate={way}", ranks=ranks)
            for way in ("shard", "local")]
    assert_bit_equal(*runs)
    assert "accumulate" not in entry(runs[1])
    memory = [json.loads((run / "memory.json").read_text()) for run in runs]
    assert memory[0] == memory[1]


def test_log_and_memory_report_say_what_was_chosen(lab, local, shard):
    code, _, err = lab.finish(lab.start("told", *LOCAL, "run.max_steps=1", ranks=2))
    assert code == 0, err
    assert err.count("parallel.accumulate: local: each rank sums its gradients, which are reduced once") == 1
    assert err.count("local gradient sums") == 1
    bytes_of = [json.loads((run / "memory.json").read_text())["allocated_bytes"] for run in (local, shard)]
    assert bytes_of[0]["local gradient sums"] == 2 * bytes_of[0]["gradient"]
    assert "local gradient sums" not in bytes_of[1]


def test_a_resumed_run_continues_as_the_uninterrupted_one(lab, local):
    take_checkpoint(local, 7, lab.folder / "runs" / "resumed")
    resumed = lab.run("resumed", *LOCAL, *SAVES, ranks=2)
    assert losses(resumed) == losses(local)[7:]
    assert json.loads((resumed / "plan.json").read_text()) == json.loads((local / "plan.json").read_text())


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("way", ["local", "shard"])
def test_a_run_resumes_with_the_other_way_on_any_ranks(lab, local, shard, way, ranks):
    source, settings = (shard, LOCAL) if way == "local" else (local, SHARD)
    name = f"resumed-{way}-{ranks}"
    take_checkpoint(source, 7, lab.folder / "runs" / name)
    resumed = lab.run(name, *settings, *SAVES, ranks=ranks)
    numpy.testing.assert_allclose(losses(resumed), losses(source)[7:], rtol=2e-5)


def test_a_step_that_is_not_finite_is_discarded(lab):
    nan = ["fault.kind=nan_gradient", "fault.step=3", "fault.rank=1", "guard.non_finite=skip", "run.max_steps=6"]
    runs = [lab.run(f"nan-{way[-1][-5:]}", *way, *nan, ranks=2) for way in (LOCAL, SHARD)]
    numpy.testing.assert_allclose(losses(runs[0]), losses(runs[1]), rtol=2e-6)
    assert [line["num_skipped_steps"] for line in steps(runs[0]).values()] == \
        [line["num_skipped_steps"] for line in steps(runs[1]).values()]


@pytest.mark.parametrize("way", ["local", "shard"])
@pytest.mark.parametrize("ranks, settings", [(2, []), (4, ["parallel.shard_size=2"])])
def test_verify_passes(lab, way, ranks, settings):
    words = [*SEVERAL, f"parallel.accumulate={way}", *settings, "--json", "--examples", "48"]
    code, out, err = lab.finish(lab.start("verified", *words, ranks=ranks, command="verify"))
    assert code == 0, out + err
    assert json.loads(out)["num_micro_batches"] > 1
    assert ("parallel.accumulate: local" in err) == (way == "local")
