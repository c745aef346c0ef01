// PretokenTable, shared by threads: an entry is correct or absent, even while other threads write.
#include "text/pretoken_table.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace mtl {
namespace {

/// A pre-token and its tokens.
struct Example {
  std::string bytes;
  std::vector<std::int32_t> tokens;  // 1 to 9
  PretokenKey key() const { return PretokenKey::of(bytes.data(), bytes.size(), false); }
};

Example make_example(std::int32_t n) {
  Example example{"p" + std::to_string(n), {}};
  for (std::int32_t i = 0; i <= n % 9; ++i) example.tokens.push_back(10 * n + i);
  return example;
}

/// Looks up an example. Returns 1 if its tokens are correct, 0 if it is absent, -1 if they are wrong.
int look_up(PretokenTable& table, const Example& example) {
  const PretokenKey key = example.key();
  PretokenTable::Set& set = table.set_of(key);
  const Pretoken* entry = set.find(key);
  if (entry == nullptr) entry = table.find_displaced(set, key);
  if (entry == nullptr) return 0;
  const auto found = table.tokens_of(*entry);
  return std::vector(found.begin(), found.end()) == example.tokens ? 1 : -1;
}

void add(PretokenTable& table, const Example& example) {
  table.add(table.set_of(example.key()), example.key(), example.tokens);
}

TEST_CASE("PretokenTable: finds added pre-tokens until it is exhausted") {
  PretokenTable table(6);  // 128 entries, 64 tokens for long entries
  int kept = 0;
  for (std::int32_t n = 0; n < 100; ++n) {
    const Example example = make_example(n);
    REQUIRE(look_up(table, example) == 0);
    add(table, example);
    REQUIRE(look_up(table, example) >= 0);
    kept += look_up(table, example);
  }
  CHECK(kept > 50);
  CHECK(kept < 100);
  int found = 0;
  for (std::int32_t n = 0; n < 100; ++n) {
    REQUIRE(look_up(table, make_example(n)) >= 0);
    found += look_up(table, make_example(n));
  }
  CHECK(found == kept);
  for (std::int32_t n = 0; n < 1000; ++n) add(table, make_example(n));
  CHECK(table.is_exhausted());
}

TEST_CASE("PretokenTable: a thread never finds wrong tokens while others add") {
  constexpr std::int32_t kExamples = 20000, kThreads = 4;
  PretokenTable table(13);  // 16384 entries: some examples find no slot
  std::atomic<int> wrong = 0, found = 0;
  std::vector<std::jthread> threads;
  for (std::int32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::int32_t i = 0; i < 3 * kExamples; ++i) {
        const Example example = make_example((i * 7 + t * 13) % kExamples);
        const int state = look_up(table, example);
        wrong += state < 0 ? 1 : 0;
        found += state > 0 ? 1 : 0;
        if (state == 0) add(table, example);
      }
    });
  }
  threads.clear();
  CHECK(wrong == 0);
  CHECK(found > kExamples);
}

TEST_CASE("PretokenTables: an exhausted table is replaced once, and stays valid for those that hold it") {
  PretokenTables tables(6);
  const auto first = tables.current();
  CHECK(tables.current() == first);
  const auto second = tables.replace(first);
  CHECK(second != first);
  CHECK(tables.replace(first) == second);  // another encoder replaced it first
  CHECK(tables.current() == second);
  add(*first, make_example(3));
  CHECK(look_up(*first, make_example(3)) == 1);
  CHECK(look_up(*second, make_example(3)) == 0);
}

}  // namespace
}  // namespace mtl
