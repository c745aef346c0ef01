// Reads a byte source in a separate thread, a few blocks ahead of the caller.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "text/decompress.h"
#include "text/padded_text.h"

namespace mtl {

class ReadAhead : public ByteSource {
 public:
  explicit ReadAhead(std::unique_ptr<ByteSource> source);
  /// Waits for the thread, which stops after its current block.
  ~ReadAhead() override;
  /// Returns the size and hash of the bytes that the thread has read; it is ahead of read().
  StoredInput stored() const override;

 private:
  /// Rethrows the source's error once all bytes before it have been read.
  std::size_t read_some(char* buffer, std::size_t bytes) override;
  void run();
  PaddedText empty_block();
  static constexpr std::size_t kBlockBytes = 1 << 20;
  static constexpr std::size_t kBlocks = 4;

  std::unique_ptr<ByteSource> source_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PaddedText> blocks_;  // read, in order
  std::vector<PaddedText> free_;   // to be filled again
  std::size_t taken_ = 0;          // bytes of the first block already returned
  StoredInput stored_;
  std::exception_ptr error_;
  bool done_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace mtl
