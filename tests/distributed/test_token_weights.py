"""Weights of tokens between 0 and 1: packed = one by one, N ranks = 1 rank, and a loss computed by hand."""

import json
import shutil
import subprocess

import numpy
import pytest
from runs import PROGRAM, losses, steps, take_checkpoint

SMALL = ["batch.global_batch_size=8", "data.max_length=60", "data.too_long=truncate", "run.num_epochs=1",
         "run.max_steps=null"]
TABLE = [0, 1] + [hundredths / 100 for hundredths in range(1, 100)]


def with_weights(store, target, table=TABLE, draw=True):
    """The store with weights drawn for all labels but the last of each example; `draw` false: with its own mask."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(store, target)
    part = target / "part-00000.safetensors"
    columns = load_file(part)
    mask = columns["loss_mask"]
    if draw:
        drawn = numpy.random.default_rng(3).integers(1, len(table), len(mask)).astype(numpy.uint8)
        drawn[columns["offsets"][1:] - 1] = 1
        columns["loss_mask"] = numpy.where(mask > 0, drawn, 0).astype(numpy.uint8)
        save_file(columns, part)
    info = json.loads((target / "store.json").read_text())
    info |= {"loss_weights": table, "requires": ["loss_weights"]}
    (target / "store.json").write_text(json.dumps(info))
    return target


@pytest.fixture(scope="session")
def weighted(lab):
    return with_weights(lab.make_store("to-weigh", 40, 31), lab.folder / "weighted")


def weight_sums(store):
    """Returns the sum of the labels' weights of each example."""
    from safetensors.numpy import load_file

    table = numpy.array(json.loads((store / "store.json").read_text())["loss_weights"])
    columns = load_file(store / "part-00000.safetensors")
    return [table[columns["loss_mask"][begin + 1:end]] for begin, end in
            zip(columns["offsets"][:-1], columns["offsets"][1:])]


def ledger(run):
    lines = [json.loads(line) for path in (run / "examples").glob("rank-*.jsonl") for line in path.read_text().splitlines()]
    return {step: [line for line in lines if line["step"] == step] for step in {line["step"] for line in lines}}


@pytest.mark.parametrize("normalize", ["tokens", "examples"])
@pytest.mark.parametrize("strategy", ["balanced", "padding"])
def test_two_ranks_equal_one(lab, weighted, normalize, strategy):
    overrides = [*SMALL, f"data.train=[{weighted}, {{path: {lab.train_store}, loss_weight: 0.5}}]", "run.max_steps=6",
                 f"batch.normalize={normalize}", f"batch.strategy={strategy}"]
    one = lab.run(f"token-weights-{normalize}-{strategy}-1", *overrides)
    two = lab.run(f"token-weights-{normalize}-{strategy}-2", *overrides, ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=2e-5)


def test_a_step_is_the_mean_of_its_tokens_by_their_weights(lab, weighted):
    run = lab.run("token-weights-ledger", f"data.train={weighted}", *SMALL, "metrics.example_losses=true", ranks=2)
    sums = weight_sums(weighted)
    for step, lines in ledger(run).items():
        weights = [line["loss_weight"] for line in lines]
        for line in lines:
            wanted = sums[line["example"]][:line["length"] - 1].sum()
            assert line["loss_weight"] == pytest.approx(wanted, rel=1e-5)
        mean = numpy.average([line["loss"] for line in lines], weights=weights)
        assert steps(run)[step]["loss"] == pytest.approx(mean, rel=1e-5)


def test_one_example_s_loss_is_that_of_its_rows_by_hand(lab, weighted):
    """With a learning rate of almost 0 the model does not change. The losses of single tokens then come from stores
    that supervise one token alone."""
    from safetensors.numpy import load_file, save_file

    columns = load_file(weighted / "part-00000.safetensors")
    ids, weights = columns["input_ids"][:columns["offsets"][1]][:12], [0, 1, 0.5, 0.01]

    def loss_of(name, mask):
        store = lab.folder / f"by-hand-{name}"
        store.mkdir()
        save_file({"input_ids": ids, "offsets": numpy.array([0, len(ids)]), "loss_mask": numpy.array(mask, numpy.uint8),
                   "num_loss_tokens": numpy.array([sum(m > 0 for m in mask[1:])], numpy.int32),
                   "source": numpy.zeros(1, numpy.int16)}, store / "part-00000.safetensors")
        (store / "store.json").write_text(json.dumps(
            json.loads((weighted / "store.json").read_text()) |
            {"num_examples": 1, "num_tokens": len(ids), "num_loss_tokens": sum(m > 0 for m in mask[1:]),
             "loss_weights": weights,
             "shards": [{"file": "part-00000.safetensors", "num_examples": 1, "num_tokens": len(ids)}]}))
        run = lab.run(f"by-hand-{name}", f"data.train={store}", f"data.validation={store}", *SMALL)
        assert lab.evaluate(f"by-hand-{name}", f"data.validation={store}")["num_loss_tokens"] == sum(m > 0 for m in mask[1:])
        return losses(run)[0]

    mask = [0] * len(ids)
    mask[3], mask[7], mask[11] = 1, 2, 3
    alone = {}
    for at in (3, 7, 11):
        only = [0] * len(ids)
        only[at] = mask[at]
        alone[at] = loss_of(f"token-{at}", only)
    together = (1 * alone[3] + 0.5 * alone[7] + 0.01 * alone[11]) / 1.51
    assert loss_of("all", mask) == pytest.approx(together, rel=1e-6)


