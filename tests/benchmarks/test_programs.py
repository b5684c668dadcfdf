"""benchmarks/train/programs.py: the reason of a failure in a log."""

import pytest

import folders  # noqa: F401  the paths of the benchmarks

import programs


@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_the_reason_of_a_failure_is_the_error_that_was_raised_last(tmp_path, prefix):
    log = tmp_path / "log"
    raised = f"{prefix}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    log.write_text("\n".join(["liger could not be imported: ImportError: no module",
                              f"{prefix}Traceback (most recent call last):", f"{prefix}RuntimeError: of a block",
                              raised, '{"tok_s": 1}',
                              "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
                              "train.py FAILED"]))
    assert programs.end_of(log) == raised


def test_an_error_that_was_only_quoted_is_shown_where_none_was_raised(tmp_path):
    log = tmp_path / "log"
    log.write_text("start\nliger could not be imported: ImportError: no module\nended\n")
    assert programs.end_of(log) == "liger could not be imported: ImportError: no module"
