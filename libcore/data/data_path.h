// The data sets for training, validation and test: the words after --data-path and related flags.
//
// The words are either token file prefixes, or alternating weights and prefixes. As in Megatron-LM, if the number of
// words is odd, all words are prefixes. If it is even, the first word in each pair may be a weight: any number that
// Python's float() accepts. If only some of these first words are numbers, Megatron-LM may fail or may treat all words
// as prefixes, depending on which words are numbers; mtl always fails.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/usage_error.h"
#include "data/split.h"

namespace mtl {

/// Data sets to read as one stream of samples.
struct DataBlend {
  std::vector<std::string> prefixes;
  std::optional<std::vector<double>> weights;  // one per prefix; positive and finite, not normalized

  /// True for multiple prefixes, and also for a single prefix with a weight, because weighted data is built with a
  /// surplus.
  bool is_blended() const { return weights || prefixes.size() > 1; }
  bool operator==(const DataBlend&) const = default;
};

/// Throws Error(usage) if `words` is empty, if only some prefixes have a weight, or if a weight is not positive and
/// finite.
DataBlend parse_data_path(const std::vector<std::string>& words);

/// The flags that select data. Each member is named after its flag.
struct DataPathOptions {
  std::vector<std::string> data_path{}, train_data_path{}, valid_data_path{}, test_data_path{};
  std::string data_args_path{};            // a file with the words of --data-path
  std::string per_split_data_args_path{};  // a JSON file: {"train": [words] or "words", "valid": ..., "test": ...}
  std::string split = "969,30,1";

  bool is_per_split() const;
  /// True if a flag names data that --split divides.
  bool is_shared() const;
  /// True if no flag selects any data.
  bool is_absent() const;
};

/// What one split reads: a blend, and the fraction of each data set that belongs to the split.
struct SplitSource {
  std::string flag;  // for messages: "--data-path"
  DataBlend blend;
  SplitShare share;
};
using SplitSources = std::array<std::optional<SplitSource>, 3>;  // indexed by Split; nullopt if the split has no data

/// Parses the flags that select data, and the files that some of them refer to. A word with blanks in a flag that names
/// no token files is a quoted list, and is split. Calls `report` for every problem; the result is then incomplete.
/// Checks --split even if no flag selects any data, but not if options.is_per_split().
SplitSources read_split_sources(const DataPathOptions& options, const ReportProblem& report);

}  // namespace mtl
