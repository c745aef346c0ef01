#include "data/blend.h"

#include <array>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "data/blended_dataset.h"
#include "tests/data/data_folder.h"
#include "tests/data/finish.h"
#include "tests/data/golden.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

/// Reads weights, which are stored as hexadecimal doubles.
std::vector<double> doubles(const Json& array) {
  std::vector<double> out;
  for (const Json& item : array.as_array()) out.push_back(std::strtod(item.as_string().c_str(), nullptr));
  return out;
}

void check_order(const BlendOrder& order, const Json& want) {
  std::vector<std::int16_t> datasets;
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < order.size(); ++i) {
    datasets.push_back(static_cast<std::int16_t>(order.dataset(i)));
    samples.push_back(order.sample(i));
  }
  golden::check_array<std::int16_t>(datasets, want.at("dataset_index"));
  golden::check_array<std::int64_t>(samples, want.at("dataset_sample_index"));
}

void check_targets(const Json& entry) {
  const std::vector<double> weights = normalize_weights(doubles(entry.at("weights")));
  const auto sizes = golden::numbers<std::int64_t>(entry.at("sizes"));
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    std::int64_t total = 0;
    for (std::size_t d = 0; d < weights.size(); ++d) {
      const std::int64_t target = blend_target(sizes[s], weights[d]);
      CHECK(target == entry.at("target").as_array()[d].as_array()[s].as_int());
      CHECK(blend_surplus(target) == entry.at("build").as_array()[d].as_array()[s].as_int());
      total += target;
    }
    CHECK(total == entry.at("blend_size").as_array()[s].as_int());
  }
}

/// Returns true if some prefixes have a weight and others do not.
bool is_mixed(const std::vector<std::string>& words) {
  std::size_t numbers = 0;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) numbers += parse_float(words[i]).has_value();
  return words.size() % 2 == 0 && numbers > 0 && numbers < words.size() / 2;
}

void check_data_path(const Json& entry) {
  std::vector<std::string> words;
  for (const Json& word : entry.at("items").as_array()) words.push_back(word.as_string());
  if (entry.find("error") != nullptr || entry.bool_or("refused_later", false) || is_mixed(words)) {
    CHECK_THROWS_AS(parse_data_path(words), Error);
    return;
  }
  const DataBlend blend = parse_data_path(words);
  std::vector<std::string> prefixes;
  for (const Json& prefix : entry.at("prefixes").as_array()) prefixes.push_back(prefix.as_string());
  CHECK(blend.prefixes == prefixes);
  REQUIRE(blend.weights.has_value() == !entry.at("weights").is_null());
  if (blend.weights) CHECK(*blend.weights == doubles(entry.at("weights")));
}

/// Writes token files that contain documents with these lengths.
std::string write_documents(const Folder& folder, std::size_t number, const std::vector<std::int32_t>& lengths) {
  const std::string prefix = cat(folder.path, "set", number);
  IndexedDatasetWriter writer(prefix, DataType::u16);
  for (const std::int32_t length : lengths) {
    writer.add_sequence(std::vector<std::int32_t>(static_cast<std::size_t>(length), static_cast<std::int32_t>(number)));
    writer.end_document();
  }
  test::finish(writer);
  return prefix;
}

void check_end_to_end(const Json& entry) {
  const Folder folder;
  SplitSource source{.flag = "--data-path", .blend = {}, .share = {.begin = 0, .end = 1}};
  const auto& lengths = entry.at("lengths").as_array();
  for (std::size_t d = 0; d < lengths.size(); ++d)
    source.blend.prefixes.push_back(write_documents(folder, d, golden::numbers<std::int32_t>(lengths[d])));
  if (!entry.at("weights").is_null()) source.blend.weights = doubles(entry.at("weights"));
  const auto shares = parse_split(entry.at("split").as_string());
  DataFiles files;
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(kSplitNames[i]);
    const Json& want = entry.at(kSplitNames[i]);
    REQUIRE(want.is_null() == !shares[i].has_value());
    if (want.is_null()) continue;
    source.share = *shares[i];
    const Json& size = entry.at("sizes").as_array()[i];
    const auto blend =
        open_split(files, source, size.is_null() ? std::nullopt : std::optional(size.as_int()),
                   {.order = {.seq_length = entry.at("seq_length").as_int(), .seed = entry.at("seed").as_int()}});
    CHECK(blend->size() == want.at("blend_size").as_int());
    for (std::size_t d = 0; d < lengths.size(); ++d)
      CHECK(blend->datasets()[d]->size() == want.at("available").as_array()[d].as_int());
    REQUIRE(blend->order().has_value());
    check_order(*blend->order(), want);
    for (std::int64_t k = 0; k < blend->size(); ++k) {
      const SampleSource source_of_k = blend->describe(k);
      CHECK(blend->read_tokens(k).front() == static_cast<std::int32_t>(source_of_k.dataset));
      const SampleSource alone = blend->datasets()[source_of_k.dataset]->describe(blend->order()->sample(k));
      CHECK(source_of_k.sample == alone.sample);
      CHECK(source_of_k.documents == alone.documents);
    }
  }
}

