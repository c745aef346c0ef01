// The values of a pickle as one text, for comparisons with all of them.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "base/str.h"
#include "formats/pickle.h"

namespace mtl::test {

/// Returns a value as text.
inline std::string pickle_value_text(PickleValue value) {
  const auto items = [&](const char* begin, const char* end) {
    std::string out = begin;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ", ";
      out += value.is(PickleKind::dict) ? cat(pickle_value_text(value.key(i)), ": ", pickle_value_text(value.value(i)))
                                        : pickle_value_text(value.at(i));
    }
    return out + end;
  };
  switch (value.kind()) {
    case PickleKind::boolean:
      return value.as_bool() ? "True" : "False";
    case PickleKind::integer:
      CHECK(value.as_number() == double(value.as_int()));
      return cat(value.as_int());
    case PickleKind::real:
      return cat(value.as_number());
    case PickleKind::big_integer:
      return cat(value.as_digits().size(), " digits");
    case PickleKind::text:
    case PickleKind::bytes:
      return cat("'", value.as_text(), "'");
    case PickleKind::list:
      return items("[", "]");
    case PickleKind::tuple:
      return items("(", ")");
    case PickleKind::dict:
      return items("{", "}");
    case PickleKind::object:
      return cat(value.global(), pickle_value_text(value.arguments()), pickle_value_text(value.state()));
    case PickleKind::persistent:
      return cat("<", pickle_value_text(value.persistent_id()), ">");
    default:
      return value.describe();
  }
}

}  // namespace mtl::test
