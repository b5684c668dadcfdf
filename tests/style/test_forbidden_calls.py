"""No shell and no pickle in what users run."""

import pathlib

import pytest
from forbidden_calls import find_faults

REPO = pathlib.Path(__file__).resolve().parents[2]


def test_the_program_has_neither():
    assert find_faults(REPO) == []


@pytest.mark.parametrize("name, line, why", [
    ("a.cpp", "  if (std::system(command.c_str()) != 0) fail();", "starts a shell"),
    ("a.cpp", "FILE* pipe = popen(command, \"r\");", "starts a shell"),
    ("a.h", "  ::execl(\"/bin/sh\", \"sh\", \"-c\", text);", "starts a shell"),
    ("a.cpp", "torch::load(model, path);", "pickle"),
    ("a.cpp", "const auto value = torch::pickle_load(bytes);", "pickle"),
    ("a.cpp", "#include <torch/csrc/jit/serialization/pickle.h>", "pickle"),
    ("a.py", "import pickle", "pickle"),
    ("a.py", "state = torch.load(path)", "pickle"),
    ("a.py", "subprocess.run(text, shell=True)", "starts a shell"),
    ("a.py", "os.system(text)", "starts a shell"),
])
def test_each_is_found(tmp_path, name, line, why):
    (tmp_path / "framework").mkdir()
    (tmp_path / "framework" / name).write_text(f"// first\n{line}\n")
    [fault] = find_faults(tmp_path)
    assert fault.startswith(f"framework/{name}:2: {why}: ")


@pytest.mark.parametrize("line", [
    "const auto now = file_system(path);", "device.system();", "std::system_error error;",
    "launch_system (x)", "::execv(program, arguments);"])
def test_a_similar_name_is_not(tmp_path, line):
    (tmp_path / "framework").mkdir()
    (tmp_path / "framework" / "a.cpp").write_text(line + "\n")
    assert find_faults(tmp_path) == []
