// mtl_compare: compares numbers for shell tests. Exits with 1 and a message on stderr for NaN, infinities, an empty
// file, a line without a number, different labels and different line counts. Wrong usage exits with 2.
//
//   near A B [--relative R | --relative KEY=R]... [--count N]   fails unless each number in A is within R of B's
//   difference A B [--key KEY] [--count N]                      prints the largest relative difference, as 1.2e-07
//   below VALUE LIMIT                                           fails unless VALUE <= LIMIT
//
// A file has lines `LABEL... NUMBER`. Both files must have the same labels in the same order. KEY is a label's first
// word. --count gives the required number of lines. The relative difference of a and b is |a - b| / max(|a|, |b|), or 0
// if both are 0.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Misuse : std::runtime_error {
  using std::runtime_error::runtime_error;
};

double finite_number(const std::string& text, const std::string& where) {
  double value = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), end, value);
  if (text.empty() || error != std::errc() || stop != end) throw Refused(where + ": '" + text + "' is not a number");
  if (!std::isfinite(value)) throw Refused(where + ": '" + text + "' is not finite");
  return value;
}

struct Line {
  std::string key, label;  // the label's first word, and the entire label
  double value = 0;
  std::string where;
};

std::vector<Line> read_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Refused(path + ": cannot be opened");
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    Line line;
    line.where = path + ", line " + std::to_string(lines.size() + 1);
    std::istringstream words(text);
    std::string number;
    words >> number;
    for (std::string next; words >> next; number = next) {
      if (line.label.empty()) line.key = number;
      line.label += (line.label.empty() ? "" : " ") + number;
    }
    line.value = finite_number(number, line.where);
    lines.push_back(line);
  }
  if (file.bad()) throw Refused(path + ": cannot be read");
  if (lines.empty()) throw Refused(path + ": is empty");
  return lines;
}

struct Options {
  std::vector<std::string> words;
  std::map<std::string, double> relative;  // by key; "" is the default
  std::optional<std::size_t> count;
  std::optional<std::string> key;
};

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (!flag.starts_with("--")) {
      options.words.push_back(flag);
      continue;
    }
    if (++i == arguments.size()) throw Misuse(flag + ": a value is missing");
    const std::string& value = arguments[i];
    if (flag == "--relative") {
      const std::size_t sign = value.find('=');
      const std::string key = sign == std::string::npos ? "" : value.substr(0, sign);
      options.relative[key] = finite_number(sign == std::string::npos ? value : value.substr(sign + 1), flag);
    } else if (flag == "--count") {
      options.count = static_cast<std::size_t>(finite_number(value, flag));
    } else if (flag == "--key") {
      options.key = value;
    } else {
      throw Misuse(flag + ": unknown flag");
    }
  }
  return options;
}

struct Pair {
  Line a, b;
  double difference = 0;
};

/// Pairs the lines of both files. Throws if they cannot be compared.
std::vector<Pair> read_pairs(const Options& options) {
  if (options.words.size() != 2) throw Misuse("two files are needed");
  const std::vector<Line> a = read_lines(options.words[0]), b = read_lines(options.words[1]);
  const std::size_t count = options.count.value_or(a.size());
  for (const auto& [lines, path] : {std::pair(&a, options.words[0]), std::pair(&b, options.words[1])}) {
    if (lines->size() != count)
      throw Refused(path + ": " + std::to_string(lines->size()) + " lines instead of " + std::to_string(count));
  }
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    if (a[i].label != b[i].label)
      throw Refused(a[i].where + ": label '" + a[i].label + "', but '" + b[i].label + "' in " + options.words[1]);
    const double size = std::max(std::abs(a[i].value), std::abs(b[i].value));
    pairs.push_back({a[i], b[i], size == 0 ? 0 : std::abs(a[i].value / size - b[i].value / size)});
  }
  return pairs;
}

int near(const Options& options) {
  if (options.relative.empty() || options.key) throw Misuse("near A B --relative R [--relative KEY=R] [--count N]");
  int bad = 0;
  for (const Pair& pair : read_pairs(options)) {
    auto limit = options.relative.find(pair.a.key);
    if (limit == options.relative.end()) limit = options.relative.find("");
    if (limit == options.relative.end()) throw Misuse("no --relative for the key '" + pair.a.key + "'");
    if (pair.difference <= limit->second) continue;
    std::fprintf(stderr, "%s: %s%s%.17g is not within %g of %.17g\n", pair.a.where.c_str(), pair.a.label.c_str(),
                 pair.a.label.empty() ? "" : " ", pair.a.value, limit->second, pair.b.value);
    bad = 1;
  }
  return bad;
}

int difference(const Options& options) {
  double largest = 0;
  std::size_t compared = 0;
  for (const Pair& pair : read_pairs(options)) {
    if (options.key && pair.a.key != *options.key) continue;
    largest = std::max(largest, pair.difference);  // finite, because both numbers are
    ++compared;
  }
  if (compared == 0) throw Refused("no line has the key '" + options.key.value_or("") + "'");
  std::printf("%.1e\n", largest);
  return 0;
}

int below(const Options& options) {
  if (options.words.size() != 2) throw Misuse("below VALUE LIMIT");
  return finite_number(options.words[0], "value") <= finite_number(options.words[1], "limit") ? 0 : 1;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw Misuse("near, difference or below");
  const Options options = parse({arguments.begin() + 1, arguments.end()});
  if (arguments[0] == "near") return near(options);
  if (arguments[0] == "difference") return difference(options);
  if (arguments[0] == "below") return below(options);
  throw Misuse(arguments[0] + ": unknown command");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const Misuse& error) {
    std::fprintf(stderr, "mtl_compare: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mtl_compare: %s\n", error.what());
    return 1;
  }
}
