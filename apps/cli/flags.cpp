#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/config_text.h"
#include "base/files.h"
#include "base/str.h"

namespace mtl {

namespace {

// CLI11 takes a word that begins with a dash for a flag, and `--x=` for one without a value: this byte makes a value.
constexpr char kMark = '\x1f';
constexpr const char* kEnd = "--\x1f";             // for `--`, which CLI11 gives to a list
constexpr int kMostWords = 1 << 20;                // of a list; CLI11 reads a larger number as one word per use
constexpr std::size_t kIndent = 30, kWidth = 110;  // of --help

std::string unmarked(const std::string& word) { return starts_with(word, {&kMark, 1}) ? word.substr(1) : word; }

// These store words to which there is no objection(). CLI11's lexical_cast reads 010 as octal, refuses 1_000, and
// rounds a decimal twice on its way to a double.
void store(const std::vector<std::string>& words, bool& out) { out = words[0] == "true"; }
void store(const std::vector<std::string>& words, std::int64_t& out) { out = *parse_int(words[0]); }
void store(const std::vector<std::string>& words, double& out) { out = *parse_float(words[0]); }
void store(const std::vector<std::string>& words, std::string& out) { out = words[0]; }
void store(const std::vector<std::string>& words, std::vector<std::string>& out) { out = words; }
template <class T>
void store(const std::vector<std::string>& words, std::optional<T>& out) {
  store(words, out.emplace());
}

std::vector<std::string> words_in(const std::vector<std::string>& words) { return words; }
template <class T>
std::vector<std::string> words_in(const T& value) {
  return {cat(value)};
}
template <class T>
std::vector<std::string> words_in(const std::optional<T>& value) {
  return value ? words_in(*value) : std::vector<std::string>();
}

/// The words of the value now: "768", "true"; none when an optional is empty.
std::vector<std::string> words_of(const Flags::Flag& flag) {
  if (flag.is_inverted) return {cat(!*std::get<bool*>(flag.target))};
  return std::visit([](auto* held) { return words_in(*held); }, flag.target);
}

std::string value_of(const Flags::Flag& flag) { return join(words_of(flag), " "); }

/// "switch", "whole", "real", "text" or "list".
std::string_view kind_of(const Flags::Flag& flag) {
  static constexpr std::string_view kKinds[] = {"switch", "whole", "real", "text", "whole", "real", "text", "list"};
  return kKinds[flag.target.index()];
}

bool is_number(const Flags::Flag& flag) { return kind_of(flag) == "whole" || kind_of(flag) == "real"; }

/// "must be at least 0 and below 1".
std::string describe_bounds(const Flags::Flag& flag) {
  const auto text = [](double x) { return std::abs(x) < 1e15 && x == std::floor(x) ? cat(std::llround(x)) : cat(x); };
  const std::string least = (flag.excludes_least ? "above " : "at least ") + text(flag.least);
  const std::string most = (flag.excludes_most ? "below " : "at most ") + text(flag.most);
  const bool has_least = std::isfinite(flag.least), has_most = std::isfinite(flag.most);
  if (!has_least && !has_most) return "must be a finite number";  // NaN is within no bounds
  if (!has_least || !has_most) return "must be " + (has_least ? least : most);
  if (flag.excludes_least || flag.excludes_most) return cat("must be ", least, " and ", most);
  return cat("must be from ", text(flag.least), " to ", text(flag.most));
}

/// The objection to this word as a value, such as "must be at least 1"; empty when there is none.
std::string objection(const Flags::Flag& flag, const std::string& word) {
  const std::string_view kind = kind_of(flag);
  const auto& choices = flag.choices;
  if (!choices.empty() && std::count(choices.begin(), choices.end(), word) == 0)
    return "choose one of " + join(choices, ", ");
  if (kind == "switch" && word != "true" && word != "false") return "is not true or false";
  if (kind == "whole" && !parse_int(word)) return "is not a whole number";
  if (kind == "real" && !parse_float(word)) return "is not a number";
  if (!is_number(flag)) return "";
  const double x = *parse_float(word);
  const bool is_low = flag.excludes_least ? !(x > flag.least) : !(x >= flag.least);
  const bool is_high = flag.excludes_most ? !(x < flag.most) : !(x <= flag.most);
  if (is_low || is_high) return describe_bounds(flag);
  return std::isfinite(x) ? "" : "must be a finite number";
}

/// A default that the flag would refuse means that there is none.
bool has_value(const Flags::Flag& flag) {
  const std::string value = value_of(flag);
  return !value.empty() && (kind_of(flag) == "list" || objection(flag, value).empty());
}

/// `left`, padded to kIndent or on a line of its own, then `text` in the column after it.
std::string two_columns(const std::string& left, const std::string& text) {
  const std::string indent(kIndent, ' ');
  std::string out = "  " + left, line;
  if (out.size() + 2 > kIndent) out += "\n" + indent;
  out.resize(std::max(out.size(), kIndent), ' ');
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && kIndent + line.size() + 1 + word.size() > kWidth)
      out += std::exchange(line, "") + "\n" + indent;
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

std::string help_of(const Flags::Flag& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.option->get_lnames()) names.push_back("--" + name);
  for (const std::string& name : flag.option->get_snames()) names.push_back("-" + name);
  const bool is_switch = kind_of(flag) == "switch";
  std::string text = flag.option->get_description();
  if (!flag.choices.empty()) text += ": " + join(flag.choices, ", ");
  if (has_value(flag) && !is_switch) text += cat(" [", value_of(flag), "]");
  return two_columns(join(names, ", ") + (is_switch ? "" : " " + flag.option->get_type_name()), text);
}

}  // namespace

