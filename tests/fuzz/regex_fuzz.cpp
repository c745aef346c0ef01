// Splits a text by the pattern in the first line. Expects an error, or pre-tokens that add up to the text. For known
// patterns, the hand-written splitter must give the same pre-tokens.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "text/splitter.h"

namespace {

std::vector<std::size_t> pretoken_ends(const mtl::SplitStep& step, std::string_view text) {
  auto splitter = mtl::make_splitter({step});
  splitter->start(text);
  std::vector<std::size_t> offsets{0};
  const char* ends[5];
  while (std::size_t count = splitter->next(ends)) {
    for (std::size_t i = 0; i < count; ++i) {
      offsets.push_back(static_cast<std::size_t>(ends[i] - text.data()));
      if (offsets.back() <= offsets[offsets.size() - 2]) std::abort();  // an empty pre-token would loop forever
    }
  }
  if (offsets.back() != text.size()) std::abort();
  return offsets;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::string_view pattern = input.substr(0, input.find('\n'));
  std::string_view text = input.substr(pattern.size());
  try {
    mtl::SplitStep interpreted = mtl::SplitRegex{std::make_shared<mtl::Regex>(pattern)};
    if (pretoken_ends(mtl::split_step(pattern), text) != pretoken_ends(interpreted, text)) std::abort();
  } catch (const mtl::Error&) {
  }
  return 0;
}