void check_blend(const Json& entry) {
  const std::string& kind = entry.at("kind").as_string();
  if (kind == "normalize") {
    const auto weights = doubles(entry.at("weights"));
    CHECK(normalize_weights(weights) == doubles(entry.at("once")));
    CHECK(normalize_weights(normalize_weights(weights)) == doubles(entry.at("twice")));
  } else if (kind == "blend") {
    check_order(BlendOrder::weighted(normalize_weights(doubles(entry.at("weights"))), entry.at("size").as_int()),
                entry);
  } else if (entry.find("error") != nullptr && kind != "data_path") {
    REQUIRE(kind == "exhaustive");
    CHECK_THROWS_AS(BlendOrder::exhaustive(golden::numbers<std::int64_t>(entry.at("sizes"))), Error);
  } else if (kind == "exhaustive") {
    check_order(BlendOrder::exhaustive(golden::numbers<std::int64_t>(entry.at("sizes"))), entry);
  } else if (kind == "targets") {
    check_targets(entry);
  } else if (kind == "data_path") {
    check_data_path(entry);
  } else {
    REQUIRE(kind == "end_to_end");
    check_end_to_end(entry);
  }
}

/// Returns the problems with these options, by flag.
std::map<std::string, std::string> problems(const DataPathOptions& options) {
  std::map<std::string, std::string> out;
  read_split_sources(options, [&](const std::string& flag, const std::string& problem) { out[flag] = problem; });
  return out;
}

}  // namespace

TEST_CASE("blends equal Megatron-LM's") {
  for (const Json& entry : golden_lines("golden/blend/cases.jsonl")) {
    CAPTURE(entry.dump().substr(0, 200));
    check_blend(entry);
  }
}

TEST_CASE("weights that do not add up are refused") {
  const std::vector<double> large{1e308, 1e308};
  CHECK_THROWS_WITH_AS(normalize_weights(large), doctest::Contains("add up to inf"), Error);
}

TEST_CASE("the weights of 128 data sets are added in eight sums, as in NumPy") {
  std::vector<double> weights;
  std::array<double, 8> sums{};
  for (std::size_t d = 0; d < 128; ++d) sums[d % 8] += weights.emplace_back(1 / double(3 + d));
  const double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  const std::vector<double> normalized = normalize_weights(weights);
  for (std::size_t d = 0; d < weights.size(); ++d) CHECK(normalized[d] == weights[d] / sum);
}

TEST_CASE("a blend has at most 65536 data sets, and numbers all of them") {
  const std::vector<std::int64_t> ones(257, 1);  // more than 8 bits can number
  const BlendOrder all = BlendOrder::exhaustive(ones);
  for (std::int64_t i = 0; i < all.size(); ++i) CHECK(all.dataset(i) == i);
  CHECK_THROWS_AS(all.dataset(257), Error);
  CHECK_THROWS_AS(all.dataset(-1), Error);
  CHECK(BlendOrder::weighted(std::vector<double>(65536, 1.0), 1).size() == 1);
  CHECK_THROWS_WITH_AS(BlendOrder::weighted(std::vector<double>(65537, 1.0), 1), doctest::Contains("65537 data sets"),
                       Error);
  const std::int64_t two[] = {9000, 3000};
  const BlendOrder longer = BlendOrder::exhaustive(two);  // than a block
  std::array<std::int64_t, 2> counts{};
  for (std::int64_t i = 0; i < longer.size(); ++i) REQUIRE(longer.sample(i) == counts[longer.dataset(i)]++);
  CHECK(counts == std::array<std::int64_t, 2>{9000, 3000});
}