Flags::Flag& Flags::Flag::repeat() { return option->expected(0, 1), append(); }

Flags::Flags(std::string program, std::string summary)
    : program_(std::move(program)), app_(std::make_unique<CLI::App>(std::move(summary), program_)) {
  app_->set_help_flag();  // without names: --help is a switch like the others
  app_->allow_extras();
  add_switch("--help,-h", wants_help_, "print this help and exit");
  add_switch("--version", wants_version_, "print the version and exit");
  add_switch("--quiet,-q", quiet, "print errors and warnings only");
  add("--config", &config_, "FILE", "read flags from FILE, one `name = value` a line; the command line wins");
  add_switch("--dump-config", wants_dump_, "print every flag with its value and where that came from, then exit");
  add_switch("--list-flags", wants_list_, "");
  section("Options");
}

Flags::~Flags() = default;

Flags::Flag& Flags::add(const std::string& names, Target target, const std::string& value_name,
                        const std::string& help) {
  Flag* flag = flags_.emplace_back(std::make_unique<Flag>()).get();
  flag->name = names.substr(0, names.find(','));
  flag->target = target;
  const auto check = [this, flag](const std::string& word) {
    const std::string value = unmarked(word), wrong = objection(*flag, value);
    if (!wrong.empty()) problem(flag->name + " " + value, wrong);
    refused_ |= !wrong.empty();
  };
  const CLI::callback_t convert = [this, flag](const CLI::results_t& words) { return take(*flag, words), true; };
  const bool is_switch = kind_of(*flag) == "switch";
  flag->option = app_->add_option(names, convert, help)->group(section_)->type_name(value_name)->each(check);
  flag->option->expected(0, is_switch ? 0 : kind_of(*flag) == "list" ? kMostWords : 1);
  flag->option->default_str(is_switch ? "true" : "");  // for a flag without words
  flag->option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->trigger_on_parse();
  return *flag;
}

void Flags::problem(std::string where, const std::string& what) {
  const std::string place = origin_ == kCommandLine ? "" : cat(" (", origin_, ")");
  problems_.push_back({std::move(where), what + place});
}

void Flags::notice(const std::string& text) {
  if (std::count(notices_.begin(), notices_.end(), text) == 0) notices_.push_back(text);
}

Flags::Flag* Flags::find(const std::string& name) const {
  for (const auto& flag : flags_) {
    if (flag->option->check_name(name)) return flag.get();
  }
  return nullptr;
}

bool Flags::was_given(const std::string& name) const {
  const Flag* flag = find(name);
  require(flag != nullptr, "no such flag: ", name);
  return flag->is_given;
}

