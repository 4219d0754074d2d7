#!/usr/bin/env bash
# Packs portable programs: what they need beside the C library is in them, or opened when they run.
#
#   scripts/dist.sh <build folder> <name> <most MiB> program...
#
# Leaves <build folder>/<name>.tar.xz with bin/, the licence and the notices of all that is linked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build="$1" name="$2" most_mib="$3"
shift 3

say() { printf 'dist: %s\n' "$*"; }
die() { printf 'dist: %s\n' "$*" >&2; exit 1; }

# Packages whose archives are linked, and the compiler's own library.
packages=(libgrpc++-dev libprotobuf-dev libssl-dev libabsl-dev libfmt-dev libspdlog-dev libcli11-dev
  libyaml-cpp-dev nlohmann-json3-dev zlib1g-dev libzstd-dev libsqlite3-dev libsqlitecpp-dev
  prometheus-cpp-dev libcpp-httplib-dev libhwy-dev libgloo-dev libc-ares-dev libre2-dev libbrotli-dev
  gcc-12-base)

root="$build/$name"
rm -rf "$root" "$root.tar.xz"
mkdir -p "$root/bin" "$root/licenses"
for program in "$@"; do
  strip -o "$root/bin/$program" "$build/bin/$program"
done
cp LICENSE NOTICE THIRD_PARTY_NOTICES.md "$root/"
for package in "${packages[@]}"; do
  copyright="/usr/share/doc/$package/copyright"
  [[ -f "$copyright" ]] || die "there is no $copyright: its package's notice has to be passed on"
  cp "$copyright" "$root/licenses/$package.txt"
done
scripts/check_portable.py "$root"/bin/*
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$build" -cJf "$root.tar.xz" "$name"
bytes=$(stat -c %s "$root.tar.xz")
say "$root.tar.xz: $((bytes / 1024)) KiB"
((bytes <= most_mib * 1024 * 1024)) || die "that is more than $most_mib MiB"
