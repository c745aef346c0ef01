#include "data/gpt_dataset.h"

#include <sys/mman.h>

#include <cstdlib>
#include <numeric>
#include <random>

#include "base/error.h"
#include "data/mock_tokens.h"
#include "tests/data/data_folder.h"
#include "tests/data/golden.h"

using namespace mtl;

namespace {

std::vector<std::int32_t> lengths_of(const Json& lengths) {
  if (lengths.is_array()) return golden::numbers<std::int32_t>(lengths);
  std::mt19937 engine(static_cast<std::uint32_t>(lengths.at("seed").as_int()));
  std::vector<std::int32_t> out(static_cast<std::size_t>(lengths.at("n").as_int()));
  const auto modulus = static_cast<std::uint32_t>(lengths.at("modulus").as_int());
  for (std::int32_t& length : out)
    length = static_cast<std::int32_t>(1 + static_cast<std::uint32_t>(engine()) % modulus);
  return out;
}

std::optional<std::int64_t> samples_of(const Json& entry, std::size_t which) {
  const Json& samples = entry.at("samples").as_array()[which];
  return samples.is_null() ? std::nullopt : std::optional(samples.as_int());
}

SampleOrderOptions order_options(const Json& entry, std::size_t which, SplitRange range) {
  return {.seq_length = entry.at("seq_length").as_int(),
          .seed = entry.at("seed").as_int(),
          .range = range,
          .samples = samples_of(entry, which),
          .drop_last_partial = which != 1 || entry.at("drop_last_partial_validation_sequence").as_bool(),
          .name = "golden"};
}

void check_order(const SampleOrder& order, const Json& want) {
  CHECK(order.epochs() == want.at("num_epochs").as_int());
  REQUIRE(order.samples() == want.at("num_samples").as_int());
  std::vector<std::int32_t> documents, sample_index;
  for (std::int64_t i = 0; i < order.positions(); ++i)
    documents.push_back(static_cast<std::int32_t>(order.sequence_at(i)));
  const auto add = [&](const TokenLocation& at) {
    sample_index.push_back(static_cast<std::int32_t>(at.position));
    sample_index.push_back(static_cast<std::int32_t>(at.offset));
  };
  std::vector<std::uint32_t> shuffle;
  for (std::int64_t sample = 0; sample < order.samples(); ++sample) {
    add(order.first_token(sample));
    shuffle.push_back(static_cast<std::uint32_t>(order.shuffled(sample)));
    if (sample > 0) CHECK(order.first_token(sample) == order.last_token(sample - 1));
  }
  add(order.last_token(order.samples() - 1));
  golden::check_array<std::int32_t>(documents, want.at("document_index"));
  golden::check_array<std::int32_t>(sample_index, want.at("sample_index"));
  golden::check_array<std::uint32_t>(shuffle, want.at("shuffle_index"));
}

void check_indices(const Json& entry) {
  const auto lengths = lengths_of(entry.at("lengths"));
  const auto count = static_cast<std::int64_t>(lengths.size());
  const auto shares = parse_split(entry.at("split").as_string());
  const auto build = [&](std::size_t i) {
    return SampleOrder({lengths.data(), count}, order_options(entry, i, range_of(*shares[i], count)));
  };
  if (entry.find("error") != nullptr) {
    CHECK_THROWS_AS(
        [&] {
          for (std::size_t i = 0; i < 3; ++i)
            if (shares[i]) build(i);
        }(),
        Error);
    return;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(kSplitNames[i]);
    const Json& want = entry.at(kSplitNames[i]);
    REQUIRE(want.is_null() == !shares[i].has_value());
    if (want.is_null()) continue;
    CHECK(range_of(*shares[i], count).begin == want.at("range").as_array()[0].as_int());
    CHECK(range_of(*shares[i], count).end == want.at("range").as_array()[1].as_int());
    check_order(build(i), want);
  }
}

double hexadecimal(const Json& text) { return std::strtod(text.as_string().c_str(), nullptr); }

void check_split(const Json& entry) {
  const auto shares = parse_split(entry.at("split").as_string());
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& want = entry.at("matrix").as_array()[i];
    REQUIRE(want.is_null() == !shares[i].has_value());
    if (want.is_null()) continue;
    CHECK(shares[i]->begin == hexadecimal(want.as_array()[0]));
    CHECK(shares[i]->end == hexadecimal(want.as_array()[1]));
    for (const Json& bound : entry.at("bounds").as_array()) {
      const SplitRange range = range_of(*shares[i], bound.at("n").as_int());
      const Json& expected = bound.at("ranges").as_array()[i];
      CHECK(range.begin == expected.as_array()[0].as_int());
      CHECK(range.end == expected.as_array()[1].as_int());
    }
  }
}

