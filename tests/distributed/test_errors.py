"""Bad input: the right exit code, and a message that names the place."""

import json
import shutil
import struct

import numpy
import pytest


def damage_ids(store, value):
    """Overwrites one token id in a copy's first shard."""
    path = sorted(store.glob("*.safetensors"))[0]
    data = bytearray(path.read_bytes())
    (header_bytes,) = struct.unpack("<Q", data[:8])
    begin, _ = json.loads(data[8:8 + header_bytes])["input_ids"]["data_offsets"]
    place = 8 + header_bytes + begin + 4 * 100
    data[place:place + 4] = numpy.int32(value).tobytes()
    path.write_bytes(data)


def expect(lab, code, words, *overrides, ranks=1, name="error", config=None):
    found, _, err = lab.finish(lab.start(name, *overrides, ranks=ranks, config=config))
    assert found == code, err
    for word in words:
        assert word in err, err
    return err


def copy_of(lab, name):
    target = lab.folder / name
    shutil.copytree(lab.train_store, target)
    return target


@pytest.mark.parametrize("value", [512, -1, 2**31 - 1])
def test_an_id_outside_the_vocabulary(lab, value):
    store = copy_of(lab, f"wrong-id-{value}")
    damage_ids(store, value)
    expect(lab, 65, [str(store), "example", str(value)], f"data.train={store}")


def test_a_truncated_store(lab):
    store = copy_of(lab, "truncated")
    shard = sorted(store.glob("*.safetensors"))[0]
    shard.write_bytes(shard.read_bytes()[:-1000])
    expect(lab, 65, [shard.name], f"data.train={store}")


@pytest.mark.parametrize("variables", [
    {"WORLD_SIZE": "2"}, {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "8"}, {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "4"},
    {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "2"}])
def test_a_launcher_that_is_not_mpis_is_refused_by_name(lab, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    refused = [name for name, value in variables.items() if name != "SLURM_STEP_ID" and value != "1"]
    expect(lab, 69, [f"{refused[0]}=", "packtrain-run", "mpirun", "srun --mpi=pmix"], name="no-mpi")
    assert not (lab.folder / "runs" / "no-mpi").exists()


@pytest.mark.parametrize("variables", [
    {"WORLD_SIZE": "1"}, {"SLURM_NTASKS": "4"},
    {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1"}])
def test_one_process_of_another_launcher_trains(lab, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    expect(lab, 0, [], "run.max_steps=1", "checkpoint.save_final=false", name="one-process")


def test_a_missing_store(lab):
    expect(lab, 65, ["no-such-store"], "data.train=no-such-store")


def test_examples_beyond_the_models_positions_are_warned_of(lab):
    err = expect(lab, 0, ["the model's config.json knows 64 positions", "Lower data.max_length"],
                 "model.config.max_position_embeddings=64", "run.max_steps=1", name="positions")
    assert err.count("knows 64 positions") == 1
    assert "positions" not in expect(lab, 0, [], "model.config.max_position_embeddings=64", "data.max_length=64",
                                     "data.too_long=truncate", "run.max_steps=1", name="within")


def test_a_typo_in_the_configuration_is_named_with_its_line(lab):
    config = lab.config("typo")
    config.write_text(config.read_text().replace("micro_batch_size: 2", "micro_bach_size: 2"))
    line = next(n for n, text in enumerate(config.read_text().splitlines(), 1) if "micro_bach_size" in text)
    expect(lab, 64, ["micro_bach_size", "micro_batch_size", f"{config.name}:{line}"], config=config)


def test_an_error_of_all_ranks_is_printed_once(lab):
    err = expect(lab, 64, ["optimiser"], "optimiser.learning_rate=1", ranks=2)
    assert err.count("did you mean") <= 1
    assert err.count("optimiser.learning_rate=1") <= 2  # one message names the place and the key


def test_more_ranks_than_devices(lab):
    expect(lab, 69, ["2 ranks", "GPU"], "parallel.backend=nccl", ranks=2)


def test_an_example_over_the_token_budget(lab):
    expect(lab, 64, ["data.max_length", "batch.max_tokens_per_micro_batch", "128"],
           "batch.max_tokens_per_micro_batch=128")


def test_an_example_longer_than_allowed(lab):
    expect(lab, 65, ["example", "data.max_length", "100"], "data.max_length=100")
    lab.run("truncated-examples", "data.max_length=100", "data.too_long=truncate", "run.max_steps=2")


def test_a_store_of_another_vocabulary(lab):
    store = lab.make_store("larger-vocabulary", 50, 1, vocab_size=600)
    expect(lab, 65, ["600", "512"], f"data.train={store}")


def test_a_loss_that_is_not_finite_is_never_applied(lab):
    err = expect(lab, 71, ["not applied"], "optimizer.learning_rate=1e30", "optimizer.max_grad_norm=0",
                 "schedule.warmup_steps=0", name="diverged")
    assert "step" in err
