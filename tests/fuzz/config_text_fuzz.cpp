// Parses arbitrary bytes as a configuration file. Each line must have an error, or words that read back as written.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/config_text.h"
#include "base/json_cursor.h"
#include "base/str.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const std::string& raw : mtl::split({reinterpret_cast<const char*>(data), size}, '\n')) {
    const auto line = mtl::parse_config_line(raw);
    if (!line) continue;
    if (!line->error.empty() && !line->words.empty()) std::abort();
    const std::string text = mtl::join(line->words, " ");
    if (mtl::find_invalid_utf8(text) != std::string_view::npos) continue;  // not UTF-8, or a lone surrogate
    const auto again = mtl::parse_config_line(mtl::config_line("x", line->words, "comment"));
    if (!again || again->words != line->words || !again->error.empty()) std::abort();
  }
  return 0;
}
