// Flat token files of other tools: files that their own code wrote are read and written exactly, and broken headers are
// refused.
#include "data/flat_tokens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "data/export_tokens.h"
#include "data/import_tokens.h"
#include "data/npy.h"
#include "data/provenance.h"
#include "tests/data/data_folder.h"
#include "tests/error_of.h"
#include "tests/lfs_pointer.h"

using namespace mtl;

namespace {

const std::string kGolden = "golden/flat_tokens/";
constexpr DocumentToken kSmallEnd{50256, false}, kSmallStart{50256, true}, kLargeEnd{128001, false},
    kLargeStart{128001, true};

Documents documents_of(const std::string& text_file) {
  Documents out;
  for (const std::string& line : split(std::string(trim(read_file(text_file))), '\n')) {
    std::vector<std::int32_t> ids;
    for (const std::string& word : split(line, ' ')) ids.push_back(static_cast<std::int32_t>(*parse_int(word)));
    out.push_back({ids});
  }
  return out;
}

/// Moves the last token of each document to its front.
Documents with_first_tokens(Documents documents) {
  for (auto& document : documents) std::ranges::rotate(document[0], document[0].end() - 1);
  return documents;
}

Console silent_console() {
  Console console("test");
  console.quiet = console.silent = true;
  return console;
}

struct Import {
  std::vector<std::string> files{};
  std::optional<TokenFormat> format{};
  IntegerType raw_type = kU16;
  std::optional<DocumentToken> token{};
  std::optional<DataType> type{};
  std::optional<std::int64_t> vocab_size{};
};

/// Imports files and returns the documents of the result.
Documents import_as(const Import& import, const std::string& prefix) {
  std::vector<FlatTokenFile> inputs;
  for (const std::string& file : import.files) inputs.emplace_back(file, import.format, import.raw_type);
  Console console = silent_console();
  const ImportOptions options{.prefix = prefix,
                              .command = {"mtl-data", "import"},
                              .type = import.type,
                              .document_token = import.token,
                              .vocab_size = import.vocab_size};
  import_tokens(options, inputs, console);
  const IndexedDataset data(prefix);
  CHECK(check_provenance(data) == ProvenanceCheck::content);
  Json sources = Json::array();
  for (const std::string& file : import.files) sources.push(describe_input(file, file_size(file), hash_file(file)));
  CHECK(read_provenance(prefix)->at("inputs") == sources);
  return read_documents(prefix);
}

std::string export_as(const std::string& prefix, const std::string& output, TokenFormat format,
                      std::optional<IntegerType> type = {}) {
  Console console = silent_console();
  const IndexedDataset data(prefix);
  const Json made = export_tokens({.output = output, .format = format, .type = type}, data, console);
  CHECK(made.at("output").as_string() == output);
  CHECK(made.at("format").as_string() == name_of(format));
  CHECK(made.at("tokens").as_int() == data.tokens());
  CHECK(made.at("bytes").as_int() == static_cast<std::int64_t>(file_size(output)));
  CHECK(made.at("xxh3").as_string() == hash_text(hash_file(output)));
  if (type) CHECK(made.at("dtype").as_string() == name_of(*type));
  return read_file(output);
}

}  // namespace

