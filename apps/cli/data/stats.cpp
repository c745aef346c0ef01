// mtl-data stats: prints token frequencies, and document and sequence lengths.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/count_of.h"
#include "base/heartbeat.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/data/commands.h"
#include "cli/data/tokenizer.h"
#include "cli/single_process.h"
#include "data/token_stats.h"

namespace mtl {
namespace {

struct DataStatsOptions : DataInspection {
  std::int64_t top = 10;
};

/// Everything there is to print about a data set.
struct Described {
  const IndexedDataset& data;
  DataStats stats;
  std::optional<VocabularySize> vocabulary;
  std::vector<std::int64_t> top;   // the most frequent ids
  std::vector<std::string> texts;  // of the top ids; empty without a tokenizer
};

Described collect(const DataStatsOptions& options, const IndexedDataset& data, const Tokenizer* tokenizer,
                  Console& console) {
  const Heartbeat counting(console, cat("counting the tokens of ", data.prefix()));
  Described out{.data = data, .stats = {}, .vocabulary = {}, .top = {}, .texts = {}};
  out.vocabulary = find_vocabulary_size(options.tokenizer, tokenizer, data.prefix());
  out.stats = collect_stats(data, out.vocabulary ? std::optional(out.vocabulary->size) : std::nullopt,
                            resolve_threads(options.threads));
  const std::vector<std::int64_t>& ranked = out.stats.ids.ranked;
  out.top.assign(ranked.begin(), ranked.begin() + std::min(options.top, std::ssize(ranked)));
  if (tokenizer == nullptr) return out;
  for (const std::int64_t id : out.top) {
    const auto token = static_cast<std::int32_t>(id);
    out.texts.push_back(decode_lossy(tokenizer->decode({&token, 1})));
  }
  return out;
}

std::string percent(double share) { return format("%.2f %%", 100 * share); }

std::string describe_ids(const Described& described) {
  const TokenStats& ids = described.stats.ids;
  std::string out =
      cat("  tokens      ", with_commas(described.data.tokens()), ", ", count_of(ids.used, "different id"));
  if (described.vocabulary) {
    out += cat(" of ", with_commas(described.vocabulary->size), "; ",
               with_commas(described.vocabulary->size - ids.used), " never occur");
  }
  out += format("\n  entropy     %.3f bits per token (of ids drawn independently at these frequencies)\n", ids.entropy);
  out += "  coverage    ";
  for (std::size_t i = 0; i < kCoveredShares.size(); ++i) {
    out += cat(i > 0 ? ", " : "", count_of(ids.coverage[i], "id"), ids.coverage[i] == 1 ? " makes " : " make ",
               format("%g %%", 100 * kCoveredShares[i]));
  }
  return out + "\n";
}

std::vector<std::string> length_cells(const char* name, const LengthSummary& lengths) {
  std::vector<std::string> cells{name, with_commas(lengths.count), with_commas(lengths.min)};
  for (const std::int64_t length : lengths.percentiles) cells.push_back(with_commas(length));
  cells.insert(cells.end(), {with_commas(lengths.max), format("%.1f", lengths.mean)});
  return cells;
}

std::string describe_lengths(const DataStats& stats) {
  std::vector<std::string> heading{"tokens in", "number", "min"};
  for (const int percentile : kPercentiles) heading.push_back(cat(percentile, " %"));
  heading.insert(heading.end(), {"max", "mean"});
  std::string out;
  for (const auto& row :
       {heading, length_cells("documents", stats.documents), length_cells("sequences", stats.sequences)}) {
    out += format("\n  %-10s", row.front().c_str());
    for (std::size_t i = 1; i < row.size(); ++i) {
      const bool is_wide = i == 1 || i + 2 >= row.size();  // number, max, mean
      out += format(is_wide ? " %10s" : " %8s", row[i].c_str());
    }
  }
  return out + "\n";
}

/// Returns an id's share of all tokens.
double share_of(const Described& described, std::int64_t id) {
  return double(described.stats.counts[id]) / double(described.data.tokens());
}

std::string describe_top(const Described& described) {
  const bool has_text = !described.texts.empty();
  if (described.top.empty()) return "";
  std::string out = format("\n  %6s %10s %14s %10s%s\n", "rank", "id", "count", "share", has_text ? "  text" : "");
  for (std::size_t i = 0; i < described.top.size(); ++i) {
    const std::int64_t id = described.top[i];
    out += format("  %6d %10s %14s %10s", static_cast<int>(i + 1), std::to_string(id).c_str(),
                  with_commas(described.stats.counts[id]).c_str(), percent(share_of(described, id)).c_str());
    if (has_text) append_json_string(out += "  ", described.texts[i]);
    out += '\n';
  }
  return out;
}

Json lengths_json(const LengthSummary& lengths) {
  Json out =
      Json::object({{"count", lengths.count}, {"min", lengths.min}, {"mean", lengths.mean}, {"max", lengths.max}});
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) out.set(cat("p", kPercentiles[i]), lengths.percentiles[i]);
  return out;
}

Json to_json(const Described& described) {
  const auto& [data, stats, vocabulary, ids, texts] = described;
  Json coverage = Json::array(), top = Json::array();
  for (std::size_t i = 0; i < kCoveredShares.size(); ++i) {
    coverage.push(Json::object({{"share", kCoveredShares[i]}, {"ids", stats.ids.coverage[i]}}));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Json entry =
        Json::object({{"id", ids[i]}, {"count", stats.counts[ids[i]]}, {"share", share_of(described, ids[i])}});
    if (!texts.empty()) entry.set("text", texts[i]);
    top.push(std::move(entry));
  }
  return Json::object({{"schema", "mtl-data-stats/1"},
                       {"prefix", data.prefix()},
                       {"documents", data.documents()},
                       {"sequences", data.sequences()},
                       {"tokens", data.tokens()},
                       {"vocab_size", vocabulary ? Json(vocabulary->size) : Json()},
                       {"used_ids", stats.ids.used},
                       {"unused_ids", vocabulary ? Json(vocabulary->size - stats.ids.used) : Json()},
                       {"entropy_bits", stats.ids.entropy},
                       {"coverage", std::move(coverage)},
                       {"document_lengths", lengths_json(stats.documents)},
                       {"sequence_lengths", lengths_json(stats.sequences)},
                       {"top", std::move(top)}});
}

void print_stats(const DataStatsOptions& options, Console& console) {
  const auto tokenizer = load_optional_tokenizer(options.tokenizer);
  for (const std::string& prefix : options.prefixes) {
    const IndexedDataset data(prefix);
    warn_of_provenance(data, tokenizer.get(), console);
    const Described described = collect(options, data, tokenizer.get(), console);
    if (options.json) {
      print_out(to_json(described).dump() + "\n");
    } else {
      print_out(cat(prefix == options.prefixes.front() ? "" : "\n", data.prefix(), "\n", describe_ids(described),
                    describe_lengths(described.stats), describe_top(described)));
    }
  }
}

}  // namespace

int data_stats(int argc, const char* const* argv) {
  DataStatsOptions options;
  Flags flags("mtl-data stats", "print token frequencies, and lengths of documents and sequences");
  flags.section("Output");
  flags.add("--top", &options.top, "N", "most frequent ids to list, with a tokenizer as text, too", at_least(0));
  add_inspection_flags(flags, options, "mtl-data-stats/1");
  return run_single_process(flags, argc, argv, [&](Console& console) { print_stats(options, console); });
}

}  // namespace mtl
