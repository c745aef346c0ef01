#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

#include "base/files.h"
#include "base/str.h"

namespace mtl {

namespace {

constexpr const char* kCommandLine = "command line";
constexpr const char* kGeneral = "General";
// CLI11 takes a word that begins with a dash for a flag, and `--x=` for one without a value: this byte makes a value.
constexpr char kMark = '\x1f';
constexpr int kMostWords = 1 << 20;  // of a list; CLI11 reads a larger number as one word per use

std::string unmarked(const std::string& word) { return starts_with(word, {&kMark, 1}) ? word.substr(1) : word; }

/// The result of reading a word: the objection to it, or its number.
struct Reading {
  const char* wrong = nullptr;
  std::optional<double> number;
};
// Not CLI11's lexical_cast, which reads 010 as octal, refuses 1_000, and rounds a decimal twice on its way to a double.
Reading read(const std::string& word, std::int64_t& out) {
  const auto value = parse_int(word);
  out = value.value_or(out);
  return {value ? nullptr : "is not a whole number", value};
}
Reading read(const std::string& word, double& out) {
  const auto value = parse_float(word);
  out = value.value_or(out);
  return {value ? nullptr : "is not a number", value};
}
Reading read(const std::string& word, bool& out) {
  out = word == "true";
  return {out || word == "false" ? nullptr : "is not true or false", {}};
}
Reading read(const std::string& word, std::string& out) { return out = word, Reading(); }
Reading read(const std::string& word, std::vector<std::string>& out) { return out.push_back(word), Reading(); }
template <class T>
Reading read(const std::string& word, std::optional<T>& out) {
  return read(word, out.emplace());
}

std::string text_of(const std::vector<std::string>& words) { return join(words, " "); }
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? cat(*value) : "";
}
template <class T>
std::string text_of(const T& value) {
  return cat(value);
}

/// "must be at least 0 and below 1".
std::string describe_bounds(const Flags::Flag& flag) {
  const auto text = [](double x) { return std::abs(x) < 1e15 && x == std::floor(x) ? cat(std::llround(x)) : cat(x); };
  const bool has_least = std::isfinite(flag.least), has_most = std::isfinite(flag.most);
  if (!has_least && !has_most) return "must be a finite number";  // NaN is within no bounds
  if (has_least && has_most && !flag.excludes_least && !flag.excludes_most)
    return cat("must be from ", text(flag.least), " to ", text(flag.most));
  return cat("must be ", !has_least ? "" : cat(flag.excludes_least ? "above " : "at least ", text(flag.least)),
             has_least && has_most ? " and " : "",
             !has_most ? "" : cat(flag.excludes_most ? "below " : "at most ", text(flag.most)));
}

}  // namespace

Flags::Flag& Flags::Flag::repeat() { return option->expected(0, 1), append(); }

Flags::Flag& Flags::Flag::hidden() { return option->group(""), *this; }

Flags::Flag& Flags::Flag::only_with(const std::string& other, Condition holds) {
  return effects.emplace_back(starts_with(other, "--") ? "without " + other : other, std::move(holds)), *this;
}

std::string Flags::Flag::value() const {
  if (turns_off) return cat(!*std::get<bool*>(target));
  return std::visit([](auto* held) { return text_of(*held); }, target);
}

std::string Flags::Flag::objection(const std::string& word) const {
  if (!choices.empty() && std::count(choices.begin(), choices.end(), word) == 0)
    return "choose one of " + join(choices, ", ");
  const Reading reading =
      std::visit([&](auto* held) { return read(word, *std::make_unique<std::decay_t<decltype(*held)>>()); }, target);
  if (reading.wrong != nullptr) return reading.wrong;
  const double x = reading.number.value_or(0);
  const bool is_inside = (excludes_least ? x > least : x >= least) && (excludes_most ? x < most : x <= most);
  if (is_inside && !std::isfinite(x)) return "must be a finite number";
  return is_inside || !reading.number ? "" : describe_bounds(*this);
}

