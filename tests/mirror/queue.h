// Emulates the streams of the device cuda on the cpu. Commands run when they are enqueued, unless a Deferral exists:
// then they wait, as on a GPU, and run when the host waits for them or earlier, with a random order of streams from a
// seed. So a copy that the host overwrites too early, and a missing wait between streams, change results.
#pragma once

#include <cstdint>
#include <functional>

#include "device/cuda_stream.h"

namespace mtl::mirror {

/// Enqueues a command on a stream, or in the graph that is captured from it. The call that runs the command rethrows
/// its exception.
void enqueue(cuda::StreamHandle stream, std::function<void()> command);

/// Enqueues a command that waits for other processes. `start` is called when the stream receives it, in each launch of
/// a graph that captured it; it returns a function that is polled until it returns true. Other streams continue
/// meanwhile.
void enqueue_polled(cuda::StreamHandle stream, std::function<std::function<bool()>()> start);

/// Runs the commands of all streams. Throws while a graph is captured: `what` is not allowed then.
void finish_all(const char* what);

/// Runs the commands of all streams that are ready, as a GPU does while the host does something else.
void advance();

/// While it exists, commands are deferred.
class Deferral {
 public:
  explicit Deferral(std::uint64_t seed);
  ~Deferral();
  Deferral(const Deferral&) = delete;
};

/// Called by a command: simulates that it took `seconds` more.
void simulate_time(double seconds);

/// Counts of the host's calls so far.
struct QueueCounts {
  std::int64_t graphs = 0, commands = 0;  // graphs launched, and commands enqueued outside of them
  std::int64_t waits = 0;                 // calls that return when the device has reached a command
  std::int64_t drains = 0;                // waits after which the device has nothing left to do
};
QueueCounts queue_counts();

}  // namespace mtl::mirror
