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

}  // namespace mtl