TEST_CASE("a long blend of many data sets keeps to its weights") {
  std::vector<double> weights;
  for (int d = 0; d < 300; ++d) weights.push_back(1.0 + d % 7);
  weights = normalize_weights(weights);
  const BlendOrder order = BlendOrder::weighted(weights, 50000);
  std::vector<std::int64_t> counts(weights.size());
  for (std::int64_t i = 0; i < order.size(); ++i) {
    const auto dataset = static_cast<std::size_t>(order.dataset(i));
    REQUIRE(order.sample(i) == counts[dataset]);
    ++counts[dataset];
  }
  CHECK(counts == order.counts());
  for (std::size_t d = 0; d < weights.size(); ++d)
    CHECK(std::abs(static_cast<double>(counts[d]) - weights[d] * 50000) <= 1.5);
}

TEST_CASE("every flag that names the splits' data is read, and contradictory flags are refused by name") {
  const Folder folder;
  write_file_atomic(folder.path + "words", " 0.3 a\n0.7\tb \n");
  write_file_atomic(folder.path + "splits.json", R"({"train": ["1", "a", 2.5, "b"], "valid": "c d"})");
  const auto none = [](const std::string& flag, const std::string& problem) { FAIL(flag << " " << problem); };
  auto sources = read_split_sources({.data_args_path = folder.path + "words", .split = "9,1"}, none);
  CHECK(sources[0]->blend == DataBlend{{"a", "b"}, std::vector<double>{0.3, 0.7}});
  CHECK(sources[1]->blend == sources[0]->blend);
  CHECK(sources[1]->share.begin == 0.9);
  CHECK_FALSE(sources[2].has_value());
  sources = read_split_sources({.per_split_data_args_path = folder.path + "splits.json"}, none);
  CHECK(sources[0]->blend == DataBlend{{"a", "b"}, std::vector<double>{1, 2.5}});
  CHECK(sources[1]->blend == DataBlend{{"c", "d"}, std::nullopt});
  CHECK(sources[1]->share.end == 1.0);
  CHECK_FALSE(sources[2].has_value());
  sources = read_split_sources({.train_data_path = {"a"}, .test_data_path = {"1", "b"}}, none);
  CHECK_FALSE(sources[0]->blend.is_blended());
  CHECK_FALSE(sources[1].has_value());
  CHECK(sources[2]->blend.is_blended());

  sources = read_split_sources({.data_path = {"0.3 a\t0.7 b"}, .split = "1"}, none);  // a quoted list
  CHECK(sources[0]->blend == DataBlend{{"a", "b"}, std::vector<double>{0.3, 0.7}});
  CHECK(sources[0]->flag == "--data-path");
  write_file_atomic(folder.path + "0.3 a.bin", "");  // a name with a blank
  sources = read_split_sources({.data_path = {folder.path + "0.3 a"}, .split = "1"}, none);
  CHECK(sources[0]->blend.prefixes == std::vector<std::string>{folder.path + "0.3 a"});

  CHECK(problems({.data_path = {"a"}, .train_data_path = {"b"}}).contains("--data-path"));
  CHECK(problems({.valid_data_path = {"b"}, .data_args_path = "words"}).contains("--data-args-path"));
  CHECK(problems({.data_path = {"a"}, .data_args_path = folder.path + "words"}).contains("--data-args-path"));
  CHECK(problems({.data_args_path = folder.path + "nosuch"}).contains("--data-args-path " + folder.path + "nosuch"));
  CHECK(problems({.data_path = {"1", "a", "x", "b"}}).contains("--data-path"));
  CHECK(problems({.data_path = {"a"}, .split = "1,2,3,4"}).contains("--split 1,2,3,4"));
  CHECK(problems({.split = "1,2,3,4"}).contains("--split 1,2,3,4"));  // also without data
  CHECK(problems({.split = "9,1"}).empty());
  for (const char* split : {"-1,2,0", "+1", "1e3", "nan,1,1"})
    CHECK(problems({.data_path = {"a"}, .split = split})
              .at(cat("--split ", split))
              .ends_with("is not allowed in weights; write them as 969,30,1"));
  const std::string huge(400, '9');  // more than a double holds
  CHECK(problems({.split = huge}).at("--split " + huge).ends_with("is not a number"));
  CHECK(problems({.valid_data_path = {"0", "a"}}).contains("--valid-data-path"));
  CHECK(problems({.test_data_path = {"inf", "a"}}).contains("--test-data-path"));

  // The file of all splits.
  const std::string path = folder.path + "splits.json", flag = "--per-split-data-args-path " + path;
  const auto problem_of = [&](const char* content, DataPathOptions options = {}) {
    write_file_atomic(path, content);
    options.per_split_data_args_path = path;
    const auto found = problems(options);
    return found.contains(flag) ? found.at(flag) : "";
  };
  CHECK(problem_of(R"({"train": null, "test": ["a"]})") == "");
  CHECK(problem_of(R"({"train": "a"})", {.valid_data_path = {"b"}}) ==
        "cannot be used with --valid-data-path; use only one of them");
  CHECK(problem_of(R"({"train": 5})") == "\"train\" is neither a string nor a list of words");
  CHECK(problem_of("[1]") == "is not a JSON object with the keys train, valid, test");
  CHECK(problem_of(R"({"validation": "a"})") == "has an unknown key \"validation\"; did you mean valid?");
  CHECK(problem_of(R"({"tset": "a"})") == "has an unknown key \"tset\"; did you mean test?");
  CHECK(problem_of(R"({"corpus": "a"})") == "has an unknown key \"corpus\"; the keys are train, valid, test");
  CHECK(problem_of(R"({"test": "1 a x b"})").starts_with("expected a weight before 'b', not 'x'; "));
}

