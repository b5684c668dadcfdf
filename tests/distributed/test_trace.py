"""run.trace_steps: timelines of all ranks that fit together."""

import re
from pathlib import Path

import pytest
from runs import losses, steps
from traces import end, named, read_trace


@pytest.fixture(scope="module")
def run_folder(lab):
    return lab.run("traced", "run.trace_steps=2", "run.trace_first=3", "debug.stream_delay_us=300", ranks=2)


@pytest.fixture(scope="module", params=[0, 1])
def rows(run_folder, request):
    return read_trace(run_folder / "trace" / f"rank-{request.param}.json")[1]


def test_every_rank_writes_a_process_of_one_time(run_folder):
    traces = [read_trace(run_folder / "trace" / f"rank-{rank}.json")[0] for rank in range(2)]
    assert traces[0]["otherData"]["origin_unix_ns"] == traces[1]["otherData"]["origin_unix_ns"]
    for rank, trace in enumerate(traces):
        assert {event["pid"] for event in trace["traceEvents"]} == {rank}
    spans = [(min(e["ts"] for e in boxes), max(end(e) for e in boxes))
             for boxes in ([e for e in t["traceEvents"] if e["ph"] == "X"] for t in traces)]
    assert max(begin for begin, _ in spans) < min(end for _, end in spans), "the ranks run at the same time"


def test_steps_are_those_asked_for(rows):
    assert [box["name"] for box in named(rows, "compute", "step ")] == ["step 3", "step 4"]


def test_actions_stand_on_their_streams_by_name(rows):
    assert {"compute", "gather", "reduce", "data"} <= rows.keys()
    units = [f"layers.{i}" for i in range(4)]
    for unit in units:
        assert len(named(rows, "compute", f"forward {unit}")) >= 2
        assert len(named(rows, "compute", f"backward {unit}")) >= 2
        assert len(named(rows, "gather", f"gather {unit}")) >= 2
        assert len(named(rows, "reduce", f"reduce {unit}")) >= 2
    assert len(named(rows, "compute", "AdamW")) >= 2
    assert not named(rows, "compute", "gather "), "given by this thread, done by another"
    assert named(rows, "compute", "wait for gather") or named(rows, "compute", "wait for reduce")


def test_the_boxes_that_the_documents_explain_are_there(rows):
    page = (Path(__file__).resolve().parents[2] / "docs" / "performance.md").read_text()
    table = page.split("## How to read a trace")[1].split("| box | row |")[1].split("\n\n")[0]
    explained = re.findall(r"^\| (`.*?`) \| `(\w+)`", table, re.MULTILINE)
    assert len(explained) > 8
    for boxes, row in explained:
        for box in re.findall(r"`([^`]+)`", boxes):
            # What is waited for is a matter of luck.
            beginning = "wait for " if box.startswith("wait for ") else re.sub(r"\b[UN]$", "", box)
            assert named(rows, row, beginning), box


def test_boxes_of_a_row_are_nested_or_disjoint(rows):
    for row, boxes in rows.items():
        around = []
        for box in boxes:
            while around and end(around[-1]) <= box["ts"]:
                around.pop()
            assert not around or end(box) <= end(around[-1]) + 1e-3, (row, around[-1], box)
            around.append(box)


def test_operators_are_within_their_action(rows):
    forward = named(rows, "compute", "forward layers.0")[0]
    inside = [box for box in rows["compute"] if forward["ts"] <= box["ts"] and end(box) <= end(forward)]
    assert len(inside) > 5


def test_reductions_overlap_backward(rows):
    backward = named(rows, "compute", "backward ")
    assert any(reduction["ts"] < end(b) and b["ts"] < end(reduction)
               for reduction in named(rows, "reduce", "reduce ") for b in backward)


def test_tracing_changes_no_loss_and_nothing_is_written_without(lab, run_folder):
    untraced = lab.run("untraced", ranks=2)
    assert losses(run_folder) == losses(untraced)
    assert not (untraced / "trace").exists()


def test_a_trace_ends_with_the_run(lab):
    run_folder = lab.run("short", "run.trace_steps=9", "run.trace_first=19")
    rows = read_trace(run_folder / "trace" / "rank-0.json")[1]
    assert [box["name"] for box in named(rows, "compute", "step ")] == ["step 19", "step 20"]


def test_a_first_step_that_never_comes_is_a_warning(lab):
    code, _, err = lab.finish(lab.start("never", "run.trace_steps=1", "run.trace_first=21"))
    assert code == 0
    assert "none will be traced" in err


def test_waits_for_communication_are_reported_by_kind(run_folder):
    lines = list(steps(run_folder).values())
    assert all(line["comm_wait_s"] == pytest.approx(line["gather_wait_s"] + line["reduce_wait_s"]) for line in lines)
    assert all(0 <= line["comm_wait_s"] <= line["step_time_s"] for line in lines[1:])
    assert sum(line["gather_wait_s"] for line in lines) > 0
    assert sum(line["reduce_wait_s"] for line in lines) > 0


def test_no_step_waits_for_data_in_steady_state(lab):
    lines = list(steps(lab.run("steady")).values())[3:]
    waits = sorted(line["data_wait_s"] for line in lines)
    assert waits[len(waits) // 2] < 1e-3
    # Some, where a busy machine held up the thread that reads ahead.
    assert sum(line["data_wait_s"] > 0.05 * line["step_time_s"] for line in lines) <= len(lines) // 4
