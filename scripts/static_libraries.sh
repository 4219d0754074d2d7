#!/usr/bin/env bash
# Builds the archives that a portable binary links and Debian does not package, from the sources of
# the packages that are installed, so that Debian's headers fit them.
#
#   scripts/static_libraries.sh <folder>     leaves <folder>/lib/*.a and <folder>/include/gloo
#
# What is there already for the same versions is left alone. Nothing is installed.
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
jobs=$(nproc)

say() { printf 'static: %s\n' "$*"; }
die() { printf 'static: %s\n' "$*" >&2; exit 1; }

# "package with the headers:source package"
debian=(libfmt-dev:fmtlib libspdlog-dev:spdlog libhwy-dev:highway prometheus-cpp-dev:prometheus-cpp
  libcpp-httplib-dev:cpp-httplib)
# Debian builds Gloo with Redis and InfiniBand, whose libraries would have to come along. The source
# is that in Horovod's release, the same to a few lines as Debian's; its own headers go with it.
horovod=horovod-0.28.1
horovod_sha256=92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0

wanted=()
for entry in "${debian[@]}"; do
  wanted+=("${entry#*:}=$(dpkg-query -W -f '${source:Version}' "${entry%:*}")")
done
stamp="${wanted[*]} $horovod $(cksum <"${BASH_SOURCE[0]}")"
if [[ -f "$folder/.built" && "$(cat "$folder/.built")" == "$stamp" ]]; then
  say "all there"
  exit 0
fi
rm -rf "${folder:?}/lib" "$folder/include" "$folder/source" "$folder/.built"
mkdir -p "$folder/source" "$folder/lib" "$folder/include" "$folder/lists/partial"
cd "$folder/source"

# Lists of sources of our own: those of the machine need not name any.
say "fetching ${wanted[*]} $horovod"
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | sed -n 1p)
printf 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s\n' \
  "${mirror:-http://deb.debian.org/debian}" "$codename main" >../sources.list
apt=(apt-get -qq -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o Dir::State::lists="$folder/lists" -o APT::Sandbox::User="$(id -un)")
"${apt[@]}" update
"${apt[@]}" source --download-only "${wanted[@]}"
for entry in "${debian[@]}"; do
  source="${entry#*:}"
  mkdir "$source"
  tar -xf "$source"_*.orig.tar.* -C "$source" --strip-components=1
  tar -xf "$source"_*.debian.tar.* -C "$source"
  series="$source/debian/patches/series"
  [[ ! -f "$series" ]] || sed -E 's/#.*//; s/[[:space:]]+$//; /^$/d' "$series" | while read -r patch; do
    patch -s -d "$source" -p1 <"$source/debian/patches/$patch"
  done
done
python3 -m pip download -q --no-deps --no-binary :all: "${horovod/-/==}"
echo "$horovod_sha256  $horovod.tar.gz" | sha256sum --check --quiet || die "$horovod is not what it was"
mkdir gloo && tar -xzf "$horovod.tar.gz" -C gloo --strip-components=3 "$horovod/third_party/gloo"

# build <source folder> <target> [cmake argument...]
build() {
  local source="$1" target="$2"
  shift 2
  say "building $target"
  cmake -S "$source" -B "$source/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_STANDARD=17 \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" \
    "$@" >"$source.log" 2>&1 && cmake --build "$source/build" -j "$jobs" --target "$target" >>"$source.log" 2>&1 ||
    { tail -n 30 "$source.log" >&2; die "$target could not be built"; }
  find "$source/build" -name '*.a' -exec cp {} "$folder/lib/" \;
}
build fmtlib fmt -DFMT_TEST=OFF -DFMT_DOC=OFF
build spdlog spdlog -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF -DSPDLOG_BUILD_TESTS=OFF
build highway hwy -DBUILD_TESTING=OFF -DHWY_ENABLE_TESTS=OFF -DHWY_ENABLE_EXAMPLES=OFF
build prometheus-cpp core -DENABLE_PULL=OFF -DENABLE_PUSH=OFF -DENABLE_TESTING=OFF
build gloo gloo -DUSE_REDIS=OFF -DUSE_IBVERBS=OFF -DBUILD_TEST=OFF -DBUILD_BENCHMARK=OFF -DCMAKE_POLICY_VERSION_MINIMUM=3.5
(cd gloo && find gloo -name '*.h' -exec cp --parents {} "$folder/include/" \;)
find gloo/build -path '*gloo/config.h' -exec cp {} "$folder/include/gloo/" \;

# Debian compiles cpp-httplib apart from its header, with what pkg-config says and debian/rules adds.
say "building cpp-httplib"
python3 cpp-httplib/split.py -e cc -o cpp-httplib/split >/dev/null
# shellcheck disable=SC2046 # the flags are words
g++ -O2 -fPIC -std=c++17 -DCPPHTTPLIB_USE_POLL $(pkg-config --cflags cpp-httplib) -c cpp-httplib/split/httplib.cc -o httplib.o
ar rcs "$folder/lib/libcpp-httplib.a" httplib.o

cd "$folder"
rm -rf source lists
echo "$stamp" >.built
say "done: $(cd lib && echo *.a)"
