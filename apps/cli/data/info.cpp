// mtl-data info: prints token files' counts, sizes and lengths.
#include <algorithm>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/data/commands.h"
#include "cli/single_process.h"
#include "data/length_summary.h"

namespace mtl {
namespace {

struct DataInfoOptions {
  std::vector<std::string> prefixes;
  bool json = false;
};

std::string draw_histogram(const LengthHistogram& summary) {
  constexpr std::int64_t kWidth = 40;
  const auto is_used = [](std::int64_t count) { return count > 0; };
  const auto& buckets = summary.buckets;
  const auto first = std::find_if(buckets.begin(), buckets.end(), is_used);
  const auto last = std::find_if(buckets.rbegin(), buckets.rend(), is_used).base();
  if (first == buckets.end()) return "";
  const std::int64_t tallest = *std::max_element(first, last);
  std::string out = "\n  tokens in a sequence      sequences\n";
  for (auto bucket = first; bucket != last; ++bucket) {
    const std::size_t index = bucket - buckets.begin();
    const std::int64_t begin = bucket_begin(index), end = bucket_end(index);
    const std::string range = begin == end ? cat(begin) : cat(with_commas(begin), " - ", with_commas(end));
    const std::size_t bar = (*bucket * kWidth + tallest - 1) / tallest;  // rounded up: at least one #
    out += format("  %20s %14s", range.c_str(), with_commas(*bucket).c_str());
    out += bar == 0 ? "\n" : cat("  ", std::string(bar, '#'), "\n");
  }
  return out;
}

std::string describe(const IndexedDataset& data) {
  const LengthHistogram lengths = histogram_of(data);
  std::string out = data.prefix() + "\n";
  out += cat("  documents   ", with_commas(data.documents()));
  if (lengths.empty_documents > 0) out += cat(", ", with_commas(lengths.empty_documents), " of them empty");
  out +=
      cat("\n  sequences   ", with_commas(data.sequences()), data.is_multimodal() ? ", with modes (multimodal)" : "");
  out += cat("\n  tokens      ", with_commas(data.tokens()), ", stored as ", name_of(data.type()));
  out += format("\n  lengths     %s to %s tokens in a sequence, mean %.1f", with_commas(lengths.min).c_str(),
                with_commas(lengths.max).c_str(), lengths.mean);
  out += cat("\n  files       .bin ", with_commas(data.bin_bytes()), " bytes, .idx ", with_commas(data.idx_bytes()),
             " bytes (XXH3 ", hash_text(data.idx_hash()), ")\n");
  return out + draw_histogram(lengths);
}

Json to_json(const IndexedDataset& data) {
  const LengthHistogram lengths = histogram_of(data);
  Json histogram = Json::array();
  for (std::size_t i = 0; i < lengths.buckets.size(); ++i) {
    if (lengths.buckets[i] == 0) continue;
    histogram.push(Json::object({{"from", bucket_begin(i)}, {"to", bucket_end(i)}, {"sequences", lengths.buckets[i]}}));
  }
  return Json::object({{"schema", "mtl-data-info/1"},
                       {"prefix", data.prefix()},
                       {"dtype", name_of(data.type())},
                       {"documents", data.documents()},
                       {"empty_documents", lengths.empty_documents},
                       {"sequences", data.sequences()},
                       {"tokens", data.tokens()},
                       {"multimodal", data.is_multimodal()},
                       {"bin_bytes", data.bin_bytes()},
                       {"idx_bytes", data.idx_bytes()},
                       {"idx_xxh3", hash_text(data.idx_hash())},
                       {"length_min", lengths.min},
                       {"length_mean", lengths.mean},
                       {"length_max", lengths.max},
                       {"length_histogram", histogram}});
}

}  // namespace

int data_info(int argc, const char* const* argv) {
  DataInfoOptions options;
  Flags flags("mtl-data info", "print counts, sizes and sequence lengths of token files");
  flags.positional("PREFIX", options.prefixes, kPrefixHelp, kWhatPrefix);
  flags.add_switch("--json", options.json, "print one JSON line per PREFIX, schema mtl-data-info/1");
  return run_single_process(flags, argc, argv, [&](Console&) {
    for (std::size_t i = 0; i < options.prefixes.size(); ++i) {
      const IndexedDataset data(options.prefixes[i]);
      print_out(options.json ? to_json(data).dump() + "\n" : cat(i > 0 ? "\n" : "", describe(data)));
    }
  });
}

}  // namespace mtl
