// Flags a tool does not have: other tools' flags, with the reason why they are refused or have no effect, and typos,
// with the flag that was probably meant.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

class ForeignFlags {
 public:
  struct Answer {
    enum Kind { refused, acknowledged, unknown } kind;
    int takes;              // how many values follow the flag; -1: all up to the next flag
    std::string text;       // the problem's message, or the notice if the flag is acknowledged
    std::string meant{};    // the tool's own flag that an unknown flag probably means; empty: none is similar
    std::string subject{};  // heading in read()'s text; empty if declared otherwise
    std::function<std::string(const std::string& value)> explain{};  // what follows `text` if the flag has a value
  };

  explicit ForeignFlags(std::string program) : program_(std::move(program)) {}

  /// Declares flags that this version does not support. Using one is an error with the reason `why`. `takes` is as in
  /// Answer. `names` are separated by blanks; "--moe-*" stands for all undeclared flags with this prefix.
  void refuse(int takes, const std::string& why, std::string_view names) { add(names, {Answer::refused, takes, why}); }
  /// Declares flags without an effect. Each use is reported in a notice, with the reason `why`.
  void acknowledge(int takes, const std::string& why, std::string_view names) {
    add(names, {Answer::acknowledged, takes, why});
  }
  /// Declares the flags in a text. `[subject]` begins a group; `refused: WHY` or `acknowledged: WHY` begins a list of
  /// flags, separated by blanks and line ends, to which this answer applies. A flag that takes one value ends with "=",
  /// one that takes all words up to the next flag with "=...", and a family with "*". `#` begins a comment line.
  void read(std::string_view text);
  /// Takes the answers of another program, whose flags are set aside here: acknowledges, with the reason `why`, what it
  /// acknowledges or refuses, but still refuses its flags of `subjects`, and those that are spelled like a flag for
  /// which `is_known()` returns true.
  void adopt(const ForeignFlags& other, const std::vector<std::string>& subjects, const std::string& why,
             const std::function<bool(const std::string& name)>& is_known);
  /// Adds explain(value) to the message of refused flags, if they have a value.
  void explain(std::string_view names, const std::function<std::string(const std::string& value)>& explain);
  /// Declares common wrong names for the flag `meant` that are too different to be recognized as typos.
  void suggest(std::string_view names, std::string_view meant) { add(names, mistake(meant)); }

  /// Returns the answer declared for this name, or else for its longest declared prefix. Any other flag is unknown;
  /// then the answer suggests the most similar flag in `known`, the tool's own flags.
  Answer find(const std::string& name, const std::vector<std::string>& known) const;

  /// Returns one line per refused or acknowledged flag: "refused" or "acknowledged", name, reason and subject,
  /// separated by tabs.
  std::string list() const;

 private:
  void add(std::string_view names, const Answer& answer);
  Answer mistake(std::string_view meant) const;

  std::string program_;
  std::map<std::string, Answer> answers_;
};

}  // namespace mtl
