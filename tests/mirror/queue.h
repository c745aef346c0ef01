// Emulates the streams of the device cuda on the CPU. Commands run when they are enqueued, unless a Deferral exists:
// then they are deferred, as on a GPU, and run when the host waits for them or earlier, with streams in a random order
// from a seed. A source that the host overwrites before its copy, or a missing wait between streams, thus changes
// results.
#pragma once

#include <cstdint>
#include <functional>

#include "device/cuda_stream.h"

namespace mtl::mirror {

/// Enqueues a command on a stream, or adds it to the graph that is being captured. The call that runs the command
/// rethrows its exception.
void enqueue(cuda::StreamHandle stream, std::function<void()> command);

/// Enqueues a command that waits for other processes. `start` is called when the command is put on the stream, again in
/// each launch of a graph that captured it; it returns a function that is polled until it returns true. Other streams
/// continue meanwhile.
void enqueue_polled(cuda::StreamHandle stream, std::function<std::function<bool()>()> start);

/// Runs the commands of all streams. Throws during the capture of a graph, when `what` is not allowed.
void finish_all(const char* what);

/// Runs the commands that are ready on all streams, as a GPU does while the host is busy elsewhere.
void advance();

/// Defers commands while it exists.
class Deferral {
 public:
  explicit Deferral(std::uint64_t seed);
  ~Deferral();
  Deferral(const Deferral&) = delete;
};

/// For commands: adds `seconds` to the simulated duration of the command.
void simulate_time(double seconds);

/// Counts of the host's calls so far.
struct QueueCounts {
  std::int64_t graphs = 0, commands = 0;  // graphs launched, and commands enqueued outside of them
  std::int64_t waits = 0;                 // calls that block until the device has reached a command
  std::int64_t drains = 0;                // waits after which the device has no commands left
};
QueueCounts queue_counts();

}  // namespace mtl::mirror
