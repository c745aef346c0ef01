// Moves pieces of state between files and memory. One thread reads pieces ahead of their use, another one writes them
// behind it. Pieces take turns in the slots of a ring: while one is updated, the next is read and the one before is
// written. The page cache holds no more than that either: a piece that is being read, and two that are being written.
//
// A fault in a thread is thrown by the next call. It is kept: after a failed write, the file's data is lost.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "device/file_memory.h"
#include "device/tensor.h"

namespace mtl {

/// A tensor in a file, and its copy in a slot.
struct FilePart {
  FileMemory* file;
  Tensor in_file, in_memory;
};

class FileRing {
 public:
  using Piece = std::vector<FilePart>;
  /// Piece i is in slot i % `slots`.
  FileRing(std::vector<Piece> pieces, int slots);
  ~FileRing();
  FileRing(const FileRing&) = delete;

  // For each step, once: begin(), then wait_read(i) and release(i) for each piece i in order, then end().

  /// Starts reading.
  void begin();
  /// Waits until the next piece is in its slot.
  void wait_read(std::int64_t piece);
  /// Starts writing the piece. Its slot must not be accessed until wait_read() of the piece that takes it next.
  void release(std::int64_t piece);
  /// Waits until all pieces are written, though perhaps only to the page cache, so that other reads see them.
  void end();

 private:
  void read_pieces();
  void write_pieces();
  void wait(const std::function<bool()>& is_ready);

  const std::vector<Piece> pieces_;
  const int slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Pieces of this step that are read, released and written. Until the first step, and after each, all of them are.
  std::int64_t read_, released_, written_;
  bool stopping_ = false;
  std::exception_ptr fault_;
  std::thread reader_, writer_;
};

}  // namespace mtl
