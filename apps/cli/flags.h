// Command-line flags. Each is declared once and bound to a member of an options struct, which also holds the default.
// CLI11 stores the declarations, splits the arguments and formats --help. This layer converts values, and reports all
// problems at once.
//
// Values come from the default, --config FILE and the command line, in ascending order of precedence. --dump-config
// prints each value with its origin, in the format --config reads. If a flag is repeated, the last use wins, as in
// argparse, unless the flag accumulates (append(), repeat()). `--flag=value` and `--flag value` are equivalent. `--`
// ends the flags. Abbreviations are errors.
//
//   Flags flags("mtl-eval", "measure loss and perplexity of a model on text or token files");
//   flags.section("Model");
//   flags.add("--load", &options.load, "PATH", "model: a checkpoint or a Hugging Face folder", required());
//   flags.add("--top-k,--best", &options.top_k, "K", "draw from K tokens", at_least(1), only_with("--draw", draws));
//   flags.parse(argc, argv);
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/setting.h"
#include "base/usage_error.h"
#include "cli/foreign_flags.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mtl {

class Flags {
 public:
  struct Flag : Setting {
    struct Condition {
      std::string unmet;  // message: "needs OTHER" or "has no effect without OTHER"
      std::function<bool()> holds;
      bool is_needed;
    };
    std::string name;               // "--hidden-size"
    std::string used_name;          // the one of its names that the user chose; empty: not given
    CLI::Option* option = nullptr;  // holds all names, section, name of the value, help
    std::vector<Condition> conditions;
    std::vector<std::string> suggestions;  // values with a meaning of their own, beside all others; --help lists them
    bool is_required = false;
    bool accumulates = false;   // a list; each repeated use of the flag appends to it
    bool allows_empty = false;  // a use without values is allowed and clears the list
    bool allows_blank = false;  // "" is a value; other flags refuse it, because a script's variable may be unset
    bool is_broken = false;  // a value was refused, or the name was misspelled; `variable` is not what the user wants
    bool is_given = false;   // on the command line, or in a configuration file with a value other than the default
    std::vector<std::string> given_words;  // the value as the user wrote it
    std::string origin = kDefault;

    /// The values to show.
    const std::vector<std::string>& values() const { return choices.empty() ? suggestions : choices; }
  };
  using Rule = std::function<void(Flag&)>;  // what else is declared about a flag: the functions below the class

  Flags(std::string program, std::string summary);
  ~Flags();
  Flags(const Flags&) = delete;

  /// Begins a section. --help lists the flags that are declared after this call under the heading `title`.
  void section(std::string title) { section_ = std::move(title); }
  /// Declares a flag. `names` is the main name, followed by alternative names after commas: "--output,-o". --help omits
  /// a flag whose `help` is empty.
  template <class... Rules>
  Flag& add(const std::string& names, Setting::Variable variable, const std::string& value_name,
            const std::string& help, const Rules&... rules) {
    Flag& flag = declare(names, variable, value_name, help);
    (rules(flag), ...);
    return flag;
  }
  template <class... Rules>
  Flag& add_switch(const std::string& names, bool& variable, const std::string& help, const Rules&... rules) {
    return add(names, &variable, "", help, rules...);
  }
  /// Calls declare(), and gives all flags that it declares the rule mtl::only_with().
  void only_with(const std::string& other, const std::function<bool()>& holds, const std::function<void()>& declare);
  /// Declares a switch that prints a text in place of the run, like --version. parse() checks no other flag then.
  void add_listing(const std::string& names, std::function<std::string()> text, const std::string& help);
  /// Adds a command to --help and to completions. The caller recognizes it, before it calls parse().
  void command(const std::string& name, const std::string& summary) { commands_.push_back({name, summary}); }
  /// Declares positional arguments, which are appended to `target`. Undeclared positional arguments are an error. If
  /// `required` says what at least one argument must be, none is a problem.
  void positional(const std::string& value_name, std::vector<std::string>& target, const std::string& help,
                  const std::string& required = "");
  /// Declares exactly one positional argument.
  void positional(const std::string& value_name, std::string& target, const std::string& help);

