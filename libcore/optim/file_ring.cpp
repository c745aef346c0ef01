#include "optim/file_ring.h"

#include <utility>

#include "base/worker_thread.h"

namespace mtl {

FileRing::FileRing(std::vector<Piece> pieces, int slots)
    : pieces_(std::move(pieces)), slots_(slots), read_(std::ssize(pieces_)), released_(read_), written_(read_) {
  auto guarded = [this](void (FileRing::*work)()) {
    return [this, work] {
      try {
        (this->*work)();
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!fault_) fault_ = std::current_exception();
        changed_.notify_all();
      }
    };
  };
  reader_ = worker_thread(guarded(&FileRing::read_pieces));
  writer_ = worker_thread(guarded(&FileRing::write_pieces));
}

FileRing::~FileRing() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  reader_.join();
  writer_.join();
}

void FileRing::read_pieces() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (read_ < std::ssize(pieces_) && read_ < written_ + slots_); });
    if (stopping_) return;
    const Piece& piece = pieces_[read_];
    lock.unlock();
    for (const FilePart& part : piece) part.file->read_ahead(part.in_file.raw(), part.in_file.bytes());
    for (const FilePart& part : piece) part.file->read(part.in_file.raw(), part.in_memory.raw_bytes());
    lock.lock();
    ++read_;
    changed_.notify_all();
  }
}

void FileRing::write_pieces() {
  const Piece* unsettled = nullptr;  // written, but perhaps not on the disk yet
  const auto settle = [&] {
    const Piece* piece = std::exchange(unsettled, nullptr);
    if (piece == nullptr) return;
    for (const FilePart& part : *piece) part.file->settle(part.in_file.raw(), part.in_file.bytes());
  };
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || written_ < released_ || unsettled != nullptr; });
    if (stopping_) return;
    if (written_ == released_) {
      lock.unlock();
      settle();
      lock.lock();
      continue;
    }
    const Piece& piece = pieces_[written_];
    lock.unlock();
    for (const FilePart& part : piece) part.file->write(part.in_file.raw(), part.in_memory.raw_bytes());
    lock.lock();
    ++written_;
    changed_.notify_all();
    lock.unlock();
    settle();
    unsettled = &piece;
    lock.lock();
  }
}

/// Waits until `is_ready`. Throws the fault of a thread, if there is one.
void FileRing::wait(const std::function<bool()>& is_ready) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return fault_ || is_ready(); });
  if (fault_) std::rethrow_exception(fault_);
}

void FileRing::begin() {
  wait([&] { return written_ == std::ssize(pieces_); });
  std::lock_guard lock(mutex_);
  read_ = released_ = written_ = 0;
  changed_.notify_all();
}

void FileRing::wait_read(std::int64_t piece) {
  wait([&] { return read_ > piece; });
}

void FileRing::release(std::int64_t piece) {
  std::lock_guard lock(mutex_);
  released_ = piece + 1;
  changed_.notify_all();
}

void FileRing::end() {
  wait([&] { return written_ == std::ssize(pieces_); });
}

}  // namespace mtl
