// Reads arbitrary bytes as a ranks file. Expects an error, or tokens that form a tokenizer once all single bytes are
// added.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "text/tiktoken.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mtl;
  constexpr std::string_view kText = "It's 2024: caf\xC3\xA9 aaaaa ABABab\n\n  x\xFF \xE4\xB8\xAD";
  try {
    std::vector<std::string> ranks = parse_tiktoken_ranks({reinterpret_cast<const char*>(data), size}, "fuzz");
    TokenizerOptions options;
    options.tiktoken.pattern = size % 2 == 0 ? "v1" : "v2";
    for (int byte = 0; byte < 256; ++byte) {
      std::string token(1, static_cast<char>(byte));
      bool has_token = false;
      for (const std::string& other : ranks) has_token = has_token || other == token;
      if (!has_token) ranks.push_back(token);
      if (ranks.size() > 5000) return 0;
    }
    TikTokenizer tokenizer(std::move(ranks), "fuzz", options);
    if (tokenizer.decode(tokenizer.encode(kText)) != kText) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
