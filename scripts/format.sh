#!/usr/bin/env bash
# Formats the C++ sources that git knows of (or would add), with clang-format 14.
#
#   scripts/format.sh [--check]
#
# The version is fixed because each one formats differently.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=-i
[[ "${1:-}" == --check ]] && mode="--dry-run -Werror"
# shellcheck disable=SC2086 # the mode is words
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' '*.cuh' |
  while IFS= read -r -d '' file; do [[ ! -f "$file" ]] || printf '%s\0' "$file"; done |
  xargs -0 -r -P "$(nproc)" -n 16 clang-format-14 $mode
