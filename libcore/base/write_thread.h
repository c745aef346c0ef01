// Writes blocks of bytes on a thread of its own, so that its caller computes the next blocks meanwhile.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace mtl {

class WriteThread {
 public:
  using Write = std::function<void(std::span<const std::byte>)>;

  /// Starts the thread, which calls `write` for every block, in order. `write` may use what no other thread uses until
  /// finish() returns.
  explicit WriteThread(Write write);
  /// Without finish(), drops the blocks that are not written yet.
  ~WriteThread();
  WriteThread(const WriteThread&) = delete;

  /// Copies a block to the queue. Waits while the queue is full. Rethrows what `write` has thrown for an earlier block.
  void push(std::span<const std::byte> block);
  /// Waits until all blocks are written, and ends the thread. Rethrows what `write` has thrown.
  void finish();

 private:
  void run();

  Write write_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::vector<std::byte>> blocks_;   // the first is being written
  std::vector<std::vector<std::byte>> unused_;  // buffers of written blocks
  std::exception_ptr error_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace mtl
