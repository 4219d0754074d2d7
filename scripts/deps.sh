#!/usr/bin/env bash
# Installs the Debian packages that building and testing LCAB need, and nothing that is there already.
#
#   scripts/deps.sh [build] [test] [dist]     (default: build)
#
# On a terminal it asks before it installs; YES=1 answers for you. Elsewhere it never asks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(
  # tools
  ca-certificates ccache cmake g++ git make mold ninja-build pkg-config python3
  # the wire
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libssl-dev
  # base libraries
  libabsl-dev libfmt-dev libspdlog-dev libcli11-dev libyaml-cpp-dev nlohmann-json3-dev libzstd-dev zlib1g-dev
  # storage, metrics, pages
  libsqlite3-dev libsqlitecpp-dev prometheus-cpp-dev libcpp-httplib-dev
  # compute and transport
  libhwy-dev libgloo-dev
)
test_packages=(
  libgtest-dev libgmock-dev
  clang-format-14 clang-tidy-14
)
# For portable programs (make dist): archives, and what unpacks the sources of those that Debian lacks.
dist_packages=(
  binutils libbrotli-dev libc-ares-dev libre2-dev patch python3-pip xz-utils
)
# Tools of which one binary is wanted, not the package with all its dependencies: "binary:package".
# They are unpacked below $LCAB_TOOLS_DIR, so nothing is installed and no daemon is started.
test_tools=(promtool:prometheus)
tools_dir="${LCAB_TOOLS_DIR:-build/tools}"

say() { printf 'deps: %s\n' "$*"; }
die() { printf 'deps: %s\n' "$*" >&2; exit 1; }

packages=()
tools=()
[[ $# -gt 0 ]] || set -- build
for set_name in "$@"; do
  case "$set_name" in
    build) packages+=("${build_packages[@]}") ;;
    dist) packages+=("${dist_packages[@]}") ;;
    test)
      packages+=("${test_packages[@]}")
      tools+=("${test_tools[@]}")
      ;;
    *) die "no set of packages is called '$set_name'; there are: build, test, dist" ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  die "this is not Debian or a relative of it (no apt-get). Install the equivalents of these yourself," \
    "then use 'cmake --preset release': ${packages[*]}"
fi

# dpkg-query fails for packages it has never heard of; those are simply absent from its answer.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qx "installed $package" <<<"$installed" || missing+=("$package")
done
missing_tools=()
for tool in "${tools[@]}"; do
  binary="${tool%%:*}"
  command -v "$binary" >/dev/null || [[ -x "$tools_dir/bin/$binary" ]] || missing_tools+=("$tool")
done

if [[ ${#missing[@]} -eq 0 && ${#missing_tools[@]} -eq 0 ]]; then
  say "all there ($*)"
  exit 0
fi

as_root=()
if [[ ${#missing[@]} -gt 0 ]]; then
  say "missing: ${missing[*]}"
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null ||
      die "installing needs root and there is no sudo; as root: apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
    say "you are not root: apt-get will run under sudo, which may ask for your password"
  fi
fi
for tool in "${missing_tools[@]}"; do
  say "missing: ${tool%%:*} (to be unpacked from Debian's ${tool##*:} into $tools_dir, not installed)"
done

if [[ -t 0 && "${YES:-0}" != 1 ]]; then
  read -r -p "deps: get them now? [Y/n] " answer
  case "$answer" in
    "" | y | Y | yes | Yes) ;;
    *) die "nothing was changed; without these the build cannot go on" ;;
  esac
fi

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -qq "$@"; }

# Lists are updated only where they do not serve, because that takes longer than installing: on a
# machine that never had any (a trial run tells), or when they offer what the mirror has replaced.
if [[ ${#missing[@]} -gt 0 ]]; then
  install=(install -y --no-install-recommends "${missing[@]}")
  apt-get -qq --simulate "${install[@]}" >/dev/null 2>&1 || apt update || true
  apt "${install[@]}" || { apt update && apt "${install[@]}"; } ||
    die "apt-get could not install: ${missing[*]}"
fi

if [[ ${#missing_tools[@]} -gt 0 ]]; then
  mkdir -p "$tools_dir/bin"
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  # Root's apt-get would otherwise drop to a user who cannot write there, and complain.
  fetch=(apt-get -q -o APT::Sandbox::User="$(id -un)" download)
  for tool in "${missing_tools[@]}"; do
    binary="${tool%%:*}"
    package="${tool##*:}"
    (cd "$scratch" && { "${fetch[@]}" "$package" || { apt update && "${fetch[@]}" "$package"; }; }) ||
      die "apt-get could not download $package"
    dpkg -x "$scratch/$package"_*.deb "$scratch/root"
    install -m 755 "$scratch/root/usr/bin/$binary" "$tools_dir/bin/$binary"
  done
fi
say "done"
