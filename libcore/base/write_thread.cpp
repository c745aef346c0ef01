#include "base/write_thread.h"

#include <utility>

#include "base/worker_thread.h"

namespace mtl {

namespace {

constexpr std::size_t kMaxBlocks = 8;  // in the queue

}  // namespace

WriteThread::WriteThread(Write write) : write_(std::move(write)), thread_(worker_thread([this] { run(); })) {}

WriteThread::~WriteThread() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
    while (blocks_.size() > 1) blocks_.pop_back();
    changed_.notify_all();
  }
  thread_.join();
}

void WriteThread::push(std::span<const std::byte> block) {
  std::vector<std::byte> buffer;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return blocks_.size() < kMaxBlocks || error_; });
    if (error_) std::rethrow_exception(error_);
    if (!unused_.empty()) {
      buffer = std::move(unused_.back());
      unused_.pop_back();
    }
  }
  buffer.assign(block.begin(), block.end());
  std::lock_guard lock(mutex_);
  blocks_.push_back(std::move(buffer));
  changed_.notify_all();
}

void WriteThread::finish() {
  end_thread(thread_, mutex_, changed_, is_ending_);
  if (error_) std::rethrow_exception(error_);
}

void WriteThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !blocks_.empty() || is_ending_; });
    if (blocks_.empty()) return;
    const std::span<const std::byte> block = blocks_.front();
    lock.unlock();
    std::exception_ptr error;
    try {
      write_(block);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      error_ = error;
      blocks_.clear();
    } else {
      unused_.push_back(std::move(blocks_.front()));
      blocks_.pop_front();
    }
    changed_.notify_all();
    if (error_) return;
  }
}

}  // namespace mtl