  /// Adds a problem, which parse() reports together with the problems that it finds itself. Call from a check()
  /// function. A problem that names a flag whose value was refused, or whose name was misspelled, is counted but not
  /// reported: it would concern the flag's default, which the user did not ask for. The same holds for positional
  /// arguments if a flag may have taken them: an unknown one, or one that refused its value; and if there is an unknown
  /// flag, for flags that were not given, because it may stand for one of them. Flags are reported under the names that
  /// the user gave.
  void problem(const std::string& where, const std::string& what);
  /// Declares that the user meant to set this flag, but with a mistake that has been reported: problem() then does not
  /// report problems that name it. Has no effect on a flag that was given.
  void mark_as_meant(const std::string& name);
  /// Accepts another program's flags that this one lacks, so that its command line can be given to this one: sets them
  /// aside, with one notice of all that were given, "--lr, --save WHY". Flags of the other program's foreign flags are
  /// answered as ForeignFlags::adopt() says.
  void set_aside(const Flags& other, const std::vector<std::string>& subjects, const std::string& why);
  /// Adds a message that is printed once before the run, for example about a flag without effect.
  void notice(const std::string& text);
  std::size_t problem_count() const { return problems_.size() + consequences_; }
  /// Registers a check of relations between flags. The check runs when all values are set and before parse() throws,
  /// even if there are other problems. (A flag whose value was refused keeps its previous value, usually the default.)
  /// --dump-config ignores the problems that checks find.
  void check(std::function<void()> function) { checks_.push_back(std::move(function)); }
  /// Returns true if the value came from the command line or from a configuration file. A line in a configuration file
  /// that only repeats the default, such as --dump-config writes, does not count. Requires that the flag is declared.
  bool was_given(const std::string& name) const;
  /// Returns the flags of these sections that were given, on the command line or in a configuration file, as a command
  /// line with the same values, under their main names. Leaves out the flag `without`. Flags that take lists are not
  /// supported.
  std::vector<std::string> given_flags(const std::vector<std::string>& sections, const std::string& without = "") const;
  /// Returns true if --dump-config was given, so that no run follows.
  bool wants_dump() const { return wants_dump_; }

  /// Sets all variables. Returns nothing if a run follows, else the text to print in its place: that of a listing or of
  /// --dump-config. Throws UsageError with all problems, unknown flags first. If a check or `prepare` throws an Error
  /// and there was no earlier problem, rethrows that Error. --help, --version, --verbose, --quiet, --config and
  /// --dump-config are built in, as are --list-completions, and for tests and docs/megatron_flags.sh --list-flags and
  /// --list-foreign-flags.
  /// `prepare` opens the files that the flags name, unless --dump-config is given. `prepare` runs after the checks, and
  /// before the conditions, which may depend on the result of `prepare`. The problems that `prepare` adds are reported
  /// together with those of the flags.
  std::optional<std::string> parse(int argc, const char* const* argv, const std::function<void()>& prepare = {});

  std::string help() const;
  /// Returns one line per flag with the value before the checks, which derive some values from others:
  /// "hidden-size = 768  # default", in the format of --config (base/config_text.h). Empty before parse().
  const std::string& dump_config() const { return dumped_; }
  /// Returns one line per flag: name, kind, bounds such as "[0 1)" for a number, and "; has no effect without ..." or
  /// "; needs ..." for each condition.
  std::string list_flags() const;
  /// Returns what cmake/completions.awk reads, fields separated by tabs: "flag", names, name of the value, values that
  /// it may have, help; "words", name of the positional arguments, help; "command", name, summary.
  std::string list_completions() const;
  const std::string& program() const { return program_; }
  /// Returns the --config file, which is an input file like any other, or "" without --config.
  const std::string& config_file() const { return config_; }
  /// Returns the messages for stderr, without duplicates.
  const std::vector<std::string>& notices() const { return notices_; }

  bool quiet = false, verbose = false;
  ForeignFlags foreign;  // other tools' flags, and typos

