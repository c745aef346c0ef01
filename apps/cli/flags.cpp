#include "cli/flags.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/str.h"

namespace mtl {

namespace {

std::string describe(const std::vector<UsageError::Problem>& problems) {
  std::size_t width = 0;
  for (const auto& problem : problems) width = std::max(width, problem.where.size());
  width = std::min<std::size_t>(width, 40);
  std::string out = cat(problems.size(), problems.size() == 1 ? " problem" : " problems", " with the configuration");
  for (const auto& [where, what] : problems) {
    std::string padding(where.size() < width ? width - where.size() : 0, ' ');
    out += cat("\n  ", where, padding, "  ", what);
  }
  return out;
}

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

/// A word that starts a flag: "--x", "-o", but not "-", "--" or a negative number.
bool looks_like_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word != "--" && !parse_float(word).has_value();
}

/// The words of a value in a configuration file, up to a comment: a word in double quotes is a JSON string.
std::vector<std::string> config_words(std::string_view text) {
  std::vector<std::string> words;
  for (text = trim(text); !text.empty() && text[0] != '#'; text = trim(text)) {
    std::size_t end = text.find_first_of(" \t");
    if (text[0] == '"') {
      JsonCursor cursor(text);
      words.emplace_back(cursor.string());
      end = cursor.offset();
    } else {
      words.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end, text.size()));
  }
  return words;
}

constexpr const char* kCommandLine = "command line";

/// " (FILE:LINE)" behind a problem that a configuration file has.
std::string place(const std::string& origin) { return origin == kCommandLine ? "" : cat(" (", origin, ")"); }

}  // namespace

UsageError::UsageError(std::vector<Problem> problems)
    : Error(Exit::usage, describe(problems)), problems_(std::move(problems)) {}

std::string Flags::Flag::value() const {
  auto shown = [](const auto& held) { return held ? cat(*held) : std::string(); };
  return std::visit(Overloaded{
                        [&](bool* held) { return cat(turns_off ? !*held : *held); },
                        [](std::int64_t* held) { return cat(*held); },
                        [](double* held) { return cat(*held); },
                        [](std::string* held) { return *held; },
                        [&](std::optional<std::int64_t>* held) { return shown(*held); },
                        [&](std::optional<double>* held) { return shown(*held); },
                        [&](std::optional<std::string>* held) { return shown(*held); },
                        [](std::vector<std::string>* held) { return join(*held, " "); },
                    },
                    target);
}

Flags::Flags(std::string program, std::string summary) : program_(std::move(program)), summary_(std::move(summary)) {
  add_switch("--help", wants_help_, "print this help and exit").alias("-h").section = "General";
  add_switch("--version", wants_version_, "print the version and exit").section = "General";
  add_switch("--quiet", quiet, "print errors and warnings only").alias("-q").section = "General";
  add("--config", &config_, "FILE", "read flags from FILE, one `name = value` a line; the command line wins").section =
      "General";
  add_switch("--dump-config", wants_dump_, "print every flag with its value and where that came from, then exit")
      .section = "General";
}

Flags::Flag& Flags::add(std::string name, Target target, std::string value_name, std::string help) {
  require(find(name) == nullptr, "flag declared twice: ", name);
  flags_.push_back(std::make_unique<Flag>());
  Flag& flag = *flags_.back();
  flag.name = std::move(name);
  flag.target = target;
  flag.value_name = std::move(value_name);
  flag.help = std::move(help);
  flag.section = section_;
  return flag;
}

Flags::Flag& Flags::add_switch(std::string name, bool& target, std::string help) {
  return add(std::move(name), &target, "", std::move(help));
}

Flags::Flag& Flags::add_off_switch(std::string name, bool& target, std::string help) {
  Flag& flag = add(std::move(name), &target, "", std::move(help));
  flag.turns_off = true;
  return flag;
}

void Flags::positional(std::string value_name, std::vector<std::string>& target, std::string help) {
  positional_ = Positional{std::move(value_name), &target, std::move(help)};
}

void Flags::refuse(std::string name, int takes, std::string reason) {
  others_[std::move(name)] = {takes, std::move(reason), true};
}
void Flags::refuse_family(std::string beginning, std::string reason) {
  families_.emplace_back(std::move(beginning), std::move(reason));
}
void Flags::acknowledge(std::string name, int takes, std::string reason) {
  others_[std::move(name)] = {takes, std::move(reason), false};
}
void Flags::notice(std::string text) {
  if (std::count(notices_.begin(), notices_.end(), text) == 0) notices_.push_back(std::move(text));
}
void Flags::problem(std::string where, std::string what) { problems_.push_back({std::move(where), std::move(what)}); }