GptDataset dataset_of(const Json& entry) {
  const auto data = std::make_shared<IndexedDataset>("golden/gpt_dataset/" + entry.at("prefix").as_string());
  const std::string& which = entry.at("which").as_string();
  const std::size_t i = which == "train" ? 0 : which == "valid" ? 1 : 2;
  const auto share = parse_split(entry.at("split").as_string())[i];
  return GptDataset(data, {.order = order_options(entry, i, range_of(share.value(), data->sequences())),
                           .eod = static_cast<std::int32_t>(entry.at("eod").as_int()),
                           .pad = static_cast<std::int32_t>(entry.at("pad").as_int()),
                           .eod_mask_loss = entry.at("eod_mask_loss").as_bool(),
                           .reset_position_ids = entry.at("reset_position_ids").as_bool(),
                           .reset_attention_mask = entry.at("reset_attention_mask").as_bool()});
}

/// Expands document_start into the attention mask it describes. Rows are queries, and 1 means masked.
std::string expand_mask(const Sample& sample) {
  const std::size_t length = sample.tokens.size();
  std::string mask(length * length, '\1');
  for (std::size_t query = 0; query < length; ++query) {
    const auto start = static_cast<std::size_t>(sample.document_start.empty() ? 0 : sample.document_start[query]);
    for (std::size_t key = start; key <= query; ++key) mask[query * length + key] = '\0';
  }
  return mask;
}

void check_item(const Json& entry) {
  const GptDataset dataset = dataset_of(entry);
  CHECK(dataset.size() == entry.at("num_samples").as_int());
  const Sample sample = dataset.item(entry.at("index").as_int());
  CHECK(sample.tokens == golden::numbers<std::int32_t>(entry.at("tokens")));
  CHECK(sample.labels == golden::numbers<std::int32_t>(entry.at("labels")));
  CHECK(sample.loss_mask == golden::numbers<float>(entry.at("loss_mask")));
  CHECK(sample.position_ids == golden::numbers<std::int32_t>(entry.at("position_ids")));
  CHECK(sample.document_start.empty() == !entry.at("reset_attention_mask").as_bool());
  const std::string mask = expand_mask(sample);
  CHECK(sha256_hex(mask.data(), mask.size()) == entry.at("attention_mask_sha256").as_string());
  if (const Json* rows = entry.find("attention_mask")) {
    std::string drawing;
    for (const char masked : mask) drawing += masked ? 'x' : '.';
    std::string want;
    for (const Json& row : rows->as_array()) want += row.as_string();
    CHECK(drawing == want);
  }
}

}  // namespace

TEST_CASE("split strings are parsed like Megatron-LM's") {
  for (const Json& entry : golden_lines("golden/gpt_dataset/splits.jsonl")) {
    CAPTURE(entry.at("split").as_string());
    if (entry.find("error") != nullptr) {
      CHECK_THROWS_AS(parse_split(entry.at("split").as_string()), Error);
    } else {
      check_split(entry);
    }
  }
}

TEST_CASE("the document, sample and shuffle indices equal Megatron-LM's") {
  for (const Json& entry : golden_lines("golden/gpt_dataset/cases.jsonl")) {
    CAPTURE(entry.at("name").as_string());
    check_indices(entry);
  }
}

