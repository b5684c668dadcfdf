"""The Python package plans, and reads and writes plan files."""

import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "launch" / "python"))

import packtrain
from packtrain.strategies import batch_rebalance, best_fit_decreasing, karmarkar_karp

LENGTHS = [random.Random(e).randint(2, 900) for e in range(500)]


def examples_of(step):
    return [e for rank in step for micro_batch in rank for e in micro_batch]


def tokens_of(micro_batch):
    return sum(LENGTHS[e] for e in micro_batch)


@pytest.fixture(scope="module")
def plan():
    return packtrain.plan(LENGTHS, ranks=4, global_batch_size=64, max_tokens=2048, seed=3, epochs=2)


def test_a_plan_has_each_example_once_an_epoch(plan):
    assert len(plan.epochs) == 2 and plan.ranks == 4
    for epoch in plan.epochs:
        assert sorted(e for step in epoch for e in examples_of(step)) == list(range(500))
    assert plan.steps != plan.epochs[1]


def test_a_plan_keeps_the_size_of_steps_and_the_budget(plan):
    assert [len(examples_of(step)) for step in plan.steps] == [64] * 7 + [52]
    assert all(tokens_of(m) <= 2048 for step in plan.steps for rank in step for m in rank)


def test_a_plan_balances_costs(plan):
    def cost(micro_batch):
        return sum(LENGTHS[e] + LENGTHS[e] ** 2 / (6 * 4096) for e in micro_batch)

    slowest = sum(max(cost(rank[m]) for rank in step) for step in plan.steps for m in range(len(step[0])))
    mean = sum(cost(m) for step in plan.steps for rank in step for m in rank) / 4
    assert mean / slowest > 0.98


def test_another_strategy_is_planned_by_its_name():
    plan = packtrain.plan(LENGTHS, ranks=2, max_tokens=4096, strategy="padding_free",
                          settings=["batch.micro_batch_size=4"])
    assert {len(m) for step in plan.steps[:-1] for rank in step for m in rank} == {4}


def test_what_the_program_refuses_is_an_error_with_its_text():
    with pytest.raises(packtrain.PlanError, match="max_tokens_per_micro_batch"):
        packtrain.plan(LENGTHS, max_tokens=100)


def test_a_plan_is_read_as_it_was_written(plan, tmp_path):
    plan.write(tmp_path / "plan.jsonl")
    assert packtrain.read_plan(tmp_path / "plan.jsonl") == plan


def test_steps_of_the_caller_are_written_with_the_digest_of_the_program(plan, tmp_path):
    packtrain.write_plan(tmp_path / "own.jsonl", plan.steps, LENGTHS)
    own = packtrain.read_plan(tmp_path / "own.jsonl")
    assert own.lengths == plan.lengths and own.ranks == 4 and own.epochs == plan.epochs[:1]
    packtrain.write_plan(tmp_path / "steps.jsonl", [[0, 1], [2]], [5, 6, 7])
    assert packtrain.read_plan(tmp_path / "steps.jsonl").ranks is None


def test_arrays_and_numbers_of_numpy_are_written_as_lists_of_numbers(tmp_path):
    numpy = pytest.importorskip("numpy")
    order = numpy.arange(4)
    packtrain.write_plan(tmp_path / "plan.jsonl", [list(order[:2]), order[2:]], numpy.array([4, 5, 6, 7]))
    assert packtrain.read_plan(tmp_path / "plan.jsonl").steps == [[0, 1], [2, 3]]


def test_a_step_of_other_things_is_an_error(tmp_path):
    with pytest.raises(packtrain.PlanError, match="wanted numbers of examples"):
        packtrain.write_plan(tmp_path / "plan.jsonl", [[0, {1}]], [5, 6])
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_kind_is_no_plan(tmp_path):
    (tmp_path / "lines.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(packtrain.PlanError, match="no plan file"):
        packtrain.read_plan(tmp_path / "lines.jsonl")


@pytest.mark.parametrize("make", [
    lambda: best_fit_decreasing.make_plan(LENGTHS, ranks=3, packs_per_rank=2, max_tokens=1024, chunk=100, seed=1),
    lambda: karmarkar_karp.make_plan(LENGTHS, ranks=3, global_batch_size=60, max_tokens=1024, seed=1),
    lambda: batch_rebalance.make_plan(LENGTHS, ranks=3, global_batch_size=60, micro_batches=2, max_tokens=4096, seed=1)])
def test_a_strategy_of_others_keeps_what_a_plan_file_demands(make):
    plan = make()
    assert sorted(e for step in plan.steps for e in examples_of(step)) == list(range(500))
    for step in plan.steps:
        assert len({len(rank) for rank in step}) == 1
        assert all(any(rank[m] for rank in step) for m in range(len(step[0])))


def test_best_fit_decreasing_fills_the_fullest_pack_with_space():
    lengths = [60, 50, 45, 40, 5]
    assert best_fit_decreasing.pack(range(5), lengths, 100) == [[0, 3], [1, 2, 4]]


def test_karmarkar_karp_finds_the_partition_of_the_papers_example():
    """8, 7, 6, 5, 4 into two sets: the differencing method leaves a difference of 2."""
    sets = karmarkar_karp.partition([8, 7, 6, 5, 4], 2, equal_sizes=False)
    sums = sorted(sum([8, 7, 6, 5, 4][item] for item in items) for items in sets)
    assert sums == [14, 16]


def test_karmarkar_karp_gives_equal_numbers_where_they_divide():
    sets = karmarkar_karp.partition([9, 8, 7, 1, 1, 1], 3, equal_sizes=True)
    assert [len(items) for items in sets] == [2, 2, 2]


def test_batch_rebalance_cuts_neighbours_into_groups_of_equal_padded_cost():
    step = batch_rebalance.plan_step(range(8), [800, 100, 100, 100, 100, 100, 100, 100], 2, 1, 4096)
    assert sorted(map(len, (rank[0] for rank in step))) == [1, 7]