const Flags::Flag* Flags::find(const std::string& name) const {
  for (const auto& flag : flags_) {
    if (flag->name == name || std::count(flag->aliases.begin(), flag->aliases.end(), name) > 0) return flag.get();
  }
  return nullptr;
}

Flags::Flag* Flags::find(const std::string& name) { return const_cast<Flag*>(std::as_const(*this).find(name)); }

bool Flags::was_given(const std::string& name) const {
  const Flag* flag = find(name);
  require(flag != nullptr, "no such flag: ", name);
  return flag->is_given;
}

void Flags::set(Flag& flag, const std::vector<std::string>& words, const std::string& origin) {
  const std::string before = flag.value();
  const std::size_t problems = problems_.size();
  const bool adds = flag.adds_up && flag.is_given && (flag.origin == kCommandLine) == (origin == kCommandLine);
  convert(flag, words, origin, adds);
  flag.origin = origin;
  flag.is_given |= origin == kCommandLine || flag.value() != before || problems_.size() > problems;
}

/// `adds`: the words go behind those that a list has.
void Flags::convert(Flag& flag, const std::vector<std::string>& words, const std::string& origin, bool adds) {
  const std::string& word = words.empty() ? flag.name : words.front();
  auto wrong = [&](const char* kind) { problem(flag.name + " " + word, cat("is not ", kind, place(origin))); };
  for (const std::string& choice : words) {
    if (flag.choices.empty() || std::count(flag.choices.begin(), flag.choices.end(), choice) > 0) continue;
    problem(flag.name + " " + choice, cat("choose one of ", join(flag.choices, ", "), place(origin)));
    return;
  }
  auto whole = [&](auto* held) {
    if (auto value = parse_int(word))
      *held = *value;
    else
      wrong("a whole number");
  };
  auto real = [&](auto* held) {
    if (auto value = parse_float(word))
      *held = *value;
    else
      wrong("a number");
  };
  std::visit(Overloaded{
                 [&](bool* held) {
                   if (words.empty())
                     *held = !flag.turns_off;
                   else if (word == "true" || word == "false")
                     *held = (word == "true") != flag.turns_off;
                   else
                     wrong("true or false");
                 },
                 [&](std::int64_t* held) { whole(held); },
                 [&](std::optional<std::int64_t>* held) { whole(held); },
                 [&](double* held) { real(held); },
                 [&](std::optional<double>* held) { real(held); },
                 [&](std::string* held) { *held = word; },
                 [&](std::optional<std::string>* held) { *held = word; },
                 [&](std::vector<std::string>* held) {
                   if (!adds) held->clear();
                   held->insert(held->end(), words.begin(), words.end());
                 },
             },
             flag.target);
}

void Flags::report_unknown(const std::string& name, const std::string& origin) {
  for (const auto& [beginning, reason] : families_) {
    if (starts_with(name, beginning)) return problem(name, reason + place(origin));
  }
  std::vector<std::string> known;
  for (const auto& flag : flags_) {
    known.push_back(flag->name);
    known.insert(known.end(), flag->aliases.begin(), flag->aliases.end());
  }
  std::string guess = nearest(name, known);
  std::string remedy = guess.empty() ? cat("see ", program_, " --help") : cat("did you mean ", guess, "?");
  problem(name, cat("unknown flag; ", remedy, place(origin)));
}

/// Reads the flag at words[at] with its values; returns how many words that took.
std::size_t Flags::take_flag(const std::vector<std::string>& words, std::size_t at, const std::string& origin) {
  std::string name = words[at];
  std::vector<std::string> values;
  std::size_t equals = name.find('=');
  bool attached = starts_with(name, "--") && equals != std::string::npos;
  if (attached) {
    values.push_back(name.substr(equals + 1));
    name.resize(equals);
  }
  Flag* flag = find(name);
  auto other = others_.find(name);
  if (flag == nullptr && other == others_.end()) {
    report_unknown(name, origin);
    std::size_t skip = 1;  // its values are its own affair: one message per mistake
    while (!attached && at + skip < words.size() && !looks_like_flag(words[at + skip])) ++skip;
    return skip;
  }
  int takes = flag == nullptr ? other->second.takes : flag->is_switch() ? 0 : flag->is_list() ? -1 : 1;
  std::size_t next = at + 1;
  if (!attached) {
    while (
        next < words.size() && (takes < 0 || static_cast<int>(values.size()) < takes) &&
        (!looks_like_flag(words[next]) || (takes == 1 && !starts_with(words[next], "--") && words[next].size() > 2))) {
      values.push_back(words[next++]);
    }
  }
  if (flag == nullptr) {
    apply_other(name, values, origin);
  } else if (values.empty() && takes != 0) {
    problem(name, cat("needs a value: ", flag->value_name));
  } else {
    set(*flag, values, origin);
  }
  return next - at;
}

