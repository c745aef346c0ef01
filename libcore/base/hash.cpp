#include "base/hash.h"

#include <xxhash.h>

#include "base/str.h"

namespace mtl {

Hasher::Hasher() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }
void Hasher::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }
void Hasher::update(const void* data, std::size_t bytes) { XXH3_64bits_update(state_.get(), data, bytes); }
std::uint64_t Hasher::digest() const { return XXH3_64bits_digest(state_.get()); }

std::uint64_t hash_bytes(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }
std::string hash_text(std::uint64_t hash) { return format("%016llx", static_cast<unsigned long long>(hash)); }

void hash_sample(Hasher& hasher, std::span<const std::byte> bytes, std::size_t blocks) {
  constexpr std::size_t kBlock = 4096;
  if (bytes.size() <= kBlock * blocks) return hasher.update(bytes.data(), bytes.size());
  for (std::size_t i = 0; i < blocks; ++i)
    hasher.update(bytes.data() + (bytes.size() - kBlock) / (blocks - 1) * i, kBlock);
}

}  // namespace mtl
