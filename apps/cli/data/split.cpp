// mtl-data split: divides token files into several, by document and in order.
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/count_of.h"
#include "cli/data/commands.h"
#include "cli/data/output.h"
#include "cli/single_process.h"
#include "data/divide.h"

namespace mtl {
namespace {

struct DataSplitOptions {
  std::string prefix;
  std::string weights, counts;
  std::string names;
  std::string by = "documents";
  DataOutputOptions output;

  /// The flag that divides, with its value.
  std::string where() const { return counts.empty() ? "--weights " + weights : "--counts " + counts; }
};

std::vector<std::string> words_of(const std::string& list) { return texts_of(split(list, ','), trim); }

std::vector<double> read_weights(const std::string& list) {
  std::vector<double> weights;
  for (const std::string& word : words_of(list)) weights.push_back(parse_float(word).value_or(0));
  return weights;
}

/// Returns each part's number of documents, without a value for the word "rest".
std::vector<std::optional<std::int64_t>> read_counts(const std::string& list) {
  std::vector<std::optional<std::int64_t>> counts;
  for (const std::string& word : words_of(list))
    counts.push_back(word == "rest" ? std::nullopt : std::optional(parse_int(word).value_or(0)));
  return counts;
}

std::vector<std::string> part_names(const DataSplitOptions& options) {
  if (!options.names.empty()) return words_of(options.names);
  const std::size_t parts = words_of(options.weights.empty() ? options.counts : options.weights).size();
  if (parts == 2 || parts == 3) return parts == 2 ? words_of("train,valid") : words_of("train,valid,test");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < parts; ++i) names.push_back(cat("part", i));
  return names;
}

std::vector<std::int64_t> bounds_of(const DataSplitOptions& options, const IndexedDataset& data) {
  if (options.counts.empty()) {
    const std::vector<double> weights = read_weights(options.weights);
    return options.by == "tokens" ? divide_tokens(data, weights) : divide_documents(data, weights);
  }
  try {
    return divide_by_counts(data, read_counts(options.counts));
  } catch (const Error& error) {
    throw UsageError(options.where(), error.what());
  }
}

void split_documents(const DataSplitOptions& options, Console& console) {
  const IndexedDataset data(options.prefix);
  const std::vector<std::int64_t> bounds = bounds_of(options, data);
  const std::vector<std::string> names = part_names(options);
  std::vector<DataPart> parts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (bounds[i] == bounds[i + 1]) {
      throw UsageError(options.where(),
                       cat("leaves the part '", names[i], "' none of the ", count_of(data.documents(), "document"),
                           " of ", data.prefix(), "; give the part a larger share, or leave the part out"));
    }
    parts.push_back({cat(options.output.output_prefix, "_", names[i]), list_of({{&data, bounds[i], bounds[i + 1]}})});
  }
  const TokenFilesMade made =
      make_token_files(options.output.make, {&data}, {data.type(), data.is_multimodal()}, parts, console);
  report_made(options.output, made, console);
}

void check_numbers(Flags& flags, const DataSplitOptions& options) {
  for (const std::string& word : options.weights.empty() ? std::vector<std::string>{} : words_of(options.weights)) {
    const double weight = parse_float(word).value_or(0);
    if (!(weight > 0) || !std::isfinite(weight)) {
      flags.problem("--weights " + options.weights, cat("'", word, "' is not a positive number"));
    }
  }
  int rests = 0;
  for (const std::string& word : options.counts.empty() ? std::vector<std::string>{} : words_of(options.counts)) {
    rests += word == "rest";
    if (word != "rest" && parse_int(word).value_or(0) < 1) {
      flags.problem("--counts " + options.counts, cat("'", word, "' is neither a positive number nor 'rest'"));
    }
  }
  if (rests > 1)
    flags.problem("--counts " + options.counts, "contains 'rest' more than once; only one part can take the remainder");
}

void check_options(Flags& flags, const DataSplitOptions& options) {
  if (flags.was_given("--weights") == flags.was_given("--counts")) {
    flags.problem("--weights, --counts", "use exactly one of them: relative sizes, or numbers of documents");
    if (!flags.was_given("--weights")) return;
  }
  if (!options.counts.empty() && options.by == "tokens")
    flags.problem("--by tokens", "applies only to --weights; leave out --by, or use --weights");
  check_numbers(flags, options);
  const std::vector<std::string> names = part_names(options);
  const std::size_t parts = words_of(options.weights.empty() ? options.counts : options.weights).size();
  if (names.size() != parts) {
    flags.problem("--names " + options.names, cat("has ", count_of(std::ssize(names), "name"), " for ",
                                                  count_of(static_cast<std::int64_t>(parts), "part"),
                                                  "; write one name per part, separated by commas"));
  }
  for (const std::string& name : names) {
    if (name.empty() || name.find('/') != std::string::npos) {
      flags.problem("--names " + options.names,
                    name.empty() ? "contains an empty name; write one name per part, separated by commas"
                                 : cat("contains '", name, "', which cannot be part of a file name; leave out the /"));
    }
  }
  if (std::set<std::string>(names.begin(), names.end()).size() != names.size()) {
    flags.problem("--names " + options.names, "gives two parts the same name; choose different names");
  }
}

}  // namespace

int data_split(int argc, const char* const* argv) {
  DataSplitOptions options;
  options.output.make.command = command_words(argc, argv);
  Flags flags("mtl-data split", "divide the documents of token files into several token files, in order");
  flags.positional("PREFIX", options.prefix, kPrefixHelp);
  flags.section("Parts");
  flags.add("--weights", &options.weights, "W,W,...", "share of each part, such as 0.98,0.01,0.01 or 98,1,1");
  flags.add("--counts", &options.counts, "N,N,...",
            "documents in each part instead; `rest` takes the remainder, as in rest,1000,1000");
  flags.add("--names", &options.names, "NAME,...",
            "part names, for files PREFIX_NAME (default: train,valid for two parts, train,valid,test for three)");
  flags.add("--by", &options.by, "UNIT", "what --weights divides; documents are never split",
            one_of({"documents", "tokens"}));
  add_data_output_flags(flags, options.output);
  flags.check([&] { check_options(flags, options); });
  return run_single_process(flags, argc, argv, [&](Console& console) { split_documents(options, console); });
}

}  // namespace mtl
