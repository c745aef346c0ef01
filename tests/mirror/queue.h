// Emulates the device cuda's streams on the CPU. Normally, commands run when they are enqueued. While a Deferral
// exists, they are deferred, as on a GPU: they run when the host waits for them, or earlier, and a seed determines the
// random order of the streams. If the host overwrites a source before it is copied, or streams do not wait for each
// other, the results change.
#pragma once

#include <cstdint>
#include <functional>

#include "device/cuda_stream.h"

namespace mtl::mirror {

/// Enqueues a command on a stream, or adds it to the graph being captured. The call that runs the command rethrows its
/// exception.
void enqueue(cuda::StreamHandle stream, std::function<void()> command);

/// Enqueues a command that waits for other processes. Putting it on the stream calls `start`, and so does each launch
/// of a graph that captured it. `start` returns a function that is polled until it returns true. Meanwhile, other
/// streams continue.
void enqueue_polled(cuda::StreamHandle stream, std::function<std::function<bool()>()> start);

/// Runs the commands on all streams. Throws while a graph is being captured, when `what` is not allowed.
void finish_all(const char* what);

/// Runs all commands that are ready, on all streams, as a GPU does while the host is busy elsewhere.
void advance();

/// Defers commands while it exists.
class Deferral {
 public:
  explicit Deferral(std::uint64_t seed);
  ~Deferral();
  Deferral(const Deferral&) = delete;
};

/// Called by commands: adds `seconds` to the command's simulated duration.
void simulate_time(double seconds);

/// Throws unless the calling thread uses the GPU on which the streams are. With CUDA, its call would make a context on
/// another GPU ("Initialization" in the CUDA C++ Programming Guide).
void expect_device(const char* what);

/// The device fails like a GPU after a kernel's illegal access: it drops all commands, and every later call that may
/// return such an error throws (cudaErrorIllegalAddress in the documentation of the CUDA runtime).
void break_device();
bool is_broken();
/// Ends that state, for the next test. A GPU needs a new process.
void repair_device();

/// Calls `action` once, on the host, before the `number`-th next launch of a graph.
void before_graph(std::int64_t number, std::function<void()> action);

/// The host's calls so far.
struct QueueCounts {
  std::int64_t graphs = 0, commands = 0;  // graphs launched, and commands enqueued outside graphs
  std::int64_t waits = 0;                 // calls that block until the device has reached a command
  std::int64_t drains = 0;                // waits after which the device has no commands left
};
QueueCounts queue_counts();

}  // namespace mtl::mirror