/// Marks every value, and the end of the flags.
std::vector<std::string> Flags::mark_values(std::vector<std::string> words) const {
  bool wants_one = false;  // after a flag with one value: `--title -x-` is its value, too
  bool has_ended = false;
  for (std::string& word : words) {
    const bool is_long = starts_with(word, "--"), starts_flag = word.size() > 1 && word[0] == '-' && !parse_float(word);
    const Flag* flag = is_long ? find(word) : nullptr;
    const std::size_t equals = is_long ? word.find('=') : std::string::npos;
    if (!has_ended && word == "--") {
      has_ended = true;
      word = kEnd;
    } else if (has_ended || !starts_flag || (wants_one && !is_long && word.size() > 2)) {
      word.insert(0, 1, kMark);
    } else if (equals != std::string::npos) {
      word.insert(equals + 1, 1, kMark);
    }
    wants_one = flag != nullptr && flag->option->get_expected_max() == 1;
  }
  return words;
}

/// One use of a flag, with the words that follow it.
void Flags::take(Flag& flag, const std::vector<std::string>& words) {
  const bool is_refused = std::exchange(refused_, false), has_none = words[0].empty();
  if (has_none && !flag.takes_none) return problem(flag.name, "needs a value: " + flag.option->get_type_name());
  const std::vector<std::string> before = words_of(flag);
  std::vector<std::string> values = flag.adds_up && flag.is_given ? before : std::vector<std::string>();
  if (!has_none) std::transform(words.begin(), words.end(), std::back_inserter(values), unmarked);
  if (flag.is_inverted) values = {values[0] == "true" ? "false" : "true"};
  if (!is_refused) std::visit([&](auto* held) { store(values, *held); }, flag.target);
  flag.origin = origin_;
  flag.is_given |= origin_ == kCommandLine || words_of(flag) != before || is_refused;
}

/// Returns the declaration of this name, or of the longest declared prefix of it; otherwise the flag is unknown.
Flags::Other Flags::find_other(const std::string& name) const {
  if (const auto exact = others_.find(name); exact != others_.end()) return exact->second;
  for (std::size_t length = name.size(); length > 2; --length) {
    if (const auto family = others_.find(name.substr(0, length) + "*"); family != others_.end()) return family->second;
  }
  std::vector<std::string> known;
  for (const auto& flag : flags_) {
    for (const std::string& long_name : flag->option->get_lnames()) known.push_back("--" + long_name);
  }
  return {Other::unknown, -1, nearest(name, known)};
}

void Flags::take_other(const std::string& name, const Other& other, const std::string& value) {
  if (other.kind == Other::noted) return notice(cat(name, ": ", other.text));
  if (other.kind == Other::refused)
    return problem(other.takes > 0 && !value.empty() ? name + " " + value : name, other.text);
  const std::string remedy =
      other.text.empty() ? cat("see ", program_, " --help") : cat("did you mean ", other.text, "?");
  problem(name, "unknown flag; " + remedy);
  std::rotate(problems_.begin() + unknown_++, problems_.end() - 1, problems_.end());
}

/// Takes what CLI11 left: undeclared flags with their values, and words of no flag.
void Flags::take_rest(const std::vector<std::string>& left) {
  std::vector<std::string> free_words;
  for (std::size_t at = 0; at < left.size();) {
    const std::string& word = left[at++];
    if (word[0] == kMark) free_words.push_back(unmarked(word));
    if (word[0] == kMark || word == kEnd) continue;
    const std::size_t equals = word.find('=');
    const Other other = find_other(word.substr(0, equals));
    std::vector<std::string> values;
    if (equals != std::string::npos) {
      values.push_back(word.substr(equals + 1));
    } else {
      while (at < left.size() && left[at][0] == kMark && static_cast<int>(values.size()) != other.takes)
        values.push_back(left[at++]);
    }
    take_other(word.substr(0, equals), other, values.empty() ? "" : unmarked(values[0]));
  }
  for (const std::string& word : free_words) {
    if (positional_.words == nullptr)
      problem(word, cat("belongs to no flag; see ", program_, " --help"));
    else
      positional_.words->push_back(word);
  }
}

/// Gives every flag that the command line left out its value in the configuration file.
void Flags::read_config() {
  for (const ConfigLine& line : parse_config(read_file(config_))) {
    origin_ = cat(config_, ":", line.number);
    const std::string name = "--" + line.name;
    Flag* flag = find(name);
    if (!line.error.empty()) {
      problem(name, line.error);
    } else if (flag == nullptr) {
      take_other(name, find_other(name), line.words.empty() ? "" : line.words[0]);
    } else if (flag->option->get_group() == kGeneral && flag->name != "--quiet") {
      problem(name, "belongs on the command line");
    } else if (!line.has_equals && !line.words.empty()) {
      problem(name, cat("write ", line.name, " = ", join(line.words, " ")));
    } else if (flag->origin != kCommandLine) {
      take_line(*flag, line);
    }
  }
  origin_ = kCommandLine;
}

