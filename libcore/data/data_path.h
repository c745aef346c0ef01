// The data sets of training, validation and test: the words after --data-path and related flags.
//
// The words are prefixes of token files, or weights and prefixes in turn. As Megatron-LM decides: an odd number of
// words are prefixes; of an even number the first of each pair may be weights, which are what Python's float() reads.
// Where some of these are numbers and some are not, Megatron-LM takes all words as prefixes or fails, as it happens to
// come; here that is an error.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/split.h"

namespace mtl {

/// Data sets in a stream of samples.
struct DataBlend {
  std::vector<std::string> prefixes;
  std::optional<std::vector<double>> weights;  // positive and finite, not normalized; one per prefix

  /// One prefix with a weight is a blend too: it is cut with the surplus of a blend.
  bool is_blended() const { return weights || prefixes.size() > 1; }
  bool operator==(const DataBlend&) const = default;
};

/// Throws Error(usage) for no words, for some weights among prefixes, and for a weight that is not positive and finite.
DataBlend parse_data_path(const std::vector<std::string>& words);

/// Flags of these names.
struct DataPathOptions {
  std::vector<std::string> data_path{}, train_data_path{}, valid_data_path{}, test_data_path{};
  std::string data_args_path{};            // a file with the words of --data-path
  std::string per_split_data_args_path{};  // a JSON file: {"train": [words] or "words", "valid": ..., "test": ...}
  std::string split = "969,30,1";

  bool is_per_split() const;
  /// True if no flag names data.
  bool is_absent() const;
};

/// The source of one split: a share of every data set of a blend.
struct SplitSource {
  std::string flag;  // for messages: "--data-path"
  DataBlend blend;
  SplitShare share;
};
using SplitSources = std::array<std::optional<SplitSource>, 3>;  // by Split; empty: no data for it

using ReportProblem = std::function<void(std::string flag, std::string what)>;
/// Reads the words, also those in files. Everything that is wrong is reported; the result then lacks something. Where
/// no data is named, --split is looked at all the same.
SplitSources read_split_sources(const DataPathOptions& options, const ReportProblem& report);

}  // namespace mtl
