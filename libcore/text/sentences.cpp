#include "text/sentences.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

namespace {

// The lists are sorted, in lower case, without the last full stop.

/// Abbreviations after which a sentence never ends.
constexpr std::string_view kBeforeWord[] = {
    "adm",  "approx", "atty", "brig", "capt", "cf",  "cmdr",   "col",  "cpl", "dr",   "e.g", "eg", "fr", "gen",
    "gov",  "hon",    "i.e",  "ie",   "lt",   "maj", "messrs", "mlle", "mme", "mr",   "mrs", "ms", "mt", "pres",
    "prof", "pvt",    "rep",  "reps", "rev",  "sen", "sens",   "sgt",  "st",  "supt", "viz", "vs"};

/// Abbreviations that do not end a sentence before a number. Before anything else, they are ordinary words.
constexpr std::string_view kBeforeNumber[] = {"art", "ca", "ch",  "chap", "eq", "eqs", "fig",  "figs", "no",  "nos",
                                              "nr",  "p",  "par", "pp",   "pt", "sec", "sect", "v",    "vol", "vols"};

/// Abbreviations that may end a sentence, depending on the next word.
constexpr std::string_view kAbbreviations[] = {
    "a.d",  "a.m",  "al",   "apr",  "assn", "aug",  "ave",  "b.c", "blvd", "bros", "calif", "co",
    "conn", "corp", "d.c",  "dec",  "dept", "dist", "ed",   "eds", "est",  "etc",  "feb",   "fla",
    "ft",   "hwy",  "inc",  "intl", "jan",  "jr",   "jul",  "jun", "ltd",  "mar",  "mass",  "md",
    "mich", "min",  "minn", "nov",  "oct",  "okla", "op",   "p.m", "penn", "ph.d", "plc",   "rd",
    "resp", "sep",  "sept", "sq",   "sr",   "tenn", "univ", "va",  "vt",   "wash", "wis"};

/// Words that, if capitalized, most likely start a sentence.
constexpr std::string_view kStarters[] = {
    "a",     "after",   "all",     "also",         "although", "an",      "and",   "another",   "are",    "as",
    "at",    "because", "before",  "both",         "but",      "by",      "can",   "did",       "do",     "does",
    "each",  "even",    "every",   "finally",      "for",      "from",    "had",   "has",       "have",   "he",
    "her",   "here",    "his",     "how",          "however",  "i",       "if",    "in",        "indeed", "instead",
    "is",    "it",      "its",     "last",         "later",    "many",    "maybe", "meanwhile", "more",   "moreover",
    "most",  "my",      "neither", "nevertheless", "no",       "not",     "now",   "of",        "on",     "once",
    "one",   "only",    "or",      "other",        "our",      "perhaps", "she",   "since",     "so",     "some",
    "still", "such",    "that",    "the",          "their",    "then",    "there", "therefore", "these",  "they",
    "this",  "those",   "though",  "through",      "thus",     "to",      "today", "under",     "until",  "was",
    "we",    "were",    "what",    "when",         "where",    "whether", "which", "while",     "who",    "why",
    "will",  "with",    "without", "would",        "yes",      "yet",     "you",   "your"};

bool holds(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::binary_search(words, word);
}
static_assert(std::ranges::is_sorted(kBeforeWord) && std::ranges::is_sorted(kBeforeNumber) &&
              std::ranges::is_sorted(kAbbreviations) && std::ranges::is_sorted(kStarters));

/// True for whitespace as in Python's str.split. Tests the likeliest character first.
bool is_space(std::uint32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// True for ) ] } " ' and closing curly or angle quotes, which may follow the end character.
bool is_closer(std::uint32_t c) {
  return c == ')' || c == ']' || c == '}' || c == '"' || c == '\'' || c == 0x2019 || c == 0x201D || c == 0xBB;
}
bool is_opener(std::uint32_t c) {
  return c == '(' || c == '[' || c == '{' || c == '"' || c == '\'' || c == 0x2018 || c == 0x201C || c == 0xAB;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_end(char c) { return c == '.' || c == '?' || c == '!'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_lower(c) || is_upper(c); }

class SentenceSplitter {
 public:
  SentenceSplitter(std::string_view text, BetweenSentences between, std::vector<std::string_view>& out)
      : text_(text), keeps_space_(between == BetweenSentences::keep), out_(out) {}

  void run() {
    for (Utf8Char last; !text_.empty() && is_space((last = utf8_before(text_, text_.size())).code);)
      text_.remove_suffix(last.length);
    first_word_ = skip(0, is_space);
    for (std::size_t at = 0; (at = text_.find_first_of(".?!", at)) != std::string_view::npos;) at = handle_end(at);
    if (begin_ < text_.size()) out_.push_back(text_.substr(begin_));
  }

 private:
  Utf8Char character(std::size_t at) const { return next_utf8(text_.data() + at, text_.data() + text_.size()); }
  std::size_t skip(std::size_t at, bool (*is)(std::uint32_t)) const {
    while (at < text_.size()) {
      Utf8Char c = character(at);
      if (!is(c.code)) break;
      at += c.length;
    }
    return at;
  }

  /// Handles the end characters at `at`. Returns where to continue.
  std::size_t handle_end(std::size_t at) {
    std::size_t after_ends = at;
    while (after_ends < text_.size() && is_end(text_[after_ends])) ++after_ends;
    std::size_t end = skip(after_ends, is_closer);
    std::size_t next = skip(end, is_space);
    if (next == end || next == text_.size()) return after_ends;
    if (has_blank_line(end, next) || ends_here(at, after_ends, end, next)) {
      out_.push_back(text_.substr(begin_, (keeps_space_ ? next : end) - begin_));
      begin_ = first_word_ = next;
    }
    return next;
  }

  bool has_blank_line(std::size_t begin, std::size_t end) const {
    std::string_view gap = text_.substr(begin, end - begin);
    std::size_t line = gap.find('\n');
    return line != std::string_view::npos && gap.find('\n', line + 1) != std::string_view::npos;
  }

  /// True if the end characters [at, after_ends), with closers up to `end`, end a sentence before the word at `next`.
  bool ends_here(std::size_t at, std::size_t after_ends, std::size_t end, std::size_t next) const {
    std::string_view next_word = text_.substr(skip(next, is_opener));
    const char first = next_word.empty() ? '\0' : next_word[0];
    if (is_end(first) || (end > after_ends && is_lower(first))) return false;
    std::string_view ends = text_.substr(at, after_ends - at);
    if (ends.find_first_not_of('.') != std::string_view::npos) return true;
    if (ends.size() > 1 || follows_end(at)) return is_upper(first);

    std::size_t word_begin = at;
    while (word_begin > begin_ && at - word_begin < kLongestWord && !is_break(text_[word_begin - 1])) --word_begin;
    std::string_view word = text_.substr(word_begin, at - word_begin);
    const std::string lower = lowered(word);
    if (holds(kBeforeWord, lower)) return false;
    if (holds(kBeforeNumber, lower) && is_digit(first)) return false;
    if (holds(kAbbreviations, lower) || is_initial(word)) return is_starter(next_word);
    if (!word.empty() && std::ranges::all_of(word, is_digit)) {
      return word_begin != first_word_ && !is_lower(first);
    }
    return true;
  }

  /// True if blanks and another end character precede `at`, as for the last one of (. . .).
  bool follows_end(std::size_t at) const {
    std::size_t before = at;
    while (before > begin_ && text_[before - 1] == ' ') --before;
    return before < at && before > begin_ && is_end(text_[before - 1]);
  }

  /// True for a character that can come before a word: whitespace, brackets, quotes, punctuation.
  static bool is_break(char c) {
    return std::string_view(" \t\n\r\f\v()[]{}\"'/-,;:").find(c) != std::string_view::npos;
  }

  /// True for a letter, or letters with full stops between them: J, J.R, U.S.
  static bool is_initial(std::string_view word) {
    if (word.size() % 2 == 0) return false;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (i % 2 == 0 ? !is_letter(word[i]) : word[i] != '.') return false;
    }
    return true;
  }

  /// True if `next` starts with a capitalized word in kStarters.
  static bool is_starter(std::string_view next) {
    if (next.empty() || !is_upper(next[0])) return false;
    const std::string_view longest = next.substr(0, kLongestWord);
    return holds(kStarters, lowered({longest.begin(), std::ranges::find_if_not(longest, is_letter)}));
  }

  static constexpr std::size_t kLongestWord = 16;  // longer words are not in any list

  std::string_view text_;
  bool keeps_space_;
  std::vector<std::string_view>& out_;
  std::size_t begin_ = 0;       // of the current sentence
  std::size_t first_word_ = 0;  // same, but after whitespace at the start of the text
};

}  // namespace

const std::vector<std::string>& sentence_languages() {
  static const std::vector<std::string> languages = {"english"};
  return languages;
}

void split_sentences(std::string_view text, BetweenSentences between, std::vector<std::string_view>& sentences) {
  sentences.clear();
  SentenceSplitter(text, between, sentences).run();
}

}  // namespace mtl