def test_a_table_of_zero_and_one_is_no_table(lab):
    plain = lab.run("no-table", *SMALL, "run.max_steps=6")
    for name, table in (("table-2", [0, 1]), ("table-101", TABLE)):
        store = with_weights(lab.train_store, lab.folder / name, table, draw=False)
        assert losses(lab.run(name, f"data.train={store}", *SMALL, "run.max_steps=6")) == losses(plain)


def test_weights_change_the_loss_and_the_validation_loss(lab, weighted):
    unweighted = with_weights(lab.folder / "to-weigh", lab.folder / "weighted-by-1", draw=False)
    found = [lab.evaluate("weighted-evaluation", f"data.validation={store}", ranks=ranks)
             for store, ranks in ((weighted, 1), (weighted, 2), (unweighted, 1))]
    assert found[0]["loss"] == pytest.approx(found[1]["loss"], rel=1e-6)
    assert found[0]["loss"] != pytest.approx(found[2]["loss"], rel=1e-5)
    assert found[0]["num_loss_tokens"] == found[2]["num_loss_tokens"]


def test_losses_by_source_are_weighted(lab, weighted):
    store = lab.folder / "two-sources"
    shutil.copytree(weighted, store)
    from safetensors.numpy import load_file, save_file

    columns = load_file(store / "part-00000.safetensors")
    columns["source"][20:] = 1
    save_file(columns, store / "part-00000.safetensors")
    info = json.loads((store / "store.json").read_text())
    (store / "store.json").write_text(json.dumps(info | {"sources": ["first", "second"]}))
    run = lab.run("weighted-sources", f"data.train={store}", *SMALL, "metrics.example_losses=true", ranks=2)
    for step, lines in ledger(run).items():
        for number, name in enumerate(("first", "second")):
            own = [line for line in lines if (line["example"] >= 20) == bool(number)]
            if own:
                wanted = numpy.average([line["loss"] for line in own], weights=[line["loss_weight"] for line in own])
                assert steps(run)[step]["loss_by_source"][name] == pytest.approx(wanted, rel=1e-5)


def test_verify_holds_with_weights(lab, weighted):
    for strategy in ("balanced", "multipack"):
        code, out, err = lab.finish(lab.start(f"verify-weights-{strategy}", f"data.train={weighted}", *SMALL,
                                              f"batch.strategy={strategy}", ranks=2, command="verify"))
        assert code == 0, out + err


def test_a_changed_table_is_another_data_set(lab, weighted):
    settings = [*SMALL, "checkpoint.save_steps=2", "checkpoint.keep=10"]
    run = lab.run("table-saved", f"data.train={weighted}", *settings)
    take_checkpoint(run, 2, lab.folder / "runs" / "table-same")
    assert losses(lab.run("table-same", f"data.train={weighted}", *settings)) == losses(run)[2:]
    other = lab.folder / "other-table"
    shutil.copytree(weighted, other)
    info = json.loads((other / "store.json").read_text())
    info["loss_weights"][5] = 0.9
    (other / "store.json").write_text(json.dumps(info))
    take_checkpoint(run, 2, lab.folder / "runs" / "table-changed")
    code, _, err = lab.finish(lab.start("table-changed", f"data.train={other}", *settings))
    assert code == 66 and "data.train" in err and "fingerprint" in err, err


def test_a_store_of_a_newer_version_is_refused_by_name(lab, weighted):
    store = lab.folder / "newer"
    shutil.copytree(weighted, store)
    info = json.loads((store / "store.json").read_text())
    info["requires"].append("images")
    (store / "store.json").write_text(json.dumps(info))
    code, _, err = lab.finish(lab.start("newer", f"data.train={store}"))
    assert code == 65 and "needs 'images', which this version does not know" in err and "newer packtrain" in err, err


def test_a_checkpoint_of_a_newer_version_is_refused_by_name(lab):
    run = lab.run("newer-checkpoint", *SMALL, "run.max_steps=4", "checkpoint.save_steps=2")
    path = run / "checkpoints" / "step-4" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"requires": ["adapters"]}))
    for command in ("train", "evaluate"):
        for ranks in (1, 2):
            code, _, err = lab.finish(lab.start("newer-checkpoint", *SMALL, "run.max_steps=4", command=command, ranks=ranks))
            assert code == 66 and "needs 'adapters', which this version does not know" in err, err


def test_inspect_counts_labels_by_weight_and_refuses_a_newer_store(lab):
    from safetensors.numpy import load_file, save_file

    store = with_weights(lab.make_store("to-inspect", 4, 33), lab.folder / "inspected", [0, 1, 0.25, 0.5], draw=False)
    columns = load_file(store / "part-00000.safetensors")
    end = columns["offsets"][1]
    columns["loss_mask"][:end] = 0
    columns["loss_mask"][end - 3:end] = [2, 3, 2]
    columns["num_loss_tokens"][0] = 3
    save_file(columns, store / "part-00000.safetensors")
    info = json.loads((store / "store.json").read_text())

    def inspect():
        done = subprocess.run([PROGRAM, "inspect", str(store), "0", "--ids"], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    assert ", 1 of weight 0.5, 2 of weight 0.25" in inspect()[1]
    (store / "store.json").write_text(json.dumps(info | {"requires": ["loss_weights", "images"]}))
    code, said = inspect()
    assert code == 65 and "'images'" in said and "version" in said, said
