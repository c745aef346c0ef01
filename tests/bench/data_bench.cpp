// Measures the data loader, driven by share/bench/data.sh:
//   mtl_bench_data order SAMPLES DOCUMENTS LENGTH   builds Megatron's order for SAMPLES samples; also times MT19937
//   mtl_bench_data files PREFIX DOCUMENTS TOKENS    writes token files of that size; the .bin is sparse
//   mtl_bench_data feistel PREFIX SAMPLES           opens files with an order that is computed instead of stored
//   mtl_bench_data blend DATASETS SAMPLES           computes a blend's order
//   mtl_bench_data feed PREFIX LENGTH SAMPLES       reads samples into batches and does nothing else
#include <cstdio>
#include <fstream>
#include <random>

#include "base/console.h"
#include "base/error.h"
#include "data/blended_dataset.h"
#include "data/indexed_format.h"
#include "data/mt19937.h"
#include "train/data_feed.h"

namespace mtl {
namespace {

/// Returns a value from /proc/self/status, in KiB.
double status_kib(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == name && status >> kib) return kib;
  }
  return 0;
}

double peak_gib() { return status_kib("VmHWM:") / (1 << 20); }

/// Returns a document length between 0.5 and 1.5 times `mean` tokens.
std::int32_t length_of(std::uint32_t random, std::int64_t mean) {
  return static_cast<std::int32_t>(mean / 2 + random % (mean + 1));
}

std::vector<std::int32_t> make_lengths(std::int64_t documents, std::int64_t tokens) {
  Mt19937 random(1);
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(documents));
  for (std::int32_t& length : lengths) length = length_of(random.next(), tokens / documents + 1);
  return lengths;
}

void bench_order(std::int64_t samples, std::int64_t documents, std::int64_t seq_length) {
  const auto lengths = make_lengths(documents, samples * seq_length + samples * seq_length / 5000);
  double begin = now_seconds();
  const SampleOrder order({lengths.data(), documents},
                          {.seq_length = seq_length, .range = {0, documents}, .samples = samples, .name = "bench"});
  const double seconds = now_seconds() - begin;
  const double peak = peak_gib();
  // On average, shuffling draws 1 / ln 2 numbers per entry.
  const auto draws = static_cast<std::int64_t>(static_cast<double>(order.samples() + documents) / 0.6931);
  std::mt19937 standard(1234);
  std::uint32_t sum = 0;
  begin = now_seconds();
  for (std::int64_t i = 0; i < draws; ++i) sum += static_cast<std::uint32_t>(standard());
  const double standard_seconds = now_seconds() - begin;
  Mt19937 own(1234);
  begin = now_seconds();
  for (std::int64_t i = 0; i < draws; i += Mt19937::kBlock) {
    std::size_t count = 0;
    sum += own.unread(count)[0];
    own.consume(count);
  }
  const double block_seconds = now_seconds() - begin;
  begin = now_seconds();
  for (std::int64_t i = 0; i < 100'000; ++i) {
    const std::int64_t sample = order.shuffled(i * 7919 % order.samples());
    sum += static_cast<std::uint32_t>(order.first_token(sample).offset + order.last_token(sample).position);
  }
  const double look_up = (now_seconds() - begin) / 100'000;
  std::printf(
      "{\"samples\": %lld, \"epochs\": %lld, \"seconds\": %.3f, \"peak_gib\": %.2f, \"mt19937_seconds\": %.3f, "
      "\"mt19937_blocks_seconds\": %.3f, \"look_up_us\": %.2f, \"sum\": %u}\n",
      static_cast<long long>(order.samples()), static_cast<long long>(order.epochs()), seconds, peak, standard_seconds,
      block_seconds, look_up * 1e6, sum);
}

