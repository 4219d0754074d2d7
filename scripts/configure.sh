#!/usr/bin/env bash
# Configures a preset into a folder, quietly unless something is wrong.
#
#   scripts/configure.sh <preset> <folder> [cmake argument...]
#
# A folder that is configured already is left to Ninja, which reruns CMake when a CMake file changes;
# it is configured again when the presets changed or an argument asks for what it does not have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset="$1" folder="$2"
shift 2

presets=$(cksum <CMakePresets.json)
stamp="$folder/.configured"
if [[ -f "$folder/build.ninja" && -f "$stamp" ]]; then
  { read -r had_presets && read -r had_arguments; } <"$stamp" || true
  # A build for tests serves for the programs too.
  if [[ "$had_presets" == "$presets" && ($# -eq 0 || "$had_arguments" == "$*") ]]; then exit 0; fi
fi
mkdir -p "$folder"
log="$folder/configure.log"
if ! cmake --preset "$preset" -B "$folder" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
printf '%s\n' "$presets" "$*" >"$stamp"
