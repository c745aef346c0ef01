// Reads a vocab.json, a line "---" and a merges.txt. Expects an error, or a tokenizer that decodes what it encodes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/json.h"
#include "text/bpe_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mtl;
  constexpr std::string_view kText = "It's 2024: caf\xC3\xA9 aaaaa the other\n\n  x\xFF \xE4\xB8\xAD";
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::size_t line = input.find("\n---\n");
  try {
    BpeVocabulary vocabulary = parse_vocab_and_merges({input.substr(0, line), "vocab"},
                                                      {line == input.npos ? "" : input.substr(line + 5), "merges"});
    // In most inputs, some bytes have no token. Adds these tokens so that the merges are reached.
    for (const std::string& stand_in : byte_stand_ins()) {
      if (vocabulary.find(stand_in) < 0 && vocabulary.tokens.size() < 5000) vocabulary.tokens.push_back(stand_in);
    }
    BpeTokenizer tokenizer(std::move(vocabulary), "fuzz", size % 2 == 0);
    if (tokenizer.decode(tokenizer.encode(kText)) != kText) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
