#include "text/normalizer.h"

#include <algorithm>

#include "base/json_cursor.h"
#include "base/utf8.h"

namespace mtl {

namespace {

struct CombiningRange {
  std::uint32_t first, last;
  std::uint8_t combining;
};
constexpr CombiningRange kMarks[] = {
#include "text/unicode_marks.inc"
};

struct Decomposition {
  std::uint32_t code, first;
  std::uint32_t second = 0;     // 0 if there is only one
  bool composes = second != 0;  // first and second compose to `code` again
};
constexpr Decomposition kDecompositions[] = {
#include "text/unicode_decompositions.inc"
};

/// Hangul syllables are computed (The Unicode Standard, 3.12): leading consonants, vowels, trailing consonants.
constexpr std::uint32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11A7;
constexpr std::uint32_t kLeadCount = 19, kVowelCount = 21, kTrailCount = 28;
constexpr std::uint32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

bool is_in_range(std::uint32_t code, std::uint32_t first, std::uint32_t count) {
  return code >= first && code < first + count;
}

}  // namespace

NfcNormalizer::NfcNormalizer() : involved_(0x110000 / 64) {
  for (const auto& [first, last, combining] : kMarks) {
    for (std::uint32_t code = first; code <= last; ++code) {
      combining_[code] = combining;
      involve(code);
    }
  }
  for (const auto& [code, first, second, composes] : kDecompositions) {
    parts_[code] = {first, second};
    if (composes) {
      composed_[std::uint64_t{first} << 32 | second] = code;
      involve(second);
    } else {
      involve(code);
    }
  }
  for (std::uint32_t i = 0; i < kVowelCount; ++i) involve(kVowels + i);
  for (std::uint32_t i = 1; i < kTrailCount; ++i) involve(kTrails + i);
}

std::uint8_t NfcNormalizer::combining_of(std::uint32_t code) const {
  if (code < 0x300) return 0;
  auto found = combining_.find(code);
  return found == combining_.end() ? std::uint8_t{0} : found->second;
}

void NfcNormalizer::append_decomposed(std::uint32_t code, std::vector<Mark>& out) const {
  if (is_in_range(code, kSyllables, kSyllableCount)) {
    std::uint32_t index = code - kSyllables, trail = index % kTrailCount;
    out.push_back({kLeads + index / kTrailCount / kVowelCount, 0});
    out.push_back({kVowels + index / kTrailCount % kVowelCount, 0});
    if (trail > 0) out.push_back({kTrails + trail, 0});
    return;
  }
  auto found = parts_.find(code);
  if (found == parts_.end()) {
    out.push_back({code, combining_of(code)});
    return;
  }
  append_decomposed(found->second.first, out);
  if (found->second.second != 0) append_decomposed(found->second.second, out);
}

std::uint32_t NfcNormalizer::compose(std::uint32_t first, std::uint32_t second) const {
  if (is_in_range(first, kLeads, kLeadCount) && is_in_range(second, kVowels, kVowelCount))
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
  bool is_open_syllable = is_in_range(first, kSyllables, kSyllableCount) && (first - kSyllables) % kTrailCount == 0;
  if (is_open_syllable && is_in_range(second, kTrails + 1, kTrailCount - 1)) return first + (second - kTrails);
  auto found = composed_.find(std::uint64_t{first} << 32 | second);
  return found == composed_.end() ? 0 : found->second;
}

/// Appends the NFC of a segment that does not depend on the surrounding text: decomposes the segment, sorts the marks,
/// and composes.
void NfcNormalizer::append_composed(std::string_view text, std::string& out) const {
  std::vector<Mark> marks;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    Utf8Char next = next_utf8(at, end);
    append_decomposed(next.code, marks);
    at += next.length;
  }
  auto is_starter = [](const Mark& mark) { return mark.combining == 0; };
  for (auto from = marks.begin(); from != marks.end();) {
    auto to = std::find_if(from + 1, marks.end(), is_starter);
    std::stable_sort(is_starter(*from) ? from + 1 : from, to,
                     [](const Mark& a, const Mark& b) { return a.combining < b.combining; });
    from = to;
  }
  // A mark composes with the last starter unless a character of the same or a higher class is in between.
  std::size_t kept = 0, starter = marks.size();
  for (std::size_t i = 0; i < marks.size(); ++i) {
    bool is_unblocked = starter < kept && (starter + 1 == kept || marks[kept - 1].combining < marks[i].combining);
    if (std::uint32_t composed = is_unblocked ? compose(marks[starter].code, marks[i].code) : 0; composed != 0) {
      marks[starter].code = composed;
      continue;
    }
    if (marks[i].combining == 0) starter = kept;
    marks[kept++] = marks[i];
  }
  for (std::size_t i = 0; i < kept; ++i) append_utf8(out, marks[i].code);
}

std::string_view NfcNormalizer::normalize(std::string_view text, std::string& buffer) const {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const char* done = begin;  // once is_changed, all text before this is in the buffer
  bool is_changed = false;
  const char* before = begin;  // where the character before `at` starts
  for (const char* at = begin; at < end;) {
    if (byte_of(*at) < 0xCC) {  // below U+0300
      before = at;
      at += byte_of(*at) < 0x80 ? 1 : next_utf8(at, end).length;
      continue;
    }
    Utf8Char next = next_utf8(at, end);
    if (!next.valid || !may_change(next.code)) {
      before = at;
      at += next.length;
      continue;
    }
    // The segment from the previous character to the next character that is not involved.
    const char* stop = at;
    while (stop < end) {
      next = next_utf8(stop, end);
      if (!next.valid || !may_change(next.code)) break;
      stop += next.length;
    }
    if (before < at && !next_utf8(before, end).valid) before = at;
    if (!is_changed) buffer.clear();
    is_changed = true;
    buffer.append(done, before - done);
    append_composed(std::string_view(before, stop), buffer);
    done = before = at = stop;
  }
  if (!is_changed) return text;
  buffer.append(done, end - done);
  return buffer;
}

}  // namespace mtl
