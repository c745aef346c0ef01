// Reads arbitrary bytes as JSON lines. The first byte is the batch size. Expects the lines between the newlines. Each
// line must give an error, or UTF-8 texts whose sentences are parts of them. Both parsers must agree.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/json_cursor.h"
#include "text/json_lines.h"
#include "text/sentences.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_sentences(std::string_view text) {
  std::vector<std::string_view> sentences;
  mtl::split_sentences(text, mtl::BetweenSentences::keep, sentences);
  const char* at = text.data();
  for (std::string_view sentence : sentences) {
    check(sentence.data() == at && !sentence.empty());
    at += sentence.size();
  }
  check(at <= text.data() + text.size());
}

/// Returns "error: " and a line's error, or "".
std::string error_of(mtl::TextExtractor& extractor, std::string_view line) {
  try {
    extractor.read_padded(line);
  } catch (const mtl::Error& error) {
    return mtl::cat("error: ", error.what());
  }
  return "";
}

void check_line(mtl::TextExtractor& simdjson_first, mtl::TextExtractor& cursor_only, std::string_view line) {
  const std::string error = error_of(simdjson_first, line);
  check(error_of(cursor_only, line) == error);
  for (std::size_t key = 0; key < 2 && error.empty(); ++key) {
    check(simdjson_first.texts(key) == cursor_only.texts(key));
    for (std::string_view text : simdjson_first.texts(key)) {
      check(mtl::find_invalid_utf8(text) == std::string_view::npos && !mtl::has_lone_surrogate(text));
      check_sentences(text);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const int memory = ::memfd_create("input", 0);
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (::ftruncate(memory, 0) != 0 || ::pwrite(memory, text.data(), text.size(), 0) < 0) return 0;
  mtl::LineReaderOptions options;
  options.batch_bytes = data[0] + 1u;
  options.line_bytes = 4096;
  static mtl::TextExtractor simdjson_first({"text", "a"}),
      cursor_only({"text", "a"}, mtl::TextExtractor::Parser::cursor_only);
  try {
    mtl::LineReader reader({mtl::cat("/proc/self/fd/", memory)}, options);
    std::size_t at = 0;
    while (auto batch = reader.next()) {
      // Only uncompressed input contains the lines themselves.
      bool plain = text.substr(at, batch->text.size()) == batch->text.view();
      at += batch->text.size();
      mtl::for_each_line(*batch, [&](std::string_view line, std::int64_t, std::int64_t) {
        check(line.size() <= options.line_bytes && (!plain || line.find('\n') == std::string_view::npos));
        check_line(simdjson_first, cursor_only, line);
      });
      if (at > (1u << 20)) return 0;
    }
  } catch (const mtl::Error&) {
  }
  return 0;
}
