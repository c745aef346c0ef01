#include "text/regex.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/regex_parser.h"
#include "text/unicode_classes.h"

namespace mtl {

void CharSet::add_categories(CategorySet set, bool inverse) {
  constexpr CategorySet kAll = (CategorySet{1} << 15) - 1;
  categories_ |= inverse ? kAll & ~set : set;
}

bool CharSet::fold_case() {
  if (categories_ != 0 || has_space_ || has_non_space_ || inverted_) return false;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> given = ranges_;
  for (auto [first, last] : given) {
    if (last >= 0x80) return false;
    for (std::uint32_t code = first; code <= last; ++code) {
      std::uint32_t lower = code | 0x20;
      if (lower < 'a' || lower > 'z') continue;
      add_range(code ^ 0x20, code ^ 0x20);
      if (lower == 's') add_range(0x17F, 0x17F);
      if (lower == 'k') add_range(0x212A, 0x212A);
    }
  }
  return true;
}

void CharSet::seal() {
  for (std::uint32_t code = 0; code < 0x80; ++code) {
    if (search(code)) ascii_[code >> 6] |= std::uint64_t{1} << (code & 63);
  }
}

bool CharSet::search(std::uint32_t code) const {
  bool found = is_in(categories_, code) || (has_space_ && class_of(code) == CharClass::space) ||
               (has_non_space_ && class_of(code) != CharClass::space);
  for (std::size_t i = 0; !found && i < ranges_.size(); ++i)
    found = code >= ranges_[i].first && code <= ranges_[i].second;
  return found != inverted_;
}

/// The next character, or the end of the text.
struct Regex::Upcoming {
  bool is_end;
  std::uint32_t code;
};

Regex::Regex(std::string_view pattern) : pattern_(pattern) { program_ = RegexParser(pattern, sets_).parse(); }

/// Appends to `out`, in order of preference, the instructions that `path` reaches without consuming a character, unless
/// they have already been reached in this step.
void Regex::expand(Path path, const Upcoming& upcoming, Scratch& scratch, std::vector<Path>& out) const {
  scratch.stack.push_back(path.at);
  while (!scratch.stack.empty()) {
    std::uint32_t at = scratch.stack.back();
    scratch.stack.pop_back();
    if (scratch.seen[at] == scratch.step) continue;
    scratch.seen[at] = scratch.step;
    const Instruction& now = program_[at];
    if (now.op == Op::take || now.op == Op::match) {
      out.push_back({at, path.begin});
    } else if (now.op == Op::jump) {
      scratch.stack.push_back(now.a);
    } else if (now.op == Op::fork) {
      scratch.stack.push_back(now.b);
      scratch.stack.push_back(now.a);
    } else {
      bool is_followed = !upcoming.is_end && sets_[now.a].contains(upcoming.code);
      if (is_followed == (now.op == Op::followed_by)) scratch.stack.push_back(at + 1);
    }
  }
}

/// Removes paths that we know will fail from `at` from scratch.now, and adds the remaining paths to scratch.ahead.
void Regex::drop_failed(std::size_t at, Scratch& scratch) const {
  std::erase_if(scratch.now, [&](const Path& path) {
    std::uint64_t key = path_key(path.at, at);
    if (scratch.failed.contains(key)) return true;
    scratch.ahead.push_back(key);
    return false;
  });
}

std::optional<Regex::Match> Regex::find(std::string_view text, std::size_t from, Scratch& scratch) const {
  std::optional<Match> best;
  scratch.next.clear();
  scratch.ahead.clear();
  scratch.seen.resize(program_.size(), 0);
  const char* end = text.data() + text.size();
  for (std::size_t at = from, last = from;;) {
    Utf8Char next;
    bool is_end = at >= text.size();
    if (!is_end) next = next_utf8(text.data() + at, end);
    Upcoming upcoming{is_end, next.code};
    ++scratch.step;
    scratch.now.clear();
    for (const Path& path : scratch.next) expand(path, upcoming, scratch, scratch.now);
    if (!best) expand({0, at}, upcoming, scratch, scratch.now);  // a match that starts further left is preferred
    // Check at a block's first character, which is the same in all searches. Paths beyond the returned match have
    // failed.
    if (best && at / kBlock != last / kBlock) drop_failed(at, scratch);
    scratch.next.clear();
    for (const Path& path : scratch.now) {
      const Instruction& now = program_[path.at];
      if (now.op == Op::match) {
        best = {path.begin, at};
        scratch.ahead.clear();
        break;  // later paths are less preferred
      }
      if (!is_end && sets_[now.a].contains(next.code)) scratch.next.push_back({path.at + 1, path.begin});
    }
    if (is_end || (best && scratch.next.empty())) break;
    last = at;
    at += next.length;
  }
  scratch.failed.insert(scratch.ahead.begin(), scratch.ahead.end());
  return best;
}

}  // namespace mtl