TEST_CASE("samples equal Megatron-LM's") {
  for (const Json& entry : golden_lines("golden/gpt_dataset/items.jsonl")) {
    CAPTURE(entry.at("prefix").as_string());
    CAPTURE(entry.at("index").as_int());
    check_item(entry);
  }
}

TEST_CASE("a sample's reported origin agrees with its tokens") {
  const auto data = std::make_shared<IndexedDataset>("golden/gpt_dataset/items_short");
  const GptDataset dataset(data, {.order = {.seq_length = 16, .range = {0, data->sequences()}, .samples = 25}});
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    const SampleSource source = dataset.describe(index);
    const auto tokens = dataset.read_tokens(index);
    REQUIRE(tokens.size() == 17);
    std::int32_t first = 0, last = 0;
    data->read(source.documents.front(), source.first_offset, {&first, 1});
    data->read(source.documents.back(), source.last_offset, {&last, 1});
    CHECK(first == tokens.front());
    CHECK(last == tokens.back());
  }
  CHECK_THROWS_AS(dataset.item(dataset.size()), Error);
  CHECK_THROWS_AS(dataset.item(-1), Error);
}

TEST_CASE("an id beyond the vocabulary is refused") {
  const auto data = std::make_shared<IndexedDataset>("golden/gpt_dataset/items_short");
  const auto read_all = [&](std::int64_t vocab_size) {
    const GptDataset dataset(data,
                             {.order = {.seq_length = 16, .range = {0, 14}, .samples = 25}, .vocab_size = vocab_size});
    for (std::int64_t index = 0; index < dataset.size(); ++index) dataset.item(index);
  };
  CHECK_NOTHROW(read_all(91));  // the largest id is 90
  CHECK_THROWS_AS(read_all(90), Error);
  // A padding id outside the vocabulary is none of its ids, and a negative id is in no vocabulary.
  Folder folder;
  const auto open_ids = [&] {
    return GptDataset(std::make_shared<IndexedDataset>(folder.path + "ids"),
                      {.order = {.seq_length = 4, .range = {0, 1}}, .pad = 95, .vocab_size = 91});
  };
  const auto item_of = [&](std::int32_t id) {
    write_documents(folder.path + "ids", DataType::i32, {{{1, id, 2, 3, 4}}});
    return open_ids().item(0);
  };
  CHECK(item_of(95).tokens == std::vector<std::int32_t>{1, 0, 2, 3});
  CHECK_THROWS_AS(item_of(94), Error);
  CHECK_THROWS_AS(item_of(-5), Error);
  write_file_atomic(folder.path + "ids.idx", read_file(folder.path + "ids.idx") + '\1');
  CHECK_THROWS_WITH_AS(open_ids(), doctest::Contains("multimodal"), Error);
}

TEST_CASE("a run needs the samples of its training, of all its evaluations and of one test") {
  using Counts = std::array<std::int64_t, 3>;
  CHECK(count_samples({.train_iters = 1000, .global_batch_size = 8, .eval_interval = 300, .eval_iters = 10}) ==
        Counts{8000, 320, 80});
  CHECK(count_samples({.train_iters = 1000, .global_batch_size = 8, .eval_interval = 0, .eval_iters = 10}) ==
        std::array<std::int64_t, 3>{8000, 80, 80});
  CHECK(count_samples({.train_iters = 5, .global_batch_size = 8, .eval_interval = 300, .eval_iters = 10}) ==
        Counts{40, 80, 80});
  CHECK(count_samples({.global_batch_size = 8, .eval_interval = 2, .eval_iters = 1, .train_samples = 35}) ==
        Counts{35, 24, 8});
  CHECK(count_samples(
            {.train_iters = 7, .global_batch_size = 8, .eval_interval = 2, .eval_iters = 1, .train_samples = 35}) ==
        Counts{35, 32, 8});  // a ramp splits the same samples into more updates
  const std::int64_t many = INT64_MAX / 8;
  for (const RunLength& run :
       {RunLength{.train_iters = many, .global_batch_size = 9},
        RunLength{.train_iters = 1, .global_batch_size = 9, .eval_iters = many},
        RunLength{.train_iters = 2, .global_batch_size = 8, .eval_interval = 1, .eval_iters = many}})
    CHECK_THROWS_WITH_AS(count_samples(run), doctest::Contains("overflow the 64-bit sample count"), Error);
}