 private:
  class Help;    // CLI11's formatter
  class Config;  // reads and writes configuration files for CLI11
  static constexpr const char *kGeneral = "General", *kDefault = "default", *kCommandLine = "command line";
  static std::string objection(const Flag& flag, const std::string& value);
  Flag& declare(const std::string& names, Setting::Variable variable, const std::string& value_name,
                const std::string& help);
  Flag* find(const std::string& name) const;
  std::string with_used_names(const std::string& text) const;
  std::vector<std::string> mark_values(const std::vector<std::string>& words);
  void store_use(Flag& flag, const std::vector<std::string>& words);
  void report_remaining();
  bool is_consequence(const Problem& problem) const;
  void report(const std::string& where, const std::string& what);
  ForeignFlags::Answer find_foreign(const std::string& name) const;
  void report_foreign(const std::string& name, const std::string& value);
  void check_all(const std::function<void()>& prepare);

  std::string program_, section_ = kGeneral, config_;
  std::string positional_;  // name of the positional arguments
  bool is_positional_single_ = false;
  bool may_lack_positional_ = false;  // a flag may have taken words that were meant as positional arguments
  std::unique_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<Flag>> flags_;
  std::vector<std::function<void()>> checks_;
  std::vector<Problem> problems_;  // the first `unknown_` are about unknown flags
  std::size_t unknown_ = 0;
  std::size_t consequences_ = 0;  // problems that are not reported, because they follow from others
  std::vector<std::string> notices_, set_aside_;
  std::string why_set_aside_;
  std::string dumped_;
  std::string origin_ = kCommandLine;  // of the values being stored
  std::size_t config_line_ = 0;        // current line in --config
  bool refused_ = false;               // a value for the current flag was rejected
  bool wants_dump_ = false;
  struct Listing {
    std::function<std::string()> text;
    bool is_wanted = false;
  };
  std::deque<Listing> listings_;  // their switches point to them
  std::vector<std::pair<std::string, std::string>> commands_;
};

// Rules for Flags::add(). Those that take arguments return the rule.
inline void no_rule(Flags::Flag&) {}
inline void required(Flags::Flag& flag) { flag.is_required = true; }
inline void append(Flags::Flag& flag) { flag.accumulates = true; }
void repeat(Flags::Flag& flag);  // like append(), with one value per use
inline void or_none(Flags::Flag& flag) { flag.allows_empty = true; }
inline void or_blank(Flags::Flag& flag) { flag.allows_blank = true; }
inline void inverted(Flags::Flag& flag) { flag.is_inverted = true; }
inline Flags::Rule one_of(const std::vector<std::string>& values) {
  return [=](Flags::Flag& flag) { flag.choices = values; };
}
inline Flags::Rule suggest(const std::vector<std::string>& values) {
  return [=](Flags::Flag& flag) { flag.suggestions = values; };
}
inline Flags::Rule within(const Bounds& both) {
  return [=](Flags::Flag& flag) { flag.bounds = both; };
}
inline Flags::Rule at_least(double bound) {
  return [=](Flags::Flag& flag) { flag.bounds.least = bound; };
}
inline Flags::Rule at_most(double bound) {
  return [=](Flags::Flag& flag) { flag.bounds.most = bound; };
}
inline Flags::Rule above(double bound) {
  return [=](Flags::Flag& flag) {
    flag.bounds.least = bound;
    flag.bounds.excludes_least = true;
  };
}
inline Flags::Rule below(double bound) {
  return [=](Flags::Flag& flag) {
    flag.bounds.most = bound;
    flag.bounds.excludes_most = true;
  };
}
/// The flag has an effect only if `holds()` returns true after parsing. Otherwise, parse() adds the notice "has no
/// effect without OTHER", or "has no effect OTHER" if `other` does not begin with "--" ("on one rank", "with
/// --greedy").
Flags::Rule only_with(const std::string& other, const std::function<bool()>& holds);
/// Like only_with(), but parse() reports the problem "needs OTHER", one for all that a flag needs. For a flag that must
/// not be ignored.
Flags::Rule needs(const std::string& other, const std::function<bool()>& holds);

}  // namespace mtl
