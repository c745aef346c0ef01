#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

#include "base/config_text.h"
#include "base/files.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/build_info.h"

namespace mtl {

namespace {

// Precedes every value. Otherwise CLI11 would take an argument with a leading dash for a flag, and `--x=` for a flag
// without a value.
constexpr char kMark = '\x1f';
constexpr const char* kForeign = "--\x1f";  // marks an undeclared flag
constexpr int kMostWords = 1 << 20;         // in a list; CLI11 takes a larger number to mean one value per use

constexpr const char* kEmpty = "is empty; add a value";

std::string unmarked(const std::string& word) { return starts_with(word, {&kMark, 1}) ? word.substr(1) : word; }

/// Returns how many words follow a flag; -1: all up to the next flag.
int takes_of(const CLI::Option& option) {
  const int most = option.get_items_expected_max();
  return most > 1 ? -1 : most;
}

}  // namespace

/// Writes --help: positional arguments, then sections with each flag's names, choices and default.
class Flags::Help : public CLI::Formatter {
 public:
  explicit Help(const Flags& flags) : flags_(flags) { column_width(kIndent - 1); }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const override {
    std::string out = cat(name, ": ", app->get_description(), "\n\nusage: ", name, " [flags]");
    const auto words = app->get_options([](const CLI::Option* option) { return option->get_positional(); });
    out += words.empty() ? "\n"
                         : cat(" ", words[0]->get_name(true), flags_.is_positional_single_ ? "" : "...", "\n\n",
                               make_option(words[0], true));
    if (!flags_.commands_.empty()) out += "\nCommands:\n";
    for (const auto& [command, summary] : flags_.commands_)
      out += format("  %-27s %s\n", command.c_str(), summary.c_str());
    std::vector<std::string> sections = app->get_groups();
    std::rotate(sections.begin(), sections.begin() + 1, sections.end());  // "General" is declared first, shown last
    for (const std::string& section : sections) {
      out += make_group(section, false, app->get_options([&section](const CLI::Option* option) {
        return option->get_group() == section && option->has_description() && option->nonpositional();
      }));
    }
    return out + cat("\nMore in the manual page: man ", split(name, ' ')[0], "\n");
  }

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::vector<std::string> names = split(CLI::Formatter::make_option_name(option, is_positional), ',');
    std::stable_partition(names.begin(), names.end(), [](const auto& name) { return starts_with(name, "--"); });
    return join(names, ", ");
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const Flag* flag = flags_.find(option->get_name());
    std::string text = option->get_description();
    if (flag != nullptr && !flag->values().empty()) text += ": " + join(flag->values(), ", ");
    if (flag != nullptr && flag->kind() != "switch" && flag->has_value()) text += cat(" [", flag->text(), "]");
    return " " + join(wrap(split(text, ' '), kWidth - kIndent), "\n ");
  }

 private:
  static constexpr std::size_t kIndent = 30, kWidth = 110;  // of the descriptions
  const Flags& flags_;
};

/// Reads --config and writes --dump-config.
class Flags::Config : public CLI::Config {
 public:
  explicit Config(Flags& flags) : flags_(flags) {}

  /// Reads one line per call, so that CLI11 stores its value before the next line and problem() knows the line number.
  std::vector<CLI::ConfigItem> from_config(std::istream& file) const override {
    std::string text;
    std::getline(file, text);
    flags_.origin_ = cat(flags_.config_, ":", ++flags_.config_line_);
    const std::optional<ConfigLine> line = parse_config_line(text);
    if (!line) return {};
    const std::string name = "--" + line->name;
    std::vector<std::string> words = line->words;
    Flag* flag = flags_.find(name);
    if (flag != nullptr && flag->origin != kCommandLine) flag->used_name = name;
    if (flag == nullptr) {
      flags_.report_foreign(name, words.empty() ? "" : words[0]);
    } else if (!flag->option->get_configurable()) {
      flags_.report(name, "is not allowed in a configuration file; use this flag on the command line");
    } else if (!line->error.empty()) {
      flags_.report(name, line->error);
    } else {
      if (words.empty() && line->has_equals && !flag->allows_empty) words = {""};  // refused like `--name=`
      if (words.size() > 1 && flag->kind() != "list") words = {join(words, " ")};
      for (std::string& word : words) word.insert(0, 1, kMark);
      if (words.empty()) words = {flag->option->get_default_str()};
      if (flag->origin != kCommandLine) flag->option->clear();  // CLI11 only assigns config values to an empty option
      return {{{}, line->name, words}};
    }
    return {};
  }