TEST_CASE("data that cannot fill a sample is refused") {
  const std::vector<std::int32_t> lengths = {0, 1, 50};
  const SequenceLengths view(lengths.data(), 3);
  const auto build = [&](SampleOrderOptions options) { return SampleOrder(view, options); };
  CHECK_THROWS_AS(build({.seq_length = 8, .range = {1, 1}, .samples = 1}), Error);
  CHECK_THROWS_AS(build({.seq_length = 8, .range = {0, 1}, .samples = 1}), Error);
  CHECK_THROWS_AS(build({.kind = OrderKind::feistel, .seq_length = 8, .range = {0, 2}, .samples = 1}), Error);
  CHECK_THROWS_AS(build({.seq_length = 8, .range = {0, 3}, .samples = INT64_MAX}), Error);
  CHECK_THROWS_AS(build({.seq_length = 8, .range = {0, 3}, .samples = INT64_MAX / 16}), Error);
  CHECK_THROWS_AS(build({.seq_length = 8, .seed = -1, .range = {0, 3}, .samples = 1}), Error);
  CHECK_THROWS_AS(build({.seq_length = 8, .seed = INT64_C(1) << 32, .range = {0, 3}, .samples = 1}), Error);
  CHECK(build({.seq_length = 8, .seed = (INT64_C(1) << 32) - 1, .range = {0, 3}, .samples = 1}).samples() == 6);
  for (const SplitRange range : {SplitRange{-1, 3}, SplitRange{2, 1}, SplitRange{0, 4}})
    CHECK_THROWS_AS(build({.seq_length = 8, .range = range, .samples = 1}), Error);
  CHECK_THROWS_AS(build({.seq_length = 0, .range = {0, 3}, .samples = 1}), Error);
  CHECK_THROWS_AS(
      build({.kind = OrderKind::feistel, .seq_length = 8, .range = {0, 3}, .samples = 1, .drop_last_partial = false}),
      Error);
  const SampleOrder feistel = build({.kind = OrderKind::feistel, .seq_length = 50, .range = {0, 3}});
  CHECK(feistel.samples() == 1);  // 51 tokens are just enough
  CHECK(build({.seq_length = 8, .range = {1, 1}}).samples() == 0);
  CHECK(build({.seq_length = 8, .range = {1, 1}, .samples = 0}).samples() == 0);
  CHECK(build({.seq_length = 8, .range = {0, 3}, .samples = 0}).samples() == 6);
}

TEST_CASE("a data set of one token is repeated into samples, as in Megatron-LM") {
  // The expected indices come from Megatron-LM's build_sample_idx and NumPy's RandomState(1234).
  const std::vector<std::int32_t> lengths = {0, 1, 0};
  const SequenceLengths view(lengths.data(), 3);
  const SampleOrder one_sequence(view, {.seq_length = 3, .seed = 1234, .range = {1, 2}, .samples = 5});
  REQUIRE(one_sequence.samples() == 5);
  const std::int64_t shuffled[] = {1, 0, 3, 4, 2};
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(one_sequence.shuffled(i) == shuffled[i]);
    CHECK(one_sequence.first_token(i).position == 3 * i);
    CHECK(one_sequence.last_token(i).position == 3 * i + 3);
  }
  const SampleOrder all_sequences(view, {.seq_length = 2, .seed = 1234, .range = {0, 3}, .samples = 3});
  REQUIRE(all_sequences.samples() == 3);
  const std::int64_t documents[] = {0, 1, 2, 1, 2, 2, 1, 0, 2, 0, 2, 2, 1, 0, 1, 1, 2, 0, 0, 1, 0};
  REQUIRE(all_sequences.positions() == 21);
  for (std::int64_t i = 0; i < 21; ++i) CHECK(all_sequences.sequence_at(i) == documents[i]);
  const std::int64_t ends[] = {6, 14, 19};
  for (std::int64_t i = 0; i < 3; ++i) CHECK(all_sequences.last_token(i).position == ends[i]);
  CHECK(SampleOrder(view, {.seq_length = 3, .range = {1, 2}, .samples = 0}).samples() == 0);
  CHECK(SampleOrder(view, {.seq_length = 3, .range = {1, 2}}).samples() == 0);
}

