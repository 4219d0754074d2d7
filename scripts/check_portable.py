#!/usr/bin/env python3
"""Says what programs need of a system, and fails where that is more than they may need.

    scripts/check_portable.py [--glibc 2.34] [--total-mib 40] program...

A portable program needs shared libraries of the C library and the compiler only, and no symbol of a
newer C library than the one named.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
           "libdl.so.2", "libpthread.so.0", "librt.so.1"}


def version(text):
    return tuple(int(part) for part in text.split("."))


def needs(program):
    """(shared libraries, {GLIBC version: a symbol of it})"""
    dynamic = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
    symbols = subprocess.run(["objdump", "-T", program], check=True, capture_output=True, text=True).stdout
    libraries = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", dynamic))
    versions = {}
    for match in re.finditer(r"\(?GLIBC_([\d.]+)\)?\s+(\S+)$", symbols, re.M):
        versions.setdefault(match[1], match[2])
    return libraries, versions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--glibc", default="2.34")
    parser.add_argument("--total-mib", type=float, default=None)
    parser.add_argument("programs", nargs="+")
    args = parser.parse_args()
    complaints, total = [], 0
    for program in args.programs:
        libraries, versions = needs(program)
        size = pathlib.Path(program).stat().st_size
        total += size
        newest = max(versions, key=version)
        print(f"{pathlib.Path(program).name}: {size / 2**20:.1f} MiB, glibc {newest} ({versions[newest]})")
        if foreign := sorted(libraries - ALLOWED):
            complaints.append(f"{program} needs {', '.join(foreign)}")
        for found, symbol in sorted(versions.items()):
            if version(found) > version(args.glibc):
                complaints.append(f"{program} needs {symbol} of glibc {found}, newer than {args.glibc}")
    if args.total_mib is not None and total > args.total_mib * 2**20:
        complaints.append(f"{total / 2**20:.1f} MiB in all, more than {args.total_mib:g}")
    for complaint in complaints:
        print(f"check_portable: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