Flags::Flags(std::string program, std::string summary)
    : program_(std::move(program)), section_(kGeneral), app_(std::make_unique<CLI::App>(std::move(summary), program_)) {
  app_->set_help_flag();  // without names: --help is a switch like the others
  app_->allow_extras();
  install_texts();
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
  const CLI::callback_t convert = [this, flag](const CLI::results_t& words) { return take(*flag, words), true; };
  const CLI::Validator validator(
      [this, flag](std::string& word) {
        const std::string value = unmarked(word), wrong = flag->objection(value);
        refused_ |= !wrong.empty();
        if (!wrong.empty()) problem(flag->name + " " + value, wrong + place());
        return std::string();  // an error would end the parse
      },
      "");
  flag->option = app_->add_option(names, convert, help)->group(section_)->type_name(value_name)->check(validator);
  flag->option->expected(0, flag->is_switch() ? 0 : flag->is_list() ? kMostWords : 1);
  flag->option->default_str(flag->is_switch() ? "true" : "");  // for a flag without words
  flag->option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->trigger_on_parse();
  return *flag;
}

Flags::Flag& Flags::add_switch(const std::string& names, bool& target, const std::string& help) {
  return add(names, &target, "", help);
}

Flags::Flag& Flags::add_off_switch(const std::string& names, bool& target, const std::string& help) {
  Flag& flag = add_switch(names, target, help);
  flag.turns_off = true;
  return flag;
}

