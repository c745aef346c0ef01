// The streams of the device cuda, played by the cpu. Commands run when they are given, unless a Deferral lives: then
// they wait, as on a GPU, and run when the host waits for them, or earlier, streams in an order drawn from a seed. So a
// copy that the host overwrites too early, and a stream that does not wait for another, give other results.
#pragma once

#include <cstdint>
#include <functional>

#include "device/cuda_stream.h"

namespace mtl::mirror {

/// Gives a command to a stream, or to the graph that is captured from it. What a command throws, the call throws that
/// runs it.
void enqueue(cuda::StreamHandle stream, std::function<void()> command);

/// Gives a command that waits for other processes. `start` is called when the stream is given it, in each launch of a
/// graph that has captured it, and returns what is called until it returns true. Other streams continue meanwhile.
void enqueue_polled(cuda::StreamHandle stream, std::function<std::function<bool()>()> start);

/// Runs the commands of all streams. Throws while a graph is captured: `what` is not allowed then.
void finish_all(const char* what);

/// Runs the commands of all streams that can run now: a GPU does so while the host does something else.
void advance();

/// Commands wait while it lives.
class Deferral {
 public:
  explicit Deferral(std::uint64_t seed);
  ~Deferral();
  Deferral(const Deferral&) = delete;
};

/// For a command: as if it took `seconds` more.
void play_time(double seconds);

/// How many graphs were launched so far, and how many commands were given outside of them.
struct QueueCounts {
  std::int64_t graphs = 0, commands = 0;
};
QueueCounts queue_counts();

}  // namespace mtl::mirror
