#include "text/splitter.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "text/pretokenizer.h"
#include "text/unicode_classes.h"

namespace mtl {

namespace {

/// A splitter whose pre-tokens depend only on the text from their start on. end_of_(at, end) returns where the
/// pre-token at `at` ends.
template <class EndOf>
class PlainSplitter : public Splitter {
 public:
  explicit PlainSplitter(EndOf end_of) : end_of_(std::move(end_of)) {}
  void start(std::string_view text) override { at_ = text.data(), end_ = at_ + text.size(); }
  std::size_t next(std::span<const char*> ends) override {
    std::size_t count = 0;
    while (at_ < end_ && count < ends.size()) ends[count++] = at_ = end_of_(at_, end_);
    return count;
  }

 private:
  EndOf end_of_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
};

class Gpt2Splitter : public Splitter {
 public:
  void start(std::string_view text) override { rest_ = text; }
  std::size_t next(std::span<const char*> ends) override {
    std::size_t count = split_pretokens(rest_, ends);
    if (count > 0) rest_.remove_prefix(ends[count - 1] - rest_.data());
    return count;
  }

 private:
  std::string_view rest_;
};

class RegexSplitter : public Splitter {
 public:
  explicit RegexSplitter(std::shared_ptr<const Regex> regex) : regex_(std::move(regex)) {}

  void start(std::string_view text) override {
    text_ = text;
    at_ = 0;
    match_ = {0, 0};
    scratch_.failed.clear();
  }

  std::size_t next(std::span<const char*> ends) override {
    std::size_t count = 0;
    while (at_ < text_.size() && count < ends.size()) {
      if (at_ == match_.end)
        match_ = regex_->find(text_, at_, scratch_).value_or(Regex::Match{text_.size(), text_.size()});
      at_ = at_ < match_.begin ? match_.begin : match_.end;
      ends[count++] = text_.data() + at_;
    }
    return count;
  }

 private:
  std::shared_ptr<const Regex> regex_;
  Regex::Scratch scratch_;
  std::string_view text_;
  std::size_t at_ = 0;
  Regex::Match match_{0, 0};  // the current or the next one
};

/// Splits each of one splitter's pre-tokens with another splitter.
class ChainSplitter : public Splitter {
 public:
  ChainSplitter(std::unique_ptr<Splitter> outer, std::unique_ptr<Splitter> inner)
      : outer_(std::move(outer)), inner_(std::move(inner)) {}

  void start(std::string_view text) override {
    outer_->start(text);
    inner_->start({});
    begin_ = text.data();
    used_ = held_ = 0;
  }

  std::size_t next(std::span<const char*> ends) override {
    std::size_t count = 0;
    while (count < ends.size()) {
      std::size_t more = inner_->next(ends.subspan(count));
      count += more;
      if (more > 0) continue;
      if (used_ == held_) held_ = outer_->next(outer_ends_), used_ = 0;
      if (held_ == 0) break;
      const char* end = outer_ends_[used_++];
      inner_->start(std::string_view(begin_, end));
      begin_ = end;
    }
    return count;
  }

 private:
  std::unique_ptr<Splitter> outer_, inner_;
  std::array<const char*, 64> outer_ends_;  // of `held_` outer pre-tokens, of which `used_` have been started
  std::size_t used_ = 0, held_ = 0;
  const char* begin_ = nullptr;
};

const char* digits_end(bool one_by_one, const char* at, const char* end) {
  auto is_digit = [](Utf8Char next) { return class_of(next.code) == CharClass::number; };
  Utf8Char next = next_utf8(at, end);
  bool digits = is_digit(next);
  do {
    at += next.length;
    if (at == end || (digits && one_by_one)) break;
    next = next_utf8(at, end);
  } while (is_digit(next) == digits);
  return at;
}

template <class EndOf>
std::unique_ptr<Splitter> plain_splitter(EndOf end_of) {
  return std::make_unique<PlainSplitter<EndOf>>(std::move(end_of));
}

std::unique_ptr<Splitter> make_step(const SplitStep& step) {
  if (std::holds_alternative<SplitGpt2>(step)) return std::make_unique<Gpt2Splitter>();
  if (auto* rules = std::get_if<SplitRules>(&step))
    return plain_splitter([rules = *rules](const char* at, const char* end) { return pretoken_end(rules, at, end); });
  if (auto* digits = std::get_if<SplitDigits>(&step)) {
    return plain_splitter(
        [one = digits->one_by_one](const char* at, const char* end) { return digits_end(one, at, end); });
  }
  return std::make_unique<RegexSplitter>(std::get<SplitRegex>(step).regex);
}

}  // namespace

SplitStep split_step(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return SplitGpt2{};
  if (auto rules = find_split_rules(pattern)) return *rules;
  return SplitRegex{std::make_shared<Regex>(pattern)};
}

std::unique_ptr<Splitter> make_splitter(const std::vector<SplitStep>& steps) {
  if (steps.empty()) return plain_splitter([](const char*, const char* end) { return end; });
  std::unique_ptr<Splitter> all;
  for (const SplitStep& step : steps) {
    auto next = make_step(step);
    all = all ? std::make_unique<ChainSplitter>(std::move(all), std::move(next)) : std::move(next);
  }
  return all;
}

}  // namespace mtl