void Flags::positional(const std::string& value_name, std::vector<std::string>& target, const std::string& help) {
  positional_ = {value_name, help, &target};
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

/// " (FILE:LINE)" for a problem of a configuration file.
std::string Flags::place() const { return origin_ == kCommandLine ? "" : cat(" (", origin_, ")"); }

/// Puts the mark before every value.
std::vector<std::string> Flags::mark_values(std::vector<std::string> words) const {
  bool wants_one = false;  // after a flag with one value: `--title -x-` is its value, too
  for (std::string& word : words) {
    const bool is_long = starts_with(word, "--"), starts_flag = word.size() > 1 && word[0] == '-' && !parse_float(word);
    const Flag* flag = is_long ? find(word) : nullptr;
    const std::size_t equals = is_long ? word.find('=') : std::string::npos;
    if (!starts_flag || (wants_one && !is_long && word.size() > 2))
      word.insert(0, 1, kMark);
    else if (equals != std::string::npos)
      word.insert(equals + 1, 1, kMark);
    wants_one = flag != nullptr && flag->option->get_expected_max() == 1;
  }
  return words;
}

/// One use of a flag, with the words that follow it.
void Flags::take(Flag& flag, const std::vector<std::string>& words) {
  const bool is_refused = std::exchange(refused_, false), adds = flag.adds_up && flag.is_given;
  const bool has_none = words[0].empty();
  if (has_none && !flag.takes_none)
    return problem(flag.name, cat("needs a value: ", flag.option->get_type_name(), place()));
  const std::string before = flag.value();
  const auto set = [&](auto* held) {
    auto value = adds ? *held : std::decay_t<decltype(*held)>();
    for (const std::string& word : words) has_none ? Reading() : read(unmarked(word), value);
    *held = std::move(value);
  };
  if (!is_refused) std::visit(set, flag.target);
  if (bool* const* held = std::get_if<bool*>(&flag.target); held != nullptr && !is_refused) **held ^= flag.turns_off;
  flag.origin = origin_;
  flag.is_given |= origin_ == kCommandLine || flag.value() != before || is_refused;
}

/// A flag of other tools with this name, or with the longest prefix of it.
const Flags::Other* Flags::find_other(const std::string& name) const {
  if (const auto exact = others_.find(name); exact != others_.end()) return &exact->second;
  for (std::size_t length = name.size(); length > 2; --length) {
    if (const auto family = others_.find(name.substr(0, length) + "*"); family != others_.end()) return &family->second;
  }
  return nullptr;
}

/// A flag that is not declared: refused, acknowledged or unknown.
void Flags::take_other(const std::string& name, const std::string& value) {
  const Other* other = find_other(name);
  if (other != nullptr && !other->refused) return notice(cat(name, ": ", other->reason));
  const bool shows_value = other != nullptr && other->takes > 0 && !value.empty();
  if (other != nullptr) return problem(shows_value ? name + " " + value : name, other->reason + place());
  std::vector<std::string> known;
  for (const auto& flag : flags_) {
    for (const std::string& long_name : flag->option->get_lnames()) known.push_back("--" + long_name);
  }
  const auto common = suggestions_.find(name);
  const std::string guess = common == suggestions_.end() ? nearest(name, known) : common->second;
  const std::string remedy = guess.empty() ? cat("see ", program_, " --help") : cat("did you mean ", guess, "?");
  unknown_.push_back({name, cat("unknown flag; ", remedy, place())});
}

/// Takes what CLI11 left (undeclared flags, words of no flag), then the words after `--`.
void Flags::take_rest(const std::vector<std::string>& left, const std::vector<std::string>& after_dashes) {
  std::vector<std::string> values;
  for (std::size_t at = 0; at < left.size();) {
    const std::string& word = left[at++];
    if (word[0] == kMark) {
      values.push_back(unmarked(word));
      continue;
    }
    const std::size_t equals = std::min(word.find('='), word.size());
    const Other* other = find_other(word.substr(0, equals));
    // The values of an unknown flag are not reported: one message per mistake.
    int takes = equals < word.size() ? 0 : other == nullptr ? -1 : other->takes;
    std::string value = equals < word.size() ? word.substr(equals + 1) : "";
    for (; takes != 0 && at < left.size() && left[at][0] == kMark; --takes, ++at)
      if (value.empty()) value = left[at];
    take_other(word.substr(0, equals), unmarked(value));
  }
  values.insert(values.end(), after_dashes.begin(), after_dashes.end());
  for (const std::string& word : values) {
    if (positional_.name.empty())
      problem(word, cat("belongs to no flag; see ", program_, " --help"));
    else
      positional_.words->push_back(word);
  }
}

/// Gives every flag that the command line left out its value in the configuration file.
void Flags::read_config() {
  std::istringstream text(read_file(config_));
  for (CLI::ConfigItem& item : app_->get_config_formatter()->from_config(text)) {
    origin_ = cat(config_, ":", item.parents[0]);
    const std::string name = "--" + item.name;
    const bool has_value = !item.inputs.empty() && item.inputs[0] == "=";
    std::vector<std::string> words(item.inputs.begin() + (has_value ? 1 : 0), item.inputs.end());
    const Flag* flag = find(name);
    if (item.parents.size() > 1) {
      problem(name, item.parents[1] + place());
    } else if (flag == nullptr) {
      take_other(name, words.empty() ? "" : words[0]);
    } else if (flag->option->get_group() == kGeneral && flag->name != "--quiet") {
      problem(name, "belongs on the command line" + place());
    } else if (!has_value && !words.empty()) {
      problem(name, cat("write ", item.name, " = ", join(words, " "), place()));
    } else if (flag->origin != kCommandLine &&
               (flag->takes_none || !has_value || !words.empty())) {  // `name =` leaves a flag as it is
      if (!flag->is_list() && words.size() > 1) words = {join(words, " ")};
      for (std::string& word : words) word.insert(0, 1, kMark);
      if (words.empty()) words = {flag->option->get_default_str()};
      flag->option->clear();
      flag->option->add_result(words)->run_callback();
    }
  }
}

/// Checks required flags, check() functions and conditions.
void Flags::check_all() {
  for (const auto& flag : flags_) {
    if (flag->is_required && flag->origin == "default")
      problem(flag->name, "is required: " + flag->option->get_description());
  }
  for (const auto& check : checks_) {
    try {
      check();
    } catch (const Error&) {
      // Otherwise it may be a consequence of what is reported anyway.
      if (problem_count() == 0 && !wants_dump_) throw;
    }
  }
  for (const auto& flag : flags_) {
    if (!flag->is_given || (flag->is_switch() && flag->value() == "false")) continue;
    for (const auto& [other, holds] : flag->needed) {
      if (!holds()) problem(flag->name, "needs " + other);
    }
    for (const auto& [other, holds] : flag->effects) {
      if (!holds()) notice(cat(flag->name, ": has no effect ", other));
    }
  }
}

Flags::Request Flags::parse(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const std::vector<std::string> after_dashes(dashes + (dashes == words.end() ? 0 : 1), words.end());
  words.erase(dashes, words.end());
  origin_ = kCommandLine;
  words = mark_values(std::move(words));
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  app_->parse(words);
  if (wants_help_) return Request::help;
  if (wants_version_) return Request::version;
  if (wants_list_) return Request::list_flags;
  take_rest(app_->remaining(), after_dashes);
  if (!config_.empty()) read_config();
  const std::size_t before = problems_.size();
  check_all();
  if (wants_dump_) problems_.resize(before);  // what is missing may be added to the dump
  problems_.insert(problems_.begin(), unknown_.begin(), unknown_.end());
  if (!problems_.empty()) throw UsageError(problems_);
  return wants_dump_ ? Request::dump_config : Request::run;
}

}  // namespace mtl