/// Hands the words of a line to CLI11. `name =` leaves a flag as it is.
void Flags::take_line(Flag& flag, const ConfigLine& line) {
  std::vector<std::string> words = line.words;
  if (words.empty() && line.has_equals && !flag.takes_none) return;
  if (!words.empty() && kind_of(flag) != "list") words = {join(words, " ")};
  for (std::string& word : words) word.insert(0, 1, kMark);
  if (words.empty()) words = {flag.option->get_default_str()};
  flag.option->clear();
  flag.option->add_result(words)->run_callback();
}

/// Checks required flags, check() functions, `prepare` and conditions.
void Flags::check_all(const std::function<void()>& prepare) {
  for (const auto& flag : flags_) {
    if (flag->is_required && flag->origin == kDefault)
      problem(flag->name, "is required: " + flag->option->get_description());
  }
  const auto run = [&](const std::function<void()>& check) {
    try {
      check();
    } catch (const Error&) {
      // Otherwise it may be a consequence of what is reported anyway.
      if (problem_count() == 0 && !wants_dump_) throw;
    }
  };
  for (const auto& check : checks_) run(check);
  if (prepare && !wants_dump_) run(prepare);
  for (const auto& flag : flags_) {
    if (!flag->is_given || (kind_of(*flag) == "switch" && value_of(*flag) == "false")) continue;
    for (const auto& [unmet, holds, is_needed] : flag->conditions) {
      if (holds()) continue;
      if (is_needed)
        problem(flag->name, unmet);
      else
        notice(cat(flag->name, ": ", unmet));
    }
  }
}

Flags::Request Flags::parse(int argc, const char* const* argv, const std::function<void()>& prepare) {
  std::vector<std::string> words = mark_values({argv + 1, argv + argc});
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  app_->parse(words);
  if (wants_help_) return Request::help;
  if (wants_version_) return Request::version;
  if (wants_list_) return Request::list_flags;
  take_rest(app_->remaining());
  if (!config_.empty()) read_config();
  const std::size_t before = problems_.size();
  check_all(prepare);
  if (wants_dump_) problems_.resize(before);  // what is missing may be added to the dump
  if (!problems_.empty()) throw UsageError(problems_);
  return wants_dump_ ? Request::dump_config : Request::run;
}

std::string Flags::help() const {
  std::string out = cat(program_, ": ", app_->get_description(), "\n\nusage: ", program_, " [flags]");
  if (positional_.words != nullptr)
    out += cat(" ", positional_.name, "...\n\n", two_columns(positional_.name, positional_.help));
  else
    out += "\n";
  std::vector<std::string> sections = app_->get_groups();
  std::rotate(sections.begin(), sections.begin() + 1, sections.end());  // "General" is declared first, shown last
  for (const std::string& section : sections) {
    out += cat("\n", section, ":\n");
    for (const auto& flag : flags_) {
      const bool is_shown = flag->option->get_group() == section && flag->option->has_description();
      if (is_shown) out += help_of(*flag);
    }
  }
  return out + cat("\nMore in the manual page: man ", split(program_, ' ')[0], "\n");
}

std::string Flags::dump_config() const {
  std::string out;
  for (const auto& flag : flags_) {
    if (flag->option->get_group() == kGeneral) continue;
    const bool is_unset = flag->origin == kDefault && !has_value(*flag);
    std::string line = cat(is_unset ? "# " : "", flag->name.substr(2), " = ");
    if (!is_unset) line += config_value(words_of(*flag));
    line.resize(std::max<std::size_t>(line.size() + 1, 48), ' ');
    out += cat(line, " # ", flag->origin, "\n");
  }
  return out;
}

std::string Flags::list_flags() const {
  std::string out;
  for (const auto& flag : flags_) {
    out += cat(flag->name, " ", kind_of(*flag));
    if (is_number(*flag))
      out += cat(flag->excludes_least ? " (" : " [", flag->least, " ", flag->most, flag->excludes_most ? ")" : "]");
    for (const auto& condition : flag->conditions) out += "; " + condition.unmet;
    out += "\n";
  }
  return out;
}

}  // namespace mtl
