#include "data/mock_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "data/mt19937.h"

namespace mtl {

namespace {

constexpr std::int64_t kSequences = 100000;
constexpr std::uint32_t kLongest = 4095;

}  // namespace

MockTokens::MockTokens(std::int32_t eod, std::int64_t vocab_size)
    : eod_(eod), counted_(vocab_size - (eod > 0 ? 2 : 1)), lengths_(kSequences) {
  require(eod >= 0 && eod < vocab_size, "MockTokens: end-of-document token ", eod, ", ", vocab_size, " tokens");
  Mt19937 random(0);
  for (std::int32_t& length : lengths_) length = static_cast<std::int32_t>(random.next() % kLongest + 1);
}

SequenceLengths MockTokens::lengths() const { return {lengths_.data(), std::ssize(lengths_)}; }

void MockTokens::read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const {
  const std::int64_t length = lengths_[sequence];
  for (std::int64_t i = 0; i < std::ssize(out); ++i) {
    const std::int64_t at = offset + i, id = counted_ > 0 ? at % counted_ + 1 : 0;
    out[i] = at + 1 == length ? eod_ : static_cast<std::int32_t>(id + (eod_ > 0 && id >= eod_ ? 1 : 0));
  }
}

}  // namespace mtl
