#!/usr/bin/env python3
"""Megatron-LM's three indices, timed: NumPy's shuffles, and the compiled helpers where megatron-core is installed.

Usage: order_peer.py SAMPLES DOCUMENTS LENGTH
"""
import resource
import sys
import time

import numpy

samples, documents, length = (int(word) for word in sys.argv[1:])
tokens = samples * length + 1
lengths = numpy.full(documents, -(-tokens // documents), dtype=numpy.int32)
random = numpy.random.RandomState(1234)


def timed(name, function):
    begin = time.perf_counter()
    result = function()
    print(f"  {name:42s} {time.perf_counter() - begin:7.2f} s", flush=True)
    return result


def shuffled(count, dtype):
    index = numpy.arange(count, dtype=dtype)
    random.shuffle(index)
    return index


print(f"peer: NumPy {numpy.__version__}, {samples} samples of {documents} documents")
document_index = timed("NumPy: document index", lambda: shuffled(documents, numpy.int32))
try:
    from megatron.core.datasets import helpers

    timed(
        "megatron-core: sample index",
        lambda: helpers.build_sample_idx(lengths, document_index, length, 1, int(lengths.sum()), True, True),
    )
except ImportError:
    print("  megatron-core: not installed")
timed("NumPy: shuffle index", lambda: shuffled(samples, numpy.uint32))
print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20):.2f} GiB")
