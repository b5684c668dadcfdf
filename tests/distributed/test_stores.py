"""Several stores with repeats and loss weights: the same run on any number of ranks."""

import numpy
import pytest
from runs import losses, steps

SMALL = ["batch.global_batch_size=8", "data.max_length=400", "run.num_epochs=1", "run.max_steps=null"]


@pytest.fixture(scope="session")
def two_stores(lab):
    return {name: lab.make_store(name, count, seed)
            for name, count, seed in (("first", 13, 21), ("second", 9, 22))}


def train_stores(stores, weights=(1.0, 1.0), repeats=(1, 2)):
    entries = [f"{{path: {path}, repeats: {n}, loss_weight: {w}}}"
               for path, n, w in zip(stores.values(), repeats, weights)]
    return f"data.train=[{', '.join(entries)}]"


def test_repeats_are_counted(lab, two_stores):
    run_folder = lab.run("repeats", train_stores(two_stores), *SMALL)
    assert sum(line["num_examples"] for line in steps(run_folder).values()) == 13 + 2 * 9


@pytest.mark.parametrize("normalize", ["tokens", "examples"])
def test_weighted_losses_are_the_same_on_two_ranks_and_at_twice_the_weights(lab, two_stores, normalize):
    overrides = [*SMALL, f"batch.normalize={normalize}"]
    one = lab.run(f"weighted-{normalize}-1", train_stores(two_stores, (0.5, 2.0)), *overrides)
    two = lab.run(f"weighted-{normalize}-2", train_stores(two_stores, (0.5, 2.0)), *overrides, ranks=2)
    doubled = lab.run(f"weighted-{normalize}-doubled", train_stores(two_stores, (1.0, 4.0)), *overrides)
    alike = lab.run(f"weighted-{normalize}-alike", train_stores(two_stores), *overrides)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=2e-5)
    assert losses(doubled) == losses(one)
    assert losses(alike) != losses(one)


def test_a_store_named_twice_is_refused(lab, two_stores):
    path = two_stores["first"]
    code, _, err = lab.finish(lab.start("named-twice", f"data.train=[{path}, {path}/]"))
    assert code == 64
    assert "more than once" in err


def test_stores_of_different_vocabularies_are_refused(lab, two_stores):
    other = lab.make_store("other-vocabulary", 5, 1, vocab_size=300)
    code, _, err = lab.finish(lab.start("vocabularies", f"data.train=[{two_stores['first']}, {other}]"))
    assert code == 65
    assert "300" in err and "512" in err and str(other) in err
