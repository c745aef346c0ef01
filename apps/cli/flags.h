// The flags of a tool: declared once, bound to an options struct, which also holds the defaults.
//
// Values come from, in rising order: the default, --config FILE, the command line; --dump-config prints each with its
// origin, in the format that --config reads. As with argparse a repeated flag counts once, the last time (but files of
// input add up); `--flag=value` and `--flag value` are the same; `--` ends the flags. Abbreviations are refused.
// parse() collects every problem before it throws: unknown flags (with the nearest known one), values that do not
// convert, flags that this version refuses, and what check() functions add.
//
//   Flags flags("mtl-eval", "loss and perplexity of a model on a text or on token files");
//   flags.section("Model");
//   flags.add("--load", options.load, "PATH", "the model: a checkpoint or a Hugging Face folder").required();
//   flags.parse(argc, argv);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"

namespace mtl {

/// All that is wrong with a configuration; printed one line each, "  --flag value    message".
class UsageError : public Error {
 public:
  struct Problem {
    std::string where;  // "--global-batch-size 190"
    std::string what;   // "is not a multiple of ..."
  };
  explicit UsageError(std::vector<Problem> problems);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

class Flags {
 public:
  /// Where a value can go. A bool is a switch without a value; an optional stays empty when the flag is absent;
  /// a vector takes all words up to the next flag (argparse's nargs="+").
  using Target = std::variant<bool*, std::int64_t*, double*, std::string*, std::optional<std::int64_t>*,
                              std::optional<double>*, std::optional<std::string>*, std::vector<std::string>*>;

  struct Flag {
    std::string name;  // "--hidden-size"
    Target target;
    std::string value_name;  // "N"; empty for a switch
    std::string help;
    std::string section;
    std::vector<std::string> aliases;
    std::vector<std::string> choices;
    bool is_required = false;
    bool turns_off = false;  // a switch that sets its target to false
    bool is_hidden = false;  // not in --help: another spelling kept for old scripts
    bool adds_up = false;    // a list to which every further use of the flag appends
    bool is_given = false;   // on the command line, or with another value than the default in a configuration file
    std::string origin = "default";

    Flag& alias(std::string other) {
      aliases.push_back(std::move(other));
      return *this;
    }
    Flag& one_of(std::vector<std::string> values) {
      choices = std::move(values);
      return *this;
    }
    Flag& required() {
      is_required = true;
      return *this;
    }
    Flag& hidden() {
      is_hidden = true;
      return *this;
    }
    Flag& append() {
      adds_up = true;
      return *this;
    }
    bool is_switch() const { return std::holds_alternative<bool*>(target) && value_name.empty(); }
    bool is_list() const { return std::holds_alternative<std::vector<std::string>*>(target); }
    /// The value now, as text: "768", "true", "a b c"; empty when an optional holds nothing.
    std::string value() const;
  };

  Flags(std::string program, std::string summary);
  Flags(const Flags&) = delete;

  /// Following flags belong to this heading of --help and the man page.
  void section(std::string title) { section_ = std::move(title); }
  Flag& add(std::string name, Target target, std::string value_name, std::string help);
  /// A switch that takes no value.
  Flag& add_switch(std::string name, bool& target, std::string help);
  /// A switch that sets its target to false, such as --no-bias.
  Flag& add_off_switch(std::string name, bool& target, std::string help);
  /// Words that belong to no flag; without this they are an error.
  void positional(std::string value_name, std::vector<std::string>& target, std::string help);
  /// A flag of other tools that this version does not support: giving it is an error that says why. `takes` counts
  /// the words that follow it (-1: all up to the next flag).
  void refuse(std::string name, int takes, std::string reason);
  /// The same of every flag whose name begins so and that nothing else names.
  void refuse_family(std::string beginning, std::string reason);
  /// A flag of other tools that has no meaning left: named once on stderr, then ignored.
  void acknowledge(std::string name, int takes, std::string reason);

  /// Adds a problem that parse() will report together with its own; call it from a check() function.
  void problem(std::string where, std::string what);
  /// Adds a message that is said once, before the run: a flag that has no meaning here.
  void notice(std::string text);
  std::size_t problem_count() const { return problems_.size(); }
  /// Runs after all values are set, before parse() throws, also when there are problems already (a flag whose value
  /// did not convert has its default then). Relations between flags are checked here; --dump-config is not held to
  /// them.
  void check(std::function<void()> function) { checks_.push_back(std::move(function)); }
  /// True when the value came from the command line or a configuration file. A configuration that only repeats the
  /// default, as --dump-config writes it, gives nothing.
  bool was_given(const std::string& name) const;
  /// --dump-config: checks that open files may spare themselves the work.
  bool wants_dump() const { return wants_dump_; }

  /// What the command line asked for. help and version are printed by run_main.
  enum class Request { run, help, version, dump_config };
  /// Throws UsageError with all problems. --help, --version, --quiet, --config and --dump-config are built in.
  Request parse(int argc, const char* const* argv);

  std::string help() const;
  /// "hidden-size = 768  # default" lines, one per flag: the format of --config. Words are separated by blanks; one
  /// that holds blanks, quotes or a backslash, or is empty, is written as a JSON string.
  std::string dump_config() const;
  const std::string& program() const { return program_; }
  /// Messages about flags without meaning, for stderr.
  const std::vector<std::string>& notices() const { return notices_; }
  bool quiet = false;

 private:
  struct Other {
    int takes;
    std::string reason;
    bool refused;
  };
  struct Positional {
    std::string value_name;
    std::vector<std::string>* target;
    std::string help;
  };
  Flag* find(const std::string& name);
  const Flag* find(const std::string& name) const;
  void set(Flag& flag, const std::vector<std::string>& words, const std::string& origin);
  void convert(Flag& flag, const std::vector<std::string>& words, const std::string& origin, bool adds);
  std::size_t take_flag(const std::vector<std::string>& words, std::size_t at, const std::string& origin);
  void parse_words(const std::vector<std::string>& words, const std::string& origin);
  void apply_other(const std::string& name, const std::vector<std::string>& values, const std::string& origin);
  void read_config(const std::string& path);
  void apply_config(const std::string& name, std::vector<std::string> words, bool has_value, const std::string& origin);
  void run_checks();
  void report_unknown(const std::string& name, const std::string& origin);

  std::string program_, summary_, section_ = "Options", config_;
  std::vector<std::unique_ptr<Flag>> flags_;
  std::map<std::string, Other> others_;
  std::vector<std::pair<std::string, std::string>> families_;  // how a name begins, why it is refused
  std::optional<Positional> positional_;
  std::vector<std::function<void()>> checks_;
  std::vector<UsageError::Problem> problems_;
  std::vector<std::string> notices_;
  bool wants_help_ = false, wants_version_ = false, wants_dump_ = false;
};

}  // namespace mtl