TEST_CASE("flat tokens: files of nanoGPT, llm.c, llmq and NumPy become the same documents") {
  Folder folder;
  const std::string out = folder.path + "out";
  const Documents small = documents_of(kGolden + "small.txt"), large = documents_of(kGolden + "large.txt");
  REQUIRE(small.size() == 14);
  const auto nanogpt = TokenFormat::nanogpt;
  CHECK(import_as({{kGolden + "nanogpt_u16.bin"}, nanogpt, kU16, kSmallEnd}, out) == small);
  CHECK(IndexedDataset(out).type() == DataType::u16);
  CHECK(import_as({{kGolden + "nanogpt_u32.bin"}, nanogpt, kU32, kLargeEnd}, out) == large);
  CHECK(IndexedDataset(out).type() == DataType::i32);
  for (const char* name : {"llmq.bin", "llmq_v1.bin"})
    CHECK(import_as({.files = {kGolden + name}, .token = kLargeEnd}, out) == large);
  const std::vector<std::string> shards = {kGolden + "llm_c_train_000000.bin", kGolden + "llm_c_train_000001.bin"};
  CHECK(import_as({.files = shards, .token = kSmallStart}, out) == with_first_tokens(small));
  CHECK(import_as({.files = {kGolden + "llm_c_llama3.bin"}, .token = kLargeStart}, out) == with_first_tokens(large));
  const Import wide_packed{.files = {kGolden + "lit_gpt_i32.bin"}, .token = kLargeEnd};
  CHECK(import_as(wide_packed, out) == large);
  const std::string packed = kGolden + "lit_gpt_train_000000000";
  Documents padded = small;
  padded.resize(padded.size() + 300 - 281, {{50256}});  // two files of 150, filled up with the separator
  CHECK(import_as({.files = {packed + "0.bin", packed + "1.bin"}, .token = kSmallEnd}, out) == padded);
  CHECK(IndexedDataset(out).type() == DataType::u16);
  for (const char* name : {"u2", "i4", "u4", "i8", "u8", "version2", "version3"}) {
    CAPTURE(name);
    const std::string file = cat(kGolden, "npy_", name, ".npy");
    CHECK(import_as({.files = {file}, .token = kSmallEnd}, out) == small);
    for (const DataType type : {DataType::u16, DataType::i32, DataType::i64}) {
      CHECK(import_as({.files = {file}, .token = kSmallEnd, .type = type}, out) == small);
      CHECK(IndexedDataset(out).type() == type);
    }
  }
  for (const auto& [name, modulus] : {std::pair("u1", 128), {"i1", 128}, {"i2", 32768}}) {
    Documents want(1, {{}});
    for (const auto& document : small) {
      for (const std::int32_t id : document[0]) want[0][0].push_back(id % modulus);
    }
    CHECK(import_as({.files = {cat(kGolden, "npy_", name, ".npy")}}, out) == want);
    CHECK(name_of(IndexedDataset(out).type()) == cat(name[0], 8 * (name[1] - '0')));
  }
}

TEST_CASE("flat tokens: without a document token, each file is a document; with one, documents span files") {
  Folder folder;
  const std::string out = folder.path + "out";
  const std::vector<std::string> shards = {kGolden + "llm_c_train_000000.bin", kGolden + "llm_c_train_000001.bin"};
  const Documents parts = import_as({.files = shards}, out);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0][0].size() == 100);
  write_file_atomic(folder.path + "empty.bin", "");
  const std::vector<std::string> raw = {folder.path + "empty.bin", kGolden + "nanogpt_u16.bin",
                                        folder.path + "empty.bin"};
  CHECK(import_as({raw, TokenFormat::nanogpt}, out).size() == 1);
  CHECK(import_as({raw, TokenFormat::nanogpt, kU16, kSmallEnd}, out) == documents_of(kGolden + "small.txt"));
  CHECK(import_as({{raw[0]}, TokenFormat::nanogpt, kU16, kSmallEnd}, out).empty());
  CHECK(import_as({{raw[0]}, TokenFormat::nanogpt}, out).empty());
  // The widest input decides the type.
  CHECK(import_as({{shards[0], kGolden + "llmq.bin"}}, out).size() == 2);
  CHECK(IndexedDataset(out).type() == DataType::i32);
  import_as({{kGolden + "npy_u1.npy", kGolden + "npy_i1.npy"}}, out);
  CHECK(IndexedDataset(out).type() == DataType::i16);
  // Tokens next to each other, at the start and at the end, and a last document without its token.
  write_file_atomic(folder.path + "ids.bin", {"\7\1\7\7\2\3", 6});
  const IntegerType byte{1, false};
  const Documents ends = {{{7}}, {{1, 7}}, {{7}}, {{2, 3}}}, starts = {{{7, 1}}, {{7}}, {{7, 2, 3}}};
  CHECK(import_as({{folder.path + "ids.bin"}, TokenFormat::nanogpt, byte, DocumentToken{7, false}}, out) == ends);
  CHECK(import_as({{folder.path + "ids.bin"}, TokenFormat::nanogpt, byte, DocumentToken{7, true}}, out) == starts);
}

TEST_CASE("flat tokens: documents longer than the blocks of reading and of scanning stay whole") {
  Folder folder;
  Documents documents = {{{1, 9}}, {{}}, {{5, 9}}};
  documents[1][0].assign((40 << 20) / 4, 3);
  documents[1][0].push_back(9);
  write_documents(folder.path + "in", DataType::i32, documents);
  fs::rename(folder.path + "in.bin", folder.path + "raw.bin");
  CHECK(import_as({{folder.path + "raw.bin"}, TokenFormat::nanogpt, kI32, DocumentToken{9, false}},
                  folder.path + "out") == documents);
}

