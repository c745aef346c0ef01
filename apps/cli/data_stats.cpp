// mtl-data stats: prints token frequencies, and document and sequence lengths.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"
#include "cli/alone.h"
#include "cli/data_commands.h"
#include "cli/data_tokenizer.h"
#include "data/length_summary.h"
#include "data/token_counts.h"
#include "data/token_stats.h"

namespace mtl {
namespace {

struct DataStatsOptions : DataInspection {
  std::int64_t top = 10;
};

struct DataStats {
  std::int64_t tokens = 0;
  std::optional<std::int64_t> vocab_size;
  TokenStats ids;
  struct Frequent {
    std::int64_t id, count;
    std::string text;
  };
  std::vector<Frequent> top;
  LengthSummary documents, sequences;
};

DataStats collect(const DataStatsOptions& options, const IndexedDataset& data, const Tokenizer* tokenizer) {
  const int threads = resolve_threads(options.threads);
  DataStats stats;
  stats.tokens = data.tokens();
  const std::vector<std::int64_t> counts = count_tokens(data, threads);
  if (const auto vocabulary = find_vocabulary_size(options.tokenizer, tokenizer, data)) {
    stats.vocab_size = vocabulary->size;
    if (std::ssize(counts) > vocabulary->size) {
      check_token_range(data, vocabulary->size, threads);  // throws an error that says where
    }
  }
  stats.ids = summarize_tokens(counts);
  for (const std::int64_t id : stats.ids.ranked) {
    if (std::ssize(stats.top) >= options.top) break;
    const auto token = static_cast<std::int32_t>(id);
    stats.top.push_back({id, counts[id], tokenizer == nullptr ? "" : decode_lossy(tokenizer->decode({&token, 1}))});
  }
  stats.documents = summarize_lengths(document_lengths(data));
  stats.sequences = summarize_lengths(sequence_lengths(data));
  return stats;
}

std::string percent(double share) { return format("%.2f %%", 100 * share); }

std::string describe_ids(const DataStats& stats) {
  std::string out =
      cat("  tokens      ", with_commas(stats.tokens), ", ", with_commas(stats.ids.used), " different ids");
  if (stats.vocab_size) {
    out += cat(" of ", with_commas(*stats.vocab_size), "; ", with_commas(*stats.vocab_size - stats.ids.used),
               " never occur");
  }
  out += format("\n  entropy     %.3f bits per token (of ids drawn independently at these frequencies)\n",
                stats.ids.entropy);
  out += "  coverage    ";
  for (std::size_t i = 0; i < kCoveredShares.size(); ++i) {
    out += cat(i > 0 ? ", " : "", with_commas(stats.ids.coverage[i]), " ids make ",
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

std::string describe_top(const DataStats& stats, bool has_text) {
  if (stats.top.empty()) return "";
  std::string out = format("\n  %6s %10s %14s %10s%s\n", "rank", "id", "count", "share", has_text ? "  text" : "");
  for (std::size_t i = 0; i < stats.top.size(); ++i) {
    const auto& [id, count, text] = stats.top[i];
    out += format("  %6d %10s %14s %10s", static_cast<int>(i + 1), std::to_string(id).c_str(),
                  with_commas(count).c_str(), percent(double(count) / double(stats.tokens)).c_str());
    if (has_text) append_json_string(out += "  ", text);
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

Json to_json(const IndexedDataset& data, const DataStats& stats, bool has_text) {
  Json coverage = Json::array(), top = Json::array();
  for (std::size_t i = 0; i < kCoveredShares.size(); ++i) {
    coverage.push(Json::object({{"share", kCoveredShares[i]}, {"ids", stats.ids.coverage[i]}}));
  }
  for (const auto& [id, count, text] : stats.top) {
    Json entry = Json::object({{"id", id}, {"count", count}, {"share", double(count) / double(stats.tokens)}});
    if (has_text) entry.set("text", text);
    top.push(std::move(entry));
  }
  return Json::object({{"schema", "mtl-data-stats/1"},
                       {"prefix", data.prefix()},
                       {"documents", data.documents()},
                       {"sequences", data.sequences()},
                       {"tokens", stats.tokens},
                       {"vocab_size", stats.vocab_size ? Json(*stats.vocab_size) : Json()},
                       {"used_ids", stats.ids.used},
                       {"unused_ids", stats.vocab_size ? Json(*stats.vocab_size - stats.ids.used) : Json()},
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
    if (tokenizer) warn_of_other_tokenizer(data, *tokenizer, console);
    const DataStats stats = collect(options, data, tokenizer.get());
    const bool has_text = tokenizer != nullptr;
    if (options.json) {
      print_out(to_json(data, stats, has_text).dump() + "\n");
    } else {
      print_out(cat(prefix == options.prefixes.front() ? "" : "\n", data.prefix(), "\n", describe_ids(stats),
                    describe_lengths(stats), describe_top(stats, has_text)));
    }
  }
}

}  // namespace

int data_stats(int argc, const char* const* argv) {
  DataStatsOptions options;
  Flags flags("mtl-data stats", "print token frequencies, and lengths of documents and sequences");
  flags.section("Output");
  flags.add("--top", &options.top, "N", "most frequent ids to list, with a tokenizer as text, too").at_least(0);
  add_inspection_flags(flags, options, "mtl-data-stats/1");
  return run_alone(flags, argc, argv, [&](Console& console) {
    print_stats(options, console);
    return Exit::ok;
  });
}

}  // namespace mtl
