"""A new environment with the wheel, for tests of what users install."""

import os
import pathlib
import subprocess
import sys
import sysconfig
import venv

REPO = pathlib.Path(__file__).resolve().parents[2]
# --build=FOLDER, or --architectures=LIST with commas
OPTION, VALUE = os.environ["PACKTRAIN_WHEEL_OPTIONS"].split("=")
PATIENCE_S = 300


def build_wheel(folder):
    subprocess.run([REPO / "launch" / "wheel", OPTION, VALUE.replace(",", ";"), folder], check=True)
    (path,) = folder.iterdir()
    return path


class Installed:
    """A new environment with the wheel. Its other packages are links to those of this Python, which saves 5 GB."""

    def __init__(self, folder, wheel):
        venv.create(folder, with_pip=False)
        self.bin = folder / "bin"
        self.site = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        for package in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
            (self.site / package.name).symlink_to(package)
        subprocess.run([sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "--quiet", "--no-index",
                        "--disable-pip-version-check", wheel], check=True)
        self.package = self.site / "packtrain"
        self.folder = folder / "work"
        self.folder.mkdir()

    def run(self, *words, code=0, **variables):
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "OMP_NUM_THREADS": "1",
                       "PYTHONDONTWRITEBYTECODE": "1", **variables}
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S)
        assert done.returncode == code, done.stderr
        return done.stdout