TEST_CASE("flat tokens: export writes the files that the other tools' code writes") {
  Folder folder;
  const std::string out = folder.path + "out", flat = folder.path + "flat";
  write_documents(out, DataType::u16, documents_of(kGolden + "small.txt"));
  const auto same = [&](const char* name, TokenFormat format, std::optional<IntegerType> type = {}) {
    CAPTURE(name);
    CHECK(export_as(out, flat, format, type) == read_file(kGolden + name));
  };
  same("nanogpt_u16.bin", TokenFormat::nanogpt);
  same("npy_u2.npy", TokenFormat::npy);
  same("npy_i4.npy", TokenFormat::npy, kI32);
  same("npy_u4.npy", TokenFormat::npy, kU32);
  same("npy_i8.npy", TokenFormat::npy, kI64);
  same("npy_u8.npy", TokenFormat::npy, IntegerType{8, false});
  import_as({.files = {kGolden + "llm_c_train_000001.bin"}, .token = kSmallStart}, out);
  same("llm_c_train_000001.bin", TokenFormat::llm_c);
  import_as({.files = {kGolden + "llm_c_llama3.bin"}, .token = kLargeStart}, out);
  same("llm_c_llama3.bin", TokenFormat::llm_c);
  write_documents(out, DataType::i32, documents_of(kGolden + "large.txt"));
  same("nanogpt_u32.bin", TokenFormat::nanogpt);
  // More than a block of conversion, as they are stored and in another type; floats only as they are.
  std::vector<std::int32_t> ids(300'000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 60'000);
  write_documents(out, DataType::i32, {{ids}});
  const std::string wide = read_file(out + ".bin");
  CHECK(export_as(out, flat, TokenFormat::npy) == npy_header(kI32, 300'000) + wide);
  CHECK(export_as(out, flat, TokenFormat::npy, kU32) == npy_header(kU32, 300'000) + wide);
  ids[299'999] = 70'000;
  write_documents(out, DataType::i32, {{{1}, ids}});
  CHECK(
      test::contains(test::error_of([&] { export_as(out, flat, TokenFormat::npy, kU16); }, Exit::bad_data),
                     "token 299999 of sequence 1, in document 0, is 70000, which does not fit in u16 (byte 1200000)"));
  write_documents(out, DataType::i32, {{{1, 2}}});
  std::string idx = read_file(out + ".idx");
  idx[17] = 7;  // f32
  write_file_atomic(out + ".idx", idx);
  CHECK(export_as(out, flat, TokenFormat::npy) == npy_header(DataType::f32, 2) + read_file(out + ".bin"));
  CHECK(test::contains(test::error_of([&] { export_as(out, flat, TokenFormat::nanogpt); }, Exit::bad_data),
                       "stores f32 values, not token ids; use --format npy without --token-type"));

  const auto message = [&](TokenFormat format, IntegerType type) {
    return test::error_of([&] { export_as(out, folder.path + "none", format, type); }, Exit::bad_data);
  };
  write_documents(out, DataType::i32, {{{1, 2}}, {{3}, {4, 70000}}});
  CHECK(
      message(TokenFormat::llm_c, kU16) ==
      out +
          ".bin: token 1 of sequence 2, in document 1, is 70000, which does not fit in u16 (byte 16); choose a larger "
          "--token-type");
  write_documents(out, DataType::i32, {{{-1}}});
  CHECK(test::contains(message(TokenFormat::nanogpt, kU32),
                       "is -1, which does not fit in u32 (byte 0); choose another --token-type"));
  CHECK_FALSE(file_exists(folder.path + "none"));
  CHECK(test::contains(test::error_of([&] { flat_header(TokenFormat::llm_c, kU16, INT64_C(1) << 31); }, Exit::bad_data),
                       "up to 2^31 - 1 tokens, but there are 2,147,483,648"));
  CHECK(flat_header(TokenFormat::llm_c, kU16, INT32_MAX).size() == 1024);
  CHECK(flat_header(TokenFormat::nanogpt, kU16, 5).empty());
  CHECK_THROWS_AS(flat_header(TokenFormat::llmq, kU16, 5), Error);
  CHECK(test::contains(test::error_of([&] { flat_header(TokenFormat::llm_c, kI32, 5); }, Exit::usage),
                       "not i32; choose another --token-type"));
}

TEST_CASE("flat tokens: ids that cannot be stored are refused with their location") {
  Folder folder;
  const std::string out = folder.path + "out";
  std::vector<std::int32_t> ids(200'000, 5);
  const auto message = [&](std::int32_t id, const Import& import) {
    ids[199'999] = id;
    write_documents(folder.path + "in", DataType::i32, {{ids}});
    fs::rename(folder.path + "in.bin", folder.path + "raw.bin");
    Import all = import;
    all.files = {folder.path + "raw.bin"};
    all.format = TokenFormat::nanogpt;
    return test::error_of([&] { import_as(all, out); }, Exit::bad_data);
  };
  const std::string token = folder.path + "raw.bin: token 199999 (byte 799996) is ";
  CHECK(starts_with(message(-1, {.raw_type = kI32}), token + "-1, but ids are not negative; "));
  CHECK(starts_with(message(-1, {.raw_type = kU32}), token + "4294967295, but ids have at most 31 bits; "));
  CHECK(starts_with(message(65536, {.raw_type = kI32, .type = DataType::u16}),
                    token + "65536, which does not fit in u16; choose a larger --token-type"));
  CHECK(starts_with(message(100, {.raw_type = kI32, .vocab_size = 100}),
                    token + "100, but the ids of the vocabulary are 0 to 99; select the tokenizer"));
  CHECK(message(-1, {.raw_type = kU32, .type = DataType::i64}) ==
        token + "4294967295, but ids have at most 31 bits; make the file again, or choose another --input-type");
  CHECK(message(99, {.raw_type = kI32, .vocab_size = 100}) == "");
  const std::string named =
      test::error_of([&] { import_as({.files = {kGolden + "npy_u2.npy"}, .vocab_size = 5}, out); }, Exit::bad_data);
  CHECK(test::contains(named, cat("npy_u2.npy: token 0 (byte ", npy_header(kU16, 281).size(), ") is ")));
  CHECK(named.ends_with("are 0 to 4; select the tokenizer that made the data"));
  CHECK(message(65535, {.raw_type = kI32, .type = DataType::u16}) == "");
}

TEST_CASE("flat tokens: a document that an .idx cannot describe is refused before the work") {
  Folder folder;
  const std::string path = folder.path + "raw.bin";
  write_file_atomic(path, "");
  const auto message = [&](std::int64_t tokens) {
    fs::resize_file(path, tokens);  // a hole
    return test::error_of(
        [&] {
          import_as({{path}, TokenFormat::nanogpt, IntegerType{1, false}}, folder.path + "out");
        },
        Exit::bad_data);
  };
  CHECK(
      test::contains(message(INT64_C(1) << 31), "a document has 2,147,483,648 tokens, but the format allows 2^31 - 1"));
  CHECK_FALSE(file_exists(folder.path + "out.bin"));
}

TEST_CASE("flat tokens: broken headers are refused") {
  Folder folder;
  const std::string path = folder.path + "file";
  const auto message = [&](const std::string& content, std::optional<TokenFormat> format = {}, IntegerType raw = kU16) {
    write_file_atomic(path, content);
    const std::string text = test::error_of([&] { FlatTokenFile(path, format, raw); }, Exit::bad_data);
    CHECK((text.empty() || starts_with(text, path + ": ")));
    return text;
  };
  const auto with_number = [&](std::string content, std::size_t index, std::int32_t number) {
    return content.replace(4 * index, 4, to_little_endian(static_cast<std::uint32_t>(number), 4));
  };
  for (const char* name : {"llm_c_train_000000.bin", "llm_c_llama3.bin", "llmq.bin"}) {
    CAPTURE(name);
    const std::string sound = read_file(kGolden + name);
    const bool is_llmq = starts_with(name, "llmq");
    const std::size_t version = is_llmq ? 2 : 1, count = is_llmq ? 4 : 2;
    CHECK(test::contains(message(sound.substr(0, 1023)), "the header needs 1,024 bytes, but the file has 1023; copy"));
    CHECK(test::contains(message(with_number(sound, version, 3)), "version 3 of "));
    CHECK(message(with_number(sound, version, 3))
              .ends_with(is_llmq                            ? "or make it in version 1 or 2"
                         : starts_with(name, "llm_c_train") ? "copy the file again, or make it in version 1"
                                                            : "or make it in version 7"));
    CHECK(test::contains(message(with_number(sound, count, -1)), "the number of tokens is -1 (byte "));
    for (const std::int32_t other : {0, 1, INT32_MAX}) {
      CHECK(test::contains(message(with_number(sound, count, other)),
                           cat("the header announces ", with_commas(other), " tokens as ")));
    }
    CHECK(test::contains(message(sound.substr(0, sound.size() - 1)), "after its 1,024 bytes, the file has "));
    CHECK(test::contains(message(sound + "\1\1"), "after its 1,024 bytes, the file has "));
    CHECK(test::contains(message(sound, TokenFormat::nanogpt), "leave out --format"));
  }
  CHECK(test::contains(
      message(with_number(read_file(kGolden + "llmq.bin"), 3, 2)),
      "the file has 2 bytes per token, which is not supported (byte 12); copy the file again, or make it with 4"));
  CHECK(test::contains(message(read_file(kGolden + "llmq_masks.bin")), "has a loss mask (byte 24)"));
  CHECK(test::contains(message(read_file(kGolden + "llm_c_questions.bin")), "multiple-choice questions"));
  const std::string packed = read_file(kGolden + "lit_gpt_train_0000000000.bin");
  const auto with_byte = [&](std::size_t at, char byte) { return packed.substr(0, at) + byte + packed.substr(at + 1); };
  CHECK(test::contains(message(packed.substr(0, 23)), "the header needs 24 bytes, but the file has 23; copy"));
  CHECK(message(packed.substr(0, 16) + std::string(8, '\0')) == "");  // no tokens
  CHECK(message(with_byte(7, 2)) ==
        path +
            ": version 2 of lit-gpt's format is not supported (byte 7); copy the file again, or make it in version 1");
  for (const char type : {0, 6, 7, 9})
    CHECK(test::contains(message(with_byte(15, type)), cat("the tokens' type, ", int{type}, ", is not an integer's")));
  CHECK(test::contains(message(with_byte(23, '\x80')), "the number of tokens is 9223372036854775958 (byte 16)"));
  CHECK(test::contains(message(packed + "\1"), "the header announces 150 tokens as u16, but after its 24 bytes"));
  CHECK(test::contains(message(packed, TokenFormat::nanogpt), "has the header of lit-gpt, not that of nanogpt; leave"));
  CHECK(test::contains(message(read_file(kGolden + "nanogpt_u16.bin")), "add --format nanogpt"));
  CHECK(test::contains(message("abc", TokenFormat::nanogpt), "the size, 3 bytes, is not a multiple of 2"));
  const std::string text = read_file(kGolden + "small.txt");
  CHECK(test::contains(message(text, TokenFormat::nanogpt), "is text, not token ids; make token files"));
  CHECK_NOTHROW(FlatTokenFile(path, TokenFormat::nanogpt, IntegerType{1, false}));  // ids of bytes may be text
  const std::pair<std::string_view, const char*> others[] = {
      {"\x1F\x8B\x08", "is compressed"},     {"\x28\xB5\x2F\xFD", "is compressed"},
      {"PK\x03\x04", "is compressed"},       {"PAR1", "is a table"},
      {"\x80\x04\x95", "is a Python pick"},  {"TNTIDX", "is the .idx of fairseq's token files"},
      {"\xFD\x37zXZ", "is compressed"},      {"BZh91AY&SY", "is compressed"},
      {"\x04\x22\x4D\x18", "is compressed"}, {"ARROW1", "is a table"},
      {"\xFF\xFF\xFF\xFF", "is a table"},    {"\x89HDF\r\n", "is a table"},
      {"\x80\x05\x95", "is a Python pick"}};
  for (const auto& [magic, what] : others)
    CHECK(test::contains(message(cat(magic, std::string(101 - magic.size() % 2, '\0')), TokenFormat::nanogpt), what));
  // Ids that only begin like these, and files too short to tell.
  for (const std::string& ids : {"\x1F\x8B\x08 " + std::string(100, '\0'), "\x1F\x8B\x08\x80" + std::string(100, '\0'),
                                 std::string("\x1F\x8B\x08\0\0\0\0\0\1", 9) + std::string(101, '\0'),
                                 "PAR1" + std::string(58, '\0'), std::string(62, 'a'), std::string(100, 'a') + "\1 "})
    CHECK(message(ids, TokenFormat::nanogpt).empty());
  CHECK(test::contains(message(std::string(60, '~') + "\r\t \n", TokenFormat::nanogpt), "is text, not token ids"));
  CHECK(test::contains(message("abc", TokenFormat::npy), "has no header, not that of npy"));
  CHECK(test::contains(message(""), "no header of a known format"));
  CHECK(test::contains(message(test::lfs_pointer(1000), TokenFormat::nanogpt), "git lfs pull"));
  write_documents(folder.path + "pair", DataType::u16, {{{1}}});
  CHECK(test::contains(message(read_file(folder.path + "pair.idx")), "a pair of token files"));
  CHECK(test::contains(test::error_of([&] { FlatTokenFile(folder.path + "pair.bin", {}, kU16); }, Exit::bad_data),
                       "belongs to a pair of token files, .bin and .idx"));
  CHECK_THROWS_AS(FlatTokenFile(folder.path, TokenFormat::nanogpt, kU16), Error);
  CHECK_THROWS_AS(FlatTokenFile(folder.path + "absent", TokenFormat::nanogpt, kU16), Error);
}

TEST_CASE("integer types: ranges and conversion agree with plain arithmetic on every pair of types") {
  std::mt19937_64 random(1);
  const std::vector<std::string> names = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"};
  for (const std::string& from_name : names) {
    const IntegerType from = parse_integer_type(from_name).value();
    CHECK(name_of(from) == from_name);
    std::vector<std::byte> stored(static_cast<std::size_t>(10'001 * from.bytes));
    for (const std::string& to_name : names) {
      const IntegerType to = parse_integer_type(to_name).value();
      CAPTURE(from_name);
      CAPTURE(to_name);
      const IdRange range = common_range(range_of(from), range_of(to));
      std::vector<std::int64_t> values(10'001);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto shift = static_cast<int>(random() % 63);
        values[i] = std::clamp(static_cast<std::int64_t>(random()) >> shift, range.lowest, range.highest);
        std::memcpy(stored.data() + i * static_cast<std::size_t>(from.bytes), &values[i],
                    static_cast<std::size_t>(from.bytes));
      }
      CHECK_FALSE(find_outside(from, stored, range_of(to)));
      std::vector<std::byte> converted(values.size() * static_cast<std::size_t>(to.bytes));
      convert_ids(from, stored, to, converted.data());
      for (std::size_t i = 0; i < values.size(); i += 99)
        CHECK(token_text(to, converted, i) == std::to_string(values[i]));
      // The first value outside a range is found wherever it is.
      const IdRange half{range.lowest / 2, range.highest / 2};
      std::optional<std::size_t> want;
      for (std::size_t i = values.size(); i-- > 0;) {
        if (values[i] < half.lowest || values[i] > half.highest) want = i;
      }
      CHECK(find_outside(from, stored, half) == want);
    }
  }
  for (const std::string name : {"", "u1", "f32", "u128", "U8"}) CHECK_FALSE(parse_integer_type(name));
  CHECK_FALSE(indexed_type(kU32));
  CHECK_FALSE(indexed_type({8, false}));
  CHECK(indexed_type(kU16) == DataType::u16);
  CHECK(indexed_type(kI64) == DataType::i64);
  CHECK_THROWS_AS(integer_type(DataType::f64), Error);
}

TEST_CASE("flat tokens: --format must be that of the file's header, and nanogpt's has none") {
  Folder folder;
  const std::string raw = folder.path + "raw";
  write_file_atomic(raw, std::string(2000, '\1'));
  const auto error = [](const std::string& path, std::optional<TokenFormat> format) {
    return test::error_of([&] { FlatTokenFile(path, format, kU16); }, Exit::bad_data);
  };
  CHECK(error(raw, TokenFormat::nanogpt).empty());
  for (const TokenFormat format : {TokenFormat::npy, TokenFormat::llm_c})
    CHECK(test::contains(error(raw, format), cat("the file has no header, not that of ", name_of(format))));
  const std::string npy = kGolden + "npy_u2.npy";
  CHECK(error(npy, TokenFormat::npy).empty());
  CHECK(error(npy, {}).empty());
  CHECK(test::contains(error(npy, TokenFormat::llm_c), "the file has the header of npy, not that of"));
  CHECK(test::contains(error(npy, TokenFormat::nanogpt), "the file has the header of npy, not that of nanogpt"));
  CHECK_FALSE(error(raw, {}).empty());
}