  std::string to_config(const CLI::App* /*app*/, bool /*all*/, bool /*help*/, std::string /*prefix*/) const override {
    std::string out;
    for (const auto& flag : flags_.flags_) {
      if (flag->option->get_group() == kGeneral) continue;
      const bool is_set = flag->origin != kDefault || flag->has_value();
      out += config_line(flag->name.substr(2), is_set ? std::optional(flag->words()) : std::nullopt, flag->origin);
    }
    return out;
  }

 private:
  Flags& flags_;
};

Flags::Flags(std::string program, std::string summary)
    : foreign(program), program_(program), app_(std::make_unique<CLI::App>(std::move(summary), std::move(program))) {
  app_->set_help_flag();  // removes CLI11's own --help; ours is declared like any switch
  app_->allow_extras()->formatter(std::make_shared<Help>(*this))->config_formatter(std::make_shared<Config>(*this));
  add_listing(
      "--help,-h", [this] { return help(); }, "print this help and exit");
  add_listing(
      "--version", [this] { return version_text(program_, verbose); }, "print the version and exit");
  add_switch("--verbose", verbose, "with --version: print the build, its libraries and the folder of share files, too",
             mtl::only_with("--version", [] { return false; }));  // otherwise parse() has returned before
  add_switch("--quiet,-q", quiet, "print errors and warnings only").option->configurable();
  add("--config", &config_, "FILE", "read flags from FILE, one `name = value` per line; the command line wins");
  add_switch("--dump-config", wants_dump_, "print every flag with its value and origin, then exit");
  add_listing(
      "--list-flags", [this] { return list_flags(); }, "");
  add_listing(
      "--list-foreign-flags", [this] { return foreign.list(); }, "");
  add_listing(
      "--list-completions", [this] { return list_completions(); }, "");
  section("Options");
}

Flags::~Flags() = default;

Flags::Flag& Flags::declare(const std::string& names, Setting::Variable variable, const std::string& value_name,
                            const std::string& help) {
  Flag* flag = flags_.emplace_back(std::make_unique<Flag>()).get();
  flag->name = names.substr(0, names.find(','));
  flag->variable = variable;
  const auto check = [this, flag](const std::string& word) {
    const std::string value = unmarked(word), wrong = word.empty() ? "" : objection(*flag, value);
    if (!wrong.empty()) report(value.empty() ? flag->name : flag->name + " " + value, wrong);
    refused_ |= !wrong.empty();
    may_lack_positional_ |= !wrong.empty();
  };
  const CLI::callback_t convert = [this, flag](const CLI::results_t& words) { return store_use(*flag, words), true; };
  const bool is_switch = flag->kind() == "switch";
  flag->option = app_->add_option(names, convert, help)->group(section_)->option_text(value_name)->each(check);
  flag->option->type_size(0, is_switch ? 0 : 1)->expected(1, flag->kind() == "list" ? kMostWords : 1);
  flag->option->configurable(section_ != kGeneral)->default_str(is_switch ? "true" : "");  // if no value follows
  flag->option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->trigger_on_parse();
  return *flag;
}

void Flags::only_with(const std::string& other, const std::function<bool()>& holds,
                      const std::function<void()>& declare) {
  const std::size_t before = flags_.size();
  declare();
  for (std::size_t i = before; i < flags_.size(); ++i) mtl::only_with(other, holds)(*flags_[i]);
}

void Flags::positional(const std::string& value_name, std::vector<std::string>& target, const std::string& help,
                       const std::string& required) {
  const CLI::callback_t append = [this, value_name, &target](const CLI::results_t& words) {
    std::transform(words.begin(), words.end(), std::back_inserter(target), unmarked);
    if (std::ranges::count(target, "") > 0) report(value_name, kEmpty);
    return true;
  };
  CLI::Option* option = app_->add_option(value_name, append, help)->group(kGeneral)->type_size(0, 1);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args();
  positional_ = value_name;
  if (required.empty()) return;
  check([this, value_name, required, &target] {
    if (target.empty()) problem(value_name, "is required: " + required);
  });
}

