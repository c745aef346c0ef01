// The width of integers, from their bytes: ids of several kinds, stored in each width and read in each.
#include "data/stored_width.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/str.h"

using namespace mtl;

namespace {

/// Returns ids as integers of `bytes` bytes.
std::vector<std::byte> stored(const std::vector<std::uint64_t>& ids, int bytes) {
  std::string out;
  for (const std::uint64_t id : ids) out += to_little_endian(id, bytes);
  const auto* first = reinterpret_cast<const std::byte*>(out.data());
  return {first, first + out.size()};
}

using Draw = std::function<std::uint64_t(std::mt19937_64&)>;

std::vector<std::uint64_t> drawn(std::size_t count, const Draw& draw) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> out(count);
  for (auto& id : out) id = draw(random);
  return out;
}

/// Draws ids below `limit`, all of them as often, or like words, of which few are frequent.
Draw below(std::uint64_t limit) {
  return [limit](std::mt19937_64& random) { return random() % limit; };
}
Draw words_below(std::uint64_t limit) {
  return [limit](std::mt19937_64& random) {
    const double share = double(random() >> 11) * 0x1p-53;
    return static_cast<std::uint64_t>(std::pow(double(limit), share)) - 1;
  };
}

/// Returns the width that is found in ids stored with `actual` bytes, or 0.
int found(const std::vector<std::uint64_t>& ids, int actual, int read) {
  return other_stored_width(stored(ids, actual), read).value_or(0);
}

}  // namespace

TEST_CASE("stored width: ids read in another width than theirs are found, and no others") {
  struct Kind {
    const char* name;
    Draw draw;
    int least;  // bytes that hold an id
  };
  const Kind kinds[] = {{"GPT-2's, uniform", below(50257), 2},
                        {"GPT-2's, like words", words_below(50257), 2},
                        {"Llama 2's, like words", words_below(32000), 2},
                        {"Llama 3's, uniform", below(128256), 4},
                        {"Llama 3's, like words", words_below(128256), 4},
                        {"characters", below(65), 1},
                        {"bytes", words_below(256), 1},
                        {"bases", below(4), 1}};
  for (const Kind& kind : kinds) {
    CAPTURE(kind.name);
    for (const std::size_t count : {1000, 40'003}) {
      const auto ids = drawn(count, kind.draw);
      for (const int actual : {1, 2, 4, 8}) {
        if (actual < kind.least) continue;
        for (const int read : {1, 2, 4, 8}) {
          // 125 integers of 8 bytes that are 1,000 of 1 are too few to tell.
          if (read / actual > 2 && count < 10'000) continue;
          CAPTURE(count);
          CAPTURE(actual);
          CAPTURE(read);
          CHECK(found(ids, actual, read) == (read == actual ? 0 : actual));
        }
      }
    }
  }
}

TEST_CASE("stored width: few ids are enough for zeros between them, and too few say nothing") {
  const auto ids = drawn(100, below(50257));
  CHECK(found(ids, 4, 2) == 4);
  CHECK(found(ids, 8, 2) == 8);
  CHECK(found(ids, 2, 2) == 0);
  CHECK(found(ids, 2, 4) == 0);
  for (const std::size_t count : {0, 1, 3, 10}) CHECK(found(drawn(count, below(50257)), 4, 2) == 0);
}

TEST_CASE("stored width: a number that is no id does not hide the others") {
  std::vector<std::uint64_t> ids = drawn(1000, below(50257));
  ids[500] = UINT32_MAX;
  CHECK(found(ids, 4, 2) == 4);
}

TEST_CASE("stored width: ids that alternate, and padding, are not another width") {
  std::vector<std::uint64_t> ids = drawn(10'000, below(50257));
  for (std::size_t i = 0; i < ids.size(); i += 2) ids[i + 1] = 300 + ids[i + 1] % 100;
  CHECK(found(ids, 2, 2) == 0);  // as u32, they would be larger than any vocabulary
  for (const int bytes : {1, 2, 4, 8}) CHECK(found(std::vector<std::uint64_t>(10'000, 0), bytes, bytes) == 0);
}