/// A flag that this tool refuses or only acknowledges.
void Flags::apply_other(const std::string& name, const std::vector<std::string>& values, const std::string& origin) {
  const Other& other = others_.at(name);
  if (other.refused) {
    problem(values.empty() ? name : name + " " + values[0], other.reason + place(origin));
    return;
  }
  notice(cat(name, ": ", other.reason));
}

void Flags::parse_words(const std::vector<std::string>& words, const std::string& origin) {
  std::vector<std::string> rest;
  for (std::size_t at = 0; at < words.size();) {
    if (words[at] == "--") {
      rest.insert(rest.end(), words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
      break;
    }
    if (looks_like_flag(words[at])) {
      at += take_flag(words, at, origin);
    } else {
      rest.push_back(words[at++]);
    }
  }
  if (positional_) {
    positional_->target->insert(positional_->target->end(), rest.begin(), rest.end());
  } else {
    for (const std::string& word : rest) problem(word, cat("belongs to no flag; see ", program_, " --help"));
  }
}

void Flags::read_config(const std::string& path) {
  std::size_t number = 0;
  for (const std::string& raw : split(read_file(path), '\n')) {
    std::string origin = cat(path, ":", ++number);
    std::string_view line = trim(raw);
    if (line.empty() || line[0] == '#') continue;
    std::size_t name_end = std::min(line.find_first_of("= \t#"), line.size());
    std::string name = "--" + std::string(line.substr(0, name_end));
    std::string_view rest = trim(line.substr(name_end));
    bool has_value = starts_with(rest, "=");
    try {
      apply_config(name, config_words(has_value ? rest.substr(1) : rest), has_value, origin);
    } catch (const Error& error) {
      problem(name, cat(error.what(), place(origin)));  // a string whose quotes do not close
    }
  }
}

/// One line of a configuration file. A switch may stand alone; `name =` leaves a flag as it is.
void Flags::apply_config(const std::string& name, std::vector<std::string> words, bool has_value,
                         const std::string& origin) {
  Flag* flag = find(name);
  if (flag == nullptr) {
    if (others_.count(name) > 0)
      apply_other(name, words, origin);
    else
      report_unknown(name, origin);
    return;
  }
  if (flag->section == "General" && flag->name != "--quiet") {
    problem(name, cat("belongs on the command line", place(origin)));
  } else if (!has_value && !words.empty()) {
    problem(name, cat("write ", name.substr(2), " = ", join(words, " "), place(origin)));
  } else if (!has_value && !flag->is_switch()) {
    problem(name, cat("needs a value: ", flag->value_name, place(origin)));
  } else if (!has_value || !words.empty()) {
    if (!flag->is_list() && words.size() > 1) words = {join(words, " ")};
    set(*flag, words, origin);
  }
}

void Flags::run_checks() {
  std::size_t before = problems_.size();
  for (const auto& check : checks_) {
    try {
      check();
    } catch (const Error&) {
      // Else it may be a consequence of what is reported anyway.
      if (problems_.empty() && !wants_dump_) throw;
    }
  }
  if (wants_dump_) problems_.resize(before);  // what is missing may still come: the dump is there to be completed
}

Flags::Request Flags::parse(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at] == "--") break;
    if (words[at] == "--help" || words[at] == "-h") return Request::help;
    if (words[at] == "--version") return Request::version;
    bool has_value = at + 1 < words.size() && !looks_like_flag(words[at + 1]);
    if (words[at] == "--config" && has_value) read_config(words[at + 1]);
    if (starts_with(words[at], "--config=")) read_config(words[at].substr(9));
  }
  parse_words(words, kCommandLine);
  if (!wants_dump_) {
    for (const auto& flag : flags_) {
      if (flag->is_required && flag->origin == "default") problem(flag->name, "is required: " + flag->help);
    }
  }
  run_checks();
  if (!problems_.empty()) throw UsageError(problems_);
  return wants_dump_ ? Request::dump_config : Request::run;
}

}  // namespace mtl