void Flags::positional(const std::string& value_name, std::string& target, const std::string& help) {
  const auto words = std::make_shared<std::vector<std::string>>();
  positional(value_name, *words, help);
  is_positional_single_ = true;
  check([this, words, value_name, help, &target] {
    if (words->empty()) problem(value_name, "is required: " + help);
    if (words->size() > 1)
      problem(value_name, cat("takes one word, not ", words->size(), "; run the command once for each"));
    if (!words->empty()) target = words->front();
  });
}

bool Flags::is_consequence(const Problem& problem) const {
  const auto names_one = [this](const Problem& in, bool Flag::*property) {
    return std::ranges::any_of(in.flags(), [&](const std::string& name) {
      const Flag* flag = find(name);
      return flag != nullptr && flag->*property;
    });
  };
  const Problem place{problem.where, ""};
  return names_one(problem, &Flag::is_broken) ||
         (may_lack_positional_ && split(problem.where, ',').front() == positional_) ||
         (unknown_ > 0 && !place.flags().empty() && !names_one(place, &Flag::is_given));
}

void Flags::problem(const std::string& where, const std::string& what) {
  if (is_consequence({where, what}))
    ++consequences_;
  else
    report(where, what);
}

void Flags::report(const std::string& where, const std::string& what) {
  const std::string place = origin_ == kCommandLine ? "" : cat(" (", origin_, ")");
  problems_.push_back({with_used_names(where), with_used_names(what) + place});
}

void Flags::mark_as_meant(const std::string& name) {
  if (Flag* flag = find(name); flag != nullptr && !flag->is_given) flag->is_broken = true;
}

void Flags::notice(const std::string& text) {
  const std::string named = with_used_names(text);
  if (std::count(notices_.begin(), notices_.end(), named) == 0) notices_.push_back(named);
}

std::string Flags::with_used_names(const std::string& text) const {
  return replace_flag_names(text, [this](const std::string& name) {
    const Flag* flag = find(name);
    return flag == nullptr || flag->used_name.empty() ? name : flag->used_name;
  });
}