TEST_CASE("an empty share is refused with the name of its data set") {
  const Folder folder;
  DataFiles files;
  const SplitSource source{.flag = "--data-path",
                           .blend = {.prefixes = {write_documents(folder, 0, {50, 50})}, .weights = {}},
                           .share = {.begin = 0.9, .end = 0.91}};
  CHECK_THROWS_WITH_AS(open_split(files, source, 4, {.order = {.seq_length = 8}}),
                       doctest::Contains("set0: sequences 2 to 2"), Error);
}

TEST_CASE("files are opened once, and data sets without weights provide one epoch") {
  const Folder folder;
  DataFiles files;
  const std::string a = write_documents(folder, 0, {17}), b = write_documents(folder, 1, {9});
  CHECK(files.open(a + ".bin") == files.open(a + ".idx"));
  CHECK(files.all().size() == 1);
  SplitSource source{.flag = "--data-path", .blend = {.prefixes = {a}, .weights = {}}, .share = {.begin = 0, .end = 1}};
  CHECK(open_split(files, source, 5, {.order = {.seq_length = 8}})->item(4).tokens == std::vector<std::int32_t>(8, 0));
  source.blend.prefixes.push_back(b);
  for (const auto samples : {std::optional<std::int64_t>(), std::optional<std::int64_t>(99)}) {
    const auto blend = open_split(files, source, samples, {.order = {.seq_length = 8}});
    CHECK(blend->size() == 3);
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < 3; ++i) sum += blend->item(i).labels[0];
    CHECK(sum == 1);  // two samples of the first, one of the second
    CHECK_NOTHROW(require_samples(source, Split::valid, *blend, 3));
    CHECK(test::contains(test::error_of([&] { require_samples(source, Split::valid, *blend, 4); }, Exit::bad_data),
                         "--data-path: without weights the 2 data sets provide one epoch, 3 samples for valid, but the "
                         "run needs 4; "));
  }
  CHECK(test::contains(
      test::error_of([&] { open_split(files, source, 1, {.order = {.seq_length = 9}}); }, Exit::bad_data),
      "set1: one epoch is shorter than a sample of 9 tokens"));
  source.blend.weights = {1, 1};
  CHECK_THROWS_AS(open_split(files, source, {}, {.order = {.seq_length = 8}}), Error);
}

TEST_CASE("a blend that would exhaust a data set is refused") {
  const Folder folder;
  DataFiles files;
  SplitSource source{.flag = "--data-path",
                     .blend = {.prefixes = {write_documents(folder, 0, {9})}, .weights = std::vector<double>{}},
                     .share = {.begin = 0, .end = 1}};
  for (std::size_t d = 1; d < 100; ++d) source.blend.prefixes.push_back(write_documents(folder, d, {9}));
  source.blend.weights->assign(100, 0.001);
  source.blend.weights->front() = 0.9;  // its target is 10, but the blend has 109 entries
  CHECK_THROWS_WITH_AS(open_split(files, source, 10, {.order = {.seq_length = 8}}),
                       doctest::Contains("but the blend needs"), Error);
}
