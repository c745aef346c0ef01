// Reads arbitrary bytes as a SentencePiece model. Expects an error, or a tokenizer that encodes any text and decodes
// its own ids.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "text/sentencepiece_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string content(reinterpret_cast<const char*>(data), size);
  // Text that suits the model: bytes from the file, which contains the pieces, plus other characters.
  std::string text = content.substr(0, 2000) + " a  b\xE2\x96\x81\xE4\xB8\xAD\xFF " + content.substr(size / 2, 500);
  mtl::TokenizerOptions options;
  options.type = "SentencePieceTokenizer";
  options.legacy_tokenizer = size % 2 == 0;
  options.vocab_extra_ids = 2;
  try {
    mtl::SentencePieceTokenizer tokenizer(content, "fuzz.model", options);
    std::vector<std::int32_t> ids = tokenizer.encode(text), again;
    tokenizer.decode(ids);
    auto encoder = tokenizer.make_encoder(mtl::EncoderMemory::small);
    encoder->append(text, again);  // with an empty cache, then with cached words
    again.clear();
    encoder->append(text, again);
    if (again != ids) std::abort();
    for (std::int32_t id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    }
  } catch (const mtl::Error&) {
  }
  return 0;
}