TEST_CASE("sequence numbers are kept in 32 bits, and larger ones refused") {
  // The lengths of 2^32 + 2 sequences. Only the pages that are touched use memory.
  const std::int64_t sequences = (std::int64_t{1} << 32) + 2;
  const auto bytes = static_cast<std::size_t>(4 * sequences);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const auto fill = [&](SplitRange range) {
    std::fill_n(static_cast<std::int32_t*>(memory) + range.begin, range.end - range.begin, 5);
    return SampleOrderOptions{.seq_length = 4, .range = range, .name = "long"};
  };
  const SequenceLengths lengths(memory, sequences);
  for (const std::int64_t end : {(std::int64_t{1} << 31) + 4, (std::int64_t{1} << 32) - 1}) {
    const SplitRange range{end - 8, end};
    const SampleOrder order(lengths, fill(range));
    for (std::int64_t position = 0; position < order.positions(); ++position) {
      CHECK(order.sequence_at(position) >= range.begin);
      CHECK(order.sequence_at(position) < range.end);
    }
    CHECK(order.last_token(order.samples() - 1).position < 8);
  }
  SampleOrderOptions beyond = fill({sequences - 8, sequences});
  CHECK_THROWS_WITH_AS(SampleOrder(lengths, beyond), doctest::Contains("beyond the 4294967295"), Error);
  beyond.kind = OrderKind::feistel;
  CHECK(SampleOrder(lengths, beyond).sequence_at(7) == sequences - 1);
  ::munmap(memory, bytes);
}

TEST_CASE("mock tokens: sequences count up to the end-of-document token, in any vocabulary") {
  struct Case {
    std::int32_t eod;
    std::int64_t vocab_size;
    std::vector<std::int32_t> counted;  // the ids before the count starts again
  };
  std::vector<std::int32_t> gpt2(50255);
  std::iota(gpt2.begin(), gpt2.end(), 1);
  CHECK_THROWS_AS(MockTokens(2, 2), Error);
  CHECK_THROWS_AS(MockTokens(-1, 2), Error);
  for (const auto& [eod, vocab_size, counted] :
       {Case{0, 1, {0}}, Case{0, 2, {1}}, Case{1, 2, {0}}, Case{0, 5, {1, 2, 3, 4}}, Case{2, 6, {1, 3, 4, 5}},
        Case{4, 5, {1, 2, 3}}, Case{50256, 50257, gpt2}}) {
    CAPTURE(eod);
    CAPTURE(vocab_size);
    const MockTokens mock(eod, vocab_size);
    std::int64_t longest = 0;
    for (std::int64_t sequence = 0; sequence < 50; ++sequence) {
      const std::int64_t length = mock.lengths()[sequence];
      longest = std::max(longest, length);
      REQUIRE(length >= 1);
      std::vector<std::int32_t> all(length), part(1);
      mock.read(sequence, 0, all);
      CHECK(all.back() == eod);
      for (std::int64_t i = 0; i + 1 < length; ++i) CHECK(all[i] == counted[i % std::ssize(counted)]);
      mock.read(sequence, length / 2, part);
      CHECK(part[0] == all[length / 2]);
    }
    if (vocab_size == 50257)
      CHECK(std::vector{mock.lengths()[0], mock.lengths()[1], mock.lengths()[99'999]} == std::vector{810, 1810, 2543});
    CHECK(longest > 1000);
    CHECK(longest <= 4095);
  }
}
