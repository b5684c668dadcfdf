# Code shared by the launch scripts, which source it.
# shellcheck shell=bash

packtrain_root="$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '%s\n' "$*" >&2; }

# die CODE MESSAGE...
die() {
  local code="$1"
  shift
  say "error: $*"
  exit "$code"
}

# The folder of cached environments; cmake/FindLibTorch.cmake follows the same rule.
packtrain_cache() {
  printf '%s\n' "${PACKTRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/packtrain}"
}

# The Python environment of this checkout's launch/requirements.txt.
packtrain_env() {
  local hash
  hash="$(sha256sum "$packtrain_root/launch/requirements.txt")"
  printf '%s/env-%s\n' "$(packtrain_cache)" "${hash:0:12}"
}

# The Python of lint, types and documents: launch/requirements-lint.txt.
lint_env() {
  local hash
  hash="$(sha256sum "$packtrain_root/launch/requirements-lint.txt")"
  printf '%s/lint-%s\n' "$(packtrain_cache)" "${hash:0:12}"
}

# The cuDNN frontend: C++ headers only, so in a folder of its own next to the environments.
# cmake/FindCudnnFrontend.cmake reads the version here.
cudnn_frontend_version=1.32.0
cudnn_frontend_folder() {
  printf '%s/cudnn-frontend-%s\n' "$(packtrain_cache)" "$cudnn_frontend_version"
}

# clang-tidy from PyPI: three times as fast as Debian's 19, which also matches system headers.
clang_tidy_version=23.1.4
clang_tidy_folder() {
  printf '%s/clang-tidy-%s\n' "$(packtrain_cache)" "$clang_tidy_version"
}

# lizard: where functions end, for tests/lint --metrics.
lizard_version=1.24.3
lizard_folder() {
  printf '%s/lizard-%s\n' "$(packtrain_cache)" "$lizard_version"
}

# What launch/wheel builds with.
scikit_build_core_version=1.1.2
wheel_tools_folder() {
  printf '%s/scikit-build-core-%s\n' "$(packtrain_cache)" "$scikit_build_core_version"
}

# version_at_least HAVE WANT
version_at_least() {
  [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$2" ]
}

# command_version COMMAND: the first dotted number of `COMMAND --version`, nothing when missing
command_version() {
  command -v "$1" >/dev/null && "$1" --version | grep -oE '[0-9]+(\.[0-9]+)+' | head -n1
}

# Puts the environment's cmake and ninja first on PATH when launch/setup installed them there.
use_build_tools() {
  local tools
  tools="$(packtrain_env)/build-tools"
  [ ! -d "$tools" ] || PATH="$tools:$PATH"
}

# A script's first comment is its help.
case "${1:-}" in
  -h | --help)
    sed -n '2,${/^#/!q; s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac
