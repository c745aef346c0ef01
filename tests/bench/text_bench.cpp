// Measures GPT-2's tokenizer in memory, on one core, and prints a JSON object. Measures CPU time, which is less
// sensitive to other load on the machine.
//   mtl_bench_text CORPUS.jsonl VOCAB.json MERGES.txt
//   {"first":   MB/s with a new encoder
//    "again":   MB/s when it encodes the same text again
//    "read_s", "json_s", "encode_s":   seconds for each stage of mtl-preprocess
//    "tokens":  token count
//    "sha256":  hash of all ids as 32-bit little-endian numbers}
#include <cstdio>
#include <ctime>
#include <span>

#include "tests/sha256.h"
#include "tests/text/golden.h"
#include "text/json_lines.h"

using namespace mtl;

namespace {

double seconds_since(std::clock_t start) { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; }

/// Passes each batch of the file to `use`; returns the seconds spent reading.
template <class Use>
double read_seconds(const std::string& path, Use&& use) {
  std::clock_t start = std::clock();
  LineReader reader({path});
  while (auto batch = reader.next()) use(*batch);
  return seconds_since(start);
}

template <class Use>
double parse_seconds(const std::string& path, Use&& use) {
  TextExtractor extractor({"text"});
  return read_seconds(path, [&](const LineBatch& batch) {
    for_each_line(batch, [&](std::string_view line, std::int64_t, std::int64_t) {
      extractor.read_padded(line);
      for (std::string_view text : extractor.texts(0)) use(text);
    });
  });
}

double encode_seconds(Encoder& encoder, std::span<const std::string> texts) {
  std::vector<std::int32_t> ids;
  std::clock_t start = std::clock();
  for (const std::string& text : texts) {
    ids.clear();
    encoder.append(text, ids);
  }
  return seconds_since(start);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: mtl_bench_text CORPUS.jsonl VOCAB.json MERGES.txt\n");
    return 2;
  }
  TokenizerOptions options;
  options.vocab_file = argv[2];
  options.merge_file = argv[3];
  auto tokenizer = load_tokenizer(options);
  std::vector<std::string> texts;
  parse_seconds(argv[1], [&](std::string_view text) { texts.emplace_back(text); });
  const double reading = read_seconds(argv[1], [](const LineBatch&) {});
  std::size_t parsed = 0;
  const double parsing = parse_seconds(argv[1], [&](std::string_view text) { parsed += text.size(); }) - reading;
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  auto encoder = tokenizer->make_encoder();
  double first = encode_seconds(*encoder, texts), again = encode_seconds(*encoder, texts);
  std::vector<std::int32_t> ids;
  for (const std::string& text : texts) encoder->append(text, ids);
  std::string id_bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]);
  auto rate = [&](double seconds) { return static_cast<double>(bytes) / 1e6 / seconds; };
  std::printf(
      "{\"first\": %.1f, \"again\": %.1f, \"read_s\": %.4f, \"json_s\": %.4f, \"encode_s\": %.4f, \"tokens\": %zu, "
      "\"sha256\": \"%s\"}\n",
      rate(first), rate(again), reading, parsing, first, ids.size(), sha256(std::move(id_bytes)).c_str());
  return parsed == bytes ? 0 : 1;
}
