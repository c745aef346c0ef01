// 64-bit XXH3, a fast checksum for files and buffers. It detects corruption, not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace mtl {

/// Hashes a stream of bytes.
class Hasher {
 public:
  Hasher();
  void update(const void* data, std::size_t bytes);
  std::uint64_t digest() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

std::uint64_t hash_bytes(const void* data, std::size_t bytes);
/// Returns a hash as 16 hexadecimal digits, as in manifests and provenance files.
std::string hash_text(std::uint64_t hash);

/// Hashes `blocks` evenly spaced 4-KiB blocks, or all bytes if there are at most `blocks` * 4 KiB. `blocks` must be at
/// least 2. Used to tell models apart without reading all of their data.
void hash_sample(Hasher& hasher, std::span<const std::byte> bytes, std::size_t blocks);

}  // namespace mtl
