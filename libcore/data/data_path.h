// The data sets of training, validation and test: the words after --data-path and related flags.
//
// The words are prefixes of token files, or weights and prefixes in turn. As in Megatron-LM, an odd number of words are
// all prefixes; in an even number, the first of each pair may be a weight: anything that Python's float() reads. If
// only some of these are numbers, Megatron-LM takes all words as prefixes or fails, depending on which; mtl always
// fails.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/split.h"

namespace mtl {

/// Data sets that are read as one stream of samples.
struct DataBlend {
  std::vector<std::string> prefixes;
  std::optional<std::vector<double>> weights;  // positive and finite, not normalized; one per prefix

  /// One prefix with a weight is a blend too: it is built with the surplus of a blend.
  bool is_blended() const { return weights || prefixes.size() > 1; }
  bool operator==(const DataBlend&) const = default;
};

/// Throws Error(usage) for no words, for some weights among prefixes, and for a weight that is not positive and finite.
DataBlend parse_data_path(const std::vector<std::string>& words);

/// One member per flag of that name.
struct DataPathOptions {
  std::vector<std::string> data_path{}, train_data_path{}, valid_data_path{}, test_data_path{};
  std::string data_args_path{};            // a file with the words of --data-path
  std::string per_split_data_args_path{};  // a JSON file: {"train": [words] or "words", "valid": ..., "test": ...}
  std::string split = "969,30,1";

  bool is_per_split() const;
  /// True if no flag names data.
  bool is_absent() const;
};

/// The source of one split: the same share of every data set of a blend.
struct SplitSource {
  std::string flag;  // for messages: "--data-path"
  DataBlend blend;
  SplitShare share;
};
using SplitSources = std::array<std::optional<SplitSource>, 3>;  // by Split; empty: the split has no data

using ReportProblem = std::function<void(std::string flag, std::string what)>;
/// Parses the arguments that name data, including those listed in files. Reports every problem; if there is one, the
/// result is incomplete. Checks --split even if no flag names data, but not if splits have their own data paths.
SplitSources read_split_sources(const DataPathOptions& options, const ReportProblem& report);

}  // namespace mtl
