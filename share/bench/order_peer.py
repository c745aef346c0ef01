#!/usr/bin/env python3
"""Megatron-LM's indices, timed: NumPy's shuffles, and the compiled helpers where megatron-core is installed.

Usage: order_peer.py SAMPLES DOCUMENTS LENGTH
"""
import glob
import importlib.machinery
import importlib.util
import os
import resource
import sys
import time

import numpy

samples, documents, length = (int(word) for word in sys.argv[1:])
tokens = samples * length + 1
lengths = numpy.full(documents, -(-tokens // documents), dtype=numpy.int32)
random = numpy.random.RandomState(1234)
total = 0.0


def timed(name, function):
    begin = time.perf_counter()
    result = function()
    seconds = time.perf_counter() - begin
    print(f"  {name:42s} {seconds:7.2f} s", flush=True)
    return result, seconds


def shuffled(count, dtype):
    index = numpy.arange(count, dtype=dtype)
    random.shuffle(index)
    return index


def compiled_helpers():
    """megatron-core's helpers alone: importing its package would load all of PyTorch."""
    package = importlib.util.find_spec("megatron")
    for folder in package.submodule_search_locations if package else []:
        for path in glob.glob(os.path.join(folder, "core", "datasets", "helpers_cpp*.so")):
            loader = importlib.machinery.ExtensionFileLoader("helpers_cpp", path)
            module = importlib.util.module_from_spec(importlib.util.spec_from_loader("helpers_cpp", loader))
            loader.exec_module(module)
            return module
    return None


print(f"peer: NumPy {numpy.__version__}, {samples} samples of {documents} documents")
document_index, total = timed("NumPy: document index", lambda: shuffled(documents, numpy.int32))
helpers = compiled_helpers()
if helpers:
    _, seconds = timed(
        "megatron-core: sample index",
        lambda: helpers.build_sample_idx_int32(lengths, document_index, length, 1, int(lengths.sum()), True, 1),
    )
    total += seconds
else:
    print("  megatron-core: not installed")
_, seconds = timed("NumPy: shuffle index", lambda: shuffled(samples, numpy.uint32))
print(f"  {'the indices together':42s} {total + seconds:7.2f} s")
print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20):.2f} GiB")
if helpers:
    for count in (4, 32):
        weights = 1.0 + numpy.arange(count) * 37 % 11
        weights /= weights.sum()
        timed(
            f"megatron-core: blend of {count} data sets",
            lambda: helpers.build_blending_indices(
                numpy.zeros(samples, dtype=numpy.int16), numpy.zeros(samples, dtype=numpy.int64), weights, count, samples, False
            ),
        )
