// 64-bit XXH3, a fast checksum for files and buffers. It detects corruption, not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

}  // namespace mtl
