#include "text/read_ahead.h"

#include <algorithm>
#include <cstring>

#include "base/worker_thread.h"

namespace mtl {

ReadAhead::ReadAhead(std::unique_ptr<ByteSource> source) : source_(std::move(source)), stored_(source_->stored()) {
  thread_ = worker_thread([this] { run(); });
}

ReadAhead::~ReadAhead() { end_thread(thread_, mutex_, changed_, stopped_); }

PaddedText ReadAhead::empty_block() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return {};
  PaddedText block = std::move(free_.back());
  free_.pop_back();
  block.clear();
  return block;
}

void ReadAhead::run() {
  std::exception_ptr error;
  try {
    while (true) {
      PaddedText block = empty_block();
      block.add(source_->read(block.room(kBlockBytes), kBlockBytes));
      std::unique_lock lock(mutex_);
      stored_ = source_->stored();
      if (block.empty()) break;
      changed_.wait(lock, [&] { return blocks_.size() < kBlocks || stopped_; });
      if (stopped_) return;
      blocks_.push_back(std::move(block));
      changed_.notify_all();
    }
  } catch (...) {
    error = std::current_exception();
  }
  std::lock_guard lock(mutex_);
  error_ = error;
  done_ = true;
  changed_.notify_all();
}

std::size_t ReadAhead::read_some(char* buffer, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !blocks_.empty() || done_; });
  if (blocks_.empty()) {
    if (error_) std::rethrow_exception(error_);
    return 0;
  }
  PaddedText& block = blocks_.front();
  std::size_t count = std::min(bytes, block.size() - taken_);
  std::memcpy(buffer, block.view().data() + taken_, count);
  taken_ += count;
  if (taken_ == block.size()) {
    free_.push_back(std::move(block));
    blocks_.pop_front();
    taken_ = 0;
    changed_.notify_all();
  }
  return count;
}

StoredInput ReadAhead::stored() const {
  std::lock_guard lock(mutex_);
  return stored_;
}

}  // namespace mtl
