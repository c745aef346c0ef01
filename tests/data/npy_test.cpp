// The header of .npy files.
#include "data/npy.h"

#include <doctest/doctest.h>

#include "tests/data/data_folder.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

/// Returns a header of version 1.0 with this text.
std::string with_text(const std::string& text) {
  return cat(kNpyMagic, std::string_view("\1\0", 2), to_little_endian(text.size(), 2), text);
}

std::string dictionary(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return cat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape, ", }\n");
}

}  // namespace

TEST_CASE("npy: headers are written and read back") {
  for (const IntegerType type : {kU16, kU32, kI32, kI64, IntegerType{1, false}, IntegerType{8, false}}) {
    const FlatHeader header = read_npy_header(npy_header(type, 12345678901) + "more");
    CHECK(header.type == type);
    CHECK(header.size == 12345678901);
    CHECK(header.bytes == npy_header(type, 12345678901).size());
  }
  // Other order, quotes and spacing, which numpy.load accepts.
  const FlatHeader other = read_npy_header(with_text("{\"shape\":(3),'fortran_order':False , 'descr':\"<i4\"}"));
  CHECK(other.size == 3);
  CHECK(other.type == kI32);
}

TEST_CASE("npy: arrays that are not ids are refused") {
  const auto message = [](const std::string& name) {
    return test::error_of([&] { read_npy_header(read_file("golden/flat_tokens/bad_" + name + ".npy")); },
                          Exit::bad_data);
  };
  CHECK(test::contains(message("float"), "not an integer type ('<f4')"));
  CHECK(test::contains(message("big_endian"), "big-endian ('>u2'); save its ids as integers"));
  CHECK(test::contains(message("object"), "object, which only Python can read ('|O')"));
  CHECK(test::contains(message("matrix"), "2 dimensions, not 1; flatten it"));
  CHECK(test::contains(message("fortran"), "2 dimensions, not 1; flatten it"));
  CHECK(test::contains(message("scalar"), "0 dimensions"));
  CHECK(test::contains(message("fields"), "several fields"));
}

TEST_CASE("npy: broken headers are refused") {
  const auto message = [](const std::string& head) {
    return test::error_of([&] { read_npy_header(head); }, Exit::bad_data);
  };
  const std::string sound = npy_header(kU16, 5);
  for (std::size_t size = 0; size < sound.size(); ++size) CHECK(message(sound.substr(0, size)) != "");
  std::string version = sound;
  version[6] = 4;
  CHECK(test::contains(message(version), "format version is 4.0"));
  CHECK(test::contains(message(cat(kNpyMagic, std::string_view("\2\0\xFF\xFF\xFF\xFF", 6))),
                       "text has 4294967295 bytes"));
  CHECK(test::contains(message(with_text(std::string(10'001, ' '))), "at most 10,000"));
  std::string longest = dictionary("'<u2'", "(5,)");
  longest.resize(10'000, ' ');
  CHECK(read_npy_header(with_text(longest)).bytes == 10'010);
  version[6] = 0;
  CHECK(test::contains(message(version), "format version is 0.0"));
  version[6] = 1;
  version[7] = 1;
  CHECK(test::contains(message(version), "format version is 1.1"));
  const std::string kBroken = "is not a dictionary as NumPy writes it";
  for (const char* text : {"", "{", "[]", "{'descr'}", "{'descr': '<u2' 'shape': (1,)}", "{'shape': (1,",
                           "{'shape': (x,)}", "{'shape': (99999999999999999999,)}", "{'fortran_order': 1}",
                           "{'descr': '<u2}", "{'shape': 5}", "{'shape': (1 2)}", "{'descr': <u2'}"})
    CHECK(test::contains(message(with_text(text)), kBroken));
  CHECK(test::contains(message(with_text(dictionary("'<u2'", "(1,)") + "x")), kBroken));
  CHECK(test::contains(message(with_text(dictionary("'<u2'", "(1,)") + std::string(1, '\0'))), kBroken));
  for (const char* text : {"{'descr': '<u2'}", "{'fortran_order': False, 'shape': (1,)}",
                           "{'descr': '<u2', 'shape': (1,)}", "{'descr': '<u2', 'fortran_order': False}"})
    CHECK(test::contains(message(with_text(text)), "lacks descr, fortran_order or shape"));
  CHECK(test::contains(message(with_text("{'descr': '<u2', 'descr': '<u2'}")), "'descr' twice"));
  CHECK(test::contains(message(with_text("{'eval': '<u2'}")), "unknown key 'eval'"));
  CHECK(test::contains(message(with_text(dictionary("'<u2'", "(5,)", "True"))), "Fortran order"));
  CHECK(test::contains(message(with_text(dictionary("'<u2'", "(-5,)"))), "-5 elements"));
  for (const char* descr :
       {"''", "'<'", "'<u3'", "'<u16'", "'<u'", "'u2'", "'<b1'", "'<u9223372036854775807'", "'<u22'"})
    CHECK(test::contains(message(with_text(dictionary(descr, "(5,)"))), "not an integer type"));
  for (const char* descr : {"'|u2'", "'=u1'", "'=u2'"})
    CHECK(test::contains(message(with_text(dictionary(descr, "(5,)"))), "unknown byte order"));
  for (const char* descr : {"'|u1'", "'<u1'", "'>u1'"})
    CHECK(read_npy_header(with_text(dictionary(descr, "(0,)"))).type == IntegerType{1, false});
  for (const char* descr : {"'O'", "'|O'"})
    CHECK(test::contains(message(with_text(dictionary(descr, "(5,)"))), "the array's type is "));
}
