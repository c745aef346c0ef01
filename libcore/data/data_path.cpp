#include "data/data_path.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "data/indexed_dataset.h"

namespace mtl {
namespace {

std::string strip(const std::string& word) { return std::string(trim(word)); }

/// Parses the first word in each pair as a number. The result is nullopt if the word is not a number.
std::vector<std::optional<double>> parse_pairs(const std::vector<std::string>& words) {
  std::vector<std::optional<double>> out;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) out.push_back(parse_float(words[i]));
  return out;
}

double checked_weight(double weight, const std::string& word) {
  if (!(weight > 0) || !std::isfinite(weight)) {
    fail(Exit::usage, "the weight '", strip(word), "' is not a positive number; leave out a data set without weight");
  }
  return weight;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> out;
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return out;
}

/// Splits words that contain blanks, such as a quoted list "0.3 web 0.7 books", unless they name token files.
std::vector<std::string> unquoted(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const std::string prefix = dataset_prefix(word);
    const bool is_file = file_exists(prefix + ".idx") || file_exists(prefix + ".bin");
    for (const std::string& part : is_file ? std::vector{word} : split_words(word)) out.push_back(part);
  }
  return out;
}

/// Returns the words that a --per-split-data-args-path file lists for one split. Empty if it does not list any.
std::vector<std::string> words_of_split(const Json& file, std::string_view split) {
  const Json* value = file.find(split);
  if (value == nullptr || value->is_null()) return {};
  if (value->is_string()) return split_words(value->as_string());
  if (!value->is_array()) fail(Exit::usage, "\"", split, "\" is neither a string nor a list of words");
  return texts_of(value->as_array(),
                  [](const Json& word) { return word.is_number() ? word.dump() : word.as_string(); });
}

void check_keys(const Json& file) {
  const std::vector<std::string> known(kSplitNames.begin(), kSplitNames.end());
  if (!file.is_object()) fail(Exit::usage, "is not a JSON object with the keys ", join(known, ", "));
  for (const auto& [key, words] : file.as_object()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string meant = key == "validation" ? "valid" : nearest(key, known);
    fail(Exit::usage, "has an unknown key \"", key, "\"; ",
         meant.empty() ? "the keys are " + join(known, ", ") : "did you mean " + meant + "?");
  }
}

class Reader {
 public:
  Reader(const DataPathOptions& options, const ReportProblem& report) : options_(options), report_(report) {}

  SplitSources read_per_split() {
    if (options_.is_shared()) {
      report_(options_.data_path.empty() ? "--data-args-path" : "--data-path",
              "cannot be used with flags that name the data of each split, such as --train-data-path; use one path for "
              "all splits, or one for each");
      return {};
    }
    std::array<std::vector<std::string>, 3> words = {
        unquoted(options_.train_data_path), unquoted(options_.valid_data_path), unquoted(options_.test_data_path)};
    std::array<std::string, 3> flags = {"--train-data-path", "--valid-data-path", "--test-data-path"};
    if (const std::string& path = options_.per_split_data_args_path; !path.empty()) {
      flags.fill("--per-split-data-args-path " + path);
      attempt(flags[0], [&] {
        const Json file = Json::read(path);
        check_keys(file);
        for (std::size_t i = 0; i < 3; ++i) {
          if (!words[i].empty())
            fail(Exit::usage, "cannot be used with --", kSplitNames[i], "-data-path; use only one of them");
          words[i] = words_of_split(file, kSplitNames[i]);
        }
      });
    }
    SplitSources out;
    for (std::size_t i = 0; i < 3; ++i) {
      if (!words[i].empty()) attempt(flags[i], [&] { out[i] = {flags[i], parse_data_path(words[i]), {0.0, 1.0}}; });
    }
    return out;
  }

  SplitSources read_shares() {
    std::vector<std::string> words = unquoted(options_.data_path);
    std::string flag = "--data-path";
    bool is_read = true;
    if (const std::string& path = options_.data_args_path; !path.empty()) {
      if (!words.empty())
        return report_("--data-args-path", "excludes --data-path; use only one of them"), SplitSources{};
      flag = "--data-args-path " + path;
      is_read = attempt(flag, [&] {
        const std::string text = read_regular_file(path);
        refuse_other_encoding(path, text);
        words = split_words(text);
      });
    }
    SplitSources out;
    attempt("--split " + options_.split, [&] {
      // Megatron-LM reads -1,2,0 as 1,2,0 and nan,1,1 as 1,1. No user means that, so we reject such text.
      for (const char c : options_.split) {
        if (c == '-' || c == '+' || std::isalpha(byte_of(c)))
          fail(Exit::usage, "\"", c, "\" is not allowed in weights; write them as 969,30,1");
      }
      const auto shares = parse_split(options_.split);
      attempt(flag, [&] {
        if (!is_read || options_.is_absent()) return;
        const DataBlend blend = parse_data_path(words);
        for (std::size_t i = 0; i < 3; ++i)
          if (shares[i]) out[i] = {flag, blend, *shares[i]};
      });
    });
    return out;
  }

 private:
  /// Returns false if `part` throws an Error, which is then a problem with the flag.
  template <class Part>
  bool attempt(const std::string& flag, Part part) {
    try {
      part();
      return true;
    } catch (const Error& error) {
      report_(flag, error.message_at(flag));
      return false;
    }
  }

  const DataPathOptions& options_;
  const ReportProblem& report_;
};

}  // namespace

DataBlend parse_data_path(const std::vector<std::string>& words) {
  if (words.empty()) fail(Exit::usage, "is empty; name at least one prefix of token files");
  DataBlend out;
  const bool in_pairs = words.size() % 2 == 0;
  const auto weights = in_pairs ? parse_pairs(words) : std::vector<std::optional<double>>{};
  const auto numbers = std::ranges::count_if(weights, [](const std::optional<double>& w) { return w.has_value(); });
  if (numbers == 0) {
    for (const std::string& word : words) out.prefixes.push_back(strip(word));
    return out;
  }
  out.weights.emplace();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i]) {
      fail(Exit::usage, "expected a weight before '", strip(words[2 * i + 1]), "', not '", strip(words[2 * i]),
           "'; give a weight to every prefix, or to none");
    }
    out.weights->push_back(checked_weight(*weights[i], words[2 * i]));
    out.prefixes.push_back(strip(words[2 * i + 1]));
  }
  return out;
}

bool DataPathOptions::is_per_split() const {
  return !train_data_path.empty() || !valid_data_path.empty() || !test_data_path.empty() ||
         !per_split_data_args_path.empty();
}

bool DataPathOptions::is_shared() const { return !data_path.empty() || !data_args_path.empty(); }

bool DataPathOptions::is_absent() const { return !is_shared() && !is_per_split(); }

SplitSources read_split_sources(const DataPathOptions& options, const ReportProblem& report) {
  Reader reader(options, report);
  return options.is_per_split() ? reader.read_per_split() : reader.read_shares();
}

}  // namespace mtl
