// Parses arbitrary bytes as a tokenizer.json. Expects an error, or the parts for a splitter, a token finder and a
// model.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "text/bpe_encoder.h"
#include "text/bpe_tokenizer.h"
#include "text/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mtl;
  constexpr std::string_view kText = "It's 2024: caf\xC3\xA9, cafe\xCC\x81 <|end|>\n\n  x\xFF \xE4\xB8\xAD";
  try {
    TokenizerJson parts = parse_tokenizer_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    auto splitter = make_splitter(parts.split);
    splitter->start(kText);
    const char* ends[3];
    const char* at = kText.data();
    while (std::size_t count = splitter->next(ends)) {
      for (std::size_t i = 0; i < count; at = ends[i++]) {
        if (ends[i] <= at) std::abort();  // an empty pre-token would loop forever
      }
    }
    if (at != kText.data() + kText.size()) std::abort();
    std::size_t shown = 0;
    TokenFinder(parts.added)
        .cut(
            kText, [&](std::string_view part) { shown += part.size(); }, [](std::int32_t) {});
    TokenBytes bytes(parts.all_tokens("fuzz"));
    BpeModel model(parts.vocabulary, "fuzz");
    std::vector<std::int32_t> ids;
    make_bpe_encoder(model, EncoderMemory::small, make_splitter(parts.split))->append(kText, ids);
    if (bytes.decode(ids, "fuzz") != kText && parts.added.empty()) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
