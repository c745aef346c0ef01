// Flags that a tool does not have: those of other tools' command lines, with the reason why they are refused or have no
// effect, and mistyped ones, with the flag that may be meant.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

class ForeignFlags {
 public:
  struct Answer {
    enum Kind { refused, acknowledged, unknown } kind;
    int takes;         // the number of words that follow the flag; -1: all up to the next flag
    std::string text;  // the message of the problem, or of the notice if the flag is acknowledged
  };

  explicit ForeignFlags(std::string program) : program_(std::move(program)) {}

  /// Flags that this version does not support: giving one is an error with the reason `why`. `takes`: as in Answer.
  /// `names` are separated by blanks; "--moe-*" stands for all undeclared flags with this prefix.
  void refuse(int takes, const std::string& why, std::string_view names) { add(names, {Answer::refused, takes, why}); }
  /// Flags without an effect: a notice names each once.
  void acknowledge(int takes, const std::string& why, std::string_view names) {
    add(names, {Answer::acknowledged, takes, why});
  }
  /// Common mistakes for the flag `meant`, too far from its name to be recognized as mistyped.
  void suggest(std::string_view names, std::string_view meant) { add(names, mistake(meant)); }

  /// Returns the answer for this name, else for the longest declared prefix of it. Any other flag is unknown, and the
  /// nearest of the tool's own flags, `known`, is suggested.
  Answer find(const std::string& name, const std::vector<std::string>& known) const;

  /// A line for each flag: "refused", or "acknowledged", a tab, the name, a tab, the reason.
  std::string list() const;

 private:
  void add(std::string_view names, const Answer& answer);
  Answer mistake(std::string_view meant) const;

  std::string program_;
  std::map<std::string, Answer> answers_;
};

}  // namespace mtl