std::string Flags::objection(const Flag& flag, const std::string& value) {
  if (!value.empty() || flag.allows_blank) return flag.objection(value);
  return cat(kEmpty, flag.is_required ? "" : ", or leave the flag out");
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

std::vector<std::string> Flags::given_flags(const std::vector<std::string>& sections,
                                            const std::string& without) const {
  std::vector<std::string> out;
  for (const auto& flag : flags_) {
    if (!flag->is_given || flag->name == without || std::ranges::count(sections, flag->option->get_group()) == 0)
      continue;
    const std::string& word = flag->given_words.at(0);
    const bool is_switch = flag->kind() == "switch";
    if (is_switch ? word == "false" : starts_with(word, "-")) {  // after a blank, it would be the next flag
      out.push_back(cat(flag->name, "=", word));
      continue;
    }
    out.push_back(flag->name);
    if (!is_switch) out.push_back(word);
  }
  return out;
}

/// Marks all values and foreign flags. Joins the words a foreign flag takes to it, each after a `=`.
std::vector<std::string> Flags::mark_values(const std::vector<std::string>& words) {
  std::vector<std::string> marked;
  bool needs_value = false;  // the last flag takes one value, even with a leading dash, as in `--title -x-`
  bool has_ended = false;    // after `--`
  Flag* cut = nullptr;       // the last word's flag if it was `--lr=`, so that the next word is probably its value
  int takes = 0;             // words that the last foreign flag still takes
  for (const std::string& word : words) {
    const bool is_long = starts_with(word, "--"),
               is_number = parse_float(word.substr(0, word.find_first_of(" \t\n"))).has_value();
    const bool starts_flag = word.size() > 1 && word[0] == '-' && !is_number;  // "-0.5 a 0.5 b" is a value, too
    const std::size_t equals = is_long ? word.find('=') : std::string::npos;
    if (!has_ended && word == "--") {
      has_ended = true;
      takes = 0;
      marked.push_back(word);
    } else if (has_ended || !starts_flag || (needs_value && !is_long && word.size() > 2)) {
      needs_value = false;
      if (cut != nullptr && !has_ended && positional_.empty()) {
        report(cut->used_name, cat("has a blank between = and its value ", word, "; remove the blank"));
        cut->is_broken = true;
        marked.pop_back();
      } else if (takes == 0)
        marked.push_back(kMark + word);
      else
        marked.back() += cat('=', kMark, word), --takes;
      cut = nullptr;
      may_lack_positional_ |= takes < 0;
    } else {
      const std::string name = word.substr(0, is_long ? equals : 2);
      Flag* flag = find(name);
      if (flag != nullptr) flag->used_name = name;
      const bool takes_one = flag != nullptr && takes_of(*flag->option) == 1;
      cut = takes_one && equals == word.size() - 1 ? flag : nullptr;
      needs_value = takes_one && is_long && equals == std::string::npos;
      takes = flag != nullptr || equals != std::string::npos ? 0 : find_foreign(word).takes;
      marked.push_back(flag == nullptr ? kForeign + word : word);
      if (equals != std::string::npos) marked.back().insert(marked.back().find('=') + 1, 1, kMark);
    }
  }
  return marked;
}

/// Stores one use of a flag, with the words after it.
void Flags::store_use(Flag& flag, const std::vector<std::string>& words) {
  const bool is_refused = std::exchange(refused_, false), has_none = words[0].empty();
  flag.is_broken = is_refused || (has_none && !flag.allows_empty);
  if (has_none && !flag.allows_empty) return report(flag.name, "needs a value: " + flag.option->get_option_text());
  const std::vector<std::string> before = flag.words();
  std::vector<std::string> values = flag.accumulates && flag.is_given ? before : std::vector<std::string>();
  if (!has_none) std::transform(words.begin(), words.end(), std::back_inserter(values), unmarked);
  if (!is_refused) flag.store(values);
  flag.given_words = std::move(values);
  flag.origin = origin_;
  flag.is_given |= origin_ == kCommandLine || flag.words() != before || is_refused;
}

void Flags::set_aside(const Flags& other, const std::vector<std::string>& subjects, const std::string& why) {
  why_set_aside_ = why;
  foreign.adopt(other.foreign, subjects, why, [this](const std::string& name) { return find(name) != nullptr; });
  for (const auto& flag : other.flags_) {
    for (const std::string& long_name : flag->option->get_lnames()) {
      const std::string name = "--" + long_name;
      if (find(name) == nullptr) foreign.acknowledge(takes_of(*flag->option), why, name);
    }
  }
}

ForeignFlags::Answer Flags::find_foreign(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& flag : flags_) {
    for (const std::string& long_name : flag->option->get_lnames()) known.push_back("--" + long_name);
  }
  ForeignFlags::Answer answer = foreign.find(name, known);
  if (const Flag* meant = answer.meant.empty() ? nullptr : find(answer.meant)) {
    answer.takes = takes_of(*meant->option);
  }
  return answer;
}

void Flags::report_foreign(const std::string& name, const std::string& value) {
  const ForeignFlags::Answer answer = find_foreign(name);
  if (answer.kind == ForeignFlags::Answer::acknowledged && answer.text == why_set_aside_)
    return set_aside_.push_back(name);
  if (answer.kind == ForeignFlags::Answer::acknowledged) return notice(cat(name, " ", answer.text));
  const bool shows_value = answer.kind != ForeignFlags::Answer::unknown && answer.takes > 0 && !value.empty();
  report(shows_value ? name + " " + value : name, answer.text);
  if (answer.explain && !value.empty()) problems_.back().what += answer.explain(value);
  mark_as_meant(answer.meant);
  if (answer.kind == ForeignFlags::Answer::unknown)
    std::rotate(problems_.begin() + unknown_++, problems_.end() - 1, problems_.end());
}

/// Reports what CLI11 could not assign: foreign flags, and values without a flag.
void Flags::report_remaining() {
  for (const std::string& word : app_->remaining()) {
    const std::size_t equals = word.find('=');
    if (word[0] == kMark)
      report(unmarked(word), cat("is not the value of a flag; see ", program_, " --help"));
    else if (starts_with(word, kForeign))
      report_foreign(word.substr(3, equals - 3), equals == std::string::npos ? "" : word.substr(equals + 2));
  }
}

