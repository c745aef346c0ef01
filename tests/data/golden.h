// Compares arrays with golden records, which contain a SHA-256 of the array's bytes.
#pragma once

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "tests/golden_lines.h"
#include "tests/sha256.h"

namespace mtl::golden {

template <class T>
std::vector<T> numbers(const Json& array) {
  std::vector<T> out;
  for (const Json& item : array.as_array()) out.push_back(static_cast<T>(item.as_number()));
  return out;
}

/// Checks values against an array's record {dtype, shape, sha256, data or first and last}. Compares the listed values
/// first, so that a failure is readable, and then the hash of the entire array.
template <class T>
void check_array(std::span<const T> values, const Json& record) {
  std::size_t size = 1;
  for (const Json& extent : record.at("shape").as_array()) size *= static_cast<std::size_t>(extent.as_int());
  REQUIRE(values.size() == size);
  if (const Json* data = record.find("data")) {
    CHECK(std::vector<T>(values.begin(), values.end()) == numbers<T>(*data));
  } else {
    const auto first = numbers<T>(record.at("first")), last = numbers<T>(record.at("last"));
    CHECK(std::equal(first.begin(), first.end(), values.begin()));
    CHECK(std::equal(last.begin(), last.end(), values.end() - static_cast<std::ptrdiff_t>(last.size())));
  }
  CHECK(sha256_hex(values.data(), values.size_bytes()) == record.at("sha256").as_string());
}

}  // namespace mtl::golden
