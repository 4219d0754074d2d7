#!/usr/bin/env python3
"""cpu_tiled beside PyTorch's scaled_dot_product_attention on this CPU, taking turns in one run.

Needs a Python with torch and numpy:

    make peers PEERS_PYTHON=torch-venv/bin/python

Both compute the same inputs (ours are read by PyTorch) and PyTorch's results are held against ours
first. The ratio is PyTorch's time over ours: above 1 we are faster.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy
    import torch
except ImportError as error:
    sys.exit(
        f"{error}. PyTorch is needed here only; have it in a place of its own:\n"
        "  python3 -m venv torch-venv && torch-venv/bin/pip install torch numpy\n"
        "  make peers PEERS_PYTHON=torch-venv/bin/python"
    )

CASES = [  # mask, window, tokens
    ("full", 0, 4096),
    ("causal", 0, 4096),
    ("sliding_window_causal", 256, 16384),
]


class Ours:
    """One lcab-kernel-bench, which answers each line with a number."""

    def __init__(self, bench, arguments):
        self.process = subprocess.Popen(
            [bench, "serve", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.facts = json.loads(self.process.stdout.readline())

    def run(self, command="run"):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("lcab-kernel-bench ended; its reason stands above")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Torch:
    """The same problem in PyTorch, with the mask in the form that it computes fastest."""

    def __init__(self, folder, mask, window, tokens, heads, head_dim, dtype, backward):
        def read(name):
            kind = numpy.float32 if dtype == "fp32" else numpy.int16
            array = numpy.fromfile(folder / f"{name}.raw", dtype=kind).copy()
            tensor = torch.from_numpy(array)
            if dtype == "bf16":
                tensor = tensor.view(torch.bfloat16)
            # [tokens, heads, dim] to the [batch, heads, tokens, dim] that PyTorch wants.
            return tensor.view(tokens, heads, head_dim).transpose(0, 1).contiguous()[None]

        self.q, self.k, self.v, self.dout = (read(name) for name in ("q", "k", "v", "dout"))
        self.expected = [read(name) for name in (("dq", "dk", "dv") if backward else ("out",))]
        self.backward = backward
        self.arguments = {"is_causal": mask == "causal"}
        if mask == "sliding_window_causal":
            distance = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]
            allowed = (distance >= 0) & (distance <= window)
            # Added, not selected: PyTorch would turn a boolean mask into this one in every call.
            self.arguments["attn_mask"] = torch.zeros(
                tokens, tokens, dtype=self.q.dtype
            ).masked_fill_(~allowed, float("-inf"))
        if backward:
            for tensor in (self.q, self.k, self.v):
                tensor.requires_grad_(True)
            self.out = self.forward()

    def forward(self):
        return torch.nn.functional.scaled_dot_product_attention(
            self.q, self.k, self.v, **self.arguments
        )

    def run(self):
        start = time.perf_counter()
        if self.backward:
            self.results = torch.autograd.grad(
                self.out, (self.q, self.k, self.v), self.dout, retain_graph=True
            )
        else:
            with torch.no_grad():
                self.results = [self.forward()]
        return time.perf_counter() - start

    def largest_difference(self):
        return max(
            (ours.float() - theirs.float()).abs().max().item()
            for ours, theirs in zip(self.expected, self.results)
        )


def compare(options, mask, window, tokens, head_dim, pass_name):
    arguments = [
        "--mask", mask, "--window", str(window), "--seq-len", str(tokens),
        "--q-heads", str(options.heads), "--kv-heads", str(options.heads),
        "--head-dim", str(head_dim), "--dtype", options.dtype, "--pass", pass_name,
        "--threads", str(options.threads),
    ]  # fmt: skip
    ours = Ours(options.bench, arguments)
    with tempfile.TemporaryDirectory() as folder:
        ours.run(f"dump {folder}")
        theirs = Torch(
            pathlib.Path(folder), mask, window, tokens, options.heads, head_dim, options.dtype,
            pass_name == "backward",
        )  # fmt: skip
    theirs.run()
    difference = theirs.largest_difference()
    tolerance = 1e-3 if options.dtype == "fp32" else 0.3
    if not difference < tolerance:
        sys.exit(f"{mask} {pass_name}: PyTorch differs from us by {difference}: not one problem")
    our_seconds, their_seconds, rates = [], [], []
    for _ in range(options.rounds):
        their_seconds.append(theirs.run())
        our_seconds.append(ours.run())
        rates.append(ours.run("rate"))
    ours.close()
    flops = ours.facts["flops"]
    peak = max(rates)
    median, peer = statistics.median(our_seconds), statistics.median(their_seconds)
    name = f"{mask}({window})" if window else mask
    print(
        f"| {name} | {tokens} | {head_dim} | {pass_name} | {1e3 * median:.1f} | {1e3 * peer:.1f} "
        f"| {peer / median:.2f} | {min(their_seconds) / min(our_seconds):.2f} "
        f"| {flops / min(our_seconds) / 1e9:.0f} | {flops / min(our_seconds) / peak:.2f} |",
        flush=True,
    )
    return ours.facts["cpu"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bench", default="build/release/bin/lcab-kernel-bench")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--masks", nargs="*", help="only these")
    parser.add_argument("--passes", nargs="*", default=["forward", "backward"])
    parser.add_argument("--head-dims", nargs="*", type=int, default=[64, 128])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        f"PyTorch {torch.__version__}, {options.threads} threads, {options.heads} heads, "
        f"{options.dtype}"
    )
    print()
    print(
        "| mask | tokens | head dim | pass | ours, ms | PyTorch, ms | ratio of medians "
        "| ratio of best | GFLOP/s | of multiply-add rate |"
    )
    print("| --- " + "| --: " * 9 + "|")
    cpu = None
    for mask, window, tokens in CASES:
        if options.masks and mask not in options.masks:
            continue
        for head_dim in options.head_dims:
            for pass_name in options.passes:
                cpu = compare(options, mask, window, tokens, head_dim, pass_name)
    print(f"\nOn {cpu}, {options.rounds} rounds.")


if __name__ == "__main__":
    main()