/// Checks required flags, then runs the check() functions and `prepare`, then tests the conditions.
void Flags::check_all(const std::function<void()>& prepare) {
  for (const auto& flag : flags_) {
    if (flag->is_required && flag->origin == kDefault)
      problem(flag->name, "is required: " + flag->option->get_description());
  }
  if (prepare && !wants_dump_) checks_.push_back(prepare);
  for (const auto& check : checks_) {
    try {
      check();
    } catch (const Error&) {
      // If there are other problems, they may be the cause.
      if (problem_count() == 0 && !wants_dump_) throw;
    }
  }
  for (const auto& flag : flags_) {
    if (!flag->is_given || (flag->kind() == "switch" && flag->text() == "false")) continue;
    std::vector<std::string> needs;
    for (const auto& [unmet, holds, is_needed] : flag->conditions) {
      if (!holds()) is_needed ? needs.push_back(unmet) : notice(cat(flag->name, " ", unmet));
    }
    if (!needs.empty()) problem(flag->name, join(needs, ", and "));
  }
}

std::optional<std::string> Flags::parse(int argc, const char* const* argv, const std::function<void()>& prepare) {
  std::vector<std::string> words = mark_values({argv + 1, argv + argc});
  std::reverse(words.begin(), words.end());  // the order that CLI11 expects
  app_->parse(words);
  for (const Listing& listing : listings_) {
    if (listing.is_wanted) return listing.text();
  }
  report_remaining();
  if (!config_.empty()) {
    const std::string text = read_file(config_);
    if (!starts_with(text, "\xEF\xBB\xBF")) refuse_other_encoding(config_, text);  // parse_config_line() skips the mark
    std::istringstream file(text);
    while (file.peek() != EOF) app_->parse_from_stream(file);  // one line
    origin_ = kCommandLine;
  }
  if (!set_aside_.empty()) notice(cat(join(set_aside_, ", "), " ", why_set_aside_));
  dumped_ = app_->config_to_str();
  const std::size_t before = problems_.size();
  check_all(prepare);
  if (wants_dump_) problems_.resize(before);  // the dumped configuration may be incomplete
  if (!problems_.empty()) throw UsageError(problems_);
  return wants_dump_ ? std::optional(dumped_) : std::nullopt;
}

void Flags::add_listing(const std::string& names, std::function<std::string()> text, const std::string& help) {
  listings_.push_back({std::move(text)});
  add_switch(names, listings_.back().is_wanted, help);
}

std::string Flags::help() const { return app_->help(); }

std::string Flags::list_completions() const {
  std::string out;
  for (const auto& [name, summary] : commands_) out += cat("command\t", name, "\t", summary, "\n");
  if (!positional_.empty())
    out += cat("words\t", positional_, "\t", app_->get_option(positional_)->get_description(), "\n");
  for (const auto& flag : flags_) {
    const CLI::Option& option = *flag->option;
    if (option.has_description())
      out += cat("flag\t", option.get_name(false, true), "\t", option.get_option_text(), "\t",
                 join(flag->values(), " "), "\t", option.get_description(), "\n");
  }
  return out;
}

std::string Flags::list_flags() const {
  std::string out;
  for (const auto& flag : flags_) {
    out += cat(flag->name, " ", flag->kind(), flag->is_number() ? " " + flag->bounds.interval() : "");
    for (const auto& condition : flag->conditions) out += "; " + condition.unmet;
    out += "\n";
  }
  return out;
}

void repeat(Flags::Flag& flag) {
  flag.accumulates = true;
  flag.option->expected(1);
}

Flags::Rule only_with(const std::string& other, const std::function<bool()>& holds) {
  const std::string unmet = cat("has no effect ", starts_with(other, "--") ? "without " : "", other);
  return [=](Flags::Flag& flag) { flag.conditions.push_back({unmet, holds, false}); };
}

Flags::Rule needs(const std::string& other, const std::function<bool()>& holds) {
  return [=](Flags::Flag& flag) { flag.conditions.push_back({"needs " + other, holds, true}); };
}

}  // namespace mtl
