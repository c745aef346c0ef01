#include "base/hash.h"

#include <xxhash.h>

#include "base/str.h"

namespace mtl {

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_64bits_reset(state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
void Hasher::update(const void* data, std::size_t bytes) { XXH3_64bits_update(state_->xxh, data, bytes); }
std::uint64_t Hasher::digest() const { return XXH3_64bits_digest(state_->xxh); }

std::uint64_t hash_bytes(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }
std::string hash_text(std::uint64_t hash) { return format("%016llx", static_cast<unsigned long long>(hash)); }

}  // namespace mtl