void write_files(const std::string& prefix, std::int64_t documents, std::int64_t tokens) {
  const auto lengths = make_lengths(documents, tokens);
  OutputFile idx(prefix + ".idx");
  idx.write(kIndexMagic);
  const auto write = [&](const auto& value) { idx.write(&value, sizeof value); };
  write(kIndexVersion);
  write(static_cast<std::uint8_t>(DataType::u16));
  write(static_cast<std::uint64_t>(documents));
  write(static_cast<std::uint64_t>(documents + 1));
  idx.write(lengths.data(), lengths.size() * sizeof(std::int32_t));
  std::vector<std::int64_t> column(static_cast<std::size_t>(documents) + 1);
  for (std::size_t i = 0; i < lengths.size(); ++i) column[i + 1] = column[i] + 2 * lengths[i];
  idx.write(column.data(), lengths.size() * sizeof(std::int64_t));
  const std::int64_t bytes = column.back();
  for (std::size_t i = 0; i < column.size(); ++i) column[i] = static_cast<std::int64_t>(i);
  idx.write(column.data(), column.size() * sizeof(std::int64_t));
  idx.close();
  std::ofstream(prefix + ".bin", std::ios::binary).close();
  fs::resize_file(prefix + ".bin", static_cast<std::uintmax_t>(bytes));
}

/// Returns a source with all sequences of one data set.
SplitSource whole_of(const std::string& prefix) {
  return {.flag = "--data-path", .blend = {.prefixes = {prefix}, .weights = {}}, .share = {.begin = 0, .end = 1}};
}

void bench_feistel(const std::string& prefix, std::int64_t samples) {
  const double begin = now_seconds();
  DataFiles files;
  const auto dataset =
      open_split(files, whole_of(prefix), samples, {.order = {.kind = OrderKind::feistel, .seq_length = 2048}});
  const std::int64_t first = dataset->describe(0).sample;
  std::printf("{\"seconds\": %.3f, \"memory_mib\": %.1f, \"mapped_mib\": %.1f, \"first\": %lld}\n",
              now_seconds() - begin, status_kib("RssAnon:") / 1024, status_kib("RssFile:") / 1024,
              static_cast<long long>(first));
}

void bench_blend(std::int64_t datasets, std::int64_t samples) {
  std::vector<double> weights;
  for (std::int64_t d = 0; d < datasets; ++d) weights.push_back(1.0 + static_cast<double>(d * 37 % 11));
  double begin = now_seconds();
  const BlendOrder order = BlendOrder::weighted(weights, samples);
  const double seconds = now_seconds() - begin;
  std::int64_t sum = 0;
  begin = now_seconds();
  for (std::int64_t i = 0; i < 100'000; ++i) sum += order.sample(i * 7919 % samples);
  std::printf("{\"samples\": %lld, \"seconds\": %.3f, \"peak_gib\": %.2f, \"look_up_us\": %.2f, \"sum\": %lld}\n",
              static_cast<long long>(samples), seconds, peak_gib(), (now_seconds() - begin) * 10,
              static_cast<long long>(sum));
}

void bench_feed(const std::string& prefix, std::int64_t seq_length, std::int64_t samples) {
  DataFiles files;
  RunShape shape;
  shape.micro_batch = 8;
  shape.micro_batches = 4;
  shape.seq_length = seq_length;
  const auto dataset =
      open_split(files, whole_of(prefix), samples, {.order = {.seq_length = seq_length}, .vocab_size = 65536});
  StepBatches memory = make_step_batches(shape);
  Stream stream(Device::cpu);
  DataFeed feed(
      dataset, {.total = dataset->size(), .micro_batch_size = 8}, shape, [](std::int64_t) { return 4; }, memory);
  feed.next(stream);
  const double begin = now_seconds();
  std::int64_t steps = 0;
  for (; (steps + 2) * 32 <= samples; ++steps) feed.next(stream);
  const double seconds = now_seconds() - begin;
  std::printf("{\"samples_per_second\": %.0f, \"tokens_per_second\": %.0f}\n",
              static_cast<double>(32 * steps) / seconds, static_cast<double>(32 * steps * seq_length) / seconds);
}

void run(const std::vector<std::string>& words) {
  const auto number = [&](std::size_t i) { return parse_int(words.at(i)).value(); };
  const std::string& command = words.at(0);
  if (command == "order") return bench_order(number(1), number(2), number(3));
  if (command == "files") return write_files(words.at(1), number(2), number(3));
  if (command == "feistel") return bench_feistel(words.at(1), number(2));
  if (command == "blend") return bench_blend(number(1), number(2));
  if (command == "feed") return bench_feed(words.at(1), number(2), number(3));
  fail(Exit::usage, command, ": unknown command; use order, files, feistel, blend or feed");
}

}  // namespace
}  // namespace mtl

int main(int argc, char** argv) {
  try {
    mtl::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mtl_bench_data: %s\n", error.what());
    return 2;
  }
}
