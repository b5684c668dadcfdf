import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import rotation  # the path is set above

SLOW_FILES = ("test_chat.py", "test_doctor.py", "test_log_probs.py", "test_packtrain_run.py", "test_push.py",
              "test_report_browser.py", "test_score.py", "test_slurm.py", "test_sources.py", "test_sweep.py",
              "test_sweep_together.py", "test_tune.py")


def rule_of(file):
    return {} if file in SLOW_FILES else None


def pytest_collection_modifyitems(config, items):
    rotation.deselect(config, items, pathlib.Path(__file__).resolve().parent, rule_of)
